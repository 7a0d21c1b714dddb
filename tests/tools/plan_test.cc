// `tidemill plan` predicts what the counters of a run say; `inspect` tells what is in a model.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/checkpoint_dir.h"
#include "tests/tools/support/command.h"

namespace tidemill::tools::testing {
namespace {

using nlohmann::json;
using tidemill::testing::read_json;
using tidemill::testing::TemporaryDirectory;

json plan(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"plan", bundled_model(), "--prompt-tokens", "4",       "-n",
                                        "12",   "--json",        "--bandwidth",     "1000MB/s"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = tidemill(arguments);
  CAPTURE(outcome.err);
  REQUIRE(outcome.status == 0);
  return json::parse(outcome.out);
}

TEST_CASE("the plan's numbers are the run's counters") {
  const TemporaryDirectory directory;
  const std::string stats = directory.path() / "stats.json";
  for (const char* memory : {"1500kB", "3MB", "6MB", "100MB"}) {
    CAPTURE(memory);
    const json planned = plan({"--memory", memory});
    const Outcome ran = tidemill({"generate", bundled_model(), "--tokens", "5 6 7 8", "-n", "12",
                                  "--ignore-eos", "--memory", memory, "--stats", stats, "-q"});
    REQUIRE(ran.status == 0);
    const json run = read_json(stats);
    CHECK(planned["plan"] == run["plan"]);
    CHECK(run["run"]["sweeps"] == 12);
    CHECK(run["weights"]["pieces_discarded"] == 0);
    CHECK(run["run"]["streamed_bytes"] ==
          12 * planned["plan"]["sweep"]["streamed_bytes"].get<std::uint64_t>());
    // Residents are read by the first sweep and found by the others.
    const auto resident = planned["plan"]["sweep"]["resident_bytes"].get<std::uint64_t>();
    CHECK(run["weights"]["bytes_read_resident"] == resident);
    CHECK(run["weights"]["bytes_from_residency"] == 11 * resident);
    CHECK(planned["plan"]["planned_bytes"] <= planned["plan"]["memory_bytes"]);
  }
}

TEST_CASE("the roofline is batch x bandwidth / streamed bytes") {
  const json small = plan({"--memory", "4MB", "--sequences", "3"});
  const auto streamed = small["plan"]["sweep"]["streamed_bytes"].get<double>();
  const auto batch = small["roofline"]["batch"].get<double>();
  CHECK(streamed > 0);
  CHECK(small["limit"] == "drive");
  CHECK(small["roofline"]["tokens_per_second"].get<double>() ==
        doctest::Approx(batch * 1e9 / streamed));
  const json large = plan({"--memory", "1GB"});
  CHECK(large["limit"] == "computation");
  CHECK(large["plan"]["resident_share"] == 1.0);
}

TEST_CASE("the smallest budget of the plan works, and one byte less does not") {
  const auto smallest = plan({"--memory", "4MB"})["smallest_memory_bytes"].get<std::uint64_t>();
  const std::string model = bundled_model();
  const auto run = [&](std::uint64_t memory) {
    return tidemill({"plan", model, "--prompt-tokens", "4", "-n", "12", "--bandwidth", "1GB/s",
                     "--memory", std::to_string(memory)});
  };
  CHECK(run(smallest).status == 0);
  const Outcome refused = run(smallest - 1);
  CHECK(refused.status == 5);
  CHECK(refused.err.find(std::to_string(smallest)) != std::string::npos);
}

TEST_CASE("the speed of the model's own file is measured if nobody says it") {
  const Outcome outcome = tidemill({"plan", bundled_model(), "--memory", "4MB"});
  CHECK(outcome.status == 0);
  CHECK(outcome.out.find("read speed") != std::string::npos);
  CHECK(outcome.out.find("tokens/s") != std::string::npos);
}

TEST_CASE("inspect tells dimensions, bytes and tensors") {
  const Outcome outcome = tidemill({"inspect", bundled_model(), "--json", "--tensors"});
  REQUIRE(outcome.status == 0);
  const json facts = json::parse(outcome.out);
  CHECK(facts["architecture"] == "llama");
  CHECK(facts["layers"] == 4);
  CHECK(facts["layer_bytes"].size() == 4);
  CHECK(facts["head_tied"] == true);
  CHECK(facts["tokenizer"] == true);
  CHECK(facts["tensor_list"].size() == facts["tensors"]);
  std::uint64_t bytes = 0;
  for (const json& tensor : facts["tensor_list"]) bytes += tensor["bytes"].get<std::uint64_t>();
  CHECK(bytes == facts["weight_bytes"]);
  // A model of several files without tokenizer.
  const json sharded = json::parse(tidemill({"inspect", fixture("bloom_c"), "--json"}).out);
  CHECK(sharded["files"].size() == 4);
  CHECK(sharded["tokenizer"] == false);
  CHECK(sharded["positions"] == "ALiBi");
  CHECK(tidemill({"inspect", fixture("bloom_c"), "--tensors"}).out.find('[') != std::string::npos);
}

}  // namespace
}  // namespace tidemill::tools::testing
