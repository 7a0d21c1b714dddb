// `tidemill logits` writes what transformers computes.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "tests/support/checkpoint_dir.h"
#include "tests/tools/support/command.h"

namespace tidemill::tools::testing {
namespace {

using tidemill::testing::StoredTensor;
using tidemill::testing::StoredTensors;
using tidemill::testing::TemporaryDirectory;

struct Array {
  std::string header;
  std::vector<float> values;
};

// NumPy's format, version 1.0: magic, header length, header, data.
Array read_npy(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = tidemill::testing::read_file(path);
  REQUIRE(bytes.size() > 10);
  const char* text = reinterpret_cast<const char*>(bytes.data());
  REQUIRE(std::string(text + 1, 5) == "NUMPY");
  const std::size_t length =
      std::to_integer<std::size_t>(bytes[8]) | std::to_integer<std::size_t>(bytes[9]) << 8;
  Array array{.header = std::string(text + 10, length),
              .values = std::vector<float>((bytes.size() - 10 - length) / sizeof(float))};
  std::memcpy(array.values.data(), bytes.data() + 10 + length, array.values.size() * sizeof(float));
  return array;
}

template <typename T>
std::vector<T> values_of(const StoredTensor& tensor) {
  std::vector<T> values(tensor.data.size() / sizeof(T));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

// Relative to the largest value of all, which is what comparing engines looks at.
double difference(const std::vector<float>& ours, const StoredTensor& tensor) {
  const auto theirs = values_of<float>(tensor);
  REQUIRE(ours.size() == theirs.size());
  double worst = 0;
  double scale = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    worst = std::max(worst, std::abs(double{ours[i]} - double{theirs[i]}));
    scale = std::max(scale, std::abs(double{theirs[i]}));
  }
  return worst / scale;
}

std::string words(const StoredTensor& tokens) {
  std::string text;
  for (const std::int64_t id : values_of<std::int64_t>(tokens)) text += std::to_string(id) + " ";
  return text;
}

TEST_CASE("logits and hidden states are transformers', whatever the chunks") {
  for (const char* name : {"gpt2_b", "bloom_a", "llama3_a"}) {
    CAPTURE(name);
    const TemporaryDirectory directory;
    const StoredTensors expected =
        tidemill::testing::read_safetensors(fixture(std::string(name) + ".expected.safetensors"));
    const std::string tokens = words(expected.at("tokens"));
    const auto output = directory.path() / "logits.npy";
    const auto hidden = directory.path() / "hidden";
    const Outcome outcome = tidemill({"logits", fixture(name), "--tokens", tokens, "--output",
                                      output, "--chunk", "7", "--hidden-states", hidden, "-q"});
    CAPTURE(outcome.err);
    REQUIRE(outcome.status == 0);
    CHECK(outcome.out.empty());
    const Array logits = read_npy(output);
    const auto& shape = expected.at("logits").shape;
    CHECK(logits.header.find("<f4") != std::string::npos);
    CHECK(logits.header.find('(' + std::to_string(shape[0]) + ", " + std::to_string(shape[1])) !=
          std::string::npos);
    CHECK(difference(logits.values, expected.at("logits")) < 2e-5);

    const int layers = 3;
    for (int i = 0; i <= layers; ++i) {
      const std::string file = "hidden_0" + std::to_string(i) + ".npy";
      CHECK(difference(read_npy(hidden / file).values, expected.at("hidden." + std::to_string(i))) <
            2e-5);
    }
    CHECK(difference(read_npy(hidden / "hidden_03_pre_norm.npy").values,
                     expected.at("hidden_pre_norm.3")) < 2e-5);

    const auto whole = directory.path() / "whole.npy";
    CHECK(tidemill({"logits", fixture(name), "--tokens", tokens, "-o", whole, "-q"}).status == 0);
    CHECK(tidemill::testing::read_file(whole) == tidemill::testing::read_file(output));
    const auto last = directory.path() / "last.npy";
    CHECK(tidemill({"logits", fixture(name), "--tokens", tokens, "-o", last, "--last", "--chunk",
                    "5", "-q"})
              .status == 0);
    const std::vector<float> tail(logits.values.end() - static_cast<std::ptrdiff_t>(shape[1]),
                                  logits.values.end());
    CHECK(read_npy(last).values == tail);
  }
}

TEST_CASE("without a file the likeliest tokens are printed") {
  const Outcome outcome = tidemill({"logits", bundled_model(), "-p", "And it came to", "-q"});
  CHECK(outcome.status == 0);
  CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == 6);
  CHECK(outcome.out.find("pass") != std::string::npos);
}

TEST_CASE("a file that cannot be written is an I/O error and leaves nothing") {
  const TemporaryDirectory directory;
  const auto output = directory.path() / "absent" / "logits.npy";
  const Outcome outcome = tidemill({"logits", bundled_model(), "-p", "And", "-o", output, "-q"});
  CHECK(outcome.status == 4);
  CHECK(outcome.err.find("logits.npy") != std::string::npos);
}

}  // namespace
}  // namespace tidemill::tools::testing
