// Norms of one row. The sums run along the lanes as in a matrix product: lane l takes the elements
// l, l + 16, ..., and the lanes are added in one fixed order.

#include "kernels/cpu/simd-inl.h"

#if defined(TIDEMILL_KERNELS_CPU_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TIDEMILL_KERNELS_CPU_NORM_INL_H_
#undef TIDEMILL_KERNELS_CPU_NORM_INL_H_
#else
#define TIDEMILL_KERNELS_CPU_NORM_INL_H_
#endif

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace tidemill::kernels::cpu {
namespace HWY_NAMESPACE {

/// Sixteen elements at x[i], or the last n - i < 16 of them with zeros behind.
HWY_INLINE F16 load_at(const float* x, std::uint64_t i, std::uint64_t n) {
  return n - i >= kLanes ? load(x + i) : load_first(x + i, n - i);
}
HWY_INLINE void store_at(F16 value, float* y, std::uint64_t i, std::uint64_t n) {
  if (n - i >= kLanes) {
    store(value, y + i);
  } else {
    store_first(value, y + i, n - i);
  }
}

/// Sum of (x[i] - center)^2.
HWY_INLINE float sum_of_squares(const float* x, float center, std::uint64_t n) {
  const F16 middle = set(center);
  F16 sum = zero();
  std::uint64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const F16 distance = sub(load(x + i), middle);
    sum = fma(distance, distance, sum);
  }
  if (i < n) {
    const F16 distance = select(first(n - i), sub(load_first(x + i, n - i), middle), zero());
    sum = fma(distance, distance, sum);
  }
  return sum_lanes(sum);
}

inline void layer_norm(const float* x, const float* weight, const float* bias, float eps,
                       std::uint64_t n, float* y) {
  F16 sum = zero();
  for (std::uint64_t i = 0; i < n; i += kLanes) sum = add(sum, load_at(x, i, n));
  const float count = static_cast<float>(n);
  const float mean = sum_lanes(sum) / count;
  const float variance = sum_of_squares(x, mean, n) / count;
  const F16 middle = set(mean);
  const F16 factor = set(1.0f / std::sqrt(variance + eps));
  for (std::uint64_t i = 0; i < n; i += kLanes) {
    const F16 normal = mul(sub(load_at(x, i, n), middle), factor);
    const F16 scale = load_at(weight, i, n);
    store_at(bias == nullptr ? mul(normal, scale) : fma(normal, scale, load_at(bias, i, n)), y, i,
             n);
  }
}

inline void rms_norm(const float* x, const float* weight, float eps, std::uint64_t n, float* y) {
  const float mean_square = sum_of_squares(x, 0.0f, n) / static_cast<float>(n);
  const F16 factor = set(1.0f / std::sqrt(mean_square + eps));
  for (std::uint64_t i = 0; i < n; i += kLanes) {
    store_at(mul(mul(load_at(x, i, n), factor), load_at(weight, i, n)), y, i, n);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tidemill::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
