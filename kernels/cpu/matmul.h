// Products with weight matrices: the single-threaded parts that CpuOps shares out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/ops.h"

namespace tidemill::kernels::cpu {

inline constexpr std::uint64_t kLaneCount = 16;

/// Tokens that are multiplied in one pass over the weights. More of them would not make the pass
/// faster, since a weight that was converted is used this often; fewer would.
inline constexpr std::uint64_t kTokenBlock = 128;

/// Weight rows and columns of a panel: converted to fp32 once per token block and then used for
/// all its tokens from the first two cache levels.
inline constexpr std::uint64_t kPanelRows = 24;
inline constexpr std::uint64_t kPanelCols = 512;

/// Tile of the transposed product: as many outputs by as many reduced rows.
inline constexpr std::uint64_t kTransposedPanelCols = 64;
inline constexpr std::uint64_t kTransposedPanelRows = 128;

/// Floats of scratch that one thread needs for either product.
inline constexpr std::uint64_t kMatmulScratchFloats =
    kPanelRows * kPanelCols + kTokenBlock * kPanelRows * kLaneCount;
static_assert(kTransposedPanelCols * (kTransposedPanelRows + 8) <= kMatmulScratchFloats);

/// Rows [row_begin, row_end) of `w` times up to kTokenBlock packed tokens.
struct MatmulTask {
  const float* packed = nullptr;
  std::uint64_t tokens = 0;
  const WeightRows* w = nullptr;
  std::uint64_t row_begin = 0;
  std::uint64_t row_end = 0;
  Rows y;
};

/// Columns [col_begin, col_end) of y += x * w, for a w of [in, out].
struct TransposedTask {
  ConstRows x;
  std::uint64_t tokens = 0;
  const WeightRows* w = nullptr;
  std::uint64_t col_begin = 0;
  std::uint64_t col_end = 0;
  Rows y;
};

struct MatmulKernels {
  std::uint64_t token_tile = 0;  ///< tokens of one register tile
  std::uint64_t row_tile = 0;    ///< weight rows of one register tile
  /// Copies tokens into tiles: [tile][k / 16][token][16], zeros behind the last column. Begins at
  /// a multiple of token_tile. `packed` is that of the whole block.
  void (*pack)(ConstRows x, std::uint64_t token_begin, std::uint64_t token_end, std::uint64_t cols,
               float* packed) = nullptr;
  void (*multiply)(const MatmulTask& task, float* scratch) = nullptr;
  void (*accumulate_transposed)(const TransposedTask& task, float* scratch) = nullptr;
};

const MatmulKernels& matmul_kernels(CpuTarget target);

}  // namespace tidemill::kernels::cpu
