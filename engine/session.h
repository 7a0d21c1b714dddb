// A model made ready to run within a memory budget: everything is allocated here, once.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "engine/kv_cache.h"
#include "engine/memory_plan.h"
#include "engine/model.h"
#include "engine/sweep.h"
#include "io/reader.h"
#include "kernels/device.h"
#include "offload/row_gather.h"
#include "offload/weight_stream.h"

namespace tidemill::engine {

struct SessionOptions {
  BudgetOptions budget;
  unsigned threads = 0;  ///< 0: one per core
  io::ReaderEngine io = io::ReaderEngine::kAuto;
  io::ReaderOptions reader;
  std::optional<std::uint32_t> prefetch_pieces;  ///< see offload::WeightStreamOptions
  offload::Trace* trace = nullptr;               ///< not owned, may be null
  LayerCallback on_layer;                        ///< see Sweep; may be empty
};

/// What a session did so far.
struct SessionStats {
  offload::WeightStreamStats weights;
  offload::RowGatherStats tokens, positions;
  io::ReaderStats reader;
  std::uint64_t sweeps = 0;
  std::uint64_t rows = 0;            ///< tokens that went through the model
  std::chrono::nanoseconds busy{0};  ///< inside sweeps
};

/// Used by one thread. Keeps a reference to `model`.
class Session {
 public:
  /// Error(kBudget) if the workload does not fit, Error(kIo)/(kDevice) if reader or device fail.
  Session(const Model& model, kernels::Device& device, const Workload& workload,
          const SessionOptions& options);

  const Model& model() const { return model_; }
  const MemoryPlan& plan() const { return plan_; }
  KvCache& cache() { return *cache_; }
  std::string_view reader_name() const { return reader_->name(); }

  /// See Sweep::run().
  kernels::Rows forward(std::span<const SequenceChunk> chunks,
                        std::optional<offload::SweepSections> next, const HiddenHook& hidden = {});

  SessionStats stats() const;

 private:
  const Model& model_;
  MemoryPlan plan_;
  // Declared before the streams that submit to it, so that it outlives them: they wait for their
  // reads in their destructors.
  std::unique_ptr<io::Reader> reader_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<offload::WeightStream> weights_;
  std::unique_ptr<offload::RowGather> gather_tokens_, gather_positions_;
  std::unique_ptr<Sweep> sweep_;
  std::uint64_t sweeps_ = 0;
  std::uint64_t rows_ = 0;
  std::chrono::nanoseconds busy_{0};
};

/// Workload of `lengths`: prompt plus new tokens of each sequence.
Workload make_workload(const Model& model, kernels::Device& device,
                       std::span<const std::uint64_t> lengths, std::uint64_t tokens_per_sweep,
                       bool all_logits);

}  // namespace tidemill::engine
