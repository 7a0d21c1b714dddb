// A memory plan as people and machines read it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/memory_plan.h"
#include "engine/model.h"

namespace tidemill::tools {

/// Weights that a model holds in its files, and what one sweep makes of them.
struct WeightTotals {
  std::uint64_t tensors = 0;
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;
};
WeightTotals count_weights(const engine::Model& model);

/// Bytes that a sweep with logits reads from the drive.
std::uint64_t streamed_per_sweep(const engine::MemoryPlan& plan);
/// Bytes that it finds in memory.
std::uint64_t resident_per_sweep(const engine::MemoryPlan& plan);
/// resident / (resident + streamed)
double resident_share(const engine::MemoryPlan& plan);

nlohmann::ordered_json plan_json(const engine::MemoryPlan& plan);

/// The division of the budget, a table of several lines.
std::string plan_table(const engine::MemoryPlan& plan);

}  // namespace tidemill::tools
