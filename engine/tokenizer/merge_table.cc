#include "engine/tokenizer/merge_table.h"

#include <algorithm>

#include "io/base/error.h"

namespace tidemill::engine {
namespace {

std::uint64_t pair_of(std::uint32_t left, std::uint32_t right) {
  return std::uint64_t{left} << 32 | right;
}

}  // namespace

void MergeTable::add(std::uint32_t left, std::uint32_t right, Merge merge) {
  if (count_ >= kMaxMerges) {
    throw_error(ErrorKind::kModel, "more than {} merges", kMaxMerges);
  }
  if ((count_ + 1) * 4 > slots_.size() * 3) grow();
  Slot& slot = slots_[slot_of(pair_of(left, right))];
  if (slot.pair == kFree) ++count_;
  slot = {pair_of(left, right), merge};
}

const MergeTable::Merge* MergeTable::find(std::uint32_t left, std::uint32_t right) const {
  if (slots_.empty()) return nullptr;
  const Slot& slot = slots_[slot_of(pair_of(left, right))];
  return slot.pair == kFree ? nullptr : &slot.merge;
}

// The slot that holds `pair`, or the free one where it belongs.
std::size_t MergeTable::slot_of(std::uint64_t pair) const {
  // The finaliser of splitmix64: ids are small and dense, every bit has to reach the low ones.
  std::uint64_t hash = pair;
  hash = (hash ^ hash >> 30) * 0xBF58476D1CE4E5B9ULL;
  hash = (hash ^ hash >> 27) * 0x94D049BB133111EBULL;
  hash ^= hash >> 31;
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash & mask;
  while (slots_[slot].pair != kFree && slots_[slot].pair != pair) slot = (slot + 1) & mask;
  return slot;
}

void MergeTable::grow() {
  std::vector<Slot> old(std::max<std::size_t>(1024, slots_.size() * 2));
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.pair != kFree) slots_[slot_of(slot.pair)] = slot;
  }
}

}  // namespace tidemill::engine
