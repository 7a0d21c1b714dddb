#include "offload/ring_allocator.h"

#include "io/base/checked.h"
#include "io/base/error.h"

namespace tidemill::offload {

RingAllocator::RingAllocator(std::uint64_t capacity, std::uint64_t alignment)
    : capacity_(align_down(capacity, alignment)), alignment_(alignment) {}

std::optional<std::uint64_t> RingAllocator::allocate(std::uint64_t bytes) {
  TM_CHECK(bytes > 0, "empty region");
  if (bytes > capacity_) return std::nullopt;
  const std::uint64_t size = align_up(bytes, alignment_);
  std::uint64_t begin = 0;
  if (!regions_.empty()) {
    const Region& oldest = regions_.front();
    const Region& newest = regions_.back();
    const bool wrapped = newest.begin < oldest.begin;
    begin = newest.end;
    if (wrapped) {
      if (size > oldest.begin - begin) return std::nullopt;
    } else if (size > capacity_ - begin) {
      if (size > oldest.begin) return std::nullopt;
      begin = 0;
    }
  }
  regions_.push_back({begin, begin + size});
  return begin;
}

void RingAllocator::free_oldest() {
  TM_CHECK(!regions_.empty(), "no region to free");
  regions_.pop_front();
}

}  // namespace tidemill::offload
