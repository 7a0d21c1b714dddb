// Rotary position embeddings: inverse frequencies with the published scalings, and the cos/sin
// rows that the rotary op reads.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/config_reader.h"

namespace tidemill::engine {

/// The `rope_scaling` / `rope_parameters` kinds of Hugging Face configurations.
enum class RotaryScaling { kNone, kLinear, kDynamic, kYarn, kLongRope, kLlama3 };

struct RotaryConfig {
  std::uint32_t dims = 0;  ///< rotated dimensions of each head, even
  float base = 10000.0f;
  RotaryScaling scaling = RotaryScaling::kNone;
  float factor = 1.0f;
  float max_positions = 0.0f;       ///< max_position_embeddings
  float original_positions = 0.0f;  ///< original_max_position_embeddings, or max_positions
  float attention_factor = 1.0f;    ///< multiplies cos and sin
  float beta_fast = 32.0f, beta_slow = 1.0f;
  bool truncate = true;  ///< yarn: correction range rounded to whole dimensions
  float low_freq_factor = 1.0f, high_freq_factor = 4.0f;
  std::vector<float> short_factor, long_factor;  ///< [dims / 2]
};

/// Reads rope_theta, rope_scaling or rope_parameters, and max_position_embeddings.
RotaryConfig read_rotary(const ConfigReader& config, std::uint32_t head_dim);

/// Inverse frequencies [dims / 2] for a sequence whose length is `length` (only the dynamic and
/// longrope kinds depend on it).
std::vector<float> inverse_frequencies(const RotaryConfig& config, std::uint64_t length);

/// Writes dims/2 cosines and dims/2 sines for one position.
void rotary_row(const RotaryConfig& config, const std::vector<float>& inverse_frequencies,
                std::uint64_t position, float* row);

/// True if inverse_frequencies depends on the length.
bool depends_on_length(const RotaryConfig& config);

}  // namespace tidemill::engine
