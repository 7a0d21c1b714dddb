#include "kernels/cpu/ops.h"

#include <algorithm>

#include "io/base/checked.h"
#include "io/base/error.h"
#include "kernels/cpu/memory.h"

namespace tidemill::kernels::cpu {

CpuOps::CpuOps(CpuTarget target, unsigned threads)
    : matmul_(matmul_kernels(target)),
      row_(row_kernels(target)),
      attention_(attention_kernels(target)),
      pool_(threads) {}

void CpuOps::convert(Stream&, const WeightRows& w, float* dst) {
  TM_CHECK(is_weight_type(w.dtype), "weights of type {}", to_string(w.dtype));
  constexpr std::uint64_t kBlock = 4096;
  const std::uint64_t count = checked_mul(w.rows, w.cols, "elements of a weight");
  for_rows(count / kBlock + (count % kBlock != 0), kBlock / 4, [&](std::uint64_t block) {
    const std::uint64_t begin = block * kBlock;
    row_.convert(w.data + begin * size_of(w.dtype), w.dtype, std::min(kBlock, count - begin),
                 dst + begin);
  });
}

void CpuOps::gather(Stream&, std::span<const std::byte* const> rows, DType dtype,
                    std::uint64_t cols, Rows y) {
  TM_CHECK(is_weight_type(dtype), "weights of type {}", to_string(dtype));
  for_rows(rows.size(), cols / 2,
           [&](std::uint64_t t) { row_.convert(rows[t], dtype, cols, y.data + t * y.stride); });
}

void CpuOps::zero(Stream&, Rows y, std::uint64_t tokens, std::uint64_t cols) {
  for_rows(tokens, cols / 4,
           [&](std::uint64_t t) { std::fill_n(y.data + t * y.stride, cols, 0.0f); });
}

void CpuOps::copy(Stream&, ConstRows x, Rows y, std::uint64_t tokens, std::uint64_t cols) {
  for_rows(tokens, cols / 4, [&](std::uint64_t t) {
    std::copy_n(x.data + t * x.stride, cols, y.data + t * y.stride);
  });
}

void CpuOps::select_rows(Stream&, ConstRows x, std::span<const std::uint64_t> index, Rows y,
                         std::uint64_t cols) {
  for_rows(index.size(), cols / 4, [&](std::uint64_t t) {
    std::copy_n(x.data + index[t] * x.stride, cols, y.data + t * y.stride);
  });
}

void CpuOps::add(Stream&, ConstRows x, Rows y, std::uint64_t tokens, std::uint64_t cols) {
  for_rows(tokens, cols / 4,
           [&](std::uint64_t t) { row_.add(x.data + t * x.stride, cols, y.data + t * y.stride); });
}

void CpuOps::add_bias(Stream&, const float* bias, Rows y, std::uint64_t tokens,
                      std::uint64_t cols) {
  for_rows(tokens, cols / 4, [&](std::uint64_t t) { row_.add(bias, cols, y.data + t * y.stride); });
}

void CpuOps::layer_norm(Stream&, ConstRows x, const float* weight, const float* bias, float eps,
                        Rows y, std::uint64_t tokens, std::uint64_t cols) {
  for_rows(tokens, cols, [&](std::uint64_t t) {
    row_.layer_norm(x.data + t * x.stride, weight, bias, eps, cols, y.data + t * y.stride);
  });
}

void CpuOps::rms_norm(Stream&, ConstRows x, const float* weight, float eps, Rows y,
                      std::uint64_t tokens, std::uint64_t cols) {
  for_rows(tokens, cols, [&](std::uint64_t t) {
    row_.rms_norm(x.data + t * x.stride, weight, eps, cols, y.data + t * y.stride);
  });
}

void CpuOps::head_rms_norm(Stream&, Rows x, std::uint64_t offset, std::uint64_t head_stride,
                           std::uint32_t heads, std::uint32_t head_dim, const float* weight,
                           float eps, std::uint64_t tokens) {
  for_rows(tokens, std::uint64_t{heads} * head_dim, [&](std::uint64_t t) {
    for (std::uint32_t head = 0; head < heads; ++head) {
      float* const values = x.data + t * x.stride + offset + head * head_stride;
      row_.rms_norm(values, weight, eps, head_dim, values);
    }
  });
}

void CpuOps::activate(Stream&, Activation f, Rows y, std::uint64_t tokens, std::uint64_t cols) {
  for_rows(tokens, cols * 2,
           [&](std::uint64_t t) { row_.activate(f, nullptr, cols, y.data + t * y.stride); });
}

void CpuOps::activate_gated(Stream&, Activation f, ConstRows up, Rows y, std::uint64_t tokens,
                            std::uint64_t cols) {
  for_rows(tokens, cols * 2, [&](std::uint64_t t) {
    row_.activate(f, up.data + t * up.stride, cols, y.data + t * y.stride);
  });
}

void CpuOps::rotary(Stream&, Rows x, std::uint64_t offset, std::uint64_t head_stride,
                    std::uint32_t heads, std::uint32_t rotary_dims, ConstRows cos_sin,
                    std::uint64_t tokens) {
  TM_CHECK(rotary_dims % 2 == 0, "{} dimensions cannot be paired", rotary_dims);
  const std::uint64_t half = rotary_dims / 2;
  for_rows(tokens, std::uint64_t{heads} * rotary_dims, [&](std::uint64_t t) {
    const float* const cos = cos_sin.data + t * cos_sin.stride;
    for (std::uint32_t head = 0; head < heads; ++head) {
      row_.rotate(cos, cos + half, half, x.data + t * x.stride + offset + head * head_stride);
    }
  });
}

CpuOps::ScratchPlan CpuOps::plan_scratch(std::uint64_t max_tokens, std::uint64_t max_cols,
                                         std::uint64_t max_positions) const {
  constexpr const char* kWhat = "size of the scratch memory";
  ScratchPlan plan;
  const std::uint64_t padded_cols =
      checked_add(max_cols, kLaneCount - 1, kWhat) & ~(kLaneCount - 1);
  plan.packed_floats = checked_mul(std::min(max_tokens, kTokenBlock), padded_cols, kWhat);
  checked_mul(checked_add(max_positions, kLaneCount, kWhat), kQueryTile, kWhat);
  plan.thread_floats = std::max(kMatmulScratchFloats, attention_scratch_floats(max_positions));
  plan.total_floats = checked_add(plan.packed_floats,
                                  checked_mul(plan.thread_floats, pool_.threads(), kWhat), kWhat);
  return plan;
}

std::uint64_t CpuOps::scratch_bytes(std::uint64_t max_tokens, std::uint64_t max_cols,
                                    std::uint64_t max_positions) const {
  return checked_mul(plan_scratch(max_tokens, max_cols, max_positions).total_floats, sizeof(float),
                     "size of the scratch memory");
}

void CpuOps::reserve(std::uint64_t max_tokens, std::uint64_t max_cols,
                     std::uint64_t max_positions) {
  const std::lock_guard lock(mutex_);
  scratch_ = {};  // first, so that the old and the new never exist together
  max_tokens_ = max_cols_ = max_positions_ = 0;
  plan_ = plan_scratch(max_tokens, max_cols, max_positions);
  scratch_ = allocate_pages(plan_.total_floats * sizeof(float));
  max_tokens_ = max_tokens;
  max_cols_ = max_cols;
  max_positions_ = max_positions;
}

void CpuOps::check_reserved(std::uint64_t tokens, std::uint64_t cols,
                            std::uint64_t positions) const {
  TM_CHECK(tokens <= max_tokens_, "{} tokens, but scratch is reserved for {}", tokens, max_tokens_);
  TM_CHECK(cols <= max_cols_, "{} columns, but scratch is reserved for {}", cols, max_cols_);
  TM_CHECK(positions <= max_positions_, "{} positions, but scratch is reserved for {}", positions,
           max_positions_);
}

}  // namespace tidemill::kernels::cpu
