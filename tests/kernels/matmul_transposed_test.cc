#include <doctest/doctest.h>

#include "tests/kernels/kernel_fixture.h"

namespace tidemill::kernels::test {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

/// y += x w, with w cut into pieces of at most `piece` rows.
void accumulate(Cpu& cpu, const std::vector<float>& x, std::uint64_t x_stride, const Weight& w,
                std::uint64_t in, std::uint64_t piece, std::vector<float>& y,
                std::uint64_t y_stride, std::uint64_t tokens) {
  for (std::uint64_t k = 0; k < in; k += piece) {
    cpu.ops().matmul_transposed_accumulate(cpu.stream(), {.data = x.data() + k, .stride = x_stride},
                                           w.range(k, std::min(in, k + piece)), rows(y, y_stride),
                                           tokens);
  }
}

TEST_CASE("the transposed product is a chain of fused multiply-adds, bit for bit") {
  Random random(1);
  const auto kinds = all_kinds();
  for (const DType dtype : kTypes) {
    for (const std::uint64_t in : std::initializer_list<std::uint64_t>{1, 7, 8, 33, 129, 300}) {
      for (const std::uint64_t out : std::initializer_list<std::uint64_t>{1, 15, 17, 64, 101}) {
        for (const std::uint64_t tokens : std::initializer_list<std::uint64_t>{1, 2, 5, 6, 7, 13}) {
          const std::uint64_t x_stride = in + 2, y_stride = out + 1;
          const std::vector<float> x = random.floats(tokens * x_stride);
          const Weight w(random, dtype, in, out, random.below(4));
          const std::vector<float> start = random.floats(tokens * y_stride);
          std::vector<float> expected = start;
          for (std::uint64_t t = 0; t < tokens; ++t) {
            for (std::uint64_t n = 0; n < out; ++n) {
              float& sum = expected[t * y_stride + n];
              for (std::uint64_t k = 0; k < in; ++k) {
                sum = std::fma(x[t * x_stride + k], w.at(k, n), sum);
              }
            }
          }
          const std::size_t kind = random.below(kinds.size());
          for (const std::size_t i : std::initializer_list<std::size_t>{std::size_t{0}, kind}) {
            std::vector<float> y = start;
            accumulate(*kinds[i], x, x_stride, w, in, in, y, y_stride, tokens);
            REQUIRE(same_bits(y, expected));
          }
        }
      }
    }
  }
}

TEST_CASE("the transposed product does not show where a piece ends") {
  Random random(2);
  Cpu cpu(2);
  const std::uint64_t in = 290, out = 600;
  const Weight w(random, DType::kF16, in, out, 1);
  for (const std::uint64_t tokens : std::initializer_list<std::uint64_t>{1, 4, 20}) {
    const std::vector<float> x = random.floats(tokens * in);
    std::vector<float> whole(tokens * out, 0.0f);
    accumulate(cpu, x, in, w, in, in, whole, out, tokens);
    for (const std::uint64_t piece : std::initializer_list<std::uint64_t>{1, 3, 8, 100, 128, 289}) {
      std::vector<float> y(tokens * out, 0.0f);
      accumulate(cpu, x, in, w, in, piece, y, out, tokens);
      REQUIRE(same_bits(y, whole));
    }
  }
}

TEST_CASE("the transposed product passes infinities and NaNs on") {
  Random random(3);
  Cpu cpu;
  Weight w(random, DType::kF32, 20, 18);
  w.set(19 * 18 + 17, INFINITY);
  w.set(3 * 18 + 4, NAN);
  for (const std::uint64_t tokens : std::initializer_list<std::uint64_t>{1, 8}) {
    const std::vector<float> x(tokens * 20, 1.0f);
    std::vector<float> y(tokens * 18, 0.0f);
    accumulate(cpu, x, 20, w, 20, 20, y, 18, tokens);
    for (std::uint64_t t = 0; t < tokens; ++t) {
      for (std::uint64_t n = 0; n < 18; ++n) {
        CHECK(std::isnan(y[t * 18 + n]) == (n == 4));
        CHECK(std::isinf(y[t * 18 + n]) == (n == 17));
      }
    }
  }
}

}  // namespace
}  // namespace tidemill::kernels::test
