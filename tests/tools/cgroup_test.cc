// The budget under the kernel's own limit: a run in a memory cgroup of budget + 64 MiB succeeds.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/support/checkpoint_dir.h"
#include "tests/tools/support/command.h"

namespace tidemill::tools::testing {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

TEST_CASE("a model of 250 MB runs in a cgroup of 32 MiB + 64 MiB") {
  const tidemill::testing::TemporaryDirectory directory;
  const std::string config = directory.path() / "config.json";
  const std::string model = directory.path() / "model";
  const std::string stats = directory.path() / "stats.json";
  tidemill::testing::write_text(config,
                                R"({"model_type": "llama", "vocab_size": 16000, "hidden_size": 1024,
          "intermediate_size": 2816, "num_hidden_layers": 8, "num_attention_heads": 16,
          "num_key_value_heads": 4, "rms_norm_eps": 1e-5, "max_position_embeddings": 2048,
          "tie_word_embeddings": true})");
  REQUIRE(tidemill({"synth", config, model, "--dtype", "fp16", "-q"}).status == 0);
  std::string prompt;
  for (int i = 1; i <= 300; ++i) prompt += std::to_string(i * 31 % 16000) + " ";
  const std::uint64_t budget = 32 * kMiB;
  const Outcome outcome =
      run({std::string(TIDEMILL_SOURCE_DIR) + "/tests/support/in-cgroup",
           std::to_string(budget + 64 * kMiB), std::string(TIDEMILL_BINARY_DIR) + "/tidemill",
           "generate", model, "--tokens", prompt, "-n", "3", "--ignore-eos", "-q", "--memory",
           std::to_string(budget), "--stats", stats});
  if (outcome.status == 77) {
    MESSAGE("no memory cgroup can be made here: skipped");
    return;
  }
  CAPTURE(outcome.err);
  REQUIRE(outcome.status == 0);
  const auto counters = tidemill::testing::read_json(stats);
  CHECK(counters["memory"]["peak_resident_bytes"] < budget + 64 * kMiB);
  CHECK(counters["memory"]["planned_bytes"] <= budget);
  CHECK(counters["model"]["weight_bytes"] > 200'000'000);

  // Four fifths of the weights fit: a sweep reads a quarter of them at most.
  const auto weights = counters["model"]["weight_bytes"].get<std::uint64_t>();
  REQUIRE(tidemill({"generate", model, "--tokens", "1 2 3", "-n", "4", "--ignore-eos", "-q",
                    "--memory", std::to_string(weights * 4 / 5), "--stats", stats})
              .status == 0);
  const auto streamed =
      tidemill::testing::read_json(stats)["run"]["streamed_bytes_per_sweep"].get<double>();
  CHECK(streamed > 0);
  CHECK(streamed <= 0.25 * static_cast<double>(weights));
}

}  // namespace
}  // namespace tidemill::tools::testing
