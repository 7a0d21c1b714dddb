// y += x W with the outputs along the lanes: each output takes the rows k of W in ascending order,
// one fused multiply-add each. The accumulators live in y between calls, so that it does not show
// where a piece of W ends.

#include "kernels/cpu/simd-inl.h"

#if defined(TIDEMILL_KERNELS_CPU_MATMUL_TRANSPOSED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TIDEMILL_KERNELS_CPU_MATMUL_TRANSPOSED_INL_H_
#undef TIDEMILL_KERNELS_CPU_MATMUL_TRANSPOSED_INL_H_
#else
#define TIDEMILL_KERNELS_CPU_MATMUL_TRANSPOSED_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>

#include "kernels/cpu/matmul.h"

HWY_BEFORE_NAMESPACE();
namespace tidemill::kernels::cpu {
namespace HWY_NAMESPACE {

/// kRows rows of weights, read once as that many sequential streams, for a few tokens.
template <DType kType, std::size_t kRows>
void stream_rows(const TransposedTask& task, std::uint64_t row) {
  const std::uint64_t row_bytes = task.w->cols * kWeightBytes<kType>;
  const std::byte* const w = task.w->data + row * row_bytes;
  // A share of a row is too short for the hardware to foresee where the next one begins.
  const std::uint64_t ahead = row + 2 * kRows <= task.w->rows ? kRows * row_bytes : 0;
  for (std::uint64_t n = task.col_begin; n < task.col_end; n += kLanes) {
    const std::size_t lanes = std::min<std::uint64_t>(kLanes, task.col_end - n);
    F16 weights[kRows];
    TIDEMILL_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::byte* const from = w + r * row_bytes + n * kWeightBytes<kType>;
      hwy::Prefetch(from + ahead);
      weights[r] =
          lanes == kLanes ? load_weights<kType>(from) : load_first_weights<kType>(from, lanes);
    }
    for (std::uint64_t t = 0; t < task.tokens; ++t) {
      const float* const x = task.x.data + t * task.x.stride + row;
      float* const y = task.y.data + t * task.y.stride + n;
      F16 sum = lanes == kLanes ? load(y) : load_first(y, lanes);
      TIDEMILL_UNROLL
      for (std::size_t r = 0; r < kRows; ++r) sum = fma(set(x[r]), weights[r], sum);
      if (lanes == kLanes) {
        store(sum, y);
      } else {
        store_first(sum, y, lanes);
      }
    }
  }
}

inline constexpr std::size_t kTransposedTokens = kParts == 1 ? 6 : 4;
inline constexpr std::size_t kTransposedVectors = kParts == 1 ? 4 : 1;
inline constexpr std::size_t kTransposedWidth = kTransposedVectors * kLanes;
static_assert(kTransposedPanelCols % kTransposedWidth == 0);

/// A register tile over all rows of a panel, [row][kTransposedPanelCols].
template <std::size_t kTokens>
HWY_INLINE void transposed_tile(const float* HWY_RESTRICT x, std::uint64_t x_stride,
                                const float* HWY_RESTRICT panel, std::uint64_t rows,
                                float* HWY_RESTRICT y, std::uint64_t y_stride) {
  F16 sum[kTokens][kTransposedVectors];
  TIDEMILL_UNROLL
  for (std::size_t t = 0; t < kTokens; ++t) {
    TIDEMILL_UNROLL
    for (std::size_t v = 0; v < kTransposedVectors; ++v) {
      sum[t][v] = load(y + t * y_stride + v * kLanes);
    }
  }
  for (std::uint64_t r = 0; r < rows; ++r) {
    F16 weights[kTransposedVectors];
    TIDEMILL_UNROLL
    for (std::size_t v = 0; v < kTransposedVectors; ++v) {
      weights[v] = load(panel + r * kTransposedPanelCols + v * kLanes);
    }
    TIDEMILL_UNROLL
    for (std::size_t t = 0; t < kTokens; ++t) {
      const F16 value = set(x[t * x_stride + r]);
      TIDEMILL_UNROLL
      for (std::size_t v = 0; v < kTransposedVectors; ++v) {
        sum[t][v] = fma(value, weights[v], sum[t][v]);
      }
    }
  }
  TIDEMILL_UNROLL
  for (std::size_t t = 0; t < kTokens; ++t) {
    TIDEMILL_UNROLL
    for (std::size_t v = 0; v < kTransposedVectors; ++v) {
      store(sum[t][v], y + t * y_stride + v * kLanes);
    }
  }
}

/// `width` outputs of kTokens tokens; where the matrix ends within a tile, by way of `edge`.
template <std::size_t kTokens>
void transposed_tiles(const float* x, std::uint64_t x_stride, const float* panel,
                      std::uint64_t rows, std::uint64_t width, Rows y, float* edge) {
  for (std::uint64_t n = 0; n < width; n += kTransposedWidth) {
    const std::uint64_t cols = std::min<std::uint64_t>(kTransposedWidth, width - n);
    float* to = y.data + n;
    if (cols == kTransposedWidth) {
      transposed_tile<kTokens>(x, x_stride, panel + n, rows, to, y.stride);
      continue;
    }
    for (std::size_t t = 0; t < kTokens; ++t) {
      std::fill_n(edge + t * kTransposedWidth, kTransposedWidth, 0.0f);
      std::copy_n(to + t * y.stride, cols, edge + t * kTransposedWidth);
    }
    transposed_tile<kTokens>(x, x_stride, panel + n, rows, edge, kTransposedWidth);
    for (std::size_t t = 0; t < kTokens; ++t) {
      std::copy_n(edge + t * kTransposedWidth, cols, to + t * y.stride);
    }
  }
}

template <DType kType>
void transposed_panel(const TransposedTask& task, std::uint64_t row, std::uint64_t rows,
                      std::uint64_t col, float* panel) {
  const std::uint64_t width = std::min(kTransposedPanelCols, task.col_end - col);
  for (std::uint64_t r = 0; r < rows; ++r) {
    const std::byte* const from =
        task.w->data + ((row + r) * task.w->cols + col) * kWeightBytes<kType>;
    float* const to = panel + r * kTransposedPanelCols;
    std::uint64_t n = 0;
    for (; n + kLanes <= width; n += kLanes) {
      store(load_weights<kType>(from + n * kWeightBytes<kType>), to + n);
    }
    if (n < width) {
      store(load_first_weights<kType>(from + n * kWeightBytes<kType>, width - n), to + n);
      n += kLanes;
    }
    for (; n < kTransposedPanelCols; n += kLanes) store(zero(), to + n);
  }
  float* const edge = panel + kTransposedPanelCols * kTransposedPanelRows;
  std::uint64_t t = 0;
  for (; t + kTransposedTokens <= task.tokens; t += kTransposedTokens) {
    transposed_tiles<kTransposedTokens>(
        task.x.data + t * task.x.stride + row, task.x.stride, panel, rows, width,
        {.data = task.y.data + t * task.y.stride + col, .stride = task.y.stride}, edge);
  }
  for (; t < task.tokens; ++t) {
    transposed_tiles<1>(task.x.data + t * task.x.stride + row, task.x.stride, panel, rows, width,
                        {.data = task.y.data + t * task.y.stride + col, .stride = task.y.stride},
                        edge);
  }
}

template <DType kType>
void accumulate_typed(const TransposedTask& task, float* scratch) {
  const std::uint64_t rows = task.w->rows;
  // A panel pays when its conversion is shared by a tile of tokens.
  if (task.tokens < kTransposedTokens) {
    constexpr std::uint64_t kStreams = 8;
    std::uint64_t row = 0;
    for (; row + kStreams <= rows; row += kStreams) stream_rows<kType, kStreams>(task, row);
    for (; row < rows; ++row) stream_rows<kType, 1>(task, row);
    return;
  }
  for (std::uint64_t col = task.col_begin; col < task.col_end; col += kTransposedPanelCols) {
    for (std::uint64_t row = 0; row < rows; row += kTransposedPanelRows) {
      transposed_panel<kType>(task, row, std::min(kTransposedPanelRows, rows - row), col, scratch);
    }
  }
}

inline void accumulate_transposed(const TransposedTask& task, float* scratch) {
  switch (task.w->dtype) {
    case DType::kF32:
      return accumulate_typed<DType::kF32>(task, scratch);
    case DType::kF16:
      return accumulate_typed<DType::kF16>(task, scratch);
    default:
      return accumulate_typed<DType::kBF16>(task, scratch);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tidemill::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
