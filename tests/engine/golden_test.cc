// Logits, hidden states and greedy tokens against transformers' fp32 eager implementation on tiny
// random checkpoints with awkward shapes (tests/fixtures/make_models.py made both).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "tests/engine/support/run.h"

namespace tidemill::engine::testing {
namespace {

// fp32 rounding: both sides sum the same few hundred products in different orders. 2e-5 of the
// row's largest value is the promise of the product; measured differences are below 3e-6.
constexpr double kRelative = 2e-5;

std::vector<std::string> fixture_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(fixture(""))) {
    const std::string file = entry.path().filename().string();
    const auto at = file.find(".expected.safetensors");
    if (at != std::string::npos && std::filesystem::is_directory(fixture(file.substr(0, at)))) {
      names.push_back(file.substr(0, at));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Expected {
 public:
  explicit Expected(const std::string& name)
      : checkpoint_(io::Checkpoint::open(fixture(name + ".expected.safetensors"))) {}

  std::vector<float> floats(const std::string& name) const {
    return read<float>(name, DType::kF32);
  }
  std::vector<std::uint32_t> ids(const std::string& name) const {
    std::vector<std::uint32_t> out;
    for (const std::int64_t id : read<std::int64_t>(name, DType::kI64)) {
      out.push_back(static_cast<std::uint32_t>(id));
    }
    return out;
  }
  bool has(const std::string& name) const { return checkpoint_.find(name) != nullptr; }

 private:
  template <typename T>
  std::vector<T> read(const std::string& name, DType dtype) const {
    const io::TensorInfo* tensor = checkpoint_.find(name);
    REQUIRE_MESSAGE(tensor != nullptr, name);
    REQUIRE(tensor->dtype == dtype);
    const std::vector<std::byte> bytes = tensor->file->read(tensor->bytes);
    std::vector<T> out(bytes.size() / sizeof(T));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  io::Checkpoint checkpoint_;
};

// Largest |a - b| of a row relative to the largest |b| of that row, over all rows.
double worst_difference(const std::vector<float>& ours, const std::vector<float>& theirs,
                        std::size_t width) {
  REQUIRE(ours.size() == theirs.size());
  double worst = 0;
  for (std::size_t row = 0; row < ours.size(); row += width) {
    double scale = 0;
    double difference = 0;
    for (std::size_t i = row; i < row + width; ++i) {
      REQUIRE(std::isfinite(ours[i]));
      scale = std::max(scale, std::abs(static_cast<double>(theirs[i])));
      difference = std::max(
          difference, std::abs(static_cast<double>(ours[i]) - static_cast<double>(theirs[i])));
    }
    worst = std::max(worst, difference / scale);
  }
  return worst;
}

TEST_CASE("there are at least two shapes of every architecture") {
  const auto names = fixture_names();
  for (const char* family : {"gpt2", "bloom", "llama", "mistral", "qwen2", "qwen3"}) {
    CAPTURE(family);
    CHECK(std::count_if(names.begin(), names.end(),
                        [&](const std::string& name) { return name.starts_with(family); }) >= 2);
  }
}

TEST_CASE("logits equal transformers' within 2e-5") {
  for (const std::string& name : fixture_names()) {
    CAPTURE(name);
    const Model model = Model::open(fixture(name));
    const Expected expected(name);
    const auto logits = logits_of(model, expected.ids("tokens"), Setup{});
    const double worst = worst_difference(logits, expected.floats("logits"), model.spec.vocab);
    CHECK(worst < kRelative);
    MESSAGE(name << ": logits differ by " << worst);
  }
}

TEST_CASE("hidden states equal transformers' layer by layer") {
  for (const std::string& name : fixture_names()) {
    CAPTURE(name);
    const Model model = Model::open(fixture(name));
    const Expected expected(name);
    std::vector<std::vector<float>> hidden;
    logits_of(model, expected.ids("tokens"), Setup{}, &hidden);
    const std::size_t layers = model.spec.layers.size();
    for (std::size_t i = 0; i <= layers; ++i) {
      // transformers' last entry has the final norm applied.
      const auto& ours = i == layers ? hidden[layers + 1] : hidden[i];
      const std::string key = fmt::format("hidden.{}", i);
      CAPTURE(key);
      CHECK(worst_difference(ours, expected.floats(key), model.spec.hidden) < kRelative);
    }
  }
}

TEST_CASE("64 greedy tokens equal transformers'") {
  for (const std::string& name : fixture_names()) {
    CAPTURE(name);
    const Model model = Model::open(fixture(name));
    const std::vector<std::uint32_t> all = Expected(name).ids("greedy");
    const std::vector<std::uint32_t> prompt(all.begin(), all.begin() + 7);
    const auto results = generate_with(model, {greedy(prompt, all.size() - 7)}, Setup{});
    CHECK(results[0].tokens == std::vector<std::uint32_t>(all.begin() + 7, all.end()));
  }
}

}  // namespace
}  // namespace tidemill::engine::testing
