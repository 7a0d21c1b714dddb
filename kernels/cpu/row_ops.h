// Operations on one row of activations at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/ops.h"

namespace tidemill::kernels::cpu {

struct RowKernels {
  /// y[i] = float(weights[i]), i < n
  void (*convert)(const std::byte* weights, DType dtype, std::uint64_t n, float* y) = nullptr;
  /// y[i] += x[i]
  void (*add)(const float* x, std::uint64_t n, float* y) = nullptr;
  /// y[i] = f(y[i]), times up[i] unless `up` is null
  void (*activate)(Activation f, const float* up, std::uint64_t n, float* y) = nullptr;
  /// `bias` may be null.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps,
                     std::uint64_t n, float* y) = nullptr;
  void (*rms_norm)(const float* x, const float* weight, float eps, std::uint64_t n,
                   float* y) = nullptr;
  /// (x[j], x[j+half]) turned by the angle whose cosine and sine are cos[j], sin[j], j < half
  void (*rotate)(const float* cos, const float* sin, std::uint64_t half, float* x) = nullptr;
};

const RowKernels& row_kernels(CpuTarget target);

}  // namespace tidemill::kernels::cpu
