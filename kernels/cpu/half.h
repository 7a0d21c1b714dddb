// Weights one at a time, for tails and for processors without conversion instructions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "io/base/dtype.h"

namespace tidemill::kernels::cpu {

/// fp16 -> fp32, exact. A signalling NaN becomes quiet, as the processor's instruction does it.
inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 31u;
  const std::uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: a whole number of 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) {
    const std::uint32_t quiet = mantissa != 0 ? 0x400000u : 0;
    return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13 | quiet);
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

template <DType kType>
inline constexpr std::size_t kWeightBytes = kType == DType::kF32 ? 4 : 2;

/// Element `index` of weights that may lie at any address.
template <DType kType>
float weight_to_float(const std::byte* data, std::size_t index) {
  if constexpr (kType == DType::kF32) {
    float value = 0;
    std::memcpy(&value, data + 4 * index, 4);
    return value;
  } else {
    std::uint16_t bits = 0;
    std::memcpy(&bits, data + 2 * index, 2);
    if constexpr (kType == DType::kF16) return half_to_float(bits);
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
}

}  // namespace tidemill::kernels::cpu
