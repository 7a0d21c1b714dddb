#include "engine/sampling/torch_rng.h"

#include <algorithm>
#include <cmath>

#include "io/base/error.h"

namespace tidemill::engine {
namespace {

constexpr std::size_t kMiddle = 397;

std::uint32_t twist(std::uint32_t high, std::uint32_t low) {
  const std::uint32_t mixed = (high & 0x80000000U) | (low & 0x7FFFFFFFU);
  return mixed >> 1 ^ ((low & 1U) != 0 ? 0x9908B0DFU : 0U);
}

}  // namespace

TorchRng::TorchRng(std::uint64_t seed) {
  state_[0] = static_cast<std::uint32_t>(seed & 0xFFFFFFFFU);
  for (std::uint32_t i = 1; i < kWords; ++i) {
    state_[i] = 1812433253U * (state_[i - 1] ^ state_[i - 1] >> 30) + i;
  }
}

void TorchRng::refill() {
  for (std::size_t i = 0; i < kWords; ++i) {
    const std::size_t after = i + 1 < kWords ? i + 1 : 0;
    const std::size_t ahead = i + kMiddle < kWords ? i + kMiddle : i + kMiddle - kWords;
    state_[i] = state_[ahead] ^ twist(state_[i], state_[after]);
  }
  next_ = 0;
}

std::uint32_t TorchRng::next_u32() {
  if (next_ == kWords) refill();
  std::uint32_t y = state_[next_++];
  y ^= y >> 11;
  y ^= y << 7 & 0x9D2C5680U;
  y ^= y << 15 & 0xEFC60000U;
  return y ^ y >> 18;
}

double TorchRng::uniform_double() {
  const std::uint64_t high = next_u32();
  const std::uint64_t bits = high << 32 | next_u32();
  return static_cast<double>(bits & ((1ULL << 53) - 1)) * 0x1p-53;
}

float TorchRng::uniform_float() {
  return static_cast<float>(next_u32() & ((1U << 24) - 1)) * 0x1p-24F;
}

double TorchRng::exponential() { return -std::log1p(-uniform_double()); }

void TorchRng::discard(std::uint64_t count) {
  while (count > kWords - next_) {
    count -= kWords - next_;
    refill();
  }
  next_ += static_cast<std::size_t>(count);
}

std::size_t multinomial(std::span<const float> p, TorchRng& rng) {
  std::size_t best = p.size();
  float best_ratio = -1.0F;
  std::uint64_t skipped = 0;  // u32 of entries that cannot be chosen
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0.0F) {
      skipped += 2;
      continue;
    }
    rng.discard(skipped);
    skipped = 0;
    const float ratio = p[i] / static_cast<float>(rng.exponential());
    if (ratio > best_ratio) {
      best = i;
      best_ratio = ratio;
    }
  }
  rng.discard(skipped);
  TM_CHECK(best < p.size(), "no probability among {} is positive", p.size());
  return best;
}

}  // namespace tidemill::engine
