// exp, tanh and erf on sixteen lanes, from additions, multiplications and fused multiply-adds only,
// so that every target gives the same bits. Polynomials are minimax fits with coefficients rounded
// to fp32; the tests state and check the error bounds.

#include "kernels/cpu/simd-inl.h"

#if defined(TIDEMILL_KERNELS_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TIDEMILL_KERNELS_CPU_MATH_INL_H_
#undef TIDEMILL_KERNELS_CPU_MATH_INL_H_
#else
#define TIDEMILL_KERNELS_CPU_MATH_INL_H_
#endif

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace tidemill::kernels::cpu {
namespace HWY_NAMESPACE {

/// c[0] + x (c[1] + x (c[2] + ...)), fused.
template <std::size_t kCount>
HWY_INLINE F16 polynomial(F16 x, const float (&c)[kCount]) {
  F16 r = set(c[kCount - 1]);
  TIDEMILL_UNROLL
  for (std::size_t i = kCount - 1; i > 0; --i) r = fma(r, x, set(c[i - 1]));
  return r;
}

/// a * 2^n for whole n in [-152, 128]: in two steps, each power a normal number.
HWY_INLINE F16 scale_by_power_of_two(F16 a, F16 n) {
  F16 r;
  TIDEMILL_UNROLL
  for (std::size_t p = 0; p < kParts; ++p) {
    const auto whole = hn::ConvertTo(DI(), n.v[p]);
    const auto low = hn::ShiftRight<1>(whole);
    const auto high = hn::Sub(whole, low);
    const auto bias = hn::Set(DI(), 127);
    const auto low_power = hn::BitCast(D(), hn::ShiftLeft<23>(hn::Add(low, bias)));
    const auto high_power = hn::BitCast(D(), hn::ShiftLeft<23>(hn::Add(high, bias)));
    r.v[p] = hn::Mul(hn::Mul(a.v[p], low_power), high_power);
  }
  return r;
}

/// e^x. Overflows to infinity, underflows through the subnormals to 0.
HWY_INLINE F16 exp(F16 x) {
  // Beyond these the result is 0 or infinity whatever x is; they keep 2^n within range.
  constexpr float kLow = -104.5f;
  constexpr float kHigh = 88.8f;
  const M16 below = less(x, set(kLow));
  const M16 above = less(set(kHigh), x);
  const F16 clamped = select(below, set(kLow), select(above, set(kHigh), x));
  // Adding and subtracting 1.5 * 2^23 rounds to the nearest whole number.
  const F16 magic = set(0x1.8p23f);
  const F16 number = select(less(set(kLow), clamped), clamped, set(kLow));  // not a NaN
  const F16 n = sub(fma(number, set(0x1.715476p0f), magic), magic);
  // ln 2 in two parts, the first with few enough bits that n times it is exact.
  F16 r = fma(n, set(-0x1.62e4p-1f), clamped);
  r = fma(n, set(-0x1.7f7d1cp-20f), r);
  constexpr float kTail[] = {0x1.fffffcp-2f, 0x1.55548ap-3f, 0x1.5558ap-5f, 0x1.123f7ap-7f,
                             0x1.6a683p-10f};
  const F16 power = add(fma(mul(r, r), polynomial(r, kTail), r), set(1.0f));
  const F16 result = scale_by_power_of_two(power, n);
  return select(above, set(std::numeric_limits<float>::infinity()), result);
}

HWY_INLINE F16 tanh(F16 x) {
  const F16 magnitude = abs(x);
  const F16 square = mul(x, x);
  constexpr float kSmall[] = {-0x1.555524p-2f, 0x1.1103fp-3f, -0x1.b7cfb6p-5f, 0x1.4f5d72p-6f,
                              -0x1.696a9ap-8f};
  const F16 small = fma(mul(polynomial(square, kSmall), square), x, x);
  // 1 - 2 / (e^2|x| + 1)
  const F16 grown = add(exp(add(magnitude, magnitude)), set(1.0f));
  const F16 large = sub(set(1.0f), div(set(2.0f), grown));
  return select(less(magnitude, set(0.625f)), small, copy_sign(large, x));
}

HWY_INLINE F16 erf(F16 x) {
  const F16 magnitude = abs(x);
  const F16 square = mul(x, x);
  constexpr float kSmall[] = {0x1.06eba8p-3f, -0x1.81274p-2f,   0x1.ce2d6ap-4f, -0x1.b801f4p-6f,
                              0x1.54547ep-8f, -0x1.a672d4p-11f, 0x1.50dd84p-14f};
  const F16 small = fma(polynomial(square, kSmall), x, x);
  // 1 - e^-q(|x|), where q is a fit of -log(erfc) up to 4; beyond that erf rounds to 1.
  constexpr float kLarge[] = {-0x1.6e726cp-13f, 0x1.2127e8p+0f, 0x1.4445fcp-1f,   0x1.bb846ap-4f,
                              -0x1.9b8fcp-6f,   0x1.115c92p-8f, -0x1.c79690p-12f, 0x1.61f1a8p-16f};
  const F16 capped = select(less(set(4.0f), magnitude), set(4.0f), magnitude);
  const F16 large = sub(set(1.0f), exp(sub(zero(), polynomial(capped, kLarge))));
  return select(less(magnitude, set(0.9375f)), small, copy_sign(large, x));
}

}  // namespace HWY_NAMESPACE
}  // namespace tidemill::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
