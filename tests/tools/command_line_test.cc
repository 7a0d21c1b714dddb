// What a user meets: exit codes, one-line errors, help, text and JSON that agree.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/checkpoint_dir.h"
#include "tests/tools/support/command.h"

namespace tidemill::tools::testing {
namespace {

using nlohmann::json;
using tidemill::testing::read_json;
using tidemill::testing::TemporaryDirectory;
using tidemill::testing::write_text;

std::vector<std::string> generate(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "generate", bundled_model(), "-p", "And it came to pass", "-n", "30", "-q"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

bool one_line(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n') == 1 && text.back() == '\n';
}

TEST_CASE("each verb has help") {
  CHECK(tidemill({"--help"}).status == 0);
  for (const char* verb : {"generate", "plan", "inspect", "logits", "synth"}) {
    const Outcome help = tidemill({verb, "--help"});
    CAPTURE(verb);
    CHECK(help.status == 0);
    CHECK(help.out.find("Example") != std::string::npos);
    CHECK(tidemill({"--help"}).out.find(verb) != std::string::npos);
  }
}

TEST_CASE("errors have their exit code and leave standard output empty") {
  const TemporaryDirectory empty;
  struct Row {
    std::vector<std::string> arguments;
    int status;
  };
  const std::vector<Row> rows = {
      {{"fly"}, 2},
      {{"generate"}, 2},
      {{"generate", bundled_model()}, 2},
      {generate({"--no-such-option"}), 2},
      {generate({"--memory", "lots"}), 2},
      {generate({"--top-p", "2"}), 2},
      {generate({"--greedy", "--temperature", "0.7"}), 2},
      {{"generate", bundled_model(), "-p", "\xff\xfe", "-q"}, 2},
      {{"generate", bundled_model(), "--tokens", "99999", "-q"}, 2},
      {{"generate", empty.path().string(), "-p", "x", "-q"}, 3},
      {{"generate", (empty.path() / "absent").string(), "-p", "x", "-q"}, 3},
      {{"inspect", empty.path().string()}, 3},
      {generate({"--memory", "10KiB"}), 5},
  };
  for (const Row& row : rows) {
    std::string shown;
    for (const auto& argument : row.arguments) shown += argument + " ";
    CAPTURE(shown);
    const Outcome outcome = tidemill(row.arguments);
    CHECK(outcome.status == row.status);
    CHECK(outcome.out.empty());
    CHECK_FALSE(outcome.err.empty());
    if (row.status != 2) CHECK(one_line(outcome.err));
  }
}

TEST_CASE("the budget that the error names works") {
  const Outcome refused = tidemill(generate({"--memory", "10KiB"}));
  const auto open = refused.err.find("(", refused.err.find("smallest"));
  REQUIRE(open != std::string::npos);
  const std::string bytes = refused.err.substr(open + 1, refused.err.find(' ', open) - open - 1);
  CAPTURE(refused.err);
  CHECK(tidemill(generate({"--memory", bytes})).status == 0);
  CHECK(tidemill(generate({"--memory", std::to_string(std::stoull(bytes) - 1)})).status == 5);
}

TEST_CASE("speed options change no text, equal calls give equal bytes") {
  const std::vector<std::string> sample = {"--sample", "--seed", "11"};
  for (const bool sampled : {false, true}) {
    std::vector<std::string> base = sampled ? sample : std::vector<std::string>{};
    const std::string expected = tidemill(generate(base)).out;
    CHECK(expected.size() > 20);
    const std::vector<std::vector<std::string>> variants = {
        {},
        {"--memory", "4MiB"},
        {"--memory", "2MiB", "--threads", "1", "--io", "threads"},
        {"--memory", "3MiB", "--threads", "3", "--prefetch", "0", "--chunk", "2"},
        {"--memory", "5MiB", "--piece-size", "64KiB", "--block-size", "16KiB", "--queue-depth",
         "2"},
        {"--memory", "4MiB", "--buffered-io"}};
    for (auto variant : variants) {
      variant.insert(variant.end(), base.begin(), base.end());
      CHECK(tidemill(generate(variant)).out == expected);
    }
  }
  CHECK(tidemill(generate({"--sample", "--seed", "12"})).out != tidemill(generate(sample)).out);
}

TEST_CASE("JSON and text agree; many prompts share sweeps and answer as they do alone") {
  const TemporaryDirectory directory;
  const std::string prompts = directory.path() / "prompts.jsonl";
  const std::string stats = directory.path() / "stats.json";
  write_text(prompts, "{\"prompt\": \"And it came to pass\"}\n\"Blessed are they\"\n");
  const Outcome both = tidemill({"generate", bundled_model(), "--prompt-file", prompts, "-n", "30",
                                 "-q", "--ignore-eos", "--json", "--stats", stats});
  REQUIRE(both.status == 0);
  const json first = json::parse(both.out.substr(0, both.out.find('\n')));
  for (const char* key : {"prompt", "prompt_tokens", "tokens", "text", "finish_reason"}) {
    CHECK(first.contains(key));
  }
  CHECK(tidemill(generate({})).out.starts_with(first["text"].get<std::string>()));
  const json counters = read_json(stats);
  CHECK(counters["run"]["new_tokens"] == 60);
  CHECK(counters["run"]["sweeps"] == 30);

  write_text(prompts, "{\"prompt\": \"good\"}\n{\"prompt\": 5}\n");
  const Outcome bad = tidemill({"generate", bundled_model(), "--prompt-file", prompts, "-q"});
  CHECK(bad.status != 0);
  CHECK(bad.err.find('2') != std::string::npos);  // the line
}

TEST_CASE("a stop string ends the text in front of it") {
  const std::string whole = tidemill(generate({})).out;
  const auto at = whole.find("LORD");
  REQUIRE(at != std::string::npos);
  const std::string stopped = tidemill(generate({"--stop", "LORD"})).out;
  CHECK(stopped.substr(0, at) == whole.substr(0, at));
  CHECK(stopped.find("LORD") == std::string::npos);
}

TEST_CASE("options are seen in the counters, the trace is JSON") {
  const TemporaryDirectory directory;
  const std::string stats = directory.path() / "stats.json";
  const std::string trace = directory.path() / "trace.json";
  CHECK(tidemill(generate({"--memory", "3MiB", "--io", "threads", "--io-threads", "3",
                           "--block-size", "8KiB", "--prefetch", "1", "--threads", "1", "--stats",
                           stats, "--trace", trace}))
            .status == 0);
  const json small = read_json(stats);
  CHECK(small["reader"]["engine"] == "threads");
  CHECK(small["options"]["io_threads"] == 3);
  CHECK(small["options"]["prefetch"] == 1);
  CHECK(small["memory"]["planned_bytes"] <= 3 << 20);
  bool kernels = false;
  const json timeline = read_json(trace);
  for (const json& event : timeline["traceEvents"]) {
    kernels |= event.value("cat", "") == "kernels";
  }
  CHECK(kernels);
  tidemill(generate({"--memory", "3MiB", "--block-size", "1MiB", "--stats", stats}));
  CHECK(read_json(stats)["reader"]["reads"] < small["reader"]["reads"]);
}

TEST_CASE("synth writes what generate runs, the same for the same seed, never over something") {
  const TemporaryDirectory directory;
  const std::string config = fixture("llama3_a") + "/config.json";
  const std::string one = directory.path() / "one";
  const std::string two = directory.path() / "two";
  CHECK(tidemill({"synth", config, one, "--seed", "5", "-q"}).status == 0);
  CHECK(tidemill({"synth", config, two, "--seed", "5", "-q", "--threads", "1"}).status == 0);
  CHECK(tidemill::testing::read_file(one + "/model.safetensors") ==
        tidemill::testing::read_file(two + "/model.safetensors"));
  CHECK(tidemill({"synth", config, one, "-q"}).status != 0);
  const Outcome ran = tidemill({"generate", one, "--tokens", "1 2 3", "-n", "5", "-q"});
  CHECK(ran.status == 0);
  CHECK_FALSE(ran.out.empty());
}

}  // namespace
}  // namespace tidemill::tools::testing
