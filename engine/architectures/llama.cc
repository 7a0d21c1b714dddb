// The Llama family: Llama 2/3, Mistral, Qwen2, Qwen3. RMSNorm, rotary, grouped queries, gated MLP.
#include <cmath>

#include "engine/model_spec.h"

namespace tidemill::engine {
namespace {

bool ignorable(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

// What differs between the members of the family.
struct Variant {
  bool qkv_bias = false;
  bool out_bias = false;
  bool mlp_bias = false;
  bool head_norm = false;     // Qwen3: RMSNorm of each query and key head
  bool tie_default = false;   // what a missing tie_word_embeddings means
  float eps_default = 1e-6f;  // what a missing rms_norm_eps means
};

Variant read_variant(const ConfigReader& config, const std::string& type) {
  Variant variant;
  if (type == "llama") {
    variant.qkv_bias = variant.out_bias = config.flag_or({"attention_bias"}, false);
    variant.mlp_bias = config.flag_or({"mlp_bias"}, false);
  } else if (type == "qwen2") {
    variant.qkv_bias = true;
  } else if (type == "qwen3") {
    variant.qkv_bias = variant.out_bias = config.flag_or({"attention_bias"}, false);
    variant.head_norm = true;
  }
  return variant;
}

// Window of each layer, 0 where it sees everything.
std::vector<std::uint64_t> read_windows(const ConfigReader& config, const std::string& type,
                                        std::uint32_t layers) {
  std::vector<std::uint64_t> windows(layers, 0);
  const std::uint32_t window = config.count_or({"sliding_window"}, 0, UINT32_MAX, 0);
  const std::vector<std::string> types = config.texts({"layer_types"});
  if (!types.empty()) {
    if (types.size() != layers) {
      config.fail("layer_types", fmt::format("{} entries for {} layers", types.size(), layers));
    }
    for (std::uint32_t i = 0; i < layers; ++i) {
      if (types[i] == "sliding_attention") {
        if (window == 0) config.fail("layer_types", "sliding_attention without sliding_window");
        windows[i] = window;
      } else if (types[i] != "full_attention") {
        config.fail("layer_types", fmt::format("\"{}\" is not supported", printable(types[i], 40)));
      }
    }
    return windows;
  }
  if (type == "mistral") {
    windows.assign(layers, window);
  } else if (type != "llama" && config.flag_or({"use_sliding_window"}, false)) {
    const std::uint32_t first = config.count_or({"max_window_layers"}, 0, UINT32_MAX, 28);
    for (std::uint32_t i = first; i < layers; ++i) windows[i] = window;
  }
  return windows;
}

}  // namespace

ModelSpec llama_spec(const ConfigReader& config) {
  const std::string type = config.text_or({"model_type"}, "llama");
  const Variant variant = read_variant(config, type);
  ModelSpec spec;
  spec.prefix = "model.";
  spec.ignorable = ignorable;
  spec.vocab = config.count({"vocab_size"}, 1, kMaxVocab);
  spec.hidden = config.count({"hidden_size"}, 1, kMaxWidth);
  spec.ffn = config.count({"intermediate_size"}, 1, kMaxWidth);
  const std::uint32_t layers = config.count({"num_hidden_layers"}, 1, kMaxLayers);
  const std::uint32_t heads = config.count({"num_attention_heads"}, 1, kMaxHeads);
  const std::uint32_t kv_heads = config.count_or({"num_key_value_heads"}, 1, kMaxHeads, heads);
  if (heads % kv_heads != 0) {
    config.fail("num_key_value_heads",
                fmt::format("{} does not divide num_attention_heads {}", kv_heads, heads));
  }
  std::uint32_t head_dim = config.count_or({"head_dim"}, 1, kMaxWidth, 0);
  if (head_dim == 0) {
    if (spec.hidden % heads != 0) {
      config.fail("num_attention_heads",
                  fmt::format("{} does not divide hidden_size {} and there is no head_dim", heads,
                              spec.hidden));
    }
    head_dim = static_cast<std::uint32_t>(spec.hidden / heads);
  }
  const float eps = config.real_or({"rms_norm_eps"}, 0.0, 1.0, variant.eps_default);
  const std::uint64_t h = spec.hidden;
  const std::uint64_t q_width = std::uint64_t{heads} * head_dim;
  const std::uint64_t kv_width = std::uint64_t{kv_heads} * head_dim;
  spec.attention = {.heads = heads, .kv_heads = kv_heads, .head_dim = head_dim};
  spec.qkv_layout = blocked_qkv(spec.attention);
  spec.qkv_width = q_width + 2 * kv_width;
  spec.activation = parse_activation(config, config.text_or({"hidden_act"}, "silu"));
  spec.rotary = read_rotary(config, head_dim);
  spec.token_embedding = "embed_tokens.weight";

  const std::vector<std::uint64_t> windows = read_windows(config, type, layers);
  const auto norm = [&](const std::string& name, std::uint64_t size) {
    return NormSpec{NormSpec::Kind::kRmsNorm, name + ".weight", "", size, eps};
  };
  const auto linear = [](const std::string& name, std::uint64_t in, std::uint64_t out, bool bias) {
    return LinearSpec{name + ".weight", bias ? name + ".bias" : "", out, in, false};
  };
  for (std::uint32_t i = 0; i < layers; ++i) {
    const std::string at = fmt::format("layers.{}.", i);
    const std::string attention = at + "self_attn.";
    LayerSpec layer;
    layer.attention_norm = norm(at + "input_layernorm", h);
    layer.qkv = {linear(attention + "q_proj", h, q_width, variant.qkv_bias),
                 linear(attention + "k_proj", h, kv_width, variant.qkv_bias),
                 linear(attention + "v_proj", h, kv_width, variant.qkv_bias)};
    if (variant.head_norm) {
      layer.q_norm = norm(attention + "q_norm", head_dim);
      layer.k_norm = norm(attention + "k_norm", head_dim);
    }
    layer.attention_out = linear(attention + "o_proj", q_width, h, variant.out_bias);
    layer.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
    layer.window = windows[i];
    layer.mlp_norm = norm(at + "post_attention_layernorm", h);
    layer.gate = linear(at + "mlp.gate_proj", h, spec.ffn, variant.mlp_bias);
    layer.up = linear(at + "mlp.up_proj", h, spec.ffn, variant.mlp_bias);
    layer.down = linear(at + "mlp.down_proj", spec.ffn, h, variant.mlp_bias);
    spec.layers.push_back(std::move(layer));
  }
  spec.final_norm = norm("norm", h);
  spec.head = "lm_head.weight";
  spec.tie_head = config.flag_or({"tie_word_embeddings"}, variant.tie_default);
  return spec;
}

}  // namespace tidemill::engine
