// Keys and values of the sequences in flight: one arena from the budget, one region per sequence.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "kernels/device.h"
#include "kernels/ops.h"

namespace tidemill::engine {

/// A sequence's region: `layers` slots of `floats_per_layer` behind one another.
struct SequenceCache {
  float* data = nullptr;
  std::uint64_t floats_per_layer = 0;
  std::uint64_t capacity = 0;  ///< positions

  kernels::KvSlot slot(std::uint64_t layer) const {
    return {.data = data + layer * floats_per_layer, .capacity = capacity};
  }
};

/// First-fit over one buffer. A region moves never and follows its sequence until it is released.
class KvCache {
 public:
  KvCache(kernels::Device& device, const kernels::AttentionShape& shape, std::uint64_t layers,
          std::uint64_t bytes);

  /// Room for a sequence of `capacity` positions, or nothing if there is none at present.
  std::optional<SequenceCache> acquire(std::uint64_t capacity);
  void release(const SequenceCache& cache);

  /// Bytes that one sequence of `capacity` positions takes.
  static std::uint64_t sequence_bytes(const kernels::Ops& ops, const kernels::AttentionShape& shape,
                                      std::uint64_t layers, std::uint64_t capacity);

 private:
  kernels::Ops& ops_;
  kernels::AttentionShape shape_;
  std::uint64_t layers_;
  kernels::Buffer buffer_;
  std::map<std::uint64_t, std::uint64_t> free_;  // offset -> length, both in floats
};

}  // namespace tidemill::engine
