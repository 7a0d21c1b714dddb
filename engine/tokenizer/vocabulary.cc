#include "engine/tokenizer/vocabulary.h"

#include <algorithm>
#include <functional>

#include "io/base/checked.h"
#include "io/base/error.h"

namespace tidemill::engine {

void Vocabulary::add(std::string_view token, std::uint64_t id) {
  if (id >= kMaxTokens) {
    throw_error(ErrorKind::kModel, "token \"{}\" has id {}, the limit is {}", printable(token, 40),
                id, kMaxTokens - 1);
  }
  if (token.size() > kMaxTokenBytes) {
    throw_error(ErrorKind::kModel, "token {} has {} bytes, the limit is {}", id, token.size(),
                kMaxTokenBytes);
  }
  if (arena_.size() > kHole - 1 - token.size()) {
    throw_error(ErrorKind::kModel, "the tokens' text exceeds 4 GiB");
  }
  const auto key = static_cast<std::uint32_t>(id);
  if (contains(key)) {
    throw_error(ErrorKind::kModel, "tokens \"{}\" and \"{}\" have the same id {}",
                printable(this->token(key), 40), printable(token, 40), id);
  }
  if ((count_ + 1) * 4 > slots_.size() * 3) grow();
  const std::size_t slot = slot_of(token);
  if (slots_[slot] != 0) {
    throw_error(ErrorKind::kModel, "token \"{}\" appears twice, ids {} and {}",
                printable(token, 40), slots_[slot] - 1, id);
  }
  slots_[slot] = key + 1;
  if (key >= spans_.size()) spans_.resize(key + std::size_t{1});
  spans_[key] = {narrow<std::uint32_t>(arena_.size()), narrow<std::uint32_t>(token.size())};
  arena_ += token;
  ++count_;
}

std::optional<std::uint32_t> Vocabulary::find(std::string_view token) const {
  if (slots_.empty()) return std::nullopt;
  const std::uint32_t entry = slots_[slot_of(token)];
  if (entry == 0) return std::nullopt;
  return entry - 1;
}

std::string_view Vocabulary::token(std::uint32_t id) const {
  if (!contains(id)) return {};
  return std::string_view(arena_).substr(spans_[id].offset, spans_[id].length);
}

bool Vocabulary::contains(std::uint32_t id) const {
  return id < spans_.size() && spans_[id].offset != kHole;
}

// The slot that holds `token`, or the free one where it belongs.
std::size_t Vocabulary::slot_of(std::string_view token) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>{}(token)&mask;
  while (slots_[slot] != 0 && this->token(slots_[slot] - 1) != token) slot = (slot + 1) & mask;
  return slot;
}

void Vocabulary::grow() {
  slots_.assign(std::max<std::size_t>(1024, slots_.size() * 2), 0);
  for (std::uint32_t id = 0; id < spans_.size(); ++id) {
    if (spans_[id].offset != kHole) slots_[slot_of(token(id))] = id + 1;
  }
}

}  // namespace tidemill::engine
