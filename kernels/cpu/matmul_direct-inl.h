// y = x W^T for so few tokens that the memory decides: the weights are used as they come, in the
// order in which the memory delivers them fastest.

#include "kernels/cpu/simd-inl.h"

#if defined(TIDEMILL_KERNELS_CPU_MATMUL_DIRECT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TIDEMILL_KERNELS_CPU_MATMUL_DIRECT_INL_H_
#undef TIDEMILL_KERNELS_CPU_MATMUL_DIRECT_INL_H_
#else
#define TIDEMILL_KERNELS_CPU_MATMUL_DIRECT_INL_H_
#endif

#include <hwy/cache_control.h>

#include "kernels/cpu/matmul.h"

HWY_BEFORE_NAMESPACE();
namespace tidemill::kernels::cpu {
namespace HWY_NAMESPACE {

// Accumulators of a tile plus its operands must fit in the registers: 24 + 7 of 32 with AVX-512,
// 12 + 3 of 16 with AVX2.
inline constexpr std::size_t kTokenTile = kParts == 1 ? 4 : 2;
inline constexpr std::size_t kRowTile = kParts == 1 ? 6 : 3;

/// Sixteen columns, whose weights begin at `w` in the first row.
template <DType kType, std::size_t kTokens, std::size_t kRows>
HWY_INLINE void direct_step(const float* HWY_RESTRICT x, const std::byte* HWY_RESTRICT w,
                            std::uint64_t row_bytes, F16 (&sum)[kTokens][kRows]) {
  F16 weights[kRows];
  TIDEMILL_UNROLL
  for (std::size_t r = 0; r < kRows; ++r) weights[r] = load_weights<kType>(w + r * row_bytes);
  TIDEMILL_UNROLL
  for (std::size_t t = 0; t < kTokens; ++t) {
    const F16 values = load(x + t * kLanes);
    TIDEMILL_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) sum[t][r] = fma(values, weights[r], sum[t][r]);
  }
}

/// A tile of outputs straight from the weights.
template <DType kType, std::size_t kTokens, std::size_t kRows>
HWY_INLINE void direct_tile(const float* HWY_RESTRICT x, const std::byte* HWY_RESTRICT w,
                            std::uint64_t cols, float* HWY_RESTRICT y, std::uint64_t y_stride) {
  constexpr std::size_t kStepBytes = kLanes * kWeightBytes<kType>;
  constexpr std::size_t kLineSteps = 64 / kStepBytes;
  const std::uint64_t row_bytes = cols * kWeightBytes<kType>;
  F16 sum[kTokens][kRows];
  TIDEMILL_UNROLL
  for (std::size_t t = 0; t < kTokens; ++t) {
    TIDEMILL_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) sum[t][r] = zero();
  }
  // The tile below is fetched meanwhile, from its first byte to its last: memory likes one long
  // sequence best (measured: 10% more bytes per second than all rows side by side).
  const std::byte* const below = w + kRows * row_bytes;
  const std::uint64_t full = cols / kLanes;
  std::uint64_t s = 0;
  for (; s + kLineSteps <= full; s += kLineSteps) {
    TIDEMILL_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
      hwy::Prefetch(below + s * kStepBytes * kRows + r * 64);
    }
    TIDEMILL_UNROLL
    for (std::size_t u = 0; u < kLineSteps; ++u) {
      direct_step<kType>(x + (s + u) * kTokens * kLanes, w + (s + u) * kStepBytes, row_bytes, sum);
    }
  }
  for (; s < full; ++s) {
    direct_step<kType>(x + s * kTokens * kLanes, w + s * kStepBytes, row_bytes, sum);
  }
  if (const std::size_t rest = cols % kLanes; rest != 0) {
    TIDEMILL_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
      const F16 weights = load_first_weights<kType>(w + r * row_bytes + full * kStepBytes, rest);
      TIDEMILL_UNROLL
      for (std::size_t t = 0; t < kTokens; ++t) {
        sum[t][r] = fma(load(x + (full * kTokens + t) * kLanes), weights, sum[t][r]);
      }
    }
  }
  TIDEMILL_UNROLL
  for (std::size_t t = 0; t < kTokens; ++t) {
    TIDEMILL_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) y[t * y_stride + r] = sum_lanes(sum[t][r]);
  }
}

/// Tiles of kRows rows, and the rows that fill none one by one.
template <DType kType, std::size_t kTokens, std::size_t kRows>
void direct_tiles(const MatmulTask& task) {
  const std::uint64_t cols = task.w->cols;
  const std::uint64_t row_bytes = cols * kWeightBytes<kType>;
  std::uint64_t row = task.row_begin;
  for (; row + kRows <= task.row_end; row += kRows) {
    direct_tile<kType, kTokens, kRows>(task.packed, task.w->data + row * row_bytes, cols,
                                       task.y.data + row, task.y.stride);
  }
  for (; row < task.row_end; ++row) {
    direct_tile<kType, kTokens, 1>(task.packed, task.w->data + row * row_bytes, cols,
                                   task.y.data + row, task.y.stride);
  }
}

template <DType kType, std::size_t kTokens>
void direct(const MatmulTask& task) {
  // Two rows keep the arithmetic of one token ahead of the memory, and leave most of the first
  // cache level to what is on its way. A long token does not stay there anyway: then many rows
  // share it.
  constexpr std::uint64_t kShortCols = 4096;
  if (kTokens == 1 && task.w->cols <= kShortCols) return direct_tiles<kType, kTokens, 2>(task);
  direct_tiles<kType, kTokens, kRowTile>(task);
}

}  // namespace HWY_NAMESPACE
}  // namespace tidemill::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
