// Attention of a few queries over one cache head, and the layout of the cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/ops.h"

namespace tidemill::kernels::cpu {

/// A cache holds, per cache head, the keys and then, again per cache head, the values.
///   keys:   [position / 16][head_dim][position % 16]: sixteen keys are scored at a time
///   values: [position][head_dim rounded up to 16]
struct KvLayout {
  KvLayout(const AttentionShape& shape, std::uint64_t capacity);

  std::uint64_t key_head = 0;    ///< floats from one head's keys to the next
  std::uint64_t value_head = 0;  ///< floats from one head's values to the next
  std::uint64_t value_row = 0;   ///< floats of one value
  std::uint64_t values = 0;      ///< floats before the first value
  std::uint64_t total = 0;       ///< floats altogether
};

/// Queries that one call attends for; the keys are read once for all of them.
inline constexpr std::size_t kQueryTile = 4;

struct Query {
  const float* q = nullptr;  ///< [head_dim]
  float* out = nullptr;      ///< [head_dim]
  std::uint64_t begin = 0;   ///< first position that it sees
  std::uint64_t end = 0;     ///< one behind the last
  float slope = 0.0f;        ///< of ALiBi
};

struct AttentionTask {
  Query queries[kQueryTile];
  std::size_t count = 0;
  const float* keys = nullptr;    ///< of one cache head
  const float* values = nullptr;  ///< of one cache head
  std::uint64_t head_dim = 0;
  float scale = 1.0f;
  bool alibi = false;
};

/// Floats of scratch that one thread needs for caches of up to `positions`.
std::uint64_t attention_scratch_floats(std::uint64_t positions);

struct AttentionKernels {
  /// `score_stride` is the distance between the rows of scratch, at least the largest `end`
  /// rounded up to 16.
  void (*attend)(const AttentionTask& task, float* scores, std::uint64_t score_stride) = nullptr;
};

const AttentionKernels& attention_kernels(CpuTarget target);

}  // namespace tidemill::kernels::cpu
