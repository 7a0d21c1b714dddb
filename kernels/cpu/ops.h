// The operations of the CPU device: checks, sharing out among the threads, and the calls of the
// kernels for the device's instruction set.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/cpu/share.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/device.h"
#include "kernels/ops.h"

namespace tidemill::kernels::cpu {

/// Operations execute before they return. One executes at a time, whichever thread submits it:
/// they share the threads and the scratch memory.
class CpuOps final : public Ops {
 public:
  CpuOps(CpuTarget target, unsigned threads);

  unsigned threads() const { return pool_.threads(); }

  void matmul(Stream& stream, ConstRows x, const WeightRows& w, Rows y,
              std::uint64_t tokens) override;
  void matmul_transposed_accumulate(Stream& stream, ConstRows x, const WeightRows& w, Rows y,
                                    std::uint64_t tokens) override;
  void convert(Stream& stream, const WeightRows& w, float* dst) override;
  void gather(Stream& stream, std::span<const std::byte* const> rows, DType dtype,
              std::uint64_t cols, Rows y) override;
  void zero(Stream& stream, Rows y, std::uint64_t tokens, std::uint64_t cols) override;
  void copy(Stream& stream, ConstRows x, Rows y, std::uint64_t tokens, std::uint64_t cols) override;
  void select_rows(Stream& stream, ConstRows x, std::span<const std::uint64_t> index, Rows y,
                   std::uint64_t cols) override;
  void add(Stream& stream, ConstRows x, Rows y, std::uint64_t tokens, std::uint64_t cols) override;
  void add_bias(Stream& stream, const float* bias, Rows y, std::uint64_t tokens,
                std::uint64_t cols) override;
  void layer_norm(Stream& stream, ConstRows x, const float* weight, const float* bias, float eps,
                  Rows y, std::uint64_t tokens, std::uint64_t cols) override;
  void rms_norm(Stream& stream, ConstRows x, const float* weight, float eps, Rows y,
                std::uint64_t tokens, std::uint64_t cols) override;
  void head_rms_norm(Stream& stream, Rows x, std::uint64_t offset, std::uint64_t head_stride,
                     std::uint32_t heads, std::uint32_t head_dim, const float* weight, float eps,
                     std::uint64_t tokens) override;
  void activate(Stream& stream, Activation f, Rows y, std::uint64_t tokens,
                std::uint64_t cols) override;
  void activate_gated(Stream& stream, Activation f, ConstRows up, Rows y, std::uint64_t tokens,
                      std::uint64_t cols) override;
  void rotary(Stream& stream, Rows x, std::uint64_t offset, std::uint64_t head_stride,
              std::uint32_t heads, std::uint32_t rotary_dims, ConstRows cos_sin,
              std::uint64_t tokens) override;
  std::uint64_t kv_cache_floats(const AttentionShape& shape, std::uint64_t capacity) const override;
  void kv_append(Stream& stream, ConstRows qkv, const QkvLayout& layout,
                 const AttentionShape& shape, std::span<const SequenceRows> sequences) override;
  void attention(Stream& stream, const AttentionArgs& args) override;
  std::uint64_t scratch_bytes(std::uint64_t max_tokens, std::uint64_t max_cols,
                              std::uint64_t max_positions) const override;
  void reserve(std::uint64_t max_tokens, std::uint64_t max_cols,
               std::uint64_t max_positions) override;

 private:
  /// Scratch memory: the packed tokens, then one part per thread.
  struct ScratchPlan {
    std::uint64_t packed_floats = 0;
    std::uint64_t thread_floats = 0;
    std::uint64_t total_floats = 0;
  };
  ScratchPlan plan_scratch(std::uint64_t max_tokens, std::uint64_t max_cols,
                           std::uint64_t max_positions) const;
  float* thread_scratch(unsigned worker) const {
    return scratch_.floats() + plan_.packed_floats + worker * plan_.thread_floats;
  }
  /// Throws unless reserve() allowed for so much.
  void check_reserved(std::uint64_t tokens, std::uint64_t cols, std::uint64_t positions) const;

  /// Calls body(row) for each of `rows`, each of which costs about `row_cost` simple operations.
  template <typename Body>
  void for_rows(std::uint64_t rows, std::uint64_t row_cost, const Body& body) {
    const std::lock_guard lock(mutex_);
    pool_.parallel_for(rows, chunk_items(rows, row_cost, 1, pool_.threads()),
                       [&](std::uint64_t begin, std::uint64_t end, unsigned) {
                         for (std::uint64_t row = begin; row < end; ++row) body(row);
                       });
  }
  void matmul_block(ConstRows x, const WeightRows& w, Rows y, std::uint64_t tokens);
  void attend_items(const AttentionArgs& args, std::uint64_t begin, std::uint64_t end,
                    float* scratch) const;

  const MatmulKernels& matmul_;
  const RowKernels& row_;
  const AttentionKernels& attention_;
  ThreadPool pool_;
  std::mutex mutex_;
  ScratchPlan plan_;
  std::uint64_t max_tokens_ = 0;
  std::uint64_t max_cols_ = 0;
  std::uint64_t max_positions_ = 0;
  Buffer scratch_;
};

}  // namespace tidemill::kernels::cpu
