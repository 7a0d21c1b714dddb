#include <doctest/doctest.h>

#include "engine/generator.h"

namespace tidemill::engine {
namespace {

std::vector<std::uint64_t> takes(const std::vector<RowShare>& shares) {
  std::vector<std::uint64_t> out;
  out.reserve(shares.size());
  for (const RowShare& share : shares) out.push_back(share.take);
  return out;
}

TEST_CASE("sequences in decode are served before prompts") {
  const std::vector<std::uint64_t> remaining = {100, 1, 50, 1};
  const auto shares = share_rows(remaining, 64, 4);
  CHECK(takes(shares) == std::vector<std::uint64_t>{62, 1, 0, 1});
  CHECK_FALSE(shares[0].wants_logits);
  CHECK(shares[1].wants_logits);
  CHECK(shares[3].wants_logits);
}

TEST_CASE("a prompt gets logits only with its last chunk") {
  const std::vector<std::uint64_t> remaining = {10};
  CHECK_FALSE(share_rows(remaining, 9, 1)[0].wants_logits);
  CHECK(share_rows(remaining, 10, 1)[0].wants_logits);
  CHECK(share_rows(remaining, 11, 1)[0].take == 10);
}

TEST_CASE("no sequence, no rows") { CHECK(share_rows({}, 16, 4).empty()); }

}  // namespace
}  // namespace tidemill::engine
