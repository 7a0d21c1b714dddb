// The merges of a BPE model: which two neighbours join, how early, into what.
#pragma once

#include <cstdint>
#include <vector>

namespace tidemill::engine {

inline constexpr std::uint32_t kMaxMerges = 1U << 23;

/// Open-addressing hash from (left id, right id) to the merge, 16 bytes per slot.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank;  ///< order in the file; the lowest is applied first
    std::uint32_t id;    ///< token that replaces the pair
  };

  /// A pair given again replaces the earlier merge. Error(kModel) beyond kMaxMerges.
  void add(std::uint32_t left, std::uint32_t right, Merge merge);

  /// The merge of a pair, or nullptr. Valid until the next add().
  const Merge* find(std::uint32_t left, std::uint32_t right) const;

  std::size_t size() const { return count_; }

 private:
  struct Slot {
    std::uint64_t pair = kFree;
    Merge merge{};
  };
  static constexpr std::uint64_t kFree = ~0ULL;  // no pair: ids are far below 2^32 - 1

  std::size_t slot_of(std::uint64_t pair) const;
  void grow();

  std::vector<Slot> slots_;  // a power of two, at most 3/4 full
  std::size_t count_ = 0;
};

}  // namespace tidemill::engine
