#include "offload/placement.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "io/base/error.h"
#include "io/base/units.h"
#include "tests/offload/support/sim_model.h"
#include "tests/offload/support/sim_world.h"

namespace tidemill::offload {
namespace {

using test::SimModel;

// What must hold for any placement.
void check(const Placement& placement, std::uint64_t budget) {
  const auto& pieces = placement.tape.pieces();
  REQUIRE(placement.resident.size() == pieces.size());
  CHECK(placement.ring_bytes + placement.resident_bytes <= budget);
  SectionBytes sections[2];
  std::uint64_t resident_memory = 0, largest = 0, second = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    SectionBytes& section = sections[pieces[i].section == Section::kHead];
    if (placement.resident[i]) {
      section.resident += pieces[i].read_bytes;
      resident_memory += pieces[i].memory_bytes;
    } else {
      section.streamed += pieces[i].read_bytes;
      second = std::max(second, std::min(largest, pieces[i].memory_bytes));
      largest = std::max(largest, pieces[i].memory_bytes);
    }
  }
  CHECK(placement.resident_bytes == resident_memory);
  CHECK(placement.body.streamed == sections[0].streamed);
  CHECK(placement.body.resident == sections[0].resident);
  CHECK(placement.head.streamed == sections[1].streamed);
  CHECK(placement.head.resident == sections[1].resident);
  CHECK(placement.ring_bytes >= largest + second);
  CHECK((placement.ring_bytes == 0) == (largest == 0));
  CHECK(placement.ring_bytes % 4096 == 0);
}

TEST_CASE("from the smallest budget to the whole model, the counts add up") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const auto model = SimModel::random(seed);
    const std::uint64_t smallest = smallest_weight_budget(model->order);
    const std::uint64_t all = place(model->order, {.budget_bytes = 1ull << 40}).resident_bytes;
    test::SimWorld dice(seed);
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t budget = i == 0 ? smallest : dice.pick(smallest, all + 5000);
      PlacementOptions options{.budget_bytes = budget};
      if (dice.chance(0.5)) options.max_piece_bytes = dice.pick(1, 100'000);
      CAPTURE(budget);
      check(place(model->order, options), budget);
    }
  }
}

TEST_CASE("one byte below the smallest budget is an error that names the smallest budget") {
  const auto model = SimModel::transformer(4, 64, 1000);
  const std::uint64_t smallest = smallest_weight_budget(model->order);
  check(place(model->order, {.budget_bytes = smallest}), smallest);
  for (const std::uint64_t budget : {smallest - 1, smallest / 2, std::uint64_t{0}}) {
    try {
      place(model->order, {.budget_bytes = budget});
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kBudget);
      CHECK(std::string(error.what()).find("(" + std::to_string(smallest) + " bytes)") !=
            std::string::npos);
    }
  }
}

TEST_CASE("the smallest budget is two rows, rounded up to pages, or the whole of a tiny model") {
  SimModel model;
  model.begin_file();
  model.tensor({300, 1024});  // rows of one page each
  model.end_file();
  model.use(model.tensors[0]);
  CHECK(smallest_weight_budget(model.order) == 2 * 4096);

  SimModel tiny;
  tiny.begin_file();
  tiny.tensor({2, 10});
  tiny.end_file();
  tiny.use(tiny.tensors[0]);
  CHECK(smallest_weight_budget(tiny.order) == 4096);
  check(place(tiny.order, {.budget_bytes = 4096, .max_piece_bytes = 1}), 4096);
}

TEST_CASE("a model that fits is resident as a whole, and needs no ring") {
  const auto model = SimModel::transformer(4, 64, 1000);
  const Placement all = place(model->order, {.budget_bytes = 1ull << 40});
  CHECK(all.ring_bytes == 0);
  CHECK(all.body.streamed + all.head.streamed == 0);
  const Placement exact = place(model->order, {.budget_bytes = all.resident_bytes});
  CHECK(exact.ring_bytes == 0);
  const Placement less = place(model->order, {.budget_bytes = all.resident_bytes - 1});
  CHECK(less.ring_bytes > 0);
}

TEST_CASE("nothing to place is placed") {
  const TapeOrder nothing;
  CHECK(smallest_weight_budget(nothing) == 0);
  CHECK(place(nothing, {}).tape.pieces().empty());
}

TEST_CASE("gigabytes: what the budget does not hold is read, and little more") {
  // 32 layers of 400 MB and a head of 1 GB in fp16: the files are sparse.
  const auto model = SimModel::transformer(32, 4096, 128'000);
  std::uint64_t model_bytes = 0;
  for (const auto& tensor : model->tensors) model_bytes += tensor.bytes.length;
  REQUIRE(model_bytes > 13'000'000'000);
  struct Row {
    double budget, most_read;  // as shares of the model
  };
  for (const Row row :
       {Row{0.99, 0.045}, Row{0.9, 0.13}, Row{0.8, 0.25}, Row{0.5, 0.55}, Row{0.1, 0.93}}) {
    const auto budget = static_cast<std::uint64_t>(row.budget * static_cast<double>(model_bytes));
    CAPTURE(row.budget);
    const Placement placement = place(model->order, {.budget_bytes = budget});
    check(placement, budget);
    const auto read = static_cast<double>(placement.body.streamed + placement.head.streamed);
    CHECK(read / static_cast<double>(model_bytes) <= row.most_read);
    // Enough in flight for a fast drive, in several pieces.
    CHECK(placement.ring_bytes >= 32 * kMiB);
    CHECK(placement.ring_bytes <= 256 * kMiB);
    CHECK(placement.tape.largest_piece_bytes() * 4 <= placement.ring_bytes);
  }
}

TEST_CASE("residents are spread evenly over the tape") {
  const auto model = SimModel::transformer(32, 512, 1000);
  const Placement all = place(model->order, {.budget_bytes = 1ull << 40});
  const Placement half = place(model->order, {.budget_bytes = all.resident_bytes / 2});
  const auto& pieces = half.tape.pieces();
  std::uint64_t run = 0, longest = 0, largest = half.tape.largest_piece_bytes();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    run = half.resident[i] ? 0 : run + pieces[i].memory_bytes;
    longest = std::max(longest, run);
  }
  CHECK(longest <= 4 * largest);
  // And the budget is used up to less than what the smallest of the others needs.
  std::uint64_t smallest = UINT64_MAX;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (!half.resident[i]) smallest = std::min(smallest, pieces[i].memory_bytes);
  }
  CHECK(all.resident_bytes / 2 - half.ring_bytes - half.resident_bytes < smallest);
}

TEST_CASE("limits for the ring and the pieces are kept") {
  const auto model = SimModel::transformer(8, 256, 1000);
  const std::uint64_t budget = 2 * kMiB;
  const Placement placement = place(
      model->order, {.budget_bytes = budget, .max_piece_bytes = 40'000, .max_ring_bytes = 100'000});
  check(placement, budget);
  CHECK(placement.ring_bytes <= 100'000);
  CHECK(placement.tape.largest_piece_bytes() <= 40'000);
  CHECK_THROWS_AS(place(model->order, {.budget_bytes = budget, .max_ring_bytes = 4096}), Error);
}

}  // namespace
}  // namespace tidemill::offload
