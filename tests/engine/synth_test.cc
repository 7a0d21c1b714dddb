#include "engine/synth.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/random_weights.h"
#include "io/base/error.h"
#include "tests/engine/support/run.h"
#include "tests/support/checkpoint_dir.h"

namespace tidemill::engine::testing {
namespace {

using tidemill::testing::read_file;
using tidemill::testing::read_json;
using tidemill::testing::TemporaryDirectory;

std::string config_of(const std::string& name) { return fixture(name) + "/config.json"; }

std::vector<float> floats_of(const io::TensorInfo& tensor) {
  const std::vector<std::byte> bytes = tensor.file->read(tensor.bytes);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

double deviation(const std::vector<float>& values) {
  double sum = 0;
  double squares = 0;
  for (const float value : values) {
    sum += value;
    squares += double{value} * value;
  }
  const auto n = static_cast<double>(values.size());
  return std::sqrt(squares / n - sum / n * sum / n);
}

TEST_CASE("rounding to narrow types is to nearest even") {
  struct Row {
    float value;
    DType dtype;
    std::uint32_t bits;
  };
  const std::vector<Row> rows = {
      {1.0F, DType::kF16, 0x3C00},
      {-1.0F, DType::kF16, 0xBC00},
      {0.0F, DType::kF16, 0},
      {65503.0F, DType::kF16, 0x7BFF},             // the largest, 65504
      {1.0F + 0x1p-11F, DType::kF16, 0x3C00},      // a tie: to even
      {1.0F + 3 * 0x1p-11F, DType::kF16, 0x3C02},  // a tie: to even, upwards
      {2.0F - 0x1p-12F, DType::kF16, 0x4000},      // carries into the exponent
      {0x1p-14F, DType::kF16, 0x0400},             // the smallest normal
      {0x1p-24F, DType::kF16, 0x0001},             // the smallest subnormal
      {0x1p-25F, DType::kF16, 0},                  // a tie: to even
      {0x1p-14F - 0x1p-26F, DType::kF16, 0x0400},  // a subnormal that rounds to normal
      {1.0F, DType::kBF16, 0x3F80},
      {1.0F + 0x1p-8F, DType::kBF16, 0x3F80},  // a tie: to even
      {1.0F + 3 * 0x1p-8F, DType::kBF16, 0x3F82},
      {-0.02F, DType::kBF16, 0xBCA4},
  };
  for (const Row& row : rows) {
    CAPTURE(row.value);
    CHECK(round_to_bits(row.value, row.dtype) == row.bits);
  }
}

TEST_CASE("random values depend on key and place, not on how they are asked for") {
  const NormalTable table(0.5, DType::kF32);
  std::vector<std::byte> whole(4 * 1003);
  std::vector<std::byte> parts(4 * 1003);
  table.fill(7, 0, whole);
  table.fill(7, 0, std::span(parts).first(4 * 400));
  table.fill(7, 400, std::span(parts).subspan(4 * 400));
  CHECK(whole == parts);
  table.fill(8, 0, parts);
  CHECK(whole != parts);
  CHECK(tensor_key(1, "a") != tensor_key(2, "a"));
  CHECK(tensor_key(1, "a") != tensor_key(1, "b"));
}

TEST_CASE("weights have the usual initialisation") {
  const TemporaryDirectory directory;
  const auto out = directory.path() / "model";
  const SynthReport report =
      synthesize(config_of("gpt2_a"), out, {.layers = 8, .dtype = DType::kF32, .seed = 3});
  const Model model = Model::open(out);
  CHECK(model.spec.layers.size() == 8);
  CHECK(report.tensors == model.checkpoint.tensors().size());
  const auto values = [&](const char* name) {
    const io::TensorInfo* tensor = model.checkpoint.find(name);
    REQUIRE_MESSAGE(tensor != nullptr, name);
    return floats_of(*tensor);
  };
  const double range = read_json(out / "config.json").value("initializer_range", 0.02);
  // A few thousand samples: 5% is more than three standard errors.
  CHECK(deviation(values("transformer.wte.weight")) == doctest::Approx(range).epsilon(0.05));
  CHECK(deviation(values("transformer.h.0.mlp.c_fc.weight")) ==
        doctest::Approx(range).epsilon(0.05));
  CHECK(deviation(values("transformer.h.7.mlp.c_proj.weight")) ==
        doctest::Approx(range / 4).epsilon(0.05));  // sqrt(2 * 8) = 4
  CHECK(values("transformer.h.3.ln_1.weight") == std::vector<float>(39, 1.0F));
  CHECK(values("transformer.h.3.ln_1.bias") == std::vector<float>(39, 0.0F));
  CHECK(values("transformer.h.0.mlp.c_fc.weight") != values("transformer.h.1.mlp.c_fc.weight"));
}

TEST_CASE("every architecture can be made, in every type, and gives finite logits") {
  for (const char* name : {"gpt2_c", "bloom_b", "llama3_a", "mistral_a", "qwen2_a", "qwen3_b"}) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      CAPTURE(name);
      const TemporaryDirectory directory;
      const auto out = directory.path() / "model";
      synthesize(config_of(name), out, {.layers = 5, .dtype = dtype, .threads = 2});
      const Model model = Model::open(out);
      CHECK(model.spec.layers.size() == 5);
      CHECK(model.weights.token_embedding->dtype == dtype);
      for (const float logit : logits_of(model, {1, 2, 3}, {})) REQUIRE(std::isfinite(logit));
    }
  }
}

TEST_CASE("shards hold what one file holds") {
  const TemporaryDirectory directory;
  const auto one = directory.path() / "one";
  const auto many = directory.path() / "many";
  synthesize(config_of("qwen2_a"), one, {.seed = 9, .threads = 1});
  const SynthReport report =
      synthesize(config_of("qwen2_a"), many, {.seed = 9, .max_shard_bytes = 20000, .threads = 3});
  CHECK(report.files > 2);
  CHECK_FALSE(std::filesystem::exists(many / "model.safetensors"));
  const auto index = read_json(many / "model.safetensors.index.json");
  CHECK(index["metadata"]["total_size"] == report.bytes);
  const Model a = Model::open(one);
  const Model b = Model::open(many);
  CHECK(b.checkpoint.files().size() == report.files);
  for (const io::TensorInfo& tensor : a.checkpoint.tensors()) {
    const io::TensorInfo* other = b.checkpoint.find(tensor.name);
    REQUIRE(other != nullptr);
    CHECK(tensor.file->read(tensor.bytes) == other->file->read(other->bytes));
  }
}

TEST_CASE("nothing is written over, nothing is left behind") {
  const TemporaryDirectory directory;
  const auto out = directory.path() / "model";
  struct Stop {};
  CHECK_THROWS_AS(synthesize(config_of("gpt2_a"), out, {.max_shard_bytes = 30000},
                             [calls = 0](std::uint64_t, std::uint64_t) mutable {
                               if (++calls == 4) throw Stop{};
                             }),
                  Stop);
  CHECK_FALSE(std::filesystem::exists(out));
  std::filesystem::create_directory(out);
  tidemill::testing::write_text(out / "mine.txt", "mine");
  CHECK_THROWS_AS(synthesize(config_of("gpt2_a"), out, {}), Error);
  CHECK(read_file(out / "mine.txt").size() == 4);
  CHECK(std::distance(std::filesystem::directory_iterator(out), {}) == 1);
  // An empty directory may be there already.
  CHECK(std::filesystem::remove(out / "mine.txt"));
  synthesize(config_of("gpt2_a"), out, {});
  CHECK(std::filesystem::exists(out / "config.json"));
}

}  // namespace
}  // namespace tidemill::engine::testing
