#include "engine/session.h"

#include <algorithm>

#include "io/base/checked.h"
#include "io/base/error.h"
#include "offload/trace.h"

namespace tidemill::engine {

Session::Session(const Model& model, kernels::Device& device, const Workload& workload,
                 const SessionOptions& options)
    : model_(model), plan_(plan_memory(model, workload, options.budget, device)) {
  const ModelSpec& spec = model.spec;
  device.ops().reserve(plan_.workspace.tokens,
                       std::max({spec.qkv_width, spec.hidden, spec.ffn,
                                 std::uint64_t{spec.attention.heads} * spec.attention.head_dim}),
                       plan_.longest_positions);
  reader_ = io::make_reader(options.io, options.reader);
  cache_ = std::make_unique<KvCache>(device, spec.attention, spec.layers.size(), plan_.cache_bytes);
  offload::WeightStreamOptions streaming;
  streaming.prefetch_pieces = options.prefetch_pieces;
  streaming.trace = options.trace;
  weights_ = std::make_unique<offload::WeightStream>(plan_.placement, *reader_, device, streaming);
  const bool has_positions = model.weights.position_embedding != nullptr;
  const std::uint64_t staging = has_positions ? plan_.staging_bytes / 2 : plan_.staging_bytes;
  offload::RowGatherOptions tokens{.staging_bytes = staging,
                                   .resident = plan_.embedding_resident,
                                   .tape = nullptr,
                                   .tape_use = std::nullopt};
  if (model.weights.head_tied) {
    tokens.tape = weights_.get();
    tokens.tape_use = model.weights.head.use;
  }
  gather_tokens_ = std::make_unique<offload::RowGather>(*model.weights.token_embedding, *reader_,
                                                        device, tokens);
  if (has_positions) {
    gather_positions_ =
        std::make_unique<offload::RowGather>(*model.weights.position_embedding, *reader_, device,
                                             offload::RowGatherOptions{.staging_bytes = staging,
                                                                       .resident = false,
                                                                       .tape = nullptr,
                                                                       .tape_use = std::nullopt});
  }
  sweep_ = std::make_unique<Sweep>(model, plan_, device, *weights_, *gather_tokens_,
                                   gather_positions_.get(), options.trace, options.on_layer);
}

kernels::Rows Session::forward(std::span<const SequenceChunk> chunks,
                               std::optional<offload::SweepSections> next,
                               const HiddenHook& hidden) {
  const auto start = std::chrono::steady_clock::now();
  const kernels::Rows logits = sweep_->run(chunks, next, hidden);
  busy_ += std::chrono::steady_clock::now() - start;
  ++sweeps_;
  for (const SequenceChunk& chunk : chunks) rows_ += chunk.tokens.size();
  return logits;
}

SessionStats Session::stats() const {
  SessionStats stats;
  stats.weights = weights_->stats();
  stats.tokens = gather_tokens_->stats();
  if (gather_positions_) stats.positions = gather_positions_->stats();
  stats.reader = reader_->stats();
  stats.sweeps = sweeps_;
  stats.rows = rows_;
  stats.busy = busy_;
  return stats;
}

Workload make_workload(const Model& model, kernels::Device& device,
                       std::span<const std::uint64_t> lengths, std::uint64_t tokens_per_sweep,
                       bool all_logits) {
  Workload workload;
  workload.sequences = std::max<std::uint64_t>(1, lengths.size());
  workload.tokens_per_sweep = tokens_per_sweep;
  workload.all_logits = all_logits;
  for (const std::uint64_t length : lengths) {
    workload.longest_positions = std::max(workload.longest_positions, length);
    workload.cache_bytes_wanted =
        checked_add(workload.cache_bytes_wanted,
                    KvCache::sequence_bytes(device.ops(), model.spec.attention,
                                            model.spec.layers.size(), length),
                    "key/value cache");
  }
  return workload;
}

}  // namespace tidemill::engine
