// How the memory budget is divided: activations, key/value cache, embedding rows, and weights.
#pragma once

#include <cstdint>

#include "engine/model.h"
#include "kernels/device.h"
#include "offload/placement.h"

namespace tidemill::engine {

/// What a session is going to be asked.
struct Workload {
  std::uint64_t sequences = 1;           ///< in all
  std::uint64_t longest_positions = 1;   ///< prompt and new tokens of the longest sequence
  std::uint64_t cache_bytes_wanted = 0;  ///< key/value cache with all sequences in flight at once
  std::uint64_t tokens_per_sweep = 1;    ///< wanted: prompt tokens that one sweep takes together
  bool all_logits = false;               ///< logits of every position, not only the last
};

struct BudgetOptions {
  std::uint64_t memory_bytes = 0;  ///< the promise
  std::uint64_t piece_bytes = 0;   ///< 0: automatic
  std::uint64_t ring_bytes = 0;    ///< 0: automatic
};

/// Floats of each activation buffer for sweeps of up to `tokens` rows, `outputs` of which get
/// logits. One allocation of device memory, in this order, and the host's copy of the rotary rows.
struct WorkspaceLayout {
  std::uint64_t tokens = 0, outputs = 0;
  std::uint64_t residual = 0;        ///< [tokens, hidden]
  std::uint64_t normed = 0;          ///< [tokens, hidden]
  std::uint64_t wide = 0;            ///< [tokens, qkv + heads * head_dim] or [tokens, 1 or 2 x ffn]
  std::uint64_t rotary = 0;          ///< [tokens, rotary dims]
  std::uint64_t constants = 0;       ///< norm weights and biases of one layer
  std::uint64_t alibi = 0;           ///< [heads]
  std::uint64_t outputs_normed = 0;  ///< [outputs, hidden]
  std::uint64_t logits = 0;          ///< [outputs, vocab]
  std::uint64_t rotary_host = 0;     ///< as rotary: filled by the host, then copied there
  std::uint64_t on_device() const {
    return residual + normed + wide + rotary + constants + alibi + outputs_normed + logits;
  }
  std::uint64_t total() const { return on_device() + rotary_host; }
};
WorkspaceLayout workspace_layout(const Model& model, std::uint64_t tokens, std::uint64_t outputs);

struct MemoryPlan {
  std::uint64_t memory_bytes = 0;
  WorkspaceLayout workspace;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t scratch_bytes = 0;  ///< of the device's operations
  std::uint64_t cache_bytes = 0;    ///< key/value cache
  std::uint64_t staging_bytes = 0;  ///< embedding rows on their way in, token and position each
  bool embedding_resident = false;
  std::uint64_t embedding_bytes = 0;  ///< if resident
  std::uint64_t longest_positions = 0;
  offload::Placement placement;

  /// Everything except weights.
  std::uint64_t fixed_bytes() const;
  /// Everything; at most memory_bytes.
  std::uint64_t total_bytes() const;
};

/// Unused budget becomes residency. When the budget is short, fewer tokens share a sweep and fewer
/// sequences are in flight; results do not change. Error(kBudget) names the smallest budget.
MemoryPlan plan_memory(const Model& model, const Workload& workload, const BudgetOptions& options,
                       kernels::Device& device);

/// The smallest memory_bytes with which plan_memory() succeeds for this workload.
std::uint64_t smallest_memory(const Model& model, const Workload& workload,
                              kernels::Device& device);

}  // namespace tidemill::engine
