// Sixteen fp32 lanes on every target: one AVX-512 register, two AVX2 registers, or sixteen scalars.
// All operations are exact IEEE-754 ones and fma() is fused everywhere, so the targets agree in
// every bit (payloads of NaNs excepted).
//
// Included once per target (see foreach_target.h), hence the guard that toggles.

#include "kernels/cpu/hwy_config.h"

#if defined(TIDEMILL_KERNELS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TIDEMILL_KERNELS_CPU_SIMD_INL_H_
#undef TIDEMILL_KERNELS_CPU_SIMD_INL_H_
#else
#define TIDEMILL_KERNELS_CPU_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "io/base/dtype.h"
#include "kernels/cpu/half.h"

// Register tiles are arrays of vectors: they only stay in registers if their loops are unrolled.
#ifndef TIDEMILL_UNROLL
#if defined(__clang__)
#define TIDEMILL_UNROLL _Pragma("unroll")
#else
#define TIDEMILL_UNROLL _Pragma("GCC unroll 32")
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace tidemill::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t kLanes = 16;
using D = hn::CappedTag<float, kLanes>;
using DI = hn::RebindToSigned<D>;
using DU = hn::RebindToUnsigned<D>;
using V = hn::Vec<D>;
inline constexpr std::size_t kPart = hn::MaxLanes(D());  // lanes of one register
inline constexpr std::size_t kParts = kLanes / kPart;

/// Lane l is lane l % kPart of v[l / kPart].
struct F16 {
  V v[kParts];
};
struct M16 {
  hn::Mask<D> m[kParts];
};

HWY_INLINE F16 set(float value) {
  F16 r;
  TIDEMILL_UNROLL
  for (std::size_t p = 0; p < kParts; ++p) r.v[p] = hn::Set(D(), value);
  return r;
}
HWY_INLINE F16 zero() { return set(0.0f); }

/// Any alignment of a float.
HWY_INLINE F16 load(const float* from) {
  F16 r;
  TIDEMILL_UNROLL
  for (std::size_t p = 0; p < kParts; ++p) r.v[p] = hn::LoadU(D(), from + p * kPart);
  return r;
}
HWY_INLINE void store(F16 a, float* to) {
  TIDEMILL_UNROLL
  for (std::size_t p = 0; p < kParts; ++p) hn::StoreU(a.v[p], D(), to + p * kPart);
}
/// The first n < 16 lanes from memory, zeros behind them; touches nothing beyond them.
HWY_INLINE F16 load_first(const float* from, std::size_t n) {
  alignas(64) float lanes[kLanes] = {};
  std::memcpy(lanes, from, n * sizeof(float));
  return load(lanes);
}
HWY_INLINE void store_first(F16 a, float* to, std::size_t n) {
  alignas(64) float lanes[kLanes];
  store(a, lanes);
  std::memcpy(to, lanes, n * sizeof(float));
}

#define TIDEMILL_LANEWISE(name, op)                                           \
  HWY_INLINE F16 name(F16 a, F16 b) {                                         \
    F16 r;                                                                    \
    TIDEMILL_UNROLL                                                           \
    for (std::size_t p = 0; p < kParts; ++p) r.v[p] = hn::op(a.v[p], b.v[p]); \
    return r;                                                                 \
  }
TIDEMILL_LANEWISE(add, Add)
TIDEMILL_LANEWISE(sub, Sub)
TIDEMILL_LANEWISE(mul, Mul)
TIDEMILL_LANEWISE(div, Div)
#undef TIDEMILL_LANEWISE

/// a * b + c, rounded once.
HWY_INLINE F16 fma(F16 a, F16 b, F16 c) {
  F16 r;
#if HWY_TARGET == HWY_SCALAR
  TIDEMILL_UNROLL
  for (std::size_t p = 0; p < kParts; ++p) {
    r.v[p] = hn::Set(D(), std::fma(hn::GetLane(a.v[p]), hn::GetLane(b.v[p]), hn::GetLane(c.v[p])));
  }
#else
  static_assert(HWY_NATIVE_FMA, "this target would round twice");
  TIDEMILL_UNROLL
  for (std::size_t p = 0; p < kParts; ++p) r.v[p] = hn::MulAdd(a.v[p], b.v[p], c.v[p]);
#endif
  return r;
}

HWY_INLINE M16 less(F16 a, F16 b) {
  M16 r;
  TIDEMILL_UNROLL
  for (std::size_t p = 0; p < kParts; ++p) r.m[p] = hn::Lt(a.v[p], b.v[p]);
  return r;
}
HWY_INLINE F16 select(M16 mask, F16 yes, F16 no) {
  F16 r;
  TIDEMILL_UNROLL
  for (std::size_t p = 0; p < kParts; ++p) {
    r.v[p] = hn::IfThenElse(mask.m[p], yes.v[p], no.v[p]);
  }
  return r;
}
/// 0, 1, ... 15
HWY_INLINE F16 iota() {
  F16 r;
  TIDEMILL_UNROLL
  for (std::size_t p = 0; p < kParts; ++p) {
    r.v[p] = hn::Iota(D(), static_cast<float>(p * kPart));
  }
  return r;
}
/// Lanes l < n.
HWY_INLINE M16 first(std::size_t n) { return less(iota(), set(static_cast<float>(n))); }

HWY_INLINE F16 abs(F16 a) {
  F16 r;
  TIDEMILL_UNROLL
  for (std::size_t p = 0; p < kParts; ++p) r.v[p] = hn::Abs(a.v[p]);
  return r;
}
HWY_INLINE F16 copy_sign(F16 magnitude, F16 sign) {
  F16 r;
  TIDEMILL_UNROLL
  for (std::size_t p = 0; p < kParts; ++p) r.v[p] = hn::CopySign(magnitude.v[p], sign.v[p]);
  return r;
}
/// a where a > b, else b: where a is NaN, b.
HWY_INLINE F16 greater_of(F16 a, F16 b) { return select(less(b, a), a, b); }

/// The one order in which lanes are added: l with l + 8, then + 4, + 2, + 1.
HWY_INLINE float sum_lanes(F16 a) {
  TIDEMILL_UNROLL
  for (std::size_t half = kParts / 2; half > 0; half /= 2) {
    for (std::size_t p = 0; p < half; ++p) a.v[p] = hn::Add(a.v[p], a.v[p + half]);
  }
#if HWY_TARGET == HWY_SCALAR
  return hn::GetLane(a.v[0]);
#else
  const hn::FixedTag<float, 8> d8;
  const hn::FixedTag<float, 4> d4;
#if HWY_TARGET == HWY_AVX2
  const auto eight = a.v[0];
#else
  const auto eight = hn::Add(hn::LowerHalf(d8, a.v[0]), hn::UpperHalf(d8, a.v[0]));
#endif
  const auto four = hn::Add(hn::LowerHalf(d4, eight), hn::UpperHalf(d4, eight));
  const auto two = hn::Add(four, hn::Shuffle1032(four));
  return hn::GetLane(hn::Add(two, hn::Shuffle2301(two)));
#endif
}
/// The largest lane; NaN lanes may be passed over.
HWY_INLINE float max_lane(F16 a) {
  alignas(64) float lanes[kLanes];
  store(a, lanes);
  float best = lanes[0];
  for (std::size_t l = 1; l < kLanes; ++l) best = lanes[l] > best ? lanes[l] : best;
  return best;
}

/// Sixteen weights as floats, from any address. Exact, infinities and NaNs included.
template <DType kType>
HWY_INLINE F16 load_weights(const std::byte* from) {
  F16 r;
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t p = 0; p < kParts; ++p) r.v[p] = hn::Set(D(), weight_to_float<kType>(from, p));
#else
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(from);
  TIDEMILL_UNROLL
  for (std::size_t p = 0; p < kParts; ++p) {
    if constexpr (kType == DType::kF32) {
      const hn::Repartition<std::uint8_t, D> db;
      r.v[p] = hn::BitCast(D(), hn::LoadU(db, bytes + p * kPart * 4));
    } else {
      const hn::Rebind<std::uint16_t, D> dh;
      const hn::Repartition<std::uint8_t, decltype(dh)> db;
      const auto half = hn::BitCast(dh, hn::LoadU(db, bytes + p * kPart * 2));
      if constexpr (kType == DType::kF16) {
        r.v[p] = hn::PromoteTo(D(), hn::BitCast(hn::Rebind<hwy::float16_t, D>(), half));
      } else {
        r.v[p] = hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(DU(), half)));
      }
    }
  }
#endif
  return r;
}
/// The first n < 16 of them, zeros behind them; reads nothing beyond them.
template <DType kType>
HWY_INLINE F16 load_first_weights(const std::byte* from, std::size_t n) {
  alignas(64) std::byte bytes[kLanes * sizeof(float)] = {};
  std::memcpy(bytes, from, n * kWeightBytes<kType>);
  return load_weights<kType>(bytes);
}

}  // namespace HWY_NAMESPACE
}  // namespace tidemill::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
