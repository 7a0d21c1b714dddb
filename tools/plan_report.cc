#include "tools/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/base/units.h"

namespace tidemill::tools {
namespace {

std::uint64_t elements(const io::TensorInfo& tensor) {
  return tensor.bytes.length / size_of(tensor.dtype);
}

std::string row(const char* name, std::uint64_t bytes, const std::string& remark) {
  return fmt::format("  {:<22} {:>12}  {}\n", name, format_bytes(bytes), remark);
}

}  // namespace

WeightTotals count_weights(const engine::Model& model) {
  WeightTotals totals;
  for (const io::TensorInfo& tensor : model.checkpoint.tensors()) {
    ++totals.tensors;
    totals.parameters += elements(tensor);
    totals.bytes += tensor.bytes.length;
  }
  return totals;
}

std::uint64_t streamed_per_sweep(const engine::MemoryPlan& plan) {
  return plan.placement.body.streamed + plan.placement.head.streamed;
}

std::uint64_t resident_per_sweep(const engine::MemoryPlan& plan) {
  return plan.placement.body.resident + plan.placement.head.resident;
}

double resident_share(const engine::MemoryPlan& plan) {
  const auto resident = static_cast<double>(resident_per_sweep(plan));
  const auto streamed = static_cast<double>(streamed_per_sweep(plan));
  return resident + streamed > 0 ? resident / (resident + streamed) : 1.0;
}

nlohmann::ordered_json plan_json(const engine::MemoryPlan& plan) {
  const offload::Placement& placement = plan.placement;
  const auto residents = std::count(placement.resident.begin(), placement.resident.end(), true);
  return {
      {"memory_bytes", plan.memory_bytes},
      {"planned_bytes", plan.total_bytes()},
      {"workspace_bytes", plan.workspace_bytes},
      {"scratch_bytes", plan.scratch_bytes},
      {"cache_bytes", plan.cache_bytes},
      {"staging_bytes", plan.staging_bytes},
      {"embedding_bytes", plan.embedding_bytes},
      {"ring_bytes", placement.ring_bytes},
      {"resident_bytes", placement.resident_bytes},
      {"embedding_resident", plan.embedding_resident},
      {"tokens_per_sweep", plan.workspace.tokens},
      {"logits_rows", plan.workspace.outputs},
      {"longest_positions", plan.longest_positions},
      {"pieces", placement.tape.pieces().size()},
      {"resident_pieces", residents},
      {"largest_piece_bytes", placement.tape.largest_piece_bytes()},
      {"resident_share", resident_share(plan)},
      {"sweep",
       {{"streamed_bytes", streamed_per_sweep(plan)},
        {"resident_bytes", resident_per_sweep(plan)},
        {"body_streamed_bytes", placement.body.streamed},
        {"body_resident_bytes", placement.body.resident},
        {"head_streamed_bytes", placement.head.streamed},
        {"head_resident_bytes", placement.head.resident}}},
  };
}

std::string plan_table(const engine::MemoryPlan& plan) {
  const offload::Placement& placement = plan.placement;
  const auto residents = std::count(placement.resident.begin(), placement.resident.end(), true);
  std::string table;
  table += row("resident weights", placement.resident_bytes,
               fmt::format("{} of {} pieces", residents, placement.tape.pieces().size()));
  table += row(
      "ring", placement.ring_bytes,
      placement.ring_bytes == 0
          ? "nothing is streamed"
          : fmt::format("pieces of up to {}", format_bytes(placement.tape.largest_piece_bytes())));
  if (plan.embedding_resident) table += row("resident embedding", plan.embedding_bytes, "");
  table += row("key/value cache", plan.cache_bytes,
               fmt::format("sequences of up to {} tokens", plan.longest_positions));
  table += row("activations", plan.workspace_bytes + plan.scratch_bytes,
               fmt::format("up to {} tokens per sweep, {} with logits", plan.workspace.tokens,
                           plan.workspace.outputs));
  table += row("embedding rows", plan.staging_bytes, "on their way");
  table += row("in all", plan.total_bytes(), fmt::format("of {}", format_bytes(plan.memory_bytes)));
  return table;
}

}  // namespace tidemill::tools
