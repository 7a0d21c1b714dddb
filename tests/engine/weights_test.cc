// Strict loading: nothing runs with a weight that is missing, left over, misshapen or mixed up.
#include "engine/weights.h"

#include <doctest/doctest.h>

#include <cstring>

#include "io/base/error.h"
#include "tests/engine/support/run.h"
#include "tests/support/checkpoint_dir.h"

namespace tidemill::engine::testing {
namespace {

namespace fs = std::filesystem;
using tidemill::testing::read_json;
using tidemill::testing::read_safetensors;
using tidemill::testing::StoredTensors;
using tidemill::testing::TemporaryDirectory;
using tidemill::testing::write_safetensors;
using tidemill::testing::write_text;

// A fixture with a single shard, opened after a change to its tensors and configuration.
class Variant {
 public:
  explicit Variant(const std::string& name)
      : tensors(read_safetensors(fixture(name) + "/model.safetensors")),
        config(read_json(fixture(name) + "/config.json")) {}

  std::string write() {
    write_safetensors(directory_.path() / "model.safetensors", tensors);
    write_text(directory_.path() / "config.json", config.dump());
    return directory_.path().string();
  }
  std::string error() {
    try {
      Model::open(write());
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kModel);
      return error.what();
    }
    return "";
  }
  std::vector<float> logits() {
    return logits_of(Model::open(write()), {1, 2, 3, 4, 5, 6, 7, 8, 9}, Setup{});
  }

  StoredTensors tensors;
  nlohmann::json config;

 private:
  TemporaryDirectory directory_;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("each missing tensor is an error that names it") {
  const Variant original("llama2_a");
  for (const auto& entry : original.tensors) {
    const std::string& name = entry.first;
    if (name.ends_with("inv_freq")) continue;  // a buffer of old files that nobody reads
    Variant variant("llama2_a");
    variant.tensors.erase(name);
    CAPTURE(name);
    CHECK(contains(variant.error(), name.substr(name.find('.') + 1)));
  }
}

TEST_CASE("an unexpected tensor is an error that names it") {
  Variant variant("llama2_a");
  variant.tensors["model.layers.0.self_attn.q_proj.bias"] = variant.tensors.at("model.norm.weight");
  CHECK(contains(variant.error(), "model.layers.0.self_attn.q_proj.bias"));
}

TEST_CASE("a layer more than the configuration says is unexpected, a layer less is missing") {
  Variant fewer("llama2_a");
  fewer.config["num_hidden_layers"] = fewer.config["num_hidden_layers"].get<int>() - 1;
  CHECK(contains(fewer.error(), "unexpected"));
  Variant more("llama2_a");
  more.config["num_hidden_layers"] = more.config["num_hidden_layers"].get<int>() + 1;
  CHECK(contains(more.error(), "missing"));
}

TEST_CASE("a wrong shape and a wrong type are errors with tensor and file") {
  Variant shape("llama2_a");
  auto& norm = shape.tensors.at("model.norm.weight");
  norm.shape = {1, norm.shape[0]};
  CHECK(contains(shape.error(), "model.norm.weight"));
  CHECK(contains(shape.error(), "shape"));
  Variant type("llama2_a");
  type.tensors.at("model.norm.weight").dtype = "I32";
  CHECK(contains(type.error(), "I32"));
  CHECK(contains(type.error(), "model.safetensors"));
}

TEST_CASE("with and without the base model's prefix it is the same model") {
  for (const char* name : {"llama2_a", "gpt2_a", "bloom_a"}) {
    CAPTURE(name);
    Variant with(name);
    Variant without(name);
    StoredTensors renamed;
    for (const auto& [key, tensor] : without.tensors) {
      const auto dot = key.find('.');
      const bool prefixed = key.starts_with("model.") || key.starts_with("transformer.");
      renamed[prefixed ? key.substr(dot + 1) : key] = tensor;
    }
    without.tensors = renamed;
    CHECK(with.logits() == without.logits());
    // Both spellings of one tensor at once leave it open which one counts.
    with.tensors[renamed.begin()->first] = renamed.begin()->second;
    if (with.tensors.size() > renamed.size()) CHECK(contains(with.error(), "both"));
  }
}

TEST_CASE("output matrix: tied when absent, the stored one when present, an error otherwise") {
  Variant tied("gpt2_a");
  REQUIRE_FALSE(tied.tensors.contains("lm_head.weight"));
  const auto expected = tied.logits();

  Variant copied("gpt2_a");
  copied.tensors["lm_head.weight"] = copied.tensors.at("transformer.wte.weight");
  CHECK(copied.logits() == expected);
  CHECK(Model::open(copied.write()).weights.notices.size() == 1);

  Variant different("gpt2_a");
  auto head = different.tensors.at("transformer.wte.weight");
  std::fill(head.data.begin(), head.data.end(), std::byte{0});
  different.tensors["lm_head.weight"] = head;
  for (const float logit : different.logits()) CHECK(logit == 0.0f);

  Variant untied("gpt2_a");
  untied.config["tie_word_embeddings"] = false;
  CHECK(contains(untied.error(), "lm_head.weight"));
}

TEST_CASE("buffers of old files are ignored, and only those") {
  Variant variant("gpt2_a");
  const auto expected = variant.logits();
  variant.tensors["transformer.h.0.attn.bias"] = {"U8", {1, 1, 2, 2}, std::vector<std::byte>(4)};
  variant.tensors["transformer.h.0.attn.masked_bias"] = {"F32", {}, std::vector<std::byte>(4)};
  CHECK(variant.logits() == expected);
}

TEST_CASE("a NaN weight stops the run with the layer it shows in") {
  Variant variant("llama2_a");
  auto& weight = variant.tensors.at("model.layers.1.mlp.down_proj.weight");
  REQUIRE(weight.dtype == "F32");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(weight.data.data(), &nan, sizeof nan);
  try {
    variant.logits();
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kModel);
    CHECK(contains(error.what(), "layer 1"));
    CHECK(contains(error.what(), "position 0"));
  }
}

TEST_CASE("a checkpoint file that shrinks while it is in use is an error, not a signal") {
  Variant variant("llama2_a");
  const std::string directory = variant.write();
  const Model model = Model::open(directory);
  fs::resize_file(directory + "/model.safetensors",
                  fs::file_size(directory + "/model.safetensors") / 2);
  CHECK_THROWS_AS(logits_of(model, {1, 2, 3}, Setup{}), Error);
}

TEST_CASE("a checkpoint file that is replaced while it is in use keeps its old content") {
  Variant variant("llama2_a");
  const auto expected = variant.logits();
  const std::string directory = variant.write();
  const Model model = Model::open(directory);
  write_text(directory + "/other", "not a checkpoint");
  fs::rename(directory + "/other", directory + "/model.safetensors");
  CHECK(logits_of(model, {1, 2, 3, 4, 5, 6, 7, 8, 9}, Setup{}) == expected);
}

TEST_CASE("a directory that is not a model is a clear error") {
  TemporaryDirectory empty;
  CHECK_THROWS_AS(Model::open(empty.path().string()), Error);
  CHECK_THROWS_AS(Model::open((empty.path() / "absent").string()), Error);
  write_text(empty.path() / "config.json", "{\"model_type\": \"gpt2\"");
  CHECK_THROWS_AS(Model::open(empty.path().string()), Error);
}

}  // namespace
}  // namespace tidemill::engine::testing
