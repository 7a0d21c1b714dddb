// How long a text gets: its limits, its stop strings, and what they say about its end.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/checkpoint_dir.h"
#include "tests/tools/support/command.h"

namespace tidemill::tools::testing {
namespace {

using nlohmann::json;

const std::string kPrompt = "And it came to pass";

std::vector<std::string> call(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"generate", bundled_model(), "-p", kPrompt, "-q"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

json answer(std::vector<std::string> more) {
  more.push_back("--json");
  const Outcome outcome = tidemill(call(more));
  CAPTURE(outcome.err);
  REQUIRE(outcome.status == 0);
  return json::parse(outcome.out);
}

TEST_CASE("JSON has every key, and text mode prints its text") {
  const json line = answer({"-n", "12"});
  CHECK(line["index"] == 0);
  CHECK(line["prompt"] == kPrompt);
  CHECK(line["prompt_tokens"].size() > 1);
  CHECK(line["tokens"].size() == 12);
  CHECK(line["finish_reason"] == "length");
  CHECK_FALSE(line.contains("id"));
  CHECK_FALSE(line.contains("seed"));  // greedy: nothing was drawn
  const auto text = line["text"].get<std::string>();
  CHECK(tidemill(call({"-n", "12"})).out == text + "\n");
  CHECK(tidemill(call({"-n", "12", "--echo"})).out == kPrompt + text + "\n");
}

TEST_CASE("--max-length counts the prompt, --max-new-tokens does not") {
  const auto prompt = answer({"-n", "1"})["prompt_tokens"].size();
  CHECK(answer({"--max-length", std::to_string(prompt + 3)})["tokens"].size() == 3);
  CHECK(answer({"-n", "0"})["tokens"].empty());
  CHECK(answer({"--ignore-eos"})["tokens"].size() == 50);
  const Outcome no_room = tidemill(call({"--max-length", std::to_string(prompt)}));
  CHECK(no_room.status == 2);
  CHECK(no_room.err.find("no room") != std::string::npos);
  // A text that is longer than the model's positions ends with them.
  const json whole = answer({"-n", "5"});
  CHECK(whole["tokens"].size() == 5);
}

TEST_CASE("a text ends with its end-of-text token unless that was put off") {
  const json whole = answer({"-n", "30"});
  const auto tokens = whole["tokens"].get<std::vector<int>>();
  const int eos = tokens[9];
  const auto first =
      static_cast<std::size_t>(std::find(tokens.begin(), tokens.end(), eos) - tokens.begin());
  // The model again, with something that it is going to say as its end of text.
  const tidemill::testing::TemporaryDirectory directory;
  const std::filesystem::path model = directory.path() / "model";
  std::filesystem::copy(bundled_model(), model);
  for (const char* name : {"config.json", "generation_config.json"}) {
    json config = tidemill::testing::read_json(model / name);
    config["eos_token_id"] = eos;
    tidemill::testing::write_text(model / name, config.dump());
  }
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", model, "-p", kPrompt, "-n", "30", "-q", "--json"});
    const Outcome outcome = tidemill(more);
    CAPTURE(outcome.err);
    REQUIRE(outcome.status == 0);
    return json::parse(outcome.out);
  };
  const json ended = run({});
  CHECK(ended["finish_reason"] == "eos");
  CHECK(ended["tokens"].get<std::vector<int>>() ==
        std::vector<int>(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(first) + 1));
  CHECK(run({"--ignore-eos"})["tokens"] == whole["tokens"]);
  const json later = run({"--min-new-tokens", std::to_string(first + 5)});
  CHECK(later["tokens"].size() >= first + 5);
  CHECK(later["tokens"][first] != eos);  // it could not be chosen yet
}

TEST_CASE("a stop string ends the text in front of it, the first of several, across tokens") {
  const json whole = answer({"-n", "40"});
  const auto text = whole["text"].get<std::string>();
  // Every place of the text is one where a stop string may begin and end inside of tokens.
  for (std::size_t at = 3; at + 4 < text.size() && at < 40; at += 6) {
    const std::string stop = text.substr(at, 4);
    CAPTURE(stop);
    const json line = answer({"-n", "40", "--stop", "never said", "--stop", stop});
    CHECK(line["finish_reason"] == "stop");
    CHECK(line["text"] == text.substr(0, text.find(stop)));
    CHECK(line["tokens"].size() < whole["tokens"].size());
  }
  const json unmet = answer({"-n", "40", "--stop", "never said"});
  CHECK(unmet["text"] == text);
  CHECK(unmet["finish_reason"] == "length");
}

TEST_CASE("a prompt that is an option's look-alike, and one with every kind of character") {
  for (const std::string prompt :
       {"-7", "\t\n  two  spaces", "\xF0\x9F\x8C\x8A caf\xC3\xA9 \xE6\xB0\xB4", "a\xCC\x81",
        "\xC2\xA0"}) {
    CAPTURE(prompt);
    const Outcome outcome =
        tidemill({"generate", bundled_model(), "--prompt=" + prompt, "-n", "3", "-q", "--json"});
    CAPTURE(outcome.err);
    REQUIRE(outcome.status == 0);
    CHECK(json::parse(outcome.out)["prompt"] == prompt);
  }
}

}  // namespace
}  // namespace tidemill::tools::testing
