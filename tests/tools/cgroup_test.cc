// The budget under the kernel's own limit: a run in a memory cgroup of budget + 64 MiB succeeds.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/support/checkpoint_dir.h"
#include "tests/tools/support/command.h"

namespace tidemill::tools::testing {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// A sanitizer's shadow memory counts against the limit too and is no part of the promise.
#if defined(TIDEMILL_SANITIZED)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

TEST_CASE("a model of 250 MB runs in a cgroup of 32 MiB + 64 MiB") {
  if (kSanitized) {
    MESSAGE("a sanitizer's own memory does not fit into the limit: skipped");
    return;
  }
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
  const std::uint64_t budget = 32 * kMiB;
  const auto in_cgroup = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = {
        std::string(TIDEMILL_SOURCE_DIR) + "/tests/support/in-cgroup",
        std::to_string(budget + 64 * kMiB),
        std::string(TIDEMILL_BINARY_DIR) + "/tidemill",
        "generate",
        model,
        "--ignore-eos",
        "-q",
        "--memory",
        std::to_string(budget),
        "--stats",
        stats};
    command.insert(command.end(), more.begin(), more.end());
    return run(command);
  };

  std::string prompt;
  for (int i = 1; i <= 300; ++i) prompt += std::to_string(i * 31 % 16000) + " ";
  const Outcome outcome = in_cgroup({"--tokens", prompt, "-n", "3"});
  if (outcome.status == 77) {
    MESSAGE("no memory cgroup can be made here: skipped");
    return;
  }
  CAPTURE(outcome.err);
  REQUIRE(outcome.status == 0);
  auto counters = tidemill::testing::read_json(stats);
  CHECK(counters["memory"]["peak_resident_bytes"] < budget + 64 * kMiB);
  CHECK(counters["memory"]["planned_bytes"] <= budget);
  CHECK(counters["model"]["weight_bytes"] > 200'000'000);

  // Many prompts share the sweeps, as far as the budget has room for them.
  const std::string prompts = directory.path() / "prompts.jsonl";
  std::string lines;
  for (int i = 1; i <= 12; ++i) {
    const std::string id = std::to_string(100 * i);
    lines += R"({"tokens": [)" + id + R"(, 7, 8, 9, 10, 11, 12, )" + id + "]}\n";
  }
  tidemill::testing::write_text(prompts, lines);
  const Outcome batch = in_cgroup({"--prompt-file", prompts, "-n", "3", "--json"});
  CAPTURE(batch.err);
  REQUIRE(batch.status == 0);
  CHECK(std::count(batch.out.begin(), batch.out.end(), '\n') == 12);
  counters = tidemill::testing::read_json(stats);
  CHECK(counters["memory"]["peak_resident_bytes"] < budget + 64 * kMiB);
  CHECK(counters["run"]["new_tokens"] == 36);
  CHECK(counters["run"]["sweeps"] < 18);  // alone each prompt takes three

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
