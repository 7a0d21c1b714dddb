// Standard output that is closed, full or no longer read; Ctrl-C.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/checkpoint_dir.h"
#include "tests/tools/support/command.h"

namespace tidemill::tools::testing {
namespace {

// A script that knows MODEL and TIDEMILL.
Outcome shell(const std::string& script) {
  return run({"/usr/bin/env", "MODEL=" + bundled_model(), "TIDEMILL=" + program(), "/bin/sh", "-c",
              script});
}

TEST_CASE("output that nobody can have is an error, not a silence") {
  const Outcome full = shell("\"$TIDEMILL\" generate \"$MODEL\" -p And -n 3 -q > /dev/full");
  CHECK(full.status == 4);
  CHECK(full.err.find("standard output") != std::string::npos);
  const Outcome closed = shell("\"$TIDEMILL\" generate \"$MODEL\" -p And -n 3 -q >&-");
  CHECK(closed.status == 4);
  CHECK(closed.err.find("standard output") != std::string::npos);
  // Messages are another matter.
  const Outcome quiet = shell("\"$TIDEMILL\" generate \"$MODEL\" -p And -n 3 2>&-");
  CHECK(quiet.status == 0);
  CHECK_FALSE(quiet.out.empty());
}

TEST_CASE("a reader that goes away ends the program without a word") {
  const Outcome outcome = shell(
      "(\"$TIDEMILL\" generate \"$MODEL\" -p And -n 400 --ignore-eos -q; echo $? >&2) | head -c 1");
  CHECK(outcome.out.size() == 1);
  CHECK(outcome.err == "141\n");  // 128 + SIGPIPE, as other tools end
}

TEST_CASE("prompts come from standard input too") {
  const Outcome outcome = shell(
      "printf '\"And\"\\n' | \"$TIDEMILL\" generate \"$MODEL\" --prompt-file - -n 3 -q --json");
  CHECK(outcome.status == 0);
  CHECK(outcome.out.find("\"prompt\":\"And\"") != std::string::npos);
}

TEST_CASE("an interrupted run ends with 130 and leaves its counters") {
  const tidemill::testing::TemporaryDirectory directory;
  const std::string stats = directory.path() / "stats.json";
  // A quarter of a minute's work in short sweeps; the signal comes after two seconds of it.
  const std::string prompts = directory.path() / "prompts.jsonl";
  std::string lines;
  for (int i = 0; i < 300; ++i) lines += "\"And it came to pass\"\n";
  tidemill::testing::write_text(prompts, lines);
  const Outcome outcome = shell(
      "exec timeout --preserve-status -s INT 2 \"$TIDEMILL\" generate \"$MODEL\" "
      "--prompt-file " +
      prompts + " -n 500 --ignore-eos --memory 16MB --threads 1 -q --stats " + stats);
  CHECK(outcome.status == 130);
  CHECK(outcome.err.empty());
  CHECK(tidemill::testing::read_json(stats)["run"]["sweeps"].get<std::uint64_t>() > 0);
}

}  // namespace
}  // namespace tidemill::tools::testing
