// Values computed by hand from the formulas; the golden model tests compare the rest.
#include "engine/rotary.h"

#include <doctest/doctest.h>

#include <cmath>

#include "io/base/error.h"

namespace tidemill::engine {
namespace {

RotaryConfig parse(const char* text, std::uint32_t head_dim) {
  const auto json = nlohmann::json::parse(text);
  return read_rotary(ConfigReader(json, "config.json"), head_dim);
}

TEST_CASE("plain frequencies are powers of the base") {
  const RotaryConfig config = parse(R"({"rope_theta": 10000.0})", 8);
  const auto frequencies = inverse_frequencies(config, 0);
  REQUIRE(frequencies.size() == 4);
  CHECK(frequencies[0] == 1.0f);
  CHECK(frequencies[1] == doctest::Approx(0.1));
  CHECK(frequencies[3] == doctest::Approx(0.001));
  std::vector<float> row(8);
  rotary_row(config, frequencies, 3, row.data());
  CHECK(row[0] == doctest::Approx(std::cos(3.0)));
  CHECK(row[4] == doctest::Approx(std::sin(3.0)));
  CHECK(row[7] == doctest::Approx(std::sin(0.003)));
}

TEST_CASE("old and new spellings of a scaling mean the same") {
  const RotaryConfig old_style =
      parse(R"({"rope_theta": 5000.0, "rope_scaling": {"type": "linear", "factor": 4.0}})", 4);
  const RotaryConfig new_style = parse(
      R"({"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5000.0}})", 4);
  CHECK(inverse_frequencies(old_style, 0) == inverse_frequencies(new_style, 0));
  CHECK(inverse_frequencies(old_style, 0)[0] == 0.25f);
}

TEST_CASE("llama3 keeps short waves, stretches long ones, blends between") {
  const RotaryConfig config = parse(R"({"rope_theta": 500000.0, "rope_scaling": {
      "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192}})",
                                    128);
  RotaryConfig plain = config;
  plain.scaling = RotaryScaling::kNone;
  const auto scaled = inverse_frequencies(config, 0);
  const auto unscaled = inverse_frequencies(plain, 0);
  CHECK(scaled.front() == unscaled.front());
  CHECK(scaled.back() == unscaled.back() / 8.0f);
  bool blended = false;
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    blended |= scaled[i] < unscaled[i] && scaled[i] > unscaled[i] / 8.0f;
  }
  CHECK(blended);
}

TEST_CASE("dynamic scaling changes nothing until the trained length is passed") {
  const RotaryConfig config = parse(
      R"({"max_position_embeddings": 32, "rope_scaling": {"type": "dynamic", "factor": 2.0}})", 8);
  CHECK(depends_on_length(config));
  CHECK(inverse_frequencies(config, 1) == inverse_frequencies(config, 32));
  CHECK(inverse_frequencies(config, 33)[3] < inverse_frequencies(config, 32)[3]);
}

TEST_CASE("bad scalings are refused by name") {
  for (const char* bad : {
           R"({"rope_scaling": {"type": "martian", "factor": 2.0}})",
           R"({"rope_scaling": {"type": "linear"}})",
           R"({"rope_scaling": {"type": "linear", "factor": 0}})",
           R"({"rope_scaling": {"type": "linear", "factor": "two"}})",
           R"({"rope_scaling": []})",
           R"({"rope_theta": -1})",
           R"({"rope_theta": 1e300})",
           R"({"rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": [1]}})",
           R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
               "high_freq_factor": 1}})",
       }) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse(bad, 8), Error);
  }
  CHECK_THROWS_AS(parse("{}", 7), Error);
}

}  // namespace
}  // namespace tidemill::engine
