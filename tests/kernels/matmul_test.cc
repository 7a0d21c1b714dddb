#include <doctest/doctest.h>

#include "tests/kernels/kernel_fixture.h"

namespace tidemill::kernels::test {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

/// A reduction of n products in fp32 with one rounding each along 16 chains, then 4 levels: the
/// error is at most (n / 16 + 5) half-ulps of the sum of the magnitudes.
double tolerance(double magnitude, std::uint64_t n) {
  return magnitude * (static_cast<double>(n) / 16 + 5) * 0x1p-24;
}

std::vector<float> multiply(Cpu& cpu, const std::vector<float>& x, std::uint64_t x_stride,
                            const WeightRows& w, std::uint64_t tokens) {
  std::vector<float> y(tokens * w.rows, NAN);
  cpu.ops().matmul(cpu.stream(), const_rows(x, x_stride), w, rows(y, w.rows), tokens);
  return y;
}

TEST_CASE("matmul agrees with double precision on odd shapes of every type") {
  Random random(1);
  Cpu cpu(2);
  for (const DType dtype : kTypes) {
    for (const std::uint64_t cols : odd_sizes()) {
      for (const std::uint64_t out : std::initializer_list<std::uint64_t>{1, 5, 6, 25, 49}) {
        for (const std::uint64_t tokens :
             std::initializer_list<std::uint64_t>{1, 2, 3, 4, 5, 7, 33}) {
          const std::uint64_t stride = cols + random.below(3);
          const std::vector<float> x = random.floats(tokens * stride);
          const Weight w(random, dtype, out, cols, random.below(9));
          const std::vector<float> y = multiply(cpu, x, stride, w.all(), tokens);
          for (std::uint64_t t = 0; t < tokens; ++t) {
            for (std::uint64_t n = 0; n < out; ++n) {
              double exact = 0, magnitude = 0;
              for (std::uint64_t k = 0; k < cols; ++k) {
                const double product = double{x[t * stride + k]} * w.at(n, k);
                exact += product;
                magnitude += std::abs(product);
              }
              REQUIRE(std::abs(y[t * out + n] - exact) <= tolerance(magnitude, cols));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("matmul gives a token the same bits alone, in any batch, on every kind of device") {
  Random random(2);
  const auto kinds = all_kinds();
  for (const DType dtype : kTypes) {
    for (const std::uint64_t cols : std::initializer_list<std::uint64_t>{31, 250, 512, 1041}) {
      const std::uint64_t out = 67, tokens = 37;
      const std::vector<float> x = random.floats(tokens * cols);
      const Weight w(random, dtype, out, cols, 1);
      const std::vector<float> together = multiply(*kinds[0], x, cols, w.all(), tokens);
      for (const auto& cpu : kinds) {
        REQUIRE(same_bits(multiply(*cpu, x, cols, w.all(), tokens), together));
      }
      for (std::uint64_t batch = 1; batch < 10; ++batch) {
        for (std::uint64_t t = 0; t + batch <= tokens; t += batch) {
          const std::vector<float> part(
              x.begin() + static_cast<std::ptrdiff_t>(t * cols),
              x.begin() + static_cast<std::ptrdiff_t>((t + batch) * cols));
          for (const std::size_t kind : std::initializer_list<std::size_t>{0, 3}) {
            const std::vector<float> y = multiply(*kinds[kind], part, cols, w.all(), batch);
            for (std::uint64_t i = 0; i < y.size(); ++i) {
              REQUIRE(same_bits(y[i], together[t * out + i]));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("matmul gives the same bits for any cut of the rows into pieces") {
  Random random(3);
  Cpu cpu(2);
  const std::uint64_t cols = 83, out = 61;
  for (const DType dtype : kTypes) {
    const Weight w(random, dtype, out, cols, 3);
    for (const std::uint64_t tokens : std::initializer_list<std::uint64_t>{1, 6, 140}) {
      const std::vector<float> x = random.floats(tokens * cols);
      const std::vector<float> whole = multiply(cpu, x, cols, w.all(), tokens);
      std::vector<float> pieces(whole.size(), NAN);
      for (std::uint64_t begin = 0; begin < out;) {
        const std::uint64_t end = std::min(out, begin + 1 + random.below(9));
        cpu.ops().matmul(cpu.stream(), const_rows(x, cols), w.range(begin, end),
                         {.data = pieces.data() + begin, .stride = out}, tokens);
        begin = end;
      }
      REQUIRE(same_bits(pieces, whole));
    }
  }
}

TEST_CASE("matmul writes nothing but its outputs and reads nothing behind its inputs") {
  Random random(4);
  Cpu cpu(2);
  const std::uint64_t cols = 21, out = 7, stride = 12;
  const Weight w(random, DType::kF16, out, cols);
  for (const std::uint64_t tokens : std::initializer_list<std::uint64_t>{1, 9}) {
    std::vector<float> x(tokens * 24, NAN);  // NaN between the rows
    for (std::uint64_t t = 0; t < tokens; ++t) {
      for (std::uint64_t k = 0; k < cols; ++k) x[t * 24 + k] = random();
    }
    std::vector<float> y(tokens * stride, 99.0f);
    cpu.ops().matmul(cpu.stream(), const_rows(x, 24), w.all(), rows(y, stride), tokens);
    for (std::uint64_t t = 0; t < tokens; ++t) {
      for (std::uint64_t n = 0; n < stride; ++n) {
        CHECK_FALSE(std::isnan(y[t * stride + n]));
        if (n >= out) CHECK(y[t * stride + n] == 99.0f);
      }
    }
  }
}

TEST_CASE("one-hot tokens read single weights exactly, infinities and NaNs as IEEE has it") {
  Random random(5);
  const auto kinds = all_kinds();
  const std::uint64_t cols = 40, out = 9;
  for (const DType dtype : kTypes) {
    Weight w(random, dtype, out, cols, 1);
    std::vector<float> x(cols * cols, 0.0f);
    for (std::uint64_t k = 0; k < cols; ++k) x[k * cols + k] = 2.0f;
    for (const auto& cpu : kinds) {
      const std::vector<float> y = multiply(*cpu, x, cols, w.all(), cols);
      for (std::uint64_t k = 0; k < cols; ++k) {
        for (std::uint64_t n = 0; n < out; ++n) REQUIRE(y[k * out + n] == 2 * w.at(n, k));
      }
    }
  }
  Weight w(random, DType::kF32, 3, cols);
  w.set(0 * cols + 39, INFINITY);
  w.set(1 * cols + 17, NAN);
  const std::vector<float> x(5 * cols, 1.0f);
  for (const auto& cpu : kinds) {
    for (const std::uint64_t tokens : std::initializer_list<std::uint64_t>{1, 5}) {
      const std::vector<float> y = multiply(*cpu, x, cols, w.all(), tokens);
      for (std::uint64_t t = 0; t < tokens; ++t) {
        CHECK(y[t * 3] == INFINITY);
        CHECK(std::isnan(y[t * 3 + 1]));
        CHECK(std::isfinite(y[t * 3 + 2]));
      }
    }
  }
}

TEST_CASE("matmul of more tokens than one pass takes") {
  Random random(6);
  Cpu cpu(2);
  const std::uint64_t cols = 50, out = 30, tokens = 300;
  const Weight w(random, DType::kBF16, out, cols);
  const std::vector<float> x = random.floats(tokens * cols);
  const std::vector<float> y = multiply(cpu, x, cols, w.all(), tokens);
  for (std::uint64_t t = 0; t < tokens; ++t) {
    const std::vector<float> row(x.begin() + static_cast<std::ptrdiff_t>(t * cols),
                                 x.begin() + static_cast<std::ptrdiff_t>((t + 1) * cols));
    const std::vector<float> alone = multiply(cpu, row, cols, w.all(), 1);
    for (std::uint64_t n = 0; n < out; ++n) REQUIRE(same_bits(alone[n], y[t * out + n]));
  }
}

}  // namespace
}  // namespace tidemill::kernels::test
