#include "engine/kv_cache.h"

#include <iterator>

#include "io/base/checked.h"

namespace tidemill::engine {

KvCache::KvCache(kernels::Device& device, const kernels::AttentionShape& shape,
                 std::uint64_t layers, std::uint64_t bytes)
    : ops_(device.ops()), shape_(shape), layers_(layers), buffer_(device.allocate(bytes)) {
  if (bytes >= sizeof(float)) free_[0] = bytes / sizeof(float);
}

std::uint64_t KvCache::sequence_bytes(const kernels::Ops& ops, const kernels::AttentionShape& shape,
                                      std::uint64_t layers, std::uint64_t capacity) {
  const std::uint64_t floats =
      checked_mul(ops.kv_cache_floats(shape, capacity), layers, "key/value cache");
  return checked_mul(floats, sizeof(float), "key/value cache");
}

std::optional<SequenceCache> KvCache::acquire(std::uint64_t capacity) {
  const std::uint64_t per_layer = ops_.kv_cache_floats(shape_, capacity);
  const std::uint64_t floats = per_layer * layers_;
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, length] = *it;
    if (length < floats) continue;
    free_.erase(it);
    if (length > floats) free_[offset + floats] = length - floats;
    return SequenceCache{buffer_.floats() + offset, per_layer, capacity};
  }
  return std::nullopt;
}

void KvCache::release(const SequenceCache& cache) {
  std::uint64_t offset = static_cast<std::uint64_t>(cache.data - buffer_.floats());
  std::uint64_t length = cache.floats_per_layer * layers_;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + length == next->first) {
    length += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    TM_CHECK(previous->first + previous->second <= offset, "cache region released twice");
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      length += previous->second;
      free_.erase(previous);
    }
  }
  free_[offset] = length;
}

}  // namespace tidemill::engine
