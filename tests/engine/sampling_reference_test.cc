// Sampling against what torch and transformers give (tests/fixtures/sampler).
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/sampling/logits_processors.h"
#include "engine/sampling/sampler.h"
#include "engine/sampling/torch_rng.h"

namespace tidemill::engine {
namespace {

using Ids = std::vector<std::uint32_t>;
using Scores = std::vector<float>;

const nlohmann::json& fixture() {
  static const nlohmann::json json = nlohmann::json::parse(std::ifstream(
      std::filesystem::path(TIDEMILL_SOURCE_DIR) / "tests/fixtures/sampler/cases.json"));
  return json;
}

Scores scores_of(const nlohmann::json& list) {
  Scores scores;
  for (const auto& value : list) {
    scores.push_back(value.is_string() ? -std::numeric_limits<float>::infinity()
                                       : value.get<float>());
  }
  return scores;
}

// The row without its padding: Tidemill never pads.
Ids history_of(const nlohmann::json& test) {
  Ids ids = test.at("ids");
  ids.erase(ids.begin(), ids.begin() + test.at("left_padding").get<std::ptrdiff_t>());
  return ids;
}

// Greedy-independent view of the processors in the order of the sampler.
Scores process(const nlohmann::json& test) {
  Scores scores = scores_of(fixture().at("vectors")[test.at("vector").get<std::size_t>()]);
  const Ids history = history_of(test);
  const Ids eos = test.at("eos");
  const auto& settings = test.at("settings");
  const auto padding = test.at("left_padding").get<std::size_t>();
  const auto prompt = test.at("prompt_length").get<std::size_t>() - padding;
  if (settings.contains("repetition_penalty")) {
    apply_repetition_penalty(scores, history, settings["repetition_penalty"].get<float>());
  }
  if (settings.contains("no_repeat_ngram_size")) {
    ban_repeated_ngrams(scores, history, settings["no_repeat_ngram_size"]);
  }
  if (history.size() < settings.value("min_length", std::size_t{0}) ||
      history.size() - prompt < settings.value("min_new_tokens", std::size_t{0})) {
    ban(scores, eos);
  }
  if (settings.contains("temperature")) {
    apply_temperature(scores, settings["temperature"].get<float>());
  }
  if (settings.contains("top_k")) keep_top_k(scores, settings["top_k"]);
  if (settings.contains("top_p")) keep_top_p(scores, settings["top_p"]);
  if (settings.contains("min_p")) keep_min_p(scores, settings["min_p"].get<float>());
  return scores;
}

TEST_CASE("logits processors give transformers' scores exactly") {
  for (const auto& test : fixture().at("processors")) {
    CAPTURE(test.at("settings").dump());
    CAPTURE(test.at("left_padding").get<int>());
    CHECK(process(test) == scores_of(test.at("expected")));
  }
}

TEST_CASE("a sampler draws torch's tokens") {
  std::size_t compared = 0;
  for (const auto& sample : fixture().at("samples")) {
    const auto& test = fixture().at("processors")[sample.at("processors").get<std::size_t>()];
    const auto& settings = test.at("settings");
    if (settings.value("top_p", 1.0) == 0.0) continue;  // not an option of the sampler
    CAPTURE(settings.dump());
    Sampler sampler({.do_sample = true,
                     .temperature = settings.value("temperature", 1.0),
                     .top_k = settings.value("top_k", 0U),
                     .top_p = settings.value("top_p", 1.0),
                     .min_p = settings.value("min_p", 0.0),
                     .repetition_penalty = settings.value("repetition_penalty", 1.0),
                     .no_repeat_ngram = settings.value("no_repeat_ngram_size", 0U),
                     .min_length = settings.value("min_length", 0U),
                     .min_new_tokens = settings.value("min_new_tokens", 0U),
                     .seed = sample.at("seed"),
                     .vocab_limit = {}},
                    test.at("eos").get<Ids>());
    const auto padding = test.at("left_padding").get<std::size_t>();
    Ids drawn;
    for (std::size_t i = 0; i < sample.at("draws").size(); ++i) {
      Scores logits = scores_of(fixture().at("vectors")[test.at("vector").get<std::size_t>()]);
      drawn.push_back(sampler.next(logits, history_of(test),
                                   test.at("prompt_length").get<std::size_t>() - padding));
    }
    CHECK(drawn == sample.at("draws").get<Ids>());
    ++compared;
  }
  CHECK(compared >= 12);
}

TEST_CASE("greedy choice is torch's argmax") {
  for (const auto& test : fixture().at("argmax")) {
    Scores scores = scores_of(test.at("scores"));
    CHECK(argmax(scores) == test.at("index").get<std::size_t>());
    CHECK(Sampler({}, {}).next(scores, {}, 0) == test.at("index").get<std::uint32_t>());
  }
}

TEST_CASE("random numbers are torch's") {
  for (const auto& test : fixture().at("exponential")) {
    TorchRng rng(test.at("seed"));
    for (const auto& value : test.at("values")) {
      CHECK(static_cast<float>(rng.exponential()) == value.get<float>());
    }
  }
  for (const auto& test : fixture().at("uniform")) {
    TorchRng rng(test.at("seed"));
    for (const auto& value : test.at("values")) CHECK(rng.uniform_float() == value.get<float>());
  }
  for (const auto& test : fixture().at("uniform_double")) {
    TorchRng rng(test.at("seed"));
    for (const auto& value : test.at("values")) CHECK(rng.uniform_double() == value.get<double>());
  }
}

TEST_CASE("multinomial draws are torch's, rows of a batch one after the other") {
  for (const auto& test : fixture().at("multinomial")) {
    const Scores p = scores_of(test.at("p"));
    const auto& shape = test.at("shape");
    const auto columns = shape.back().get<std::size_t>();
    TorchRng rng(test.at("seed"));
    for (const auto& draw : test.at("draws")) {
      std::vector<std::size_t> drawn;
      for (std::size_t row = 0; row < p.size(); row += columns) {
        drawn.push_back(multinomial(std::span(p).subspan(row, columns), rng));
      }
      CHECK(drawn == draw.get<std::vector<std::size_t>>());
    }
  }
}

}  // namespace
}  // namespace tidemill::engine
