// How the matrix products are shared out.
#include <algorithm>

#include "io/base/checked.h"
#include "io/base/error.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/share.h"

namespace tidemill::kernels::cpu {

void CpuOps::matmul(Stream&, ConstRows x, const WeightRows& w, Rows y, std::uint64_t tokens) {
  TM_CHECK(is_weight_type(w.dtype), "weights of type {}", to_string(w.dtype));
  if (tokens == 0 || w.rows == 0) return;
  TM_CHECK(w.cols > 0, "a matrix of {} rows and no columns", w.rows);
  const std::lock_guard lock(mutex_);
  check_reserved(tokens, w.cols, 0);
  for (std::uint64_t t = 0; t < tokens; t += kTokenBlock) {
    matmul_block({.data = x.data + t * x.stride, .stride = x.stride}, w,
                 {.data = y.data + t * y.stride, .stride = y.stride},
                 std::min(kTokenBlock, tokens - t));
  }
}

void CpuOps::matmul_block(ConstRows x, const WeightRows& w, Rows y, std::uint64_t tokens) {
  float* const packed = scratch_.floats();
  pool_.parallel_for(tokens, chunk_items(tokens, w.cols / 2, matmul_.token_tile, pool_.threads()),
                     [&](std::uint64_t begin, std::uint64_t end, unsigned) {
                       matmul_.pack(x, begin, end, w.cols, packed);
                     });
  // Few tokens stream through the weights; many go through panels of them.
  const std::uint64_t unit = tokens <= matmul_.token_tile ? matmul_.row_tile : kPanelRows;
  const std::uint64_t row_cost = w.cols * std::max<std::uint64_t>(tokens / 8, 1);
  pool_.parallel_for(w.rows, chunk_items(w.rows, row_cost, unit, pool_.threads()),
                     [&](std::uint64_t begin, std::uint64_t end, unsigned worker) {
                       matmul_.multiply({.packed = packed,
                                         .tokens = tokens,
                                         .w = &w,
                                         .row_begin = begin,
                                         .row_end = end,
                                         .y = y},
                                        thread_scratch(worker));
                     });
}

void CpuOps::matmul_transposed_accumulate(Stream&, ConstRows x, const WeightRows& w, Rows y,
                                          std::uint64_t tokens) {
  TM_CHECK(is_weight_type(w.dtype), "weights of type {}", to_string(w.dtype));
  if (tokens == 0 || w.rows == 0) return;
  const std::lock_guard lock(mutex_);
  check_reserved(tokens, w.rows, 0);
  const std::uint64_t col_cost = w.rows * std::max<std::uint64_t>(tokens / 8, 1);
  // Long stretches of a row, so that a thread's share of it is more than a few cache lines.
  const std::uint64_t unit = 4 * kTransposedPanelCols;
  pool_.parallel_for(
      w.cols, chunk_items(w.cols, col_cost, unit, pool_.threads()),
      [&](std::uint64_t begin, std::uint64_t end, unsigned worker) {
        matmul_.accumulate_transposed(
            {.x = x, .tokens = tokens, .w = &w, .col_begin = begin, .col_end = end, .y = y},
            thread_scratch(worker));
      });
}

}  // namespace tidemill::kernels::cpu
