// What the tests of the operations share: devices of every kind, random data, comparison of bits.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/ops.h"

namespace tidemill::kernels::test {

/// A CPU device with its scratch reserved.
class Cpu {
 public:
  explicit Cpu(unsigned threads = 1, CpuTarget target = CpuTarget::kAvx512)
      : device_(make_cpu_device({.threads = threads, .max_target = target})),
        stream_(device_->create_stream()) {
    ops().reserve(600, 5000, 2000);
  }
  Device& device() { return *device_; }
  Ops& ops() { return device_->ops(); }
  Stream& stream() { return *stream_; }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

/// One device of each kind that must give the same bits; the first is the one to compare with.
/// A target that this processor lacks stands in for the next lower one.
inline std::vector<std::unique_ptr<Cpu>> all_kinds() {
  std::vector<std::unique_ptr<Cpu>> kinds;
  kinds.push_back(std::make_unique<Cpu>(1, CpuTarget::kAvx512));
  kinds.push_back(std::make_unique<Cpu>(2, CpuTarget::kAvx512));
  kinds.push_back(std::make_unique<Cpu>(3, CpuTarget::kAvx512));
  kinds.push_back(std::make_unique<Cpu>(2, CpuTarget::kAvx2));
  kinds.push_back(std::make_unique<Cpu>(1, CpuTarget::kBaseline));
  return kinds;
}

inline const std::vector<std::uint64_t>& odd_sizes() {
  static const std::vector<std::uint64_t> sizes = {1, 2, 3, 5, 15, 16, 17, 31, 32, 33, 47, 64, 250};
  return sizes;
}

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  float operator()(float scale = 1.0f) {
    return std::uniform_real_distribution<float>(-scale, scale)(engine_);
  }
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  std::vector<float> floats(std::uint64_t n, float scale = 1.0f) {
    std::vector<float> values(n);
    for (float& value : values) value = (*this)(scale);
    return values;
  }

 private:
  std::mt19937 engine_;
};

/// Nearest fp16 of a value in the normal range of fp16, ties away from zero.
inline std::uint16_t to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude < 0x38800000u) return static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) |
                                    (((magnitude + 0x1000u) >> 13) - (112u << 10)));
}

/// A weight matrix in its type, at an address that is off by `misalignment` bytes, and its exact
/// values as floats.
class Weight {
 public:
  Weight(Random& random, DType dtype, std::uint64_t rows, std::uint64_t cols,
         std::size_t misalignment = 0)
      : dtype_(dtype), rows_(rows), cols_(cols), misalignment_(misalignment) {
    const std::uint64_t count = rows * cols;
    bytes_.resize(misalignment + count * size_of(dtype));
    values.resize(count);
    for (std::uint64_t i = 0; i < count; ++i) set(i, random());
  }
  void set(std::uint64_t i, float value) {
    std::byte* const at = bytes_.data() + misalignment_ + i * size_of(dtype_);
    if (dtype_ == DType::kF32) {
      std::memcpy(at, &value, 4);
      values[i] = value;
      return;
    }
    const auto bits = dtype_ == DType::kF16
                          ? to_half(value)
                          : static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
    std::memcpy(at, &bits, 2);
    values[i] =
        dtype_ == DType::kF16 ? half_value(bits) : std::bit_cast<float>(std::uint32_t{bits} << 16);
  }
  static float half_value(std::uint16_t bits) {
    const int exponent = bits >> 10 & 31;
    const float mantissa = static_cast<float>(bits & 1023);
    float magnitude = exponent == 0    ? std::ldexp(mantissa, -24)
                      : exponent == 31 ? (bits & 1023 ? NAN : INFINITY)
                                       : std::ldexp(1024.0f + mantissa, exponent - 25);
    return std::copysign(magnitude, bits & 0x8000 ? -1.0f : 1.0f);
  }
  /// Rows [begin, end).
  WeightRows range(std::uint64_t begin, std::uint64_t end) const {
    return {.data = bytes_.data() + misalignment_ + begin * cols_ * size_of(dtype_),
            .dtype = dtype_,
            .rows = end - begin,
            .cols = cols_};
  }
  WeightRows all() const { return range(0, rows_); }
  float at(std::uint64_t row, std::uint64_t col) const { return values[row * cols_ + col]; }

  std::vector<float> values;

 private:
  DType dtype_;
  std::uint64_t rows_, cols_;
  std::size_t misalignment_;
  std::vector<std::byte> bytes_;
};

inline ConstRows const_rows(const std::vector<float>& values, std::uint64_t stride) {
  return {.data = values.data(), .stride = stride};
}
inline Rows rows(std::vector<float>& values, std::uint64_t stride) {
  return {.data = values.data(), .stride = stride};
}

/// The same bits; all NaNs count as one.
inline bool same_bits(float a, float b) {
  if (std::isnan(a) && std::isnan(b)) return true;
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return same_bits(x, y); });
}

/// Distance in units of the last place of `exact` rounded to fp32 (subnormals included).
inline double ulps(float value, double exact) {
  if (std::isnan(value) || std::isnan(exact))
    return std::isnan(value) && std::isnan(exact) ? 0 : 1e9;
  if (std::isinf(value)) return static_cast<float>(exact) == value ? 0 : 1e9;
  const int exponent = std::max(std::ilogb(exact == 0 ? 0x1p-140 : exact), -126);
  return std::abs(static_cast<double>(value) - exact) / std::ldexp(1.0, exponent - 23);
}

}  // namespace tidemill::kernels::test
