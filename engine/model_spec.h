// A model as the shared sweep sees it: dimensions, norms, linears and the names of their tensors.
// Each architecture is a function from a configuration to one of these.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config_reader.h"
#include "engine/rotary.h"
#include "io/base/error.h"
#include "kernels/ops.h"

namespace tidemill::engine {

/// y = x W^T + b. `transposed` says that the file holds [in, out] (GPT-2's Conv1D).
struct LinearSpec {
  std::string weight;
  std::string bias;  ///< empty: none
  std::uint64_t out = 0;
  std::uint64_t in = 0;
  bool transposed = false;
};

struct NormSpec {
  enum class Kind { kLayerNorm, kRmsNorm };
  Kind kind = Kind::kLayerNorm;
  std::string weight;
  std::string bias;  ///< LayerNorm only
  std::uint64_t size = 0;
  float eps = 1e-5f;
};

struct LayerSpec {
  NormSpec attention_norm;
  std::vector<LinearSpec> qkv;             ///< outputs lie behind one another in the projected row
  std::optional<NormSpec> q_norm, k_norm;  ///< per head, before rotary
  LinearSpec attention_out;
  float attention_scale = 1.0f;
  std::uint64_t window = 0;  ///< sliding window; 0: none
  NormSpec mlp_norm;
  std::optional<LinearSpec> gate;  ///< gated MLP: act(gate x) * (up x)
  LinearSpec up, down;
};

struct ModelSpec {
  std::string architecture;  ///< "gpt2", "bloom", "llama", ... (model_type of the configuration)
  std::uint64_t vocab = 0;
  std::uint64_t hidden = 0;
  std::uint64_t ffn = 0;
  kernels::AttentionShape attention;
  kernels::QkvLayout qkv_layout;
  std::uint64_t qkv_width = 0;  ///< floats of a projected row
  kernels::Activation activation = kernels::Activation::kSilu;
  std::uint64_t max_positions = 0;   ///< hard limit on positions (learned embeddings); 0: none
  bool residual_after_norm = false;  ///< BLOOM: the residual is taken after the norm

  std::string token_embedding;
  std::string position_embedding;  ///< empty: none
  std::optional<NormSpec> embedding_norm;
  std::optional<RotaryConfig> rotary;
  std::vector<float> alibi_slopes;  ///< [heads], or empty
  std::vector<LayerSpec> layers;
  NormSpec final_norm;
  std::string head;  ///< output matrix [vocab, hidden]
  bool tie_head = true;

  /// Prefix that tensor names may or may not carry ("transformer.", "model.").
  std::string prefix;
  /// Names (without prefix) that checkpoints carry and inference does not use.
  bool (*ignorable)(std::string_view name) = nullptr;

  std::vector<std::uint32_t> eos;
  std::optional<std::uint32_t> bos;
};

/// Reads `directory`/config.json and generation_config.json (token ids) and maps them.
/// Error(kModel) if the configuration is missing, contradictory or of an unknown model_type.
ModelSpec load_model_spec(const std::string& directory);

/// The same from parsed JSON; pure.
ModelSpec make_model_spec(const ConfigReader& config);

/// The architectures that make_model_spec knows.
ModelSpec gpt2_spec(const ConfigReader& config);
ModelSpec bloom_spec(const ConfigReader& config);
ModelSpec llama_spec(const ConfigReader& config);

/// Activation by its Hugging Face name ("gelu_new", "silu", ...).
kernels::Activation parse_activation(const ConfigReader& config, const std::string& name);

/// Layout of Q, K, V as three blocks behind one another.
kernels::QkvLayout blocked_qkv(const kernels::AttentionShape& shape);

/// Largest values accepted from a configuration, beyond any published model.
inline constexpr std::uint32_t kMaxLayers = 1 << 16;
inline constexpr std::uint32_t kMaxWidth = 1 << 24;
inline constexpr std::uint32_t kMaxVocab = 1 << 24;
inline constexpr std::uint32_t kMaxHeads = 1 << 16;

}  // namespace tidemill::engine
