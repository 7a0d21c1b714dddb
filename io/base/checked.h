// Arithmetic on numbers that come from files: overflow is an error of the model, never a wrap.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "io/base/error.h"

namespace tidemill {

/// a + b, or nothing if the sum does not fit.
inline std::optional<std::uint64_t> try_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

/// a * b, or nothing if the product does not fit.
inline std::optional<std::uint64_t> try_mul(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// a + b; Error(kModel) naming `what` on overflow.
inline std::uint64_t checked_add(std::uint64_t a, std::uint64_t b, const char* what) {
  if (const auto sum = try_add(a, b)) return *sum;
  throw_error(ErrorKind::kModel, "{}: {} + {} exceeds 64 bits", what, a, b);
}

/// a * b; Error(kModel) naming `what` on overflow.
inline std::uint64_t checked_mul(std::uint64_t a, std::uint64_t b, const char* what) {
  if (const auto product = try_mul(a, b)) return *product;
  throw_error(ErrorKind::kModel, "{}: {} * {} exceeds 64 bits", what, a, b);
}

/// Integer conversion that must not lose anything; a loss is a bug of ours.
template <typename To, typename From>
constexpr To narrow(From value) {
  static_assert(std::is_integral_v<To> && std::is_integral_v<From>);
  TM_CHECK(std::in_range<To>(value), "value {} does not fit", value);
  return static_cast<To>(value);
}

/// Smallest multiple of `alignment` (a power of two) that is at least `value`.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

/// Largest multiple of `alignment` (a power of two) that is at most `value`.
constexpr std::uint64_t align_down(std::uint64_t value, std::uint64_t alignment) {
  return value & ~(alignment - 1);
}

}  // namespace tidemill
