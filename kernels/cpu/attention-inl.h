// Attention in three steps: scores of all visible keys, softmax, weighted sum of the values.
//   score:   q.k is one fused multiply-add per dimension, ascending
//   softmax: lane l of the sum takes the positions j with j % 16 == l, ascending
//   values:  one fused multiply-add per position, ascending, and one division at the end
// The order depends on the positions of the first and last visible key only, so it does not show
// in which batch, with which other queries, or in how large a cache a token was processed. What
// lies in the cache outside of the visible keys (it may be poison) is masked by selection.

#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/norm-inl.h"

#if defined(TIDEMILL_KERNELS_CPU_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TIDEMILL_KERNELS_CPU_ATTENTION_INL_H_
#undef TIDEMILL_KERNELS_CPU_ATTENTION_INL_H_
#else
#define TIDEMILL_KERNELS_CPU_ATTENTION_INL_H_
#endif

#include <algorithm>
#include <limits>

#include "kernels/cpu/attention.h"

HWY_BEFORE_NAMESPACE();
namespace tidemill::kernels::cpu {
namespace HWY_NAMESPACE {

// Blocks of keys, and vectors of values, that are in registers at a time (with kQueryTile queries).
inline constexpr std::size_t kKeyBlocks = kParts == 1 ? 4 : 1;
inline constexpr std::size_t kValueVectors = kParts == 1 ? 4 : 1;

/// Scores of kBlocks blocks of keys from position `start` on.
template <std::size_t kQueries, std::size_t kBlocks>
HWY_INLINE void score_blocks(const AttentionTask& task, std::uint64_t start, float* scores,
                             std::uint64_t score_stride) {
  const std::uint64_t block_floats = task.head_dim * kLanes;
  const float* const keys = task.keys + start * task.head_dim;
  F16 sum[kQueries][kBlocks];
  TIDEMILL_UNROLL
  for (std::size_t i = 0; i < kQueries; ++i) {
    TIDEMILL_UNROLL
    for (std::size_t b = 0; b < kBlocks; ++b) sum[i][b] = zero();
  }
  const float* q[kQueries];
  for (std::size_t i = 0; i < kQueries; ++i) q[i] = task.queries[i].q;
  for (std::uint64_t d = 0; d < task.head_dim; ++d) {
    F16 key[kBlocks];
    TIDEMILL_UNROLL
    for (std::size_t b = 0; b < kBlocks; ++b) key[b] = load(keys + b * block_floats + d * kLanes);
    TIDEMILL_UNROLL
    for (std::size_t i = 0; i < kQueries; ++i) {
      const F16 value = set(q[i][d]);
      TIDEMILL_UNROLL
      for (std::size_t b = 0; b < kBlocks; ++b) sum[i][b] = fma(value, key[b], sum[i][b]);
    }
  }
  const F16 scale = set(task.scale);
  TIDEMILL_UNROLL
  for (std::size_t b = 0; b < kBlocks; ++b) {
    const F16 position = add(iota(), set(static_cast<float>(start + b * kLanes)));
    TIDEMILL_UNROLL
    for (std::size_t i = 0; i < kQueries; ++i) {
      const F16 score = task.alibi
                            ? fma(scale, sum[i][b], mul(set(task.queries[i].slope), position))
                            : mul(scale, sum[i][b]);
      store(score, scores + i * score_stride + start + b * kLanes);
    }
  }
}

/// Replaces the scores of a query by e^(score - largest), 0 where it does not see, and returns
/// the sum of these.
inline float exponentials(const Query& query, float* scores) {
  const std::uint64_t start = query.begin / kLanes * kLanes;
  const F16 nothing = set(-std::numeric_limits<float>::infinity());
  const auto visible = [&](std::uint64_t at, F16 yes, F16 no) HWY_ATTR {
    if (query.end - at < kLanes) yes = select(first(query.end - at), yes, no);
    return at < query.begin ? select(first(query.begin - at), no, yes) : yes;
  };
  F16 best = nothing;
  for (std::uint64_t at = start; at < query.end; at += kLanes) {
    best = greater_of(visible(at, load(scores + at), nothing), best);
  }
  const F16 largest = set(max_lane(best));
  F16 sum = zero();
  for (std::uint64_t at = start; at < query.end; at += kLanes) {
    const F16 power = visible(at, exp(sub(load(scores + at), largest)), zero());
    store(power, scores + at);
    sum = add(sum, power);
  }
  return sum_lanes(sum);
}

/// out[d .. d + 16 * kVectors) += sum over [begin, end) of weight times value.
template <std::size_t kQueries, std::size_t kVectors>
HWY_INLINE void weigh_values(const Query* queries, const float* scores, std::uint64_t score_stride,
                             const float* values, std::uint64_t value_row, std::uint64_t begin,
                             std::uint64_t end, std::uint64_t d, std::uint64_t head_dim) {
  F16 sum[kQueries][kVectors];
  TIDEMILL_UNROLL
  for (std::size_t i = 0; i < kQueries; ++i) {
    TIDEMILL_UNROLL
    for (std::size_t v = 0; v < kVectors; ++v) {
      sum[i][v] = load_at(queries[i].out, d + v * kLanes, head_dim);
    }
  }
  for (std::uint64_t j = begin; j < end; ++j) {
    F16 value[kVectors];
    TIDEMILL_UNROLL
    for (std::size_t v = 0; v < kVectors; ++v)
      value[v] = load(values + j * value_row + d + v * kLanes);
    TIDEMILL_UNROLL
    for (std::size_t i = 0; i < kQueries; ++i) {
      const F16 weight = set(scores[i * score_stride + j]);
      TIDEMILL_UNROLL
      for (std::size_t v = 0; v < kVectors; ++v) sum[i][v] = fma(weight, value[v], sum[i][v]);
    }
  }
  TIDEMILL_UNROLL
  for (std::size_t i = 0; i < kQueries; ++i) {
    TIDEMILL_UNROLL
    for (std::size_t v = 0; v < kVectors; ++v) {
      store_at(sum[i][v], queries[i].out, d + v * kLanes, head_dim);
    }
  }
}

template <std::size_t kQueries>
void weigh_range(const AttentionTask& task, const Query* queries, const float* scores,
                 std::uint64_t score_stride, std::uint64_t begin, std::uint64_t end) {
  if (begin >= end) return;
  const std::uint64_t row = (task.head_dim + kLanes - 1) / kLanes * kLanes;
  std::uint64_t d = 0;
  for (; d + kValueVectors * kLanes <= row; d += kValueVectors * kLanes) {
    weigh_values<kQueries, kValueVectors>(queries, scores, score_stride, task.values, row, begin,
                                          end, d, task.head_dim);
  }
  for (; d < row; d += kLanes) {
    weigh_values<kQueries, 1>(queries, scores, score_stride, task.values, row, begin, end, d,
                              task.head_dim);
  }
}

template <std::size_t kQueries>
void attend_tile(const AttentionTask& task, float* scores, std::uint64_t score_stride) {
  std::uint64_t first_begin = task.queries[0].begin, last_begin = first_begin;
  std::uint64_t first_end = task.queries[0].end, last_end = first_end;
  for (std::size_t i = 1; i < kQueries; ++i) {
    first_begin = std::min(first_begin, task.queries[i].begin);
    last_begin = std::max(last_begin, task.queries[i].begin);
    first_end = std::min(first_end, task.queries[i].end);
    last_end = std::max(last_end, task.queries[i].end);
  }
  std::uint64_t at = first_begin / kLanes * kLanes;
  for (; at + (kKeyBlocks - 1) * kLanes < last_end; at += kKeyBlocks * kLanes) {
    score_blocks<kQueries, kKeyBlocks>(task, at, scores, score_stride);
  }
  for (; at < last_end; at += kLanes) score_blocks<kQueries, 1>(task, at, scores, score_stride);

  float sums[kQueries];
  for (std::size_t i = 0; i < kQueries; ++i) {
    sums[i] = exponentials(task.queries[i], scores + i * score_stride);
    std::fill_n(task.queries[i].out, task.head_dim, 0.0f);
  }
  // The keys that all queries of the tile see are weighed together; each query takes those before
  // and behind them by itself, so that its own order stays ascending.
  const std::uint64_t common_end = std::max(last_begin, first_end);
  for (std::size_t i = 0; i < kQueries; ++i) {
    const Query& query = task.queries[i];
    weigh_range<1>(task, &query, scores + i * score_stride, score_stride, query.begin,
                   std::min(last_begin, query.end));
  }
  weigh_range<kQueries>(task, task.queries, scores, score_stride, last_begin, first_end);
  for (std::size_t i = 0; i < kQueries; ++i) {
    const Query& query = task.queries[i];
    weigh_range<1>(task, &query, scores + i * score_stride, score_stride, common_end, query.end);
    const F16 sum = set(sums[i]);
    for (std::uint64_t d = 0; d < task.head_dim; d += kLanes) {
      store_at(div(load_at(query.out, d, task.head_dim), sum), query.out, d, task.head_dim);
    }
  }
}

inline void attend(const AttentionTask& task, float* scores, std::uint64_t score_stride) {
  static_assert(kQueryTile == 4);
  switch (task.count) {
    case 4:
      return attend_tile<4>(task, scores, score_stride);
    case 3:
      return attend_tile<3>(task, scores, score_stride);
    case 2:
      return attend_tile<2>(task, scores, score_stride);
    default:
      return attend_tile<1>(task, scores, score_stride);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tidemill::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
