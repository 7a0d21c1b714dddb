#include <doctest/doctest.h>

#include "tests/kernels/kernel_fixture.h"

namespace tidemill::kernels::test {
namespace {

double gelu(double x, double t) { return x / 2 * (1 + t); }

double exact(Activation f, double x) {
  switch (f) {
    case Activation::kGeluErf:
      return gelu(x, std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return gelu(x, std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kGeluTanhBloom:
      return gelu(x, std::tanh(0.79788456 * x * (1 + 0.044715 * x * x)));
    case Activation::kGeluFast:
      return gelu(x, std::tanh(0.7978845608 * x * (1 + 0.044715 * x * x)));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kRelu:
      return std::max(x, 0.0);
  }
  return 0;
}

constexpr Activation kAll[] = {Activation::kGeluErf,       Activation::kGeluTanh,
                               Activation::kGeluTanhBloom, Activation::kGeluFast,
                               Activation::kSilu,          Activation::kRelu};

std::vector<float> apply(Cpu& cpu, Activation f, std::vector<float> x) {
  cpu.ops().activate(cpu.stream(), f, rows(x, x.size()), 1, x.size());
  return x;
}

/// Every sign and exponent with a few mantissas, and a fine grid over the range that matters.
std::vector<float> grid() {
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 0x10000; high += 37) {
    for (const std::uint32_t low : std::initializer_list<std::uint32_t>{0x0u, 0x1234u, 0xffffu}) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  for (float x = -15; x < 15; x += 0.0007f) values.push_back(x);
  return values;
}

TEST_CASE("activations agree with their formulas") {
  Cpu cpu;
  const std::vector<float> x = grid();
  for (const Activation f : kAll) {
    const std::vector<float> y = apply(cpu, f, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = exact(f, x[i]);
      if (!std::isfinite(x[i]) || !std::isfinite(expected)) continue;  // see below
      // Right of 0 the result keeps its relative precision. Left of it 1 + erf cancels, as it does
      // in the models' own code, and the error is a few ulps of x.
      const bool cancels = x[i] < 0 && f != Activation::kSilu && f != Activation::kRelu;
      const double error = std::abs(y[i] - expected);
      const double unit = std::max(0x1p-126, std::abs(cancels ? double{x[i]} : expected)) * 0x1p-23;
      INFO("activation ", static_cast<int>(f), " of ", x[i], " is ", y[i], ", expected ", expected);
      // Left of -88 e^-x overflows: silu becomes 0 where 1e-36 would be exact.
      const double slack = f == Activation::kSilu && x[i] < -88 ? 1e-36 : 0;
      REQUIRE(error <= 4 * unit + slack);
    }
  }
}

TEST_CASE("activations of infinities, NaNs and zeros") {
  for (const auto& cpu : all_kinds()) {
    for (const Activation f : kAll) {
      const std::vector<float> y = apply(*cpu, f, {INFINITY, NAN, 0.0f, 1e30f, -1e30f});
      CHECK(y[0] == INFINITY);
      CHECK(std::isnan(y[1]));
      CHECK(y[2] == 0.0f);
      CHECK(y[3] == 1e30f);
      CHECK(y[4] == 0.0f);
    }
  }
}

TEST_CASE("the tanh forms of gelu are close to each other, and not to the erf form") {
  Cpu cpu;
  std::vector<float> x;
  for (float v = -6; v < 6; v += 0.001f) x.push_back(v);
  const auto erf = apply(cpu, Activation::kGeluErf, x);
  const auto tanh = apply(cpu, Activation::kGeluTanh, x);
  const auto bloom = apply(cpu, Activation::kGeluTanhBloom, x);
  const auto fast = apply(cpu, Activation::kGeluFast, x);
  CHECK(same_bits(bloom, fast));
  float far = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    CHECK(std::abs(tanh[i] - bloom[i]) <= 1e-6f);
    far = std::max(far, std::abs(tanh[i] - erf[i]));
  }
  CHECK(far > 1e-4f);
  CHECK(far < 4.8e-4f);
}

TEST_CASE("an activation has the same bits wherever its element stands, on every kind of device") {
  const std::vector<float> x = grid();
  const auto kinds = all_kinds();
  for (const Activation f : kAll) {
    const std::vector<float> expected = apply(*kinds[0], f, x);
    for (const auto& cpu : kinds) {
      REQUIRE(same_bits(apply(*cpu, f, x), expected));
      for (const std::uint64_t cols : std::initializer_list<std::uint64_t>{1, 15, 17, 33}) {
        std::vector<float> y = x;
        cpu->ops().activate(cpu->stream(), f, rows(y, cols), y.size() / cols, cols);
        y.resize(y.size() / cols * cols);
        REQUIRE(std::equal(y.begin(), y.end(), expected.begin(),
                           [](float a, float b) { return same_bits(a, b); }));
      }
    }
  }
}

TEST_CASE("a gated activation is the activation times the other factor") {
  Random random(1);
  for (const auto& cpu : all_kinds()) {
    for (const std::uint64_t cols : odd_sizes()) {
      const std::vector<float> x = random.floats(3 * cols, 5.0f);
      const std::vector<float> up = random.floats(3 * (cols + 1));
      std::vector<float> y = x;
      cpu->ops().activate_gated(cpu->stream(), Activation::kSilu, const_rows(up, cols + 1),
                                rows(y, cols), 3, cols);
      const std::vector<float> plain = apply(*cpu, Activation::kSilu, x);
      for (std::uint64_t i = 0; i < y.size(); ++i) {
        REQUIRE(same_bits(y[i], plain[i] * up[i / cols * (cols + 1) + i % cols]));
      }
    }
  }
}

}  // namespace
}  // namespace tidemill::kernels::test
