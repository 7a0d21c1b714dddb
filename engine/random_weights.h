// Normally distributed weights, faster than a drive takes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "io/base/dtype.h"

namespace tidemill::engine {

/// Quantiles of the normal distribution with mean 0 and standard deviation `deviation`, rounded to
/// F32, F16 or BF16.
class NormalTable {
 public:
  NormalTable(double deviation, DType dtype);

  /// Elements [first, first + values.size() / element size) of the random tensor that `key` names.
  /// `first` is a multiple of 4. The values depend on key and place only.
  void fill(std::uint64_t key, std::uint64_t first, std::span<std::byte> values) const;

 private:
  DType dtype_;
  std::vector<std::byte> table_;
};

/// A key that differs for each tensor and each seed.
std::uint64_t tensor_key(std::uint64_t seed, std::string_view name);

/// `value`, rounded to nearest even, in the bits of the type; F16 saturates nowhere: |value| must
/// be below 65504 (checked).
std::uint32_t round_to_bits(float value, DType dtype);

}  // namespace tidemill::engine
