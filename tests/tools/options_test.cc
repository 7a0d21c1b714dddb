// Every option does something that can be seen, and those that contradict one another are refused.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/checkpoint_dir.h"
#include "tests/tools/support/command.h"

namespace tidemill::tools::testing {
namespace {

using nlohmann::json;
using tidemill::testing::read_json;
using tidemill::testing::TemporaryDirectory;

/// Counters of a run that streams, with more options.
json counters(const std::vector<std::string>& more) {
  const TemporaryDirectory directory;
  const std::string stats = directory.path() / "stats.json";
  std::vector<std::string> arguments = {
      "generate", bundled_model(), "--tokens", "5 6 7 8 9 10 11 12", "-n", "6", "--ignore-eos",
      "-q",       "--stats",       stats};
  if (std::find(more.begin(), more.end(), "--memory") == more.end()) {
    arguments.insert(arguments.end(), {"--memory", "4MB"});
  }
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = tidemill(arguments);
  CAPTURE(outcome.err);
  REQUIRE(outcome.status == 0);
  return read_json(stats);
}

std::uint64_t number(const json& value) { return value.get<std::uint64_t>(); }

TEST_CASE("help shows each group of options, and no line is wider than a terminal") {
  const std::vector<std::string> running = {"Memory and speed", "Reading"};
  const std::vector<std::pair<std::string, std::vector<std::string>>> verbs = {
      {"generate", {"Prompt", "Output", "Length", "Sampling", "Repetition", "Reports"}},
      {"logits", {"Prompt", "Output", "Reports"}},
      {"plan", {"Request"}},
  };
  for (const auto& [verb, groups] : verbs) {
    const std::string help = tidemill({verb, "--help"}).out;
    CAPTURE(help);
    CHECK(help.find("Usage: tidemill " + verb) != std::string::npos);
    for (const auto& group : groups) CHECK(help.find("\n" + group) != std::string::npos);
    for (const auto& group : running) CHECK(help.find("\n" + group) != std::string::npos);
    for (std::size_t at = 0; at < help.size();) {
      const std::size_t end = help.find('\n', at);
      CHECK(end - at <= 100);
      at = end + 1;
    }
  }
  CHECK(tidemill({"--version"}).out.starts_with("tidemill "));
  const Outcome nothing = tidemill({});
  CHECK(nothing.status == 2);
  CHECK(nothing.err.find("Subcommands:") != std::string::npos);
}

TEST_CASE("options that contradict one another are refused, by name") {
  struct Row {
    std::vector<std::string> arguments;
    std::string told;
  };
  const std::vector<Row> rows = {
      {{"-p", "x", "--tokens", "1"}, "source of prompts"},
      {{"-p", "x", "--prompt-file", "x.jsonl"}, "source of prompts"},
      {{"--tokens", "1", "--raw"}, "--raw"},
      {{"-p", "x", "--greedy", "--seed", "3"}, "--seed"},
      {{"-p", "x", "--greedy", "--top-k", "3"}, "--top-k"},
      {{"-p", "x", "--max-length", "9", "-n", "3"}, "--max-length"},
      {{"-p", "x", "-n", "3", "--min-new-tokens", "4"}, "at least 4"},
      {{"-p", "x", "--json", "--echo"}, "--echo"},
      {{"-p", "x", "--io", "threads", "--queue-depth", "3"}, "--io-threads"},
      {{"-p", "x", "--io", "uring", "--io-threads", "3"}, "--queue-depth"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.told);
    std::vector<std::string> arguments = {"generate", bundled_model()};
    arguments.insert(arguments.end(), row.arguments.begin(), row.arguments.end());
    const Outcome outcome = tidemill(arguments);
    CHECK(outcome.status == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find(row.told) != std::string::npos);
  }
}

TEST_CASE("a report that could not be written is refused before the run") {
  for (const char* option : {"--stats", "--trace"}) {
    const Outcome outcome =
        tidemill({"generate", bundled_model(), "-p", "And", "-q", option, "/no/such/folder/x"});
    CHECK(outcome.status == 4);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find("/no/such/folder/x") != std::string::npos);
  }
}

TEST_CASE("--io names the engine that read, --buffered-io the way") {
  CHECK(counters({"--io", "threads"})["reader"]["engine"] == "threads");
  const json buffered = counters({"--buffered-io"});
  CHECK(buffered["options"]["direct_io"] == false);
  CHECK(buffered["reader"]["buffered_reads"] == buffered["reader"]["reads"]);
}

TEST_CASE("--block-size, --queue-depth and --io-threads reach the reader") {
  const json small = counters({"--block-size", "16KiB"});
  const json large = counters({"--block-size", "1MiB"});
  CHECK(number(small["reader"]["reads"]) > 4 * number(large["reader"]["reads"]));
  CHECK(small["run"]["streamed_bytes"] == large["run"]["streamed_bytes"]);
  CHECK(counters({"--queue-depth", "3"})["options"]["queue_depth"] == 3);
  CHECK(counters({"--io", "threads", "--io-threads", "2"})["options"]["io_threads"] == 2);
}

TEST_CASE("--prefetch 0 waits for each piece that is streamed") {
  const json none = counters({"--prefetch", "0"});
  const auto streamed = number(none["plan"]["pieces"]) - number(none["plan"]["resident_pieces"]);
  CHECK(none["options"]["prefetch"] == 0);
  CHECK(number(none["weights"]["waits"]) >= streamed * number(none["run"]["sweeps"]));
  CHECK(counters({})["options"]["prefetch"].is_null());
}

TEST_CASE("--memory, --piece-size and --ring-size divide the budget") {
  const json standard = counters({});
  const json more = counters({"--memory", "5MB"});
  CHECK(number(more["run"]["streamed_bytes"]) < number(standard["run"]["streamed_bytes"]));
  const json pieces = counters({"--piece-size", "32KiB"});
  CHECK(number(pieces["plan"]["largest_piece_bytes"]) <= 40 * 1024);
  CHECK(number(pieces["plan"]["pieces"]) > number(standard["plan"]["pieces"]));
  const json ring = counters({"--ring-size", "300KiB"});
  CHECK(number(ring["plan"]["ring_bytes"]) <= 300 << 10);
  CHECK(number(ring["plan"]["ring_bytes"]) < number(standard["plan"]["ring_bytes"]));
  for (const json& run : {standard, more, pieces, ring}) {
    CHECK(number(run["memory"]["planned_bytes"]) <= number(run["memory"]["budget_bytes"]));
  }
  CHECK(standard["options"]["memory_source"] == "--memory");
}

TEST_CASE("--chunk divides the prompt into sweeps, --threads is the device's") {
  CHECK(counters({"--chunk", "8"})["run"]["sweeps"] == 6);
  CHECK(counters({"--chunk", "2"})["run"]["sweeps"] == 9);
  const json one = counters({"--threads", "1"});
  CHECK(one["options"]["threads"] == 1);
  CHECK(one["device"] != counters({"--threads", "2"})["device"]);
}

TEST_CASE("the trace is a timeline of reads, waits and kernels") {
  const TemporaryDirectory directory;
  const std::string trace = directory.path() / "trace.json";
  counters({"--trace", trace});
  const json timeline = read_json(trace);
  std::set<std::string> categories;
  for (const json& event : timeline["traceEvents"]) {
    if (event["ph"] != "X") continue;
    categories.insert(event["cat"].get<std::string>());
    CHECK(event["dur"].get<double>() >= 0);
  }
  for (const char* category : {"read", "wait", "kernels"}) {
    CAPTURE(category);
    CHECK(categories.contains(category));
  }
}

TEST_CASE("links are followed, devices written to, pipes not replaced by files") {
  const TemporaryDirectory directory;
  const auto generate_to = [](const std::filesystem::path& stats) {
    return tidemill({"generate", bundled_model(), "-p", "And", "-n", "2", "-q", "--stats", stats})
        .status;
  };
  const auto logits_to = [](const std::filesystem::path& output) {
    return tidemill({"logits", bundled_model(), "-p", "And", "-q", "-o", output});
  };
  const auto file = directory.path() / "file";
  const auto link = directory.path() / "link";
  std::filesystem::create_symlink(file, link);
  CHECK(generate_to(link) == 0);
  CHECK(read_json(file)["run"]["new_tokens"] == 2);
  CHECK(logits_to(link).status == 0);
  CHECK(std::filesystem::file_size(file) > 2 * 2048 * sizeof(float));
  CHECK(std::filesystem::is_symlink(link));

  const auto device = directory.path() / "device";
  std::filesystem::create_symlink("/dev/null", device);
  CHECK(generate_to(device) == 0);
  CHECK(std::filesystem::is_symlink(device));

  const auto pipe = directory.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const Outcome refused = logits_to(pipe);
  CHECK(refused.status == 4);
  CHECK(refused.err.find("no regular file") != std::string::npos);
  CHECK(std::filesystem::is_fifo(pipe));
}

TEST_CASE("a damaged checkpoint is an error that names file and tensor") {
  const TemporaryDirectory directory;
  const std::filesystem::path model = directory.path() / "model";
  std::filesystem::copy(fixture("gpt2_a"), model);
  const auto file = model / "model.safetensors";
  REQUIRE(std::filesystem::exists(file));
  const auto whole = std::filesystem::file_size(file);
  std::filesystem::resize_file(file, whole - 1);
  const Outcome cut = tidemill({"generate", model, "--tokens", "1 2", "-q"});
  CHECK(cut.status == 3);
  CHECK(cut.out.empty());
  CHECK(cut.err.find("model.safetensors") != std::string::npos);
  CHECK(std::count(cut.err.begin(), cut.err.end(), '\n') == 1);

  auto tensors = tidemill::testing::read_safetensors(fixture("gpt2_a") + "/model.safetensors");
  const std::string name = tensors.begin()->first;
  tensors.erase(name);
  tidemill::testing::write_safetensors(file, tensors);
  const Outcome missing = tidemill({"generate", model, "--tokens", "1 2", "-q"});
  CHECK(missing.status == 3);
  CHECK(missing.err.find(name) != std::string::npos);
}

}  // namespace
}  // namespace tidemill::tools::testing
