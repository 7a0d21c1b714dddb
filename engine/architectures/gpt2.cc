// GPT-2: learned positions, pre-LayerNorm, matrices stored [in, out] (Conv1D), Q|K|V in blocks.
#include <cmath>

#include "engine/model_spec.h"

namespace tidemill::engine {
namespace {

bool ignorable(std::string_view name) {
  // Causal-mask buffers h.{i}.attn.bias and h.{i}.attn.masked_bias of old files.
  return name.starts_with("h.") &&
         (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

}  // namespace

ModelSpec gpt2_spec(const ConfigReader& config) {
  ModelSpec spec;
  spec.prefix = "transformer.";
  spec.ignorable = ignorable;
  spec.vocab = config.count({"vocab_size"}, 1, kMaxVocab);
  spec.hidden = config.count({"n_embd", "hidden_size"}, 1, kMaxWidth);
  const std::uint32_t layers = config.count({"n_layer", "num_hidden_layers"}, 1, kMaxLayers);
  const std::uint32_t heads = config.count({"n_head", "num_attention_heads"}, 1, kMaxHeads);
  if (spec.hidden % heads != 0) {
    config.fail("n_head", fmt::format("{} does not divide n_embd {}", heads, spec.hidden));
  }
  spec.max_positions =
      config.count_or({"n_positions", "max_position_embeddings"}, 1, kMaxWidth, 1024);
  spec.ffn =
      config.count_or({"n_inner"}, 1, kMaxWidth, static_cast<std::uint32_t>(4 * spec.hidden));
  if (config.flag_or({"add_cross_attention"}, false)) {
    config.fail("add_cross_attention", "models with cross-attention are not supported");
  }
  spec.activation = parse_activation(config, config.text_or({"activation_function"}, "gelu_new"));
  const float eps = config.real_or({"layer_norm_epsilon"}, 0.0, 1.0, 1e-5f);
  const std::uint64_t h = spec.hidden;
  const auto head_dim = static_cast<std::uint32_t>(h / heads);
  spec.attention = {.heads = heads, .kv_heads = heads, .head_dim = head_dim};
  spec.qkv_layout = blocked_qkv(spec.attention);
  spec.qkv_width = 3 * h;
  spec.token_embedding = "wte.weight";
  spec.position_embedding = "wpe.weight";

  const bool scale_by_width = config.flag_or({"scale_attn_weights"}, true);
  const bool scale_by_layer = config.flag_or({"scale_attn_by_inverse_layer_idx"}, false);
  const auto norm = [&](const std::string& name) {
    return NormSpec{NormSpec::Kind::kLayerNorm, name + ".weight", name + ".bias", h, eps};
  };
  const auto conv1d = [](const std::string& name, std::uint64_t in, std::uint64_t out) {
    return LinearSpec{name + ".weight", name + ".bias", out, in, true};
  };
  for (std::uint32_t i = 0; i < layers; ++i) {
    const std::string at = fmt::format("h.{}.", i);
    LayerSpec layer;
    layer.attention_norm = norm(at + "ln_1");
    layer.qkv = {conv1d(at + "attn.c_attn", h, 3 * h)};
    layer.attention_out = conv1d(at + "attn.c_proj", h, h);
    double scale = scale_by_width ? 1.0 / std::sqrt(static_cast<double>(head_dim)) : 1.0;
    if (scale_by_layer) scale /= static_cast<double>(i + 1);
    layer.attention_scale = static_cast<float>(scale);
    layer.mlp_norm = norm(at + "ln_2");
    layer.up = conv1d(at + "mlp.c_fc", h, spec.ffn);
    layer.down = conv1d(at + "mlp.c_proj", spec.ffn, h);
    spec.layers.push_back(std::move(layer));
  }
  spec.final_norm = norm("ln_f");
  spec.head = "lm_head.weight";
  spec.tie_head = config.flag_or({"tie_word_embeddings"}, true);
  return spec;
}

}  // namespace tidemill::engine
