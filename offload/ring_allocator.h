// Room in one arena, handed out and taken back in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace tidemill::offload {

/// Regions are contiguous and never overlap. A region that does not fit before the end of the
/// arena goes to its beginning, and the rest stays unused until the ring has gone round.
///
/// A region of at most the capacity is always placed once the ring is empty, so a user that
/// frees everything older before it insists on a new region cannot get stuck, whatever the sizes.
class RingAllocator {
 public:
  /// Sizes are rounded up to `alignment`, a power of two; so are therefore all offsets.
  RingAllocator(std::uint64_t capacity, std::uint64_t alignment);

  /// Offset of a new region of `bytes` (more than 0), or nothing if there is no room now.
  std::optional<std::uint64_t> allocate(std::uint64_t bytes);

  /// Takes back the oldest region. The ring is not empty.
  void free_oldest();

  bool empty() const { return regions_.empty(); }
  std::size_t regions() const { return regions_.size(); }
  std::uint64_t capacity() const { return capacity_; }

 private:
  struct Region {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  std::uint64_t capacity_;
  std::uint64_t alignment_;
  std::deque<Region> regions_;  ///< oldest first
};

}  // namespace tidemill::offload
