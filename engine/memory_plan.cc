#include "engine/memory_plan.h"

#include <algorithm>
#include <cmath>

#include "engine/kv_cache.h"
#include "io/base/checked.h"
#include "io/base/error.h"
#include "io/base/units.h"
#include "offload/row_gather.h"

namespace tidemill::engine {
namespace {

// Rows of an embedding that are fetched together, beyond which nothing is gained.
constexpr std::uint64_t kComfortableStaging = 4 * kMiB;

std::uint64_t padded_floats(std::uint64_t rows, std::uint64_t cols) {
  return align_up(checked_mul(rows, cols, "activations"), 16);
}

std::uint64_t widest_row(const ModelSpec& spec) {
  std::uint64_t widest = std::max({spec.qkv_width, spec.hidden, spec.ffn});
  return std::max(widest, std::uint64_t{spec.attention.heads} * spec.attention.head_dim);
}

// What a sweep costs for a byte of weights that it need not read, as a share of one that it must:
// memory is some twenty times as fast as a drive.
constexpr double kResidentCost = 0.05;

// Ways to divide a budget that are compared.
constexpr std::uint64_t kDivisions = 32;

// The memory that does not hold weights, for one choice of its dimensions.
struct Fixed {
  std::uint64_t tokens = 1;
  std::uint64_t outputs = 1;
  std::uint64_t cache = 0;
  std::uint64_t staging = 0;
};

class Planner {
 public:
  Planner(const Model& model, const Workload& workload, kernels::Device& device)
      : model_(model), workload_(workload), ops_(device.ops()) {}

  std::uint64_t smallest_staging() const {
    std::uint64_t bytes = offload::RowGather::smallest_staging(*model_.weights.token_embedding);
    if (model_.weights.position_embedding != nullptr) {
      bytes =
          std::max(bytes, offload::RowGather::smallest_staging(*model_.weights.position_embedding));
    }
    return bytes;
  }

  std::uint64_t staging_total(std::uint64_t staging) const {
    return model_.weights.position_embedding == nullptr ? staging : 2 * staging;
  }

  std::uint64_t workspace(const Fixed& fixed) const {
    return workspace_layout(model_, fixed.tokens, fixed.outputs).total() * sizeof(float);
  }

  std::uint64_t scratch(std::uint64_t tokens) const {
    return ops_.scratch_bytes(tokens, widest_row(model_.spec), workload_.longest_positions);
  }

  std::uint64_t total(const Fixed& fixed) const {
    std::uint64_t sum = checked_add(workspace(fixed), fixed.cache, "memory plan");
    sum = checked_add(sum, scratch(fixed.tokens), "memory plan");
    return checked_add(sum, staging_total(fixed.staging), "memory plan");
  }

  std::uint64_t longest_cache() const {
    return KvCache::sequence_bytes(ops_, model_.spec.attention, model_.spec.layers.size(),
                                   workload_.longest_positions);
  }

  Fixed smallest() const {
    return {.tokens = 1, .outputs = 1, .cache = longest_cache(), .staging = smallest_staging()};
  }

  std::uint64_t outputs_for(std::uint64_t tokens) const {
    return workload_.all_logits ? tokens : std::min(tokens, workload_.sequences);
  }

  // Everything that the workload asks for, halved until it takes at most `limit` bytes.
  Fixed largest_within(std::uint64_t limit) const {
    Fixed fixed = smallest();
    std::uint64_t tokens = std::max<std::uint64_t>(1, workload_.tokens_per_sweep);
    for (;; tokens = (tokens + 1) / 2) {
      Fixed candidate = fixed;
      candidate.tokens = tokens;
      candidate.outputs = outputs_for(tokens);
      // Activations get at most half of what there is, so that long prompt chunks leave room for
      // more sequences.
      const std::uint64_t base = total(fixed);
      const std::uint64_t room = limit > base ? (limit - base) / 2 : 0;
      if (total(candidate) - base <= room || tokens == 1) {
        if (total(candidate) <= limit) fixed = candidate;
        break;
      }
    }
    const std::uint64_t spare = limit > total(fixed) ? limit - total(fixed) : 0;
    const std::uint64_t rows_wanted =
        std::min(kComfortableStaging, fixed.tokens * fixed.staging) - fixed.staging;
    const std::uint64_t staging = std::min(rows_wanted, spare / 8);
    fixed.staging = align_down(fixed.staging + staging, 4096) > fixed.staging
                        ? align_down(fixed.staging + staging, 4096)
                        : fixed.staging;
    const std::uint64_t left = limit > total(fixed) ? limit - total(fixed) : 0;
    const std::uint64_t wanted = std::max(workload_.cache_bytes_wanted, fixed.cache);
    fixed.cache = align_down(fixed.cache + std::min(wanted - fixed.cache, left), sizeof(float));
    return fixed;
  }

  // How the memory is used best. What weights do not get lets more sequences and longer prompt
  // chunks share a sweep; what they get need not be read again. The cost of the request is the
  // number of sweeps times what one costs.
  Fixed best_within(std::uint64_t budget, std::uint64_t weights_need,
                    std::uint64_t all_weights) const {
    const std::uint64_t least = total(smallest());
    const std::uint64_t most = budget - weights_need;
    Fixed best = smallest();
    double best_cost = cost(best, budget, all_weights);
    for (std::uint64_t i = 1; i <= kDivisions; ++i) {
      const Fixed fixed = largest_within(least + (most - least) / kDivisions * i);
      if (total(fixed) > most) continue;
      const double c = cost(fixed, budget, all_weights);
      if (c < best_cost) {
        best = fixed;
        best_cost = c;
      }
    }
    return best;
  }

 private:
  double cost(const Fixed& fixed, std::uint64_t budget, std::uint64_t all_weights) const {
    const auto sequences = static_cast<double>(workload_.sequences);
    const double share =
        static_cast<double>(fixed.cache) / static_cast<double>(std::max<std::uint64_t>(
                                               {workload_.cache_bytes_wanted, longest_cache(), 1}));
    const double at_once =
        std::clamp(std::floor(sequences * share), 1.0, static_cast<double>(fixed.outputs));
    const double decode_sweeps = std::ceil(sequences / at_once);
    const double prompt_sweeps = std::ceil(static_cast<double>(workload_.tokens_per_sweep) /
                                           static_cast<double>(fixed.tokens));
    const auto weights = static_cast<double>(all_weights);
    const double streamed = std::max(0.0, weights - static_cast<double>(budget - total(fixed)));
    return (decode_sweeps + prompt_sweeps) * (streamed + kResidentCost * weights);
  }

  const Model& model_;
  const Workload& workload_;
  const kernels::Ops& ops_;
};

}  // namespace

WorkspaceLayout workspace_layout(const Model& model, std::uint64_t tokens, std::uint64_t outputs) {
  const ModelSpec& spec = model.spec;
  const std::uint64_t attention =
      spec.qkv_width + std::uint64_t{spec.attention.heads} * spec.attention.head_dim;
  const bool gated = !spec.layers.empty() && spec.layers.front().gate.has_value();
  const std::uint64_t wide = std::max(attention, gated ? 2 * spec.ffn : spec.ffn);
  const std::uint64_t rotary = spec.rotary ? padded_floats(tokens, spec.rotary->dims) : 0;
  return {.tokens = tokens,
          .outputs = outputs,
          .residual = padded_floats(tokens, spec.hidden),
          .normed = padded_floats(tokens, spec.hidden),
          .wide = padded_floats(tokens, wide),
          .rotary = rotary,
          .constants = padded_floats(1, model.weights.constants_floats),
          .alibi = padded_floats(1, spec.alibi_slopes.size()),
          .outputs_normed = padded_floats(outputs, spec.hidden),
          .logits = padded_floats(outputs, spec.vocab),
          .rotary_host = rotary};
}

std::uint64_t MemoryPlan::fixed_bytes() const {
  return workspace_bytes + scratch_bytes + cache_bytes + staging_bytes;
}

std::uint64_t MemoryPlan::total_bytes() const {
  return fixed_bytes() + embedding_bytes + placement.ring_bytes + placement.resident_bytes;
}

std::uint64_t smallest_memory(const Model& model, const Workload& workload,
                              kernels::Device& device) {
  const Planner planner(model, workload, device);
  return checked_add(planner.total(planner.smallest()),
                     offload::smallest_weight_budget(model.weights.order), "memory plan");
}

MemoryPlan plan_memory(const Model& model, const Workload& workload, const BudgetOptions& options,
                       kernels::Device& device) {
  const Planner planner(model, workload, device);
  const std::uint64_t budget = options.memory_bytes;
  const std::uint64_t smallest = smallest_memory(model, workload, device);
  if (budget < smallest) {
    throw_error(ErrorKind::kBudget,
                "--memory {} is too small for {}: the smallest budget for this request is {} "
                "({} bytes); shorter prompts and fewer new tokens need less",
                format_bytes(budget), model.path, format_bytes(align_up(smallest, kKiB)), smallest);
  }
  const std::uint64_t weights_need = offload::smallest_weight_budget(model.weights.order);
  std::uint64_t all_weights = 0;
  for (const offload::Use& use : model.weights.order.uses()) {
    all_weights += align_up(use.tensor->bytes.length, 4096) + 4096;
  }
  const Fixed fixed = planner.best_within(budget, weights_need, all_weights);

  MemoryPlan plan;
  plan.memory_bytes = budget;
  plan.workspace = workspace_layout(model, fixed.tokens, fixed.outputs);
  plan.workspace_bytes = planner.workspace(fixed);
  plan.scratch_bytes = planner.scratch(fixed.tokens);
  plan.cache_bytes = fixed.cache;
  plan.staging_bytes = planner.staging_total(fixed.staging);
  plan.longest_positions = workload.longest_positions;
  const std::uint64_t for_weights = budget - plan.fixed_bytes();
  plan.placement = offload::place(model.weights.order, {.budget_bytes = for_weights,
                                                        .max_piece_bytes = options.piece_bytes,
                                                        .max_ring_bytes = options.ring_bytes});
  // With every piece resident, what is left may hold the embedding too (a tied one already is).
  if (plan.placement.ring_bytes == 0 && !model.weights.head_tied) {
    const std::uint64_t bytes = offload::RowGather::resident_bytes(*model.weights.token_embedding);
    if (bytes <= for_weights - plan.placement.resident_bytes) {
      plan.embedding_resident = true;
      plan.embedding_bytes = bytes;
    }
  }
  return plan;
}

}  // namespace tidemill::engine
