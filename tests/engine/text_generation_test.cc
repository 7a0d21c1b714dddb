#include "engine/text_generation.h"

#include <doctest/doctest.h>

#include <memory>

#include "io/base/error.h"
#include "tests/engine/support/run.h"

namespace tidemill::engine::testing {
namespace {

std::string bundled() { return fixture("../../../models/tidemill-kjv"); }

// What a call told, in order.
struct Told {
  std::vector<std::string> text;                   // per request
  std::vector<std::vector<std::uint32_t>> tokens;  // per request
  std::vector<std::size_t> done;
};

std::vector<GeneratedText> run(const Model& model, const Tokenizer* tokenizer,
                               const std::vector<TextRequest>& requests, Told& told) {
  told.text.resize(requests.size());
  told.tokens.resize(requests.size());
  std::vector<std::uint64_t> lengths;
  lengths.reserve(requests.size());
  for (const TextRequest& request : requests) {
    lengths.push_back(positions_needed(model, request.generation));
  }
  std::vector<GeneratedText> results;
  with_session(model, lengths, false, {}, [&](Session& session) {
    results = generate_text(
        session, tokenizer, requests,
        {.on_text = [&](std::size_t i, std::string_view text) { told.text[i] += text; },
         .on_token = [&](std::size_t i, std::uint32_t id) { told.tokens[i].push_back(id); },
         .on_done = [&](std::size_t i, const GeneratedText&) { told.done.push_back(i); },
         .on_sweep = {}});
  });
  return results;
}

TextRequest request(std::vector<std::uint32_t> prompt, std::uint64_t new_tokens,
                    std::vector<std::string> stop = {}) {
  return {.generation = greedy(std::move(prompt), new_tokens), .stop = std::move(stop)};
}

TEST_CASE("the parts are the text, the text is the decoded tokens") {
  const Model model = Model::open(bundled());
  const Tokenizer tokenizer = Tokenizer::load(bundled());
  std::vector<TextRequest> requests;
  for (const char* prompt : {"In the beginning", "And he said", "Blessed"}) {
    requests.push_back(request(encode_prompt(model, tokenizer, prompt, true), 20));
  }
  requests[1].generation.max_new_tokens = 3;
  requests[2].generation.max_new_tokens = 0;
  Told told;
  const auto results = run(model, &tokenizer, requests, told);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    CAPTURE(i);
    CHECK(told.text[i] == results[i].text);
    CHECK(told.tokens[i] == results[i].tokens);
    CHECK(results[i].tokens.size() <= requests[i].generation.max_new_tokens);
    CHECK(results[i].text == tokenizer.decode(results[i].tokens, true));
  }
  CHECK(told.done == std::vector<std::size_t>{2, 1, 0});
}

TEST_CASE("a stop string ends the text in front of it, wherever tokens end") {
  const Model model = Model::open(bundled());
  const Tokenizer tokenizer = Tokenizer::load(bundled());
  const auto prompt = encode_prompt(model, tokenizer, "And it came to pass", true);
  Told told;
  const std::string whole = run(model, &tokenizer, {request(prompt, 40)}, told).front().text;
  REQUIRE(whole.size() > 30);
  const std::string stop = whole.substr(17, 6);
  Told stopped;
  const auto result = run(model, &tokenizer, {request(prompt, 40, {"absent", stop})}, stopped);
  CHECK(result.front().text == whole.substr(0, whole.find(stop)));
  CHECK(stopped.text.front() == result.front().text);
  CHECK(result.front().reason == FinishReason::kStopped);
  CHECK(result.front().tokens.size() < 40);
  // What looked like the beginning of a stop string comes after all at the end.
  Told held;
  const auto all = run(model, &tokenizer, {request(prompt, 40, {whole.substr(20) + "!"})}, held);
  CHECK(all.front().text == whole);
  CHECK(held.text.front() == whole);
}

TEST_CASE("without a tokenizer the text is the ids") {
  const Model model = Model::open(fixture("gpt2_a"));
  Told told;
  const auto results = run(model, nullptr, {request({5, 6, 7}, 4)}, told);
  std::string expected;
  for (const std::uint32_t id : results.front().tokens) {
    expected += (expected.empty() ? "" : " ") + std::to_string(id);
  }
  CHECK(results.front().text == expected);
  CHECK(told.text.front() == expected);
}

TEST_CASE("the context ends a text as the length does") {
  const Model model = Model::open(fixture("gpt2_a"));
  REQUIRE(model.spec.max_positions == 80);
  Told told;
  TextRequest long_one = request(std::vector<std::uint32_t>(70, 3), 1000);
  long_one.generation.ignore_eos = true;
  const auto results = run(model, nullptr, {long_one}, told);
  CHECK(results.front().reason == FinishReason::kLength);
  CHECK(told.done.size() == 1);
  CHECK(results.front().tokens.size() >= 10);
}

TEST_CASE("an empty prompt begins with bos") {
  const Model model = Model::open(bundled());
  const Tokenizer tokenizer = Tokenizer::load(bundled());
  REQUIRE(model.spec.bos);
  CHECK(encode_prompt(model, tokenizer, "", false) == std::vector{*model.spec.bos});
  CHECK_THROWS_AS(encode_prompt(model, tokenizer, "\xFF", true), Error);
}

}  // namespace
}  // namespace tidemill::engine::testing
