// Prompt files and the options that each line may give.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/checkpoint_dir.h"
#include "tests/tools/support/command.h"

namespace tidemill::tools::testing {
namespace {

using nlohmann::json;
using tidemill::testing::TemporaryDirectory;
using tidemill::testing::write_text;

Outcome with_file(const std::string& text, std::vector<std::string> more = {}) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() / "prompts.jsonl";
  write_text(file, text);
  std::vector<std::string> arguments = {
      "generate", bundled_model(), "--prompt-file", file, "-n", "4", "-q", "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return tidemill(arguments);
}

std::vector<json> lines_of(const Outcome& outcome) {
  CAPTURE(outcome.err);
  REQUIRE(outcome.status == 0);
  std::vector<json> lines;
  std::istringstream in(outcome.out);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST_CASE("a bad line is named, nothing is printed") {
  const std::vector<std::string> bad = {
      "{\"prompt\": 5}",
      "{\"prompt\": \"x\", \"tokens\": [1]}",
      "{}",
      "[1, 2]",
      "{\"prompt\": \"x\"",
      "{\"prompt\": \"x\", \"prompt\": \"y\"}",
      "{\"prompt\": \"x\", \"max_new_tokens\": -1}",
      "{\"prompt\": \"x\", \"temperature\": \"hot\"}",
      "{\"prompt\": \"x\", \"top_p\": 7}",
      "{\"prompt\": \"x\", \"tempreature\": 1}",
      "{\"prompt\": \"x\", \"do_sample\": false, \"top_k\": 3}",
      "{\"prompt\": \"x\", \"max_length\": 1}",
      "{\"prompt\": \"x\", \"stop\": [1]}",
      "{\"prompt\": \"x\", \"stop\": \"\"}",
      "{\"tokens\": []}",
      "{\"tokens\": [99999]}",
      "{\"tokens\": [1, \"2\"]}",
      "\"\xff\"",
  };
  for (const std::string& line : bad) {
    CAPTURE(line);
    const Outcome outcome = with_file("\"good\"\n\n" + line + "\n");
    CAPTURE(outcome.err);
    CHECK(outcome.status == 3);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find("prompts.jsonl:3: ") != std::string::npos);
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  }
  CHECK(with_file("").status == 3);
  CHECK(with_file("\n \n").status == 3);
}

TEST_CASE("a line's options win over the command line, for that line") {
  const auto lines = lines_of(
      with_file("\"And it came to pass\"\n"
                "{\"prompt\": \"And it came to pass\", \"max_new_tokens\": 2, \"id\": \"two\"}\n"
                "{\"tokens\": [5, 6], \"max_length\": 5, \"id\": 7, \"ignore_eos\": true}\n"
                "{\"prompt\": \"And it came to pass\", \"do_sample\": false}\n"
                "{\"prompt\": \"And it came to pass\", \"seed\": 5}\n",
                {"--seed", "9", "--ignore-eos"}));
  REQUIRE(lines.size() == 5);
  for (std::size_t i = 0; i < lines.size(); ++i) CHECK(lines[i]["index"] == i);
  CHECK(lines[0]["tokens"].size() == 4);
  CHECK(lines[0]["seed"] == 9);
  CHECK(lines[1]["tokens"].size() == 2);
  CHECK(lines[1]["id"] == "two");
  CHECK(lines[1]["tokens"][0] == lines[0]["tokens"][0]);
  CHECK(lines[2]["prompt_tokens"] == json::array({5, 6}));
  CHECK(lines[2]["tokens"].size() == 3);
  CHECK(lines[2]["id"] == 7);
  CHECK(lines[2]["prompt"].is_null());
  CHECK_FALSE(lines[3].contains("seed"));
  CHECK(lines[4]["seed"] == 5);
  // The reported seed gives the same text alone.
  const auto alone =
      lines_of(with_file("{\"prompt\": \"And it came to pass\", \"seed\": 5}\n", {"--ignore-eos"}));
  CHECK(alone[0]["tokens"] == lines[4]["tokens"]);
}

TEST_CASE("texts of many prompts are headed by their names and are what JSON says") {
  const std::string file = "{\"prompt\": \"And\", \"id\": \"first\"}\n\"Blessed are\"\n";
  const auto lines = lines_of(with_file(file));
  const TemporaryDirectory directory;
  const std::string path = directory.path() / "prompts.jsonl";
  write_text(path, file);
  const Outcome text =
      tidemill({"generate", bundled_model(), "--prompt-file", path, "-n", "4", "-q"});
  CHECK(text.out == "==> first <==\n" + lines[0]["text"].get<std::string>() + "\n\n==> 2 <==\n" +
                        lines[1]["text"].get<std::string>() + "\n");
}

TEST_CASE("ids serve models without tokenizer; text for them is refused with advice") {
  const Outcome refused = tidemill({"generate", fixture("gpt2_a"), "-p", "x", "-q"});
  CHECK(refused.status == 2);
  CHECK(refused.err.find("--tokens") != std::string::npos);
  const Outcome ids = tidemill({"generate", fixture("gpt2_a"), "--tokens", "5,6 7", "-n", "3",
                                "--ignore-eos", "-q", "--json"});
  REQUIRE(ids.status == 0);
  const json line = json::parse(ids.out);
  std::string expected;
  for (const json& id : line["tokens"]) expected += (expected.empty() ? "" : " ") + id.dump();
  CHECK(line["text"] == expected);
  CHECK(line["finish_reason"] == "length");
}

TEST_CASE("an empty prompt is the model's beginning of text; one token is enough") {
  const Outcome empty =
      tidemill({"generate", bundled_model(), "-p", "", "--raw", "-n", "3", "-q", "--json"});
  REQUIRE(empty.status == 0);
  CHECK(json::parse(empty.out)["prompt_tokens"] == json::array({0}));
  CHECK(tidemill({"generate", bundled_model(), "--tokens", "7", "-n", "1", "-q"}).status == 0);
  CHECK(tidemill({"generate", bundled_model(), "--tokens", " ", "-q"}).status == 2);
}

}  // namespace
}  // namespace tidemill::tools::testing
