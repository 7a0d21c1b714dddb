// The forward pass: one sweep over the tape for a ragged batch of sequence chunks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/kv_cache.h"
#include "engine/memory_plan.h"
#include "engine/model.h"
#include "kernels/device.h"
#include "kernels/ops.h"
#include "offload/row_gather.h"
#include "offload/weight_stream.h"

namespace tidemill::offload {
class Trace;
}

namespace tidemill::engine {

/// Which rows of a chunk get logits.
enum class WantLogits { kNone, kLast, kAll };

/// Consecutive tokens of one sequence. The cache holds the positions before `position`.
struct SequenceChunk {
  std::span<const std::uint32_t> tokens;
  std::uint64_t position = 0;
  /// Length of the sequence's prompt: rotary scalings that depend on the length see the whole
  /// prompt at once, whatever chunks it arrives in, and each later token's own length.
  std::uint64_t prompt_length = 0;
  SequenceCache cache;
  WantLogits want = WantLogits::kLast;
};

/// Called with the output of each layer: index 0 is the embedding, i the output of layer i - 1,
/// and one more call after the last with the final norm applied (index layers + 1). Rows are host
/// readable during the call.
using HiddenHook =
    std::function<void(std::size_t index, kernels::ConstRows rows, std::uint64_t tokens)>;

/// Called after each layer of a sweep with the layers that are done, and how many there are: for
/// progress. What it throws ends the sweep.
using LayerCallback = std::function<void(std::size_t done, std::size_t layers)>;

/// Used by one thread. Allocates in its constructor only.
class Sweep {
 public:
  /// Keeps references to everything; `gather_positions`, `trace` and `on_layer` may be null.
  Sweep(const Model& model, const MemoryPlan& plan, kernels::Device& device,
        offload::WeightStream& weights, offload::RowGather& gather_tokens,
        offload::RowGather* gather_positions, offload::Trace* trace, LayerCallback on_layer);

  /// Runs the chunks; together at most plan.workspace.tokens rows, and at most
  /// plan.workspace.outputs rows with logits (checked). Returns [rows with logits, vocab], in
  /// order, host readable and writable until the next run. `next` is the best guess at the sweep
  /// after this one; it affects prefetch only. If no row wants logits, the output matrix is not
  /// read. Error(kModel) names layer and position if a result is not finite.
  kernels::Rows run(std::span<const SequenceChunk> chunks,
                    std::optional<offload::SweepSections> next, const HiddenHook& hidden = {});

 private:
  struct Batch;
  struct KernelSpan;
  std::unique_ptr<KernelSpan> kernel_span(std::string name) const;
  void embed(const Batch& batch);
  void attention(const BoundLayer& layer, std::size_t index, const Batch& batch);
  void mlp(const BoundLayer& layer, const Batch& batch);
  void head(const Batch& batch, const HiddenHook& hidden);
  void load_vectors(const std::vector<BoundVector>& vectors);
  void linear(const BoundLinear& linear, kernels::ConstRows x, kernels::Rows y,
              std::uint64_t tokens);
  void norm(const BoundNorm& norm, kernels::ConstRows x, kernels::Rows y, std::uint64_t tokens,
            std::uint64_t cols);
  kernels::Rows run_once(const Batch& batch, std::optional<offload::SweepSections> next,
                         const HiddenHook& hidden);
  [[noreturn]] void report_nonfinite(const Batch& batch, std::size_t row);
  const float* constant(const BoundVector& vector) const { return constants_ + vector.offset; }
  void fill_rotary(const Batch& batch);
  /// Queued: the host's floats must stay until the stream has passed.
  void upload(const std::vector<float>& host, std::uint64_t floats, float* device);

  const Model& model_;
  const ModelSpec& spec_;
  const MemoryPlan& plan_;
  kernels::Ops& ops_;
  offload::WeightStream& weights_;
  offload::RowGather& gather_tokens_;
  offload::RowGather* gather_positions_;
  offload::Trace* trace_;
  const LayerCallback on_layer_;
  std::vector<float> rotary_host_;  // what goes to rotary_; outlives the stream that copies it
  std::unique_ptr<kernels::Stream> stream_;
  std::unique_ptr<kernels::Event> rotary_sent_;
  kernels::Buffer workspace_;
  kernels::Rows residual_, normed_;
  float* wide_ = nullptr;
  float* rotary_ = nullptr;
  float* constants_ = nullptr;
  float* alibi_ = nullptr;
  kernels::Rows outputs_normed_, logits_;
};

}  // namespace tidemill::engine
