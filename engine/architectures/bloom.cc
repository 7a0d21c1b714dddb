// BLOOM: ALiBi, LayerNorm on the embeddings, fused projection with rows [head][q,k,v][dim].
#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/model_spec.h"

namespace tidemill::engine {
namespace {

// Slopes are fp32 powers of an fp32-rounded base, as the reference computes them; for 16 heads the
// second slope is 0.49999997, not 0.5.
std::vector<float> alibi_slopes(std::uint32_t heads) {
  const auto closest = std::bit_floor(heads);
  const auto base_for = [](double heads_of_base) {
    return static_cast<float>(std::exp2(-std::exp2(-(std::log2(heads_of_base) - 3.0))));
  };
  const auto power = [](float base, std::uint32_t exponent) {
    return static_cast<float>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  };
  std::vector<float> slopes;
  const float base = base_for(closest);
  for (std::uint32_t k = 1; k <= closest; ++k) slopes.push_back(power(base, k));
  const float extra_base = base_for(2.0 * closest);
  const std::uint32_t extra = std::min(closest, heads - closest);
  for (std::uint32_t k = 0; k < extra; ++k) slopes.push_back(power(extra_base, 2 * k + 1));
  return slopes;
}

}  // namespace

ModelSpec bloom_spec(const ConfigReader& config) {
  ModelSpec spec;
  spec.prefix = "transformer.";
  spec.vocab = config.count({"vocab_size"}, 1, kMaxVocab);
  spec.hidden = config.count({"hidden_size", "n_embed"}, 1, kMaxWidth);
  const std::uint32_t layers = config.count({"n_layer", "num_hidden_layers"}, 1, kMaxLayers);
  const std::uint32_t heads = config.count({"n_head", "num_attention_heads"}, 1, kMaxHeads);
  if (spec.hidden % heads != 0) {
    config.fail("n_head", fmt::format("{} does not divide hidden_size {}", heads, spec.hidden));
  }
  if (config.flag_or({"slow_but_exact"}, false)) {
    config.fail("slow_but_exact", "the reference drops biases in this mode; it is not supported");
  }
  const float eps = config.real_or({"layer_norm_epsilon"}, 0.0, 1.0, 1e-5f);
  const std::uint64_t h = spec.hidden;
  const auto head_dim = static_cast<std::uint32_t>(h / heads);
  spec.ffn = 4 * h;
  spec.attention = {.heads = heads, .kv_heads = heads, .head_dim = head_dim};
  const std::uint64_t d = head_dim;
  spec.qkv_layout = {.q_offset = 0,
                     .q_head_stride = 3 * d,
                     .k_offset = d,
                     .k_head_stride = 3 * d,
                     .v_offset = 2 * d,
                     .v_head_stride = 3 * d};
  spec.qkv_width = 3 * h;
  spec.activation = kernels::Activation::kGeluTanhBloom;
  spec.residual_after_norm = config.flag_or({"apply_residual_connection_post_layernorm"}, false);
  spec.alibi_slopes = alibi_slopes(heads);
  spec.token_embedding = "word_embeddings.weight";

  const auto norm = [&](const std::string& name) {
    return NormSpec{NormSpec::Kind::kLayerNorm, name + ".weight", name + ".bias", h, eps};
  };
  const auto linear = [](const std::string& name, std::uint64_t in, std::uint64_t out) {
    return LinearSpec{name + ".weight", name + ".bias", out, in, false};
  };
  spec.embedding_norm = norm("word_embeddings_layernorm");
  for (std::uint32_t i = 0; i < layers; ++i) {
    const std::string at = fmt::format("h.{}.", i);
    LayerSpec layer;
    layer.attention_norm = norm(at + "input_layernorm");
    layer.qkv = {linear(at + "self_attention.query_key_value", h, 3 * h)};
    layer.attention_out = linear(at + "self_attention.dense", h, h);
    layer.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
    layer.mlp_norm = norm(at + "post_attention_layernorm");
    layer.up = linear(at + "mlp.dense_h_to_4h", h, 4 * h);
    layer.down = linear(at + "mlp.dense_4h_to_h", 4 * h, h);
    spec.layers.push_back(std::move(layer));
  }
  spec.final_norm = norm("ln_f");
  spec.head = "lm_head.weight";
  spec.tie_head = config.flag_or({"tie_word_embeddings"}, true);
  return spec;
}

}  // namespace tidemill::engine
