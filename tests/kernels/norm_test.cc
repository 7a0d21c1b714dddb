#include <doctest/doctest.h>

#include "tests/kernels/kernel_fixture.h"

namespace tidemill::kernels::test {
namespace {

constexpr float kEps = 1e-5f;

struct NormCase {
  std::uint64_t cols, stride, tokens;
  std::vector<float> x, weight, bias;

  NormCase(Random& random, std::uint64_t n, float center)
      : cols(n),
        stride(n + random.below(3)),
        tokens(3),
        x(random.floats(tokens * stride, 2.0f)),
        weight(random.floats(n)),
        bias(random.floats(n)) {
    for (float& value : x) value += center;
  }
};

std::vector<float> layer_norm(Cpu& cpu, const NormCase& c, bool with_bias = true) {
  std::vector<float> y(c.tokens * c.stride, 77.0f);
  cpu.ops().layer_norm(cpu.stream(), const_rows(c.x, c.stride), c.weight.data(),
                       with_bias ? c.bias.data() : nullptr, kEps, rows(y, c.stride), c.tokens,
                       c.cols);
  return y;
}

std::vector<float> rms_norm(Cpu& cpu, const NormCase& c) {
  std::vector<float> y(c.tokens * c.stride, 77.0f);
  cpu.ops().rms_norm(cpu.stream(), const_rows(c.x, c.stride), c.weight.data(), kEps,
                     rows(y, c.stride), c.tokens, c.cols);
  return y;
}

std::vector<std::uint64_t> sizes() {
  std::vector<std::uint64_t> all = odd_sizes();
  all.push_back(4097);
  return all;
}

TEST_CASE("layer_norm agrees with double precision") {
  Random random(1);
  Cpu cpu;
  for (const std::uint64_t cols : sizes()) {
    for (const float center : {0.0f, 3.0f}) {
      const NormCase c(random, cols, center);
      const std::vector<float> y = layer_norm(cpu, c);
      for (std::uint64_t t = 0; t < c.tokens; ++t) {
        const float* const x = c.x.data() + t * c.stride;
        double mean = 0, variance = 0;
        for (std::uint64_t i = 0; i < cols; ++i) mean += x[i];
        mean /= static_cast<double>(cols);
        for (std::uint64_t i = 0; i < cols; ++i) variance += (x[i] - mean) * (x[i] - mean);
        variance /= static_cast<double>(cols);
        const double factor = 1 / std::sqrt(variance + double{kEps});
        for (std::uint64_t i = 0; i < cols; ++i) {
          const double exact = (x[i] - mean) * factor * c.weight[i] + c.bias[i];
          // The mean is off by a few ulps of the largest element (at most 5), which the factor
          // (at most 1 / sqrt(eps) = 316) scales like the element itself.
          const double tolerance = 4e-6 * (1 + factor) + 1e-5 * std::abs(exact);
          REQUIRE(std::abs(y[t * c.stride + i] - exact) <= tolerance);
        }
        for (std::uint64_t i = cols; i < c.stride; ++i) REQUIRE(y[t * c.stride + i] == 77.0f);
      }
    }
  }
}

TEST_CASE("rms_norm agrees with double precision") {
  Random random(2);
  Cpu cpu;
  for (const std::uint64_t cols : sizes()) {
    const NormCase c(random, cols, 0.0f);
    const std::vector<float> y = rms_norm(cpu, c);
    for (std::uint64_t t = 0; t < c.tokens; ++t) {
      const float* const x = c.x.data() + t * c.stride;
      double square = 0;
      for (std::uint64_t i = 0; i < cols; ++i) square += double{x[i]} * x[i];
      const double factor = 1 / std::sqrt(square / static_cast<double>(cols) + double{kEps});
      for (std::uint64_t i = 0; i < cols; ++i) {
        // Positive terms: the relative error of the sum is at most (cols / 16 + 5) ulps.
        const double relative = (static_cast<double>(cols) / 16 + 10) * 0x1p-24;
        const double exact = x[i] * factor * c.weight[i];
        REQUIRE(std::abs(y[t * c.stride + i] - exact) <= relative * std::abs(exact));
      }
    }
  }
}

TEST_CASE("norms of constant rows are exact") {
  Cpu cpu;
  for (const std::uint64_t cols : odd_sizes()) {
    const std::vector<float> weight(cols, 3.0f), bias(cols, 0.5f);
    std::vector<float> x(cols, 4.0f);
    cpu.ops().layer_norm(cpu.stream(), const_rows(x, cols), weight.data(), bias.data(), kEps,
                         rows(x, cols), 1, cols);
    for (const float value : x) REQUIRE(value == 0.5f);
    std::fill(x.begin(), x.end(), 4.0f);
    cpu.ops().rms_norm(cpu.stream(), const_rows(x, cols), weight.data(), 0.0f, rows(x, cols), 1,
                       cols);
    for (const float value : x) REQUIRE(value == 3.0f);
  }
}

TEST_CASE("norms have the same bits in place, without neighbours, on every kind of device") {
  Random random(3);
  const auto kinds = all_kinds();
  for (const std::uint64_t cols : sizes()) {
    NormCase c(random, cols, 1.0f);
    const std::vector<float> layer = layer_norm(*kinds[0], c);
    const std::vector<float> plain = layer_norm(*kinds[0], c, false);
    const std::vector<float> rms = rms_norm(*kinds[0], c);
    for (const auto& cpu : kinds) {
      REQUIRE(same_bits(layer_norm(*cpu, c), layer));
      REQUIRE(same_bits(layer_norm(*cpu, c, false), plain));
      REQUIRE(same_bits(rms_norm(*cpu, c), rms));
      std::vector<float> x(c.x.begin() + static_cast<std::ptrdiff_t>(c.stride),
                           c.x.begin() + static_cast<std::ptrdiff_t>(c.stride + cols));
      std::vector<float> again = x;
      cpu->ops().layer_norm(cpu->stream(), const_rows(x, cols), c.weight.data(), c.bias.data(),
                            kEps, rows(x, cols), 1, cols);
      cpu->ops().rms_norm(cpu->stream(), const_rows(again, cols), c.weight.data(), kEps,
                          rows(again, cols), 1, cols);
      for (std::uint64_t i = 0; i < cols; ++i) {
        REQUIRE(same_bits(x[i], layer[c.stride + i]));
        REQUIRE(same_bits(again[i], rms[c.stride + i]));
      }
    }
  }
}

TEST_CASE("head_rms_norm is rms_norm of each head, and leaves the rest alone") {
  Random random(4);
  Cpu cpu(2);
  const std::uint64_t tokens = 5, stride = 100, offset = 7, head_stride = 20;
  const std::uint32_t heads = 3, head_dim = 17;
  const std::vector<float> before = random.floats(tokens * stride);
  const std::vector<float> weight = random.floats(head_dim);
  std::vector<float> expected = before, x = before;
  for (std::uint64_t t = 0; t < tokens; ++t) {
    for (std::uint64_t head = 0; head < heads; ++head) {
      float* const at = expected.data() + t * stride + offset + head * head_stride;
      cpu.ops().rms_norm(cpu.stream(), {.data = at, .stride = head_dim}, weight.data(), kEps,
                         {.data = at, .stride = head_dim}, 1, head_dim);
    }
  }
  cpu.ops().head_rms_norm(cpu.stream(), rows(x, stride), offset, head_stride, heads, head_dim,
                          weight.data(), kEps, tokens);
  CHECK(same_bits(x, expected));
  CHECK_FALSE(same_bits(x, before));
}

}  // namespace
}  // namespace tidemill::kernels::test
