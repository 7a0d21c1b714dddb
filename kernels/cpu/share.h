// How much work is worth another thread.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tidemill::kernels::cpu {

/// About 10 us of simple operations: less than that costs more to hand over than to do.
inline constexpr std::uint64_t kChunkCost = 32768;

/// Items per chunk, a multiple of `unit`, when an item costs about `item_cost` simple operations:
/// several chunks per thread, so that a thread that is kept waiting does not hold up the others,
/// but none that is not worth the hand-over.
inline std::uint64_t chunk_items(std::uint64_t items, std::uint64_t item_cost, std::uint64_t unit,
                                 unsigned threads) {
  constexpr std::uint64_t kChunksPerThread = 4;
  const std::uint64_t even = items / (kChunksPerThread * threads) + 1;
  const std::uint64_t worth = kChunkCost / std::max<std::uint64_t>(item_cost, 1) + 1;
  const std::uint64_t chunk = std::max(even, worth);
  return (chunk + unit - 1) / unit * unit;
}

}  // namespace tidemill::kernels::cpu
