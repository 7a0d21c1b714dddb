#include "engine/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "io/base/error.h"

namespace tidemill::engine {
namespace {

constexpr double kLargest = 1e12;
constexpr float kTwoPi = 2.0f * std::numbers::pi_v<float>;

// The references compute in fp32. A double computation that is rounded once is the correctly
// rounded fp32 result, which is what their vector libraries return in nearly all cases, and it does
// not depend on this machine's instruction set.
float powf_rounded(float base, float exponent) {
  return static_cast<float>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
}

float exponent_of(const RotaryConfig& config, std::uint32_t j) {
  return static_cast<float>(2 * j) / static_cast<float>(config.dims);
}

// yarn: the dimension whose wave turns `rotations` times within the original context.
double yarn_dimension(const RotaryConfig& config, double rotations) {
  const double dims = config.dims;
  return dims * std::log(config.original_positions / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(static_cast<double>(config.base)));
}

std::vector<float> yarn_frequencies(const RotaryConfig& config) {
  double low = yarn_dimension(config, config.beta_fast);
  double high = yarn_dimension(config, config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(config.dims) - 1.0);
  if (low == high) high += 0.001;
  std::vector<float> out(config.dims / 2);
  for (std::uint32_t j = 0; j < out.size(); ++j) {
    const float position_frequency = powf_rounded(config.base, exponent_of(config, j));
    const float extrapolated = 1.0f / position_frequency;
    const float interpolated = 1.0f / (config.factor * position_frequency);
    const float ramp = std::clamp(
        (static_cast<float>(j) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f,
        1.0f);
    const float keep = 1.0f - ramp;
    out[j] = interpolated * (1.0f - keep) + extrapolated * keep;
  }
  return out;
}

std::vector<float> llama3_frequencies(const RotaryConfig& config) {
  const float low_wavelength = config.original_positions / config.low_freq_factor;
  const float high_wavelength = config.original_positions / config.high_freq_factor;
  std::vector<float> out(config.dims / 2);
  for (std::uint32_t j = 0; j < out.size(); ++j) {
    const float frequency = 1.0f / powf_rounded(config.base, exponent_of(config, j));
    const float wavelength = kTwoPi / frequency;
    if (wavelength < high_wavelength) {
      out[j] = frequency;
    } else if (wavelength > low_wavelength) {
      out[j] = frequency / config.factor;
    } else {
      const float smooth = (config.original_positions / wavelength - config.low_freq_factor) /
                           (config.high_freq_factor - config.low_freq_factor);
      out[j] = (1.0f - smooth) * frequency / config.factor + smooth * frequency;
    }
  }
  return out;
}

void read_scaling(const ConfigReader& config, const ConfigReader& scaling, RotaryConfig& out) {
  const std::string type = scaling.text_or({"rope_type", "type"}, "default");
  if (type == "default") return;
  // The positions that the model was trained on; newer configurations keep them at the top level.
  const std::uint32_t original =
      scaling.count_or({"original_max_position_embeddings"}, 1, UINT32_MAX,
                       config.count_or({"original_max_position_embeddings"}, 1, UINT32_MAX,
                                       static_cast<std::uint32_t>(out.max_positions)));
  out.original_positions = static_cast<float>(original);
  if (type == "linear") {
    out.scaling = RotaryScaling::kLinear;
    out.factor = scaling.real({"factor"}, 1e-6, kLargest);
  } else if (type == "dynamic") {
    out.scaling = RotaryScaling::kDynamic;
    out.factor = scaling.real({"factor"}, 1.0, kLargest);
    if (out.dims <= 2) config.fail("rope_scaling", "dynamic scaling needs more than 2 dimensions");
  } else if (type == "yarn") {
    out.scaling = RotaryScaling::kYarn;
    out.factor = scaling.real({"factor"}, 1.0, kLargest);
    out.beta_fast = scaling.real_or({"beta_fast"}, 1e-6, kLargest, 32.0f);
    out.beta_slow = scaling.real_or({"beta_slow"}, 1e-6, kLargest, 1.0f);
    out.truncate = scaling.flag_or({"truncate"}, true);
    const auto scale = [&](double mscale) {
      return out.factor <= 1.0f ? 1.0
                                : 0.1 * mscale * std::log(static_cast<double>(out.factor)) + 1;
    };
    // DeepSeek's pair of factors; both default to one.
    const float mscale = scaling.real_or({"mscale"}, 0.0, kLargest, 0.0f);
    const float mscale_all = scaling.real_or({"mscale_all_dim"}, 0.0, kLargest, 0.0f);
    const double standard =
        mscale > 0 && mscale_all > 0 ? scale(mscale) / scale(mscale_all) : scale(1.0);
    out.attention_factor =
        scaling.real_or({"attention_factor"}, 1e-6, kLargest, static_cast<float>(standard));
  } else if (type == "longrope") {
    out.scaling = RotaryScaling::kLongRope;
    out.short_factor = scaling.reals({"short_factor"}, 1e-6, kLargest);
    out.long_factor = scaling.reals({"long_factor"}, 1e-6, kLargest);
    if (out.short_factor.size() != out.dims / 2 || out.long_factor.size() != out.dims / 2) {
      scaling.fail("short_factor/long_factor", fmt::format("must have {} entries", out.dims / 2));
    }
    out.factor =
        scaling.real_or({"factor"}, 1e-6, kLargest, out.max_positions / out.original_positions);
    const double standard =
        out.factor <= 1.0f
            ? 1.0
            : std::sqrt(1.0 + std::log(static_cast<double>(out.factor)) /
                                  std::log(static_cast<double>(out.original_positions)));
    out.attention_factor =
        scaling.real_or({"attention_factor"}, 1e-6, kLargest, static_cast<float>(standard));
  } else if (type == "llama3") {
    out.scaling = RotaryScaling::kLlama3;
    out.factor = scaling.real({"factor"}, 1e-6, kLargest);
    out.low_freq_factor = scaling.real({"low_freq_factor"}, 1e-6, kLargest);
    out.high_freq_factor = scaling.real({"high_freq_factor"}, 1e-6, kLargest);
    if (out.high_freq_factor <= out.low_freq_factor) {
      scaling.fail("high_freq_factor", "must be larger than low_freq_factor");
    }
  } else {
    scaling.fail("rope_type",
                 fmt::format("\"{}\" is not supported (default, linear, dynamic, yarn, "
                             "longrope, llama3 are)",
                             printable(type, 40)));
  }
}

}  // namespace

RotaryConfig read_rotary(const ConfigReader& config, std::uint32_t head_dim) {
  RotaryConfig out;
  const nlohmann::json* scaling = config.object({"rope_parameters", "rope_scaling"});
  static const nlohmann::json kEmpty = nlohmann::json::object();
  const ConfigReader nested(scaling == nullptr ? kEmpty : *scaling,
                            config.origin() + ": rope_scaling");
  const float partial = nested.real_or({"partial_rotary_factor"}, 0.0, 1.0,
                                       config.real_or({"partial_rotary_factor"}, 0.0, 1.0, 1.0f));
  out.dims = static_cast<std::uint32_t>(static_cast<float>(head_dim) * partial);
  if (out.dims == 0 || out.dims % 2 != 0) {
    config.fail("head_dim", fmt::format("{} rotary dimensions are not an even number", out.dims));
  }
  out.base = nested.real_or({"rope_theta"}, 1.0000001, kLargest,
                            config.real_or({"rope_theta"}, 1.0000001, kLargest, 10000.0f));
  out.max_positions =
      static_cast<float>(config.count_or({"max_position_embeddings"}, 1, UINT32_MAX, 2048));
  out.original_positions = out.max_positions;
  read_scaling(config, nested, out);
  return out;
}

bool depends_on_length(const RotaryConfig& config) {
  return config.scaling == RotaryScaling::kDynamic || config.scaling == RotaryScaling::kLongRope;
}

std::vector<float> inverse_frequencies(const RotaryConfig& config, std::uint64_t length) {
  if (config.scaling == RotaryScaling::kYarn) return yarn_frequencies(config);
  if (config.scaling == RotaryScaling::kLlama3) return llama3_frequencies(config);
  float base = config.base;
  const std::vector<float>* extension = nullptr;
  if (config.scaling == RotaryScaling::kDynamic) {
    const double dims = config.dims;
    const double n =
        std::max(static_cast<double>(length), static_cast<double>(config.max_positions));
    const double stretch = config.factor * n / config.max_positions - (config.factor - 1.0);
    base = static_cast<float>(config.base * std::pow(stretch, dims / (dims - 2.0)));
  } else if (config.scaling == RotaryScaling::kLongRope) {
    extension = static_cast<float>(length) > config.original_positions ? &config.long_factor
                                                                       : &config.short_factor;
  }
  std::vector<float> out(config.dims / 2);
  for (std::uint32_t j = 0; j < out.size(); ++j) {
    const float power = powf_rounded(base, exponent_of(config, j));
    out[j] = 1.0f / (extension == nullptr ? power : (*extension)[j] * power);
    if (config.scaling == RotaryScaling::kLinear) out[j] /= config.factor;
  }
  return out;
}

void rotary_row(const RotaryConfig& config, const std::vector<float>& inverse_frequencies,
                std::uint64_t position, float* row) {
  const std::size_t half = inverse_frequencies.size();
  for (std::size_t j = 0; j < half; ++j) {
    // The angle is an fp32 product in the references; its cosine is then the rounded true value.
    const double angle = static_cast<float>(position) * inverse_frequencies[j];
    row[j] = static_cast<float>(std::cos(angle)) * config.attention_factor;
    row[half + j] = static_cast<float>(std::sin(angle)) * config.attention_factor;
  }
}

}  // namespace tidemill::engine
