// The bundled model end to end: its tokenizer, logits and greedy text equal transformers'.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/support/run.h"
#include "tests/support/checkpoint_dir.h"

namespace tidemill::engine::testing {
namespace {

using nlohmann::json;

const std::string kModel = std::string(TIDEMILL_SOURCE_DIR) + "/models/tidemill-kjv";

struct Reference {
  tidemill::testing::StoredTensors tensors =
      tidemill::testing::read_safetensors(fixture("tidemill-kjv.expected.safetensors"));
  json notes;

  Reference() {
    const auto bytes = tidemill::testing::read_file(fixture("tidemill-kjv.expected.safetensors"));
    std::uint64_t size = 0;
    std::memcpy(&size, bytes.data(), 8);
    const char* header = reinterpret_cast<const char*>(bytes.data()) + 8;
    notes = json::parse(
        json::parse(header, header + size)["__metadata__"]["reference"].get<std::string>());
  }

  std::vector<std::uint32_t> ids(const std::string& name) const {
    const auto& data = tensors.at(name).data;
    std::vector<std::uint32_t> out;
    for (std::size_t i = 0; i < data.size(); i += 8) {
      std::int64_t id = 0;
      std::memcpy(&id, data.data() + i, 8);
      out.push_back(static_cast<std::uint32_t>(id));
    }
    return out;
  }
};

TEST_CASE("the bundled tokenizer makes the ids that transformers makes") {
  const Reference reference;
  const Tokenizer tokenizer = Tokenizer::load(kModel);
  for (const json& pair : reference.notes["encoded"]) {
    const auto text = pair[0].get<std::string>();
    CAPTURE(text);
    CHECK(tokenizer.encode(text) == pair[1].get<std::vector<std::uint32_t>>());
  }
}

TEST_CASE("the bundled model's logits equal transformers' within 2e-5") {
  const Reference reference;
  const Model model = Model::open(kModel);
  const auto logits = logits_of(model, reference.ids("tokens"), Setup{});
  const auto& expected = reference.tensors.at("logits").data;
  REQUIRE(expected.size() == logits.size() * sizeof(float));
  double worst = 0;
  float largest = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    float value = 0;
    std::memcpy(&value, expected.data() + i * sizeof value, sizeof value);
    largest = std::max(largest, std::abs(value));
    worst = std::max(worst, static_cast<double>(std::abs(logits[i] - value)));
  }
  CHECK(worst / largest < 2e-5);
}

TEST_CASE("the bundled model writes the text that transformers writes, whatever the budget") {
  const Reference reference;
  const Model model = Model::open(kModel);
  const Tokenizer tokenizer = Tokenizer::load(kModel);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto all = reference.ids(i == 0 ? "greedy" : "greedy_1");
    const auto prompt = tokenizer.encode(reference.notes["greedy_text"][i].get<std::string>());
    REQUIRE(std::equal(prompt.begin(), prompt.end(), all.begin()));
    for (const double share : {0.0, 0.5, 2.0}) {
      Setup setup;
      setup.memory_share = share;
      setup.threads = 2;
      const auto result = generate_with(model, {greedy(prompt, all.size() - prompt.size())}, setup);
      std::vector<std::uint32_t> ours = prompt;
      ours.insert(ours.end(), result[0].tokens.begin(), result[0].tokens.end());
      CHECK(ours == all);
      CHECK(tokenizer.decode(ours, true) ==
            reference.notes["greedy_decoded"][i].get<std::string>());
    }
  }
}

}  // namespace
}  // namespace tidemill::engine::testing
