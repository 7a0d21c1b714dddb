// The random numbers of torch's CPU generator, bit for bit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tidemill::engine {

/// mt19937 with torch's distributions on top (the paths of torch 1.x without MKL and of 2.7 and
/// later). The sequence depends on the seed alone.
class TorchRng {
 public:
  /// As torch.manual_seed(seed): only the low 32 bits matter.
  explicit TorchRng(std::uint64_t seed);

  std::uint32_t next_u32();

  /// Uniform in [0, 1) with 53 bits; consumes two u32, the high word first.
  double uniform_double();
  /// Uniform in [0, 1) with 24 bits; consumes one u32.
  float uniform_float();
  /// Exponential with rate 1; consumes two u32. Uses the C library's log1p, which is accurate
  /// enough for the rounded float to be the same everywhere in all but very rare cases.
  double exponential();

  /// Skips `count` u32 at a fraction of the cost of drawing them.
  void discard(std::uint64_t count);

 private:
  static constexpr std::size_t kWords = 624;
  void refill();

  std::array<std::uint32_t, kWords> state_;
  std::size_t next_ = kWords;  // next word of state_ to be tempered
};

/// torch.multinomial(p, 1) for one row: the index with the largest p / exponential, the first one
/// on ties. Every entry consumes its two u32, also those with p == 0, which are never chosen.
/// Precondition: finite, not negative, not all zero.
std::size_t multinomial(std::span<const float> p, TorchRng& rng);

}  // namespace tidemill::engine
