#include "kernels/cpu/row_ops.h"

#include "kernels/cpu/hwy_config.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/row_ops.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidemill::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

template <DType kType>
void convert_typed(const std::byte* weights, std::uint64_t n, float* y) {
  std::uint64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    store(load_weights<kType>(weights + i * kWeightBytes<kType>), y + i);
  }
  if (i < n) {
    const F16 rest = load_first_weights<kType>(weights + i * kWeightBytes<kType>, n - i);
    store_first(rest, y + i, n - i);
  }
}

void convert(const std::byte* weights, DType dtype, std::uint64_t n, float* y) {
  switch (dtype) {
    case DType::kF32:
      return convert_typed<DType::kF32>(weights, n, y);
    case DType::kF16:
      return convert_typed<DType::kF16>(weights, n, y);
    default:
      return convert_typed<DType::kBF16>(weights, n, y);
  }
}

void add_row(const float* x, std::uint64_t n, float* y) {
  for (std::uint64_t i = 0; i < n; i += kLanes) {
    store_at(add(load_at(y, i, n), load_at(x, i, n)), y, i, n);
  }
}

/// x/2 (1 + t)
HWY_INLINE F16 gelu(F16 x, F16 t) { return mul(mul(set(0.5f), x), add(set(1.0f), t)); }

/// The formulas as the models' own code writes them (see Activation), operation by operation:
/// their differences in the last bits are part of the models.
template <Activation kF>
HWY_INLINE F16 apply(F16 x) {
  if constexpr (kF == Activation::kGeluErf) {
    return gelu(x, erf(div(x, set(0x1.6a09e6p0f))));  // sqrt 2
  } else if constexpr (kF == Activation::kGeluTanh) {
    const F16 cube = mul(mul(x, x), x);
    return gelu(x, tanh(mul(set(0x1.988454p-1f), fma(set(0.044715f), cube, x))));  // sqrt(2/pi)
  } else if constexpr (kF == Activation::kGeluTanhBloom) {
    const F16 bent = fma(mul(set(0.044715f), x), x, set(1.0f));
    return gelu(x, tanh(mul(mul(set(0.79788456f), x), bent)));
  } else if constexpr (kF == Activation::kGeluFast) {
    const F16 bent = fma(mul(set(0.044715f), x), x, set(1.0f));
    return gelu(x, tanh(mul(mul(set(0.7978845608f), x), bent)));
  } else if constexpr (kF == Activation::kSilu) {
    return div(x, add(set(1.0f), exp(sub(zero(), x))));
  } else {
    static_assert(kF == Activation::kRelu);
    return select(less(x, zero()), zero(), x);  // a NaN stays one
  }
}

template <Activation kF>
void activate_typed(const float* up, std::uint64_t n, float* y) {
  for (std::uint64_t i = 0; i < n; i += kLanes) {
    F16 value = apply<kF>(load_at(y, i, n));
    if (up != nullptr) value = mul(value, load_at(up, i, n));
    store_at(value, y, i, n);
  }
}

void activate(Activation f, const float* up, std::uint64_t n, float* y) {
  switch (f) {
    case Activation::kGeluErf:
      return activate_typed<Activation::kGeluErf>(up, n, y);
    case Activation::kGeluTanh:
      return activate_typed<Activation::kGeluTanh>(up, n, y);
    case Activation::kGeluTanhBloom:
      return activate_typed<Activation::kGeluTanhBloom>(up, n, y);
    case Activation::kGeluFast:
      return activate_typed<Activation::kGeluFast>(up, n, y);
    case Activation::kSilu:
      return activate_typed<Activation::kSilu>(up, n, y);
    case Activation::kRelu:
      return activate_typed<Activation::kRelu>(up, n, y);
  }
}

void rotate(const float* cos, const float* sin, std::uint64_t half, float* x) {
  for (std::uint64_t j = 0; j < half; j += kLanes) {
    const F16 c = load_at(cos, j, half);
    const F16 s = load_at(sin, j, half);
    const F16 a = load_at(x, j, half);
    const F16 b = load_at(x + half, j, half);
    store_at(sub(mul(a, c), mul(b, s)), x, j, half);
    store_at(add(mul(b, c), mul(a, s)), x + half, j, half);
  }
}

}  // namespace

const RowKernels kRowKernels = {.convert = convert,
                                .add = add_row,
                                .activate = activate,
                                .layer_norm = layer_norm,
                                .rms_norm = rms_norm,
                                .rotate = rotate};

}  // namespace HWY_NAMESPACE
}  // namespace tidemill::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/dispatch-inl.h"
namespace tidemill::kernels::cpu {

const RowKernels& row_kernels(CpuTarget target) {
  return *TIDEMILL_CPU_DISPATCH(target, kRowKernels);
}

}  // namespace tidemill::kernels::cpu
#endif  // HWY_ONCE
