// Configurations: what each key means, and that no value makes anything but a clear error.
#include "engine/model_spec.h"

#include <doctest/doctest.h>

#include <cmath>

#include "io/base/error.h"

namespace tidemill::engine {
namespace {

using nlohmann::json;

json gpt2() {
  return json::parse(R"({"model_type": "gpt2", "vocab_size": 100, "n_embd": 48, "n_layer": 2,
      "n_head": 3, "n_positions": 64, "n_inner": null, "activation_function": "gelu_new",
      "layer_norm_epsilon": 1e-5, "eos_token_id": 7})");
}

json bloom() {
  return json::parse(R"({"model_type": "bloom", "vocab_size": 100, "hidden_size": 96, "n_layer": 2,
      "n_head": 12, "layer_norm_epsilon": 1e-5})");
}

json llama() {
  return json::parse(R"({"model_type": "llama", "vocab_size": 100, "hidden_size": 48,
      "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 6,
      "num_key_value_heads": 2, "head_dim": 10, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
      "max_position_embeddings": 64, "hidden_act": "silu", "eos_token_id": [2, 3, 200]})");
}

ModelSpec parse(const json& config) { return make_model_spec(ConfigReader(config, "config.json")); }

TEST_CASE("GPT-2 stores its matrices [in, out] and scales scores by layer when asked") {
  json config = gpt2();
  const ModelSpec spec = parse(config);
  CHECK(spec.ffn == 192);
  CHECK(spec.max_positions == 64);
  CHECK(spec.layers[0].up.transposed);
  CHECK(spec.layers[1].attention_scale == doctest::Approx(0.25));
  CHECK(spec.tie_head);
  CHECK(spec.eos == std::vector<std::uint32_t>{7});
  config["scale_attn_by_inverse_layer_idx"] = true;
  CHECK(parse(config).layers[1].attention_scale == doctest::Approx(0.125));
  config["scale_attn_weights"] = false;
  CHECK(parse(config).layers[0].attention_scale == 1.0f);
  CHECK(spec.ignorable("h.3.attn.bias"));
  CHECK(spec.ignorable("h.3.attn.masked_bias"));
  CHECK_FALSE(spec.ignorable("h.3.attn.c_attn.bias"));
}

TEST_CASE("ALiBi slopes are fp32 powers of an fp32 base, also for 12 and 112 heads") {
  const auto slopes = [](std::uint32_t heads) {
    json config = bloom();
    config["hidden_size"] = heads * 8;
    config["n_head"] = heads;
    return parse(config).alibi_slopes;
  };
  const auto eight = slopes(8);
  CHECK(eight[0] == 0.5f);
  CHECK(eight[7] == 0.00390625f);
  const auto sixteen = slopes(16);
  CHECK(sixteen[0] == 0.70710677f);
  CHECK(sixteen[1] == 0.49999997f);
  CHECK(sixteen[15] == 0.0039062488f);
  const auto twelve = slopes(12);
  REQUIRE(twelve.size() == 12);
  CHECK(twelve[9] == 0.35355338f);
  CHECK(twelve[10] == 0.17677668f);
  CHECK(twelve[11] == 0.08838834f);
  const auto many = slopes(112);
  CHECK(many.front() == 0.91700405f);
  CHECK(many.back() == 0.01631677f);
}

TEST_CASE("BLOOM interleaves q, k and v per head") {
  const ModelSpec spec = parse(bloom());
  CHECK(spec.qkv_layout.k_offset == 8);
  CHECK(spec.qkv_layout.v_offset == 16);
  CHECK(spec.qkv_layout.q_head_stride == 24);
  CHECK(spec.activation == kernels::Activation::kGeluTanhBloom);
}

TEST_CASE("Llama: heads times head_dim need not be the hidden size") {
  const ModelSpec spec = parse(llama());
  CHECK(spec.qkv_width == (6 + 2 + 2) * 10);
  CHECK(spec.layers[0].attention_out.in == 60);
  CHECK_FALSE(spec.tie_head);
  CHECK(spec.layers[0].qkv[0].bias.empty());
  CHECK(spec.eos == std::vector<std::uint32_t>{2, 3});  // 200 is beyond the vocabulary
}

TEST_CASE("members of the Llama family differ in biases, head norms and windows") {
  json config = llama();
  config["model_type"] = "qwen2";
  CHECK(parse(config).layers[0].qkv[2].bias == "layers.0.self_attn.v_proj.bias");
  CHECK(parse(config).layers[0].attention_out.bias.empty());
  config["use_sliding_window"] = true;
  config["sliding_window"] = 6;
  config["max_window_layers"] = 1;
  CHECK(parse(config).layers[0].window == 0);
  CHECK(parse(config).layers[1].window == 6);
  config["model_type"] = "mistral";
  CHECK(parse(config).layers[0].window == 6);
  config["sliding_window"] = nullptr;
  CHECK(parse(config).layers[0].window == 0);
  config["model_type"] = "qwen3";
  CHECK(parse(config).layers[0].q_norm.has_value());
  CHECK(parse(config).layers[0].qkv[0].bias.empty());
  config["model_type"] = "llama";
  config["attention_bias"] = true;
  CHECK(parse(config).layers[0].attention_out.bias == "layers.0.self_attn.o_proj.bias");
}

TEST_CASE("every damaged value is an error of the model that names the key") {
  const std::vector<json> bad_values = {
      0, -1, 1.5, "12", true, json::array(), json::object(), 1e300, 18446744073709551615ULL};
  struct Row {
    json config;
    std::vector<const char*> keys;
  };
  const std::vector<Row> rows = {
      {gpt2(), {"vocab_size", "n_embd", "n_layer", "n_head", "n_positions", "n_inner"}},
      {bloom(), {"vocab_size", "hidden_size", "n_layer", "n_head"}},
      {llama(),
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings"}},
  };
  for (const Row& row : rows) {
    for (const char* key : row.keys) {
      for (const json& value : bad_values) {
        json config = row.config;
        config[key] = value;
        CAPTURE(config["model_type"]);
        CAPTURE(key);
        CAPTURE(value);
        try {
          parse(config);
          FAIL_CHECK("accepted");
        } catch (const Error& error) {
          CHECK(error.kind() == ErrorKind::kModel);
          CHECK(std::string(error.what()).find(key) != std::string::npos);
        }
      }
    }
  }
}

TEST_CASE("missing keys and contradictions are errors") {
  const auto broken = [](json config, const char* key, json value) {
    config[key] = std::move(value);
    CAPTURE(key);
    CHECK_THROWS_AS(parse(config), Error);
  };
  broken(gpt2(), "model_type", nullptr);
  broken(gpt2(), "model_type", "gpt5");
  broken(gpt2(), "n_head", 5);  // does not divide 48
  broken(gpt2(), "vocab_size", nullptr);
  broken(gpt2(), "activation_function", "softmax");
  broken(gpt2(), "layer_norm_epsilon", "1e-5");
  broken(gpt2(), "layer_norm_epsilon", -1.0);
  broken(gpt2(), "tie_word_embeddings", 1);
  broken(gpt2(), "eos_token_id", "x");
  broken(gpt2(), "add_cross_attention", true);
  broken(bloom(), "slow_but_exact", true);
  broken(bloom(), "n_head", 7);
  broken(llama(), "num_key_value_heads", 4);  // does not divide 6
  broken(llama(), "head_dim", 7);             // rotary needs an even number
  broken(llama(), "rope_theta", "big");
  broken(llama(), "layer_types", json::array({"full_attention"}));
  broken(llama(), "layer_types", json::array({"full_attention", "linear_attention"}));
  broken(llama(), "layer_types", json::array({"full_attention", "sliding_attention"}));
  broken(llama(), "hidden_act", 3);
  CHECK_THROWS_AS(parse(json::array()), Error);
}

}  // namespace
}  // namespace tidemill::engine
