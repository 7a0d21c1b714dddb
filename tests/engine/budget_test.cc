// A budget is a promise: the smallest one works, one byte less is an error that names it, and
// unused budget becomes residency.
#include <doctest/doctest.h>

#include <string>

#include "io/base/error.h"
#include "tests/engine/support/run.h"

namespace tidemill::engine::testing {
namespace {

const std::vector<std::string> kModels = {"gpt2_b", "bloom_c", "llama3_a", "qwen2_a"};

TEST_CASE("the smallest budget works and one byte less says so") {
  for (const std::string& name : kModels) {
    CAPTURE(name);
    const Model model = Model::open(fixture(name));
    const auto device = kernels::make_cpu_device({.threads = 1});
    const std::vector<std::uint64_t> lengths = {20, 30};
    const auto workload = make_workload(model, *device, lengths, 64, false);
    const std::uint64_t smallest = smallest_memory(model, workload, *device);
    BudgetOptions options;
    options.memory_bytes = smallest;
    CHECK(plan_memory(model, workload, options, *device).total_bytes() <= smallest);
    options.memory_bytes = smallest - 1;
    try {
      plan_memory(model, workload, options, *device);
      FAIL_CHECK("no error");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kBudget);
      CHECK(std::string(error.what()).find(std::to_string(smallest)) != std::string::npos);
    }
  }
}

TEST_CASE("every budget between is kept, and more memory never streams more") {
  for (const std::string& name : kModels) {
    CAPTURE(name);
    const Model model = Model::open(fixture(name));
    const auto device = kernels::make_cpu_device({.threads = 1});
    const std::vector<std::uint64_t> lengths = {20, 30};
    const auto workload = make_workload(model, *device, lengths, 16, false);
    const std::uint64_t smallest = smallest_memory(model, workload, *device);
    std::uint64_t all_resident_at = 0;
    for (std::uint64_t memory = smallest; memory < smallest + (1 << 20); memory += 10'007) {
      BudgetOptions options;
      options.memory_bytes = memory;
      const MemoryPlan plan = plan_memory(model, workload, options, *device);
      CHECK(plan.total_bytes() <= memory);
      if (plan.placement.body.streamed + plan.placement.head.streamed == 0) {
        all_resident_at = memory;
        break;
      }
    }
    CHECK(all_resident_at > 0);
  }
}

TEST_CASE("planned bytes per sweep equal the counters of the run") {
  for (const std::string& name : kModels) {
    const Model model = Model::open(fixture(name));
    for (const std::uint64_t extra : {0U, 30'000U, 100'000U, 1'000'000U}) {
      CAPTURE(name);
      CAPTURE(extra);
      Setup setup;
      const std::vector<std::uint64_t> lengths = {17};
      {
        const auto device = kernels::make_cpu_device({.threads = 1});
        setup.memory_bytes =
            smallest_memory(model, make_workload(model, *device, lengths, 512, false), *device) +
            extra;
      }
      with_session(model, lengths, false, setup, [&](Session& session) {
        const std::vector<GenerationRequest> requests = {greedy({1, 2, 3, 4, 5}, 12)};
        generate(session, requests, {});
        const auto stats = session.stats();
        const auto& placement = session.plan().placement;
        // Prompt chunks that are not the last one leave the head out.
        const std::uint64_t heads = 12;
        const std::uint64_t expected = placement.body.streamed * stats.sweeps +
                                       placement.head.streamed * heads + placement.body.resident +
                                       placement.head.resident;
        CHECK(stats.weights.bytes_read == expected);
        CHECK(stats.weights.pieces_discarded == 0);
      });
    }
  }
}

}  // namespace
}  // namespace tidemill::engine::testing
