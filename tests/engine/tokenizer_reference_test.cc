// Every family of tokenizers against what the reference library gives (tests/fixtures/tokenizers).
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace tidemill::engine {
namespace {

using Ids = std::vector<std::uint32_t>;

const std::filesystem::path kFixtures =
    std::filesystem::path(TIDEMILL_SOURCE_DIR) / "tests/fixtures/tokenizers";

const nlohmann::json& expected() {
  static const nlohmann::json json =
      nlohmann::json::parse(std::ifstream(kFixtures / "cases.json", std::ios::binary));
  return json;
}

std::string stream(const Tokenizer& tokenizer, std::span<const std::uint32_t> ids, bool skip) {
  StreamDecoder decoder(tokenizer, skip);
  std::string text;
  for (const std::uint32_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

TEST_CASE("every family gives the reference's ids") {
  const auto& texts = expected().at("texts");
  for (const auto& entry : expected().at("families").items()) {
    const std::string& family = entry.key();
    const auto& cases = entry.value();
    CAPTURE(family);
    const Tokenizer tokenizer = Tokenizer::load(kFixtures / family);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto text = texts[i].get<std::string>();
      CAPTURE(text);
      const auto& wanted = cases.at("encode")[i];
      CHECK(tokenizer.encode(text, false) == wanted[0].get<Ids>());
      CHECK(tokenizer.encode(text) == wanted[1].get<Ids>());
    }
  }
}

TEST_CASE("every family gives the reference's text, at once and as a stream") {
  for (const auto& entry : expected().at("families").items()) {
    const std::string& family = entry.key();
    const auto& cases = entry.value();
    CAPTURE(family);
    const Tokenizer tokenizer = Tokenizer::load(kFixtures / family);
    const auto check = [&](const Ids& ids, const nlohmann::json& with,
                           const nlohmann::json& without) {
      CHECK(tokenizer.decode(ids, false) == with.get<std::string>());
      CHECK(tokenizer.decode(ids, true) == without.get<std::string>());
      CHECK(stream(tokenizer, ids, false) == with.get<std::string>());
      CHECK(stream(tokenizer, ids, true) == without.get<std::string>());
    };
    for (const auto& wanted : cases.at("encode")) check(wanted[1].get<Ids>(), wanted[2], wanted[3]);
    for (const auto& wanted : cases.at("decode")) check(wanted[0].get<Ids>(), wanted[1], wanted[2]);
  }
}

}  // namespace
}  // namespace tidemill::engine
