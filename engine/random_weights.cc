#include "engine/random_weights.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "io/base/error.h"

namespace tidemill::engine {
namespace {

constexpr std::size_t kQuantiles = 1 << 16;
constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a counter in, 64 random bits out.
constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

/// Inverse of the normal distribution function: Acklam's rational approximation, whose relative
/// error of 1.2e-9 is far below what any weight type resolves.
double normal_quantile(double p) {
  constexpr std::array<double, 6> a = {-3.969683028665376e+01, 2.209460984245205e+02,
                                       -2.759285104469687e+02, 1.383577518672690e+02,
                                       -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr std::array<double, 5> b = {-5.447609879822406e+01, 1.615858368580409e+02,
                                       -1.556989798598866e+02, 6.680131188771972e+01,
                                       -1.328068155288572e+01};
  constexpr std::array<double, 6> c = {-7.784894002430293e-03, -3.223964580411365e-01,
                                       -2.400758277161838e+00, -2.549732539343734e+00,
                                       4.374664141464968e+00,  2.938163982698783e+00};
  constexpr std::array<double, 4> d = {7.784695709041462e-03, 3.224671290700398e-01,
                                       2.445134137142996e+00, 3.754408661907416e+00};
  constexpr double kTail = 0.02425;
  if (p > 0.5) return -normal_quantile(1 - p);
  if (p < kTail) {
    const double q = std::sqrt(-2 * std::log(p));
    return (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
           ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
  }
  const double q = p - 0.5;
  const double r = q * q;
  return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
         (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
}

template <typename T>
void fill_from(const std::byte* table, std::uint64_t key, std::uint64_t first,
               std::span<std::byte> values) {
  const std::uint64_t count = values.size() / sizeof(T);
  std::byte* out = values.data();
  for (std::uint64_t i = 0; i < count; i += 4) {
    std::uint64_t bits = mix(key + (first + i + 4) * kGolden);
    const std::uint64_t here = std::min<std::uint64_t>(4, count - i);
    for (std::uint64_t j = 0; j < here; ++j, bits >>= 16) {
      std::memcpy(out + (i + j) * sizeof(T), table + (bits & 0xFFFF) * sizeof(T), sizeof(T));
    }
  }
}

}  // namespace

std::uint32_t round_to_bits(float value, DType dtype) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (dtype == DType::kF32) return bits;
  if (dtype == DType::kBF16) return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  TM_CHECK(dtype == DType::kF16, "{} is not a weight type", to_string(dtype));
  TM_CHECK(std::abs(value) < 65504.0F, "{} does not fit F16", value);
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  if (std::abs(value) < 0x1p-14F) {  // subnormal: a whole number of 2^-24
    return sign | static_cast<std::uint32_t>(std::nearbyint(std::abs(value) * 0x1p24F));
  }
  // Rounding may carry into the exponent, which is what it should do.
  const std::uint32_t rounded = magnitude + 0xFFF + ((magnitude >> 13) & 1);
  return sign | ((rounded >> 13) - (112U << 10));
}

NormalTable::NormalTable(double deviation, DType dtype)
    : dtype_(dtype), table_(kQuantiles * size_of(dtype)) {
  const std::size_t width = size_of(dtype);
  for (std::size_t i = 0; i < kQuantiles; ++i) {
    const double p = (static_cast<double>(i) + 0.5) / static_cast<double>(kQuantiles);
    const auto value = static_cast<float>(deviation * normal_quantile(p));
    const std::uint32_t bits = round_to_bits(value, dtype);
    std::memcpy(table_.data() + i * width, &bits, width);  // little-endian
  }
}

void NormalTable::fill(std::uint64_t key, std::uint64_t first, std::span<std::byte> values) const {
  TM_CHECK(first % 4 == 0, "element {}", first);
  if (dtype_ == DType::kF32) {
    fill_from<std::uint32_t>(table_.data(), key, first, values);
  } else {
    fill_from<std::uint16_t>(table_.data(), key, first, values);
  }
}

std::uint64_t tensor_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return mix(hash ^ mix(seed + kGolden));
}

}  // namespace tidemill::engine
