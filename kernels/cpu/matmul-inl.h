// y = x W^T with the reduction along the lanes: lane l of an output's accumulator takes the
// columns k = l, l + 16, ... in ascending order, each by one fused multiply-add, and the lanes are
// added in one fixed order at the end. Tiles, panels and threads decide only which outputs are
// computed at the same time.

#include "kernels/cpu/matmul_direct-inl.h"
#include "kernels/cpu/simd-inl.h"

#if defined(TIDEMILL_KERNELS_CPU_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TIDEMILL_KERNELS_CPU_MATMUL_INL_H_
#undef TIDEMILL_KERNELS_CPU_MATMUL_INL_H_
#else
#define TIDEMILL_KERNELS_CPU_MATMUL_INL_H_
#endif

#include <algorithm>

#include "io/base/checked.h"
#include "kernels/cpu/matmul.h"

HWY_BEFORE_NAMESPACE();
namespace tidemill::kernels::cpu {
namespace HWY_NAMESPACE {

static_assert(kPanelRows % kRowTile == 0 && kPanelCols % kLanes == 0);

inline void pack_tokens(ConstRows x, std::uint64_t token_begin, std::uint64_t token_end,
                        std::uint64_t cols, float* packed) {
  const std::uint64_t steps = (cols + kLanes - 1) / kLanes;
  const std::uint64_t full = cols / kLanes;
  for (std::uint64_t t = token_begin; t < token_end; t += kTokenTile) {
    const std::uint64_t height = std::min<std::uint64_t>(kTokenTile, token_end - t);
    float* const tile = packed + t * steps * kLanes;
    for (std::uint64_t i = 0; i < height; ++i) {
      const float* const row = x.data + (t + i) * x.stride;
      float* to = tile + i * kLanes;
      for (std::uint64_t s = 0; s < full; ++s, to += height * kLanes) {
        store(load(row + s * kLanes), to);
      }
      if (full != steps) store(load_first(row + full * kLanes, cols % kLanes), to);
    }
  }
}

/// Weights [rows, cols) as fp32 in tiles: [tile][col / 16][row][16], zeros where there are none.
template <DType kType>
void convert_panel(const WeightRows& w, std::uint64_t row, std::uint64_t rows, std::uint64_t col,
                   std::uint64_t cols, float* HWY_RESTRICT panel) {
  const std::uint64_t steps = (cols + kLanes - 1) / kLanes;
  for (std::uint64_t r = 0; r < (rows + kRowTile - 1) / kRowTile * kRowTile; ++r) {
    float* to = panel + (r / kRowTile * steps * kRowTile + r % kRowTile) * kLanes;
    if (r >= rows) {
      for (std::uint64_t s = 0; s < steps; ++s, to += kRowTile * kLanes) store(zero(), to);
      continue;
    }
    const std::byte* from = w.data + ((row + r) * w.cols + col) * kWeightBytes<kType>;
    for (std::uint64_t s = 0; s < cols / kLanes; ++s, to += kRowTile * kLanes) {
      store(load_weights<kType>(from), to);
      from += kLanes * kWeightBytes<kType>;
    }
    if (cols % kLanes != 0) store(load_first_weights<kType>(from, cols % kLanes), to);
  }
}

/// One register tile over the columns of a panel; its accumulators come from and go to memory.
template <std::size_t kTokens>
HWY_INLINE void panel_tile(const float* HWY_RESTRICT x, const float* HWY_RESTRICT w,
                           std::uint64_t steps, bool first_panel, F16 (&sum)[kTokens][kRowTile],
                           const float* HWY_RESTRICT carried) {
  TIDEMILL_UNROLL
  for (std::size_t t = 0; t < kTokens; ++t) {
    TIDEMILL_UNROLL
    for (std::size_t r = 0; r < kRowTile; ++r) {
      sum[t][r] = first_panel ? zero() : load(carried + (t * kRowTile + r) * kLanes);
    }
  }
  for (std::uint64_t s = 0; s < steps; ++s) {
    F16 weights[kRowTile];
    TIDEMILL_UNROLL
    for (std::size_t r = 0; r < kRowTile; ++r) weights[r] = load(w + (s * kRowTile + r) * kLanes);
    TIDEMILL_UNROLL
    for (std::size_t t = 0; t < kTokens; ++t) {
      const F16 values = load(x + (s * kTokens + t) * kLanes);
      TIDEMILL_UNROLL
      for (std::size_t r = 0; r < kRowTile; ++r) sum[t][r] = fma(values, weights[r], sum[t][r]);
    }
  }
}

/// What all tiles of a panel have in common.
struct Panel {
  const float* weights;
  float* carried;  ///< accumulators: [tokens][kPanelRows][16], in tiles
  std::uint64_t row, rows;
  std::uint64_t steps, first_step, all_steps;
};

template <std::size_t kTokens>
void panel_tiles(const MatmulTask& task, const Panel& panel, std::uint64_t token) {
  const bool first = panel.first_step == 0;
  const bool last = panel.first_step + panel.steps == panel.all_steps;
  const float* const x =
      task.packed + (token * panel.all_steps + panel.first_step * kTokens) * kLanes;
  for (std::uint64_t r = 0; r < panel.rows; r += kRowTile) {
    float* const carried = panel.carried + (token * kPanelRows + r * kTokens) * kLanes;
    F16 sum[kTokens][kRowTile];
    panel_tile<kTokens>(x, panel.weights + r * panel.steps * kLanes, panel.steps, first, sum,
                        carried);
    const std::size_t width = std::min<std::uint64_t>(kRowTile, panel.rows - r);
    TIDEMILL_UNROLL
    for (std::size_t t = 0; t < kTokens; ++t) {
      float* const y = task.y.data + (token + t) * task.y.stride + panel.row + r;
      TIDEMILL_UNROLL
      for (std::size_t i = 0; i < kRowTile; ++i) {
        if (!last) {
          store(sum[t][i], carried + (t * kRowTile + i) * kLanes);
        } else if (i < width) {
          y[i] = sum_lanes(sum[t][i]);
        }
      }
    }
  }
}

template <DType kType>
void panels(const MatmulTask& task, float* scratch) {
  const std::uint64_t cols = task.w->cols;
  const std::uint64_t all_steps = (cols + kLanes - 1) / kLanes;
  for (std::uint64_t row = task.row_begin; row < task.row_end; row += kPanelRows) {
    const std::uint64_t rows = std::min(kPanelRows, task.row_end - row);
    for (std::uint64_t col = 0; col < cols; col += kPanelCols) {
      const std::uint64_t width = std::min(kPanelCols, cols - col);
      convert_panel<kType>(*task.w, row, rows, col, width, scratch);
      const Panel panel{.weights = scratch,
                        .carried = scratch + kPanelRows * kPanelCols,
                        .row = row,
                        .rows = rows,
                        .steps = (width + kLanes - 1) / kLanes,
                        .first_step = col / kLanes,
                        .all_steps = all_steps};
      std::uint64_t token = 0;
      for (; token + kTokenTile <= task.tokens; token += kTokenTile) {
        panel_tiles<kTokenTile>(task, panel, token);
      }
      if constexpr (kTokenTile > 2) {
        if (task.tokens - token == 3) panel_tiles<3>(task, panel, token);
        if (task.tokens - token == 2) panel_tiles<2>(task, panel, token);
      }
      if (task.tokens - token == 1) panel_tiles<1>(task, panel, token);
    }
  }
}

template <DType kType>
void multiply_typed(const MatmulTask& task, float* scratch) {
  if (task.tokens > kTokenTile) return panels<kType>(task, scratch);
  if constexpr (kTokenTile > 2) {
    if (task.tokens == 4) return direct<kType, 4>(task);
    if (task.tokens == 3) return direct<kType, 3>(task);
  }
  if (task.tokens == 2) return direct<kType, 2>(task);
  direct<kType, 1>(task);
}

inline void multiply(const MatmulTask& task, float* scratch) {
  switch (task.w->dtype) {
    case DType::kF32:
      return multiply_typed<DType::kF32>(task, scratch);
    case DType::kF16:
      return multiply_typed<DType::kF16>(task, scratch);
    default:
      return multiply_typed<DType::kBF16>(task, scratch);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tidemill::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
