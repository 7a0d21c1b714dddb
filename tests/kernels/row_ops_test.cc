// Conversions, copies, sums and rotations.
#include <doctest/doctest.h>

#include "tests/kernels/kernel_fixture.h"

namespace tidemill::kernels::test {
namespace {

TEST_CASE("all fp16 and bf16 values convert exactly, whatever their address") {
  for (const auto& cpu : all_kinds()) {
    for (const std::size_t misalignment : std::initializer_list<std::size_t>{0, 1, 3}) {
      std::vector<std::byte> bytes(misalignment + 2 * 65536);
      for (std::uint32_t i = 0; i < 65536; ++i) {
        const auto bits = static_cast<std::uint16_t>(i);
        std::memcpy(bytes.data() + misalignment + 2 * i, &bits, 2);
      }
      std::vector<float> y(65536);
      WeightRows w{
          .data = bytes.data() + misalignment, .dtype = DType::kF16, .rows = 1, .cols = 65536};
      cpu->ops().convert(cpu->stream(), w, y.data());
      for (std::uint32_t i = 0; i < 65536; ++i) {
        REQUIRE(same_bits(y[i], Weight::half_value(static_cast<std::uint16_t>(i))));
      }
      w.dtype = DType::kBF16;
      cpu->ops().convert(cpu->stream(), w, y.data());
      for (std::uint32_t i = 0; i < 65536; ++i) {
        REQUIRE(std::bit_cast<std::uint32_t>(y[i]) == i << 16);
      }
    }
  }
}

TEST_CASE("fp16 NaNs have the same payload on every target") {
  std::vector<std::uint16_t> halves;
  for (std::uint32_t i = 0x7c01; i < 0x8000; ++i) halves.push_back(static_cast<std::uint16_t>(i));
  std::vector<std::vector<float>> results;
  for (const auto& cpu : all_kinds()) {
    results.emplace_back(halves.size());
    cpu->ops().convert(cpu->stream(),
                       {.data = reinterpret_cast<const std::byte*>(halves.data()),
                        .dtype = DType::kF16,
                        .rows = halves.size(),
                        .cols = 1},
                       results.back().data());
    for (std::size_t i = 0; i < halves.size(); ++i) {
      REQUIRE(std::bit_cast<std::uint32_t>(results.back()[i]) ==
              std::bit_cast<std::uint32_t>(results[0][i]));
    }
  }
}

TEST_CASE("convert of every size, and of more than one thread takes") {
  Random random(1);
  Cpu cpu(3);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const std::uint64_t cols :
         std::initializer_list<std::uint64_t>{1, 15, 16, 17, 4095, 4097, 300001}) {
      const Weight w(random, dtype, 1, cols, 1);
      std::vector<float> y(cols + 1, 5.0f);
      cpu.ops().convert(cpu.stream(), w.all(), y.data());
      REQUIRE(std::equal(w.values.begin(), w.values.end(), y.begin()));
      REQUIRE(y[cols] == 5.0f);
    }
  }
}

TEST_CASE("gather reads rows by address") {
  Random random(2);
  Cpu cpu(2);
  for (const std::uint64_t cols : odd_sizes()) {
    const Weight w(random, DType::kBF16, 9, cols, 1);
    std::vector<const std::byte*> addresses;
    const std::uint64_t picks[] = {8, 0, 0, 5};
    for (const std::uint64_t row : picks) addresses.push_back(w.range(row, 9).data);
    std::vector<float> y(4 * (cols + 1), 5.0f);
    cpu.ops().gather(cpu.stream(), addresses, DType::kBF16, cols, rows(y, cols + 1));
    for (std::uint64_t t = 0; t < 4; ++t) {
      for (std::uint64_t c = 0; c < cols; ++c) {
        REQUIRE(y[t * (cols + 1) + c] == w.at(picks[t], c));
      }
      REQUIRE(y[t * (cols + 1) + cols] == 5.0f);
    }
  }
}

TEST_CASE("zero, copy, select_rows, add and add_bias") {
  Random random(3);
  for (const auto& cpu : all_kinds()) {
    Ops& ops = cpu->ops();
    for (const std::uint64_t cols : odd_sizes()) {
      const std::uint64_t tokens = 4, stride = cols + 1;
      const std::vector<float> x = random.floats(tokens * cols);
      const std::vector<float> bias = random.floats(cols);
      const std::uint64_t index[] = {3, 0, 3, 1};
      std::vector<float> copied(tokens * stride, 5.0f), selected = copied, zeroed = copied;
      ops.copy(cpu->stream(), const_rows(x, cols), rows(copied, stride), tokens, cols);
      ops.select_rows(cpu->stream(), const_rows(x, cols), index, rows(selected, stride), cols);
      ops.zero(cpu->stream(), rows(zeroed, stride), tokens, cols);
      std::vector<float> sums = copied, biased = copied;
      ops.add(cpu->stream(), const_rows(selected, stride), rows(sums, stride), tokens, cols);
      ops.add_bias(cpu->stream(), bias.data(), rows(biased, stride), tokens, cols);
      for (std::uint64_t t = 0; t < tokens; ++t) {
        for (std::uint64_t c = 0; c < cols; ++c) {
          const float value = x[t * cols + c];
          const std::uint64_t i = t * stride + c;
          REQUIRE(copied[i] == value);
          REQUIRE(selected[i] == x[index[t] * cols + c]);
          REQUIRE(zeroed[i] == 0.0f);
          REQUIRE(sums[i] == value + selected[i]);
          REQUIRE(biased[i] == value + bias[c]);
        }
        for (const auto* y : {&copied, &selected, &zeroed, &sums, &biased}) {
          REQUIRE((*y)[t * stride + cols] == 5.0f);
        }
      }
    }
  }
}

TEST_CASE("rotary turns pairs half a head apart, with one rounding per operation") {
  Random random(4);
  for (const auto& cpu : all_kinds()) {
    for (const std::uint32_t half : std::initializer_list<std::uint32_t>{1, 3, 16, 20, 32}) {
      const std::uint32_t heads = 3, r = 2 * half;
      const std::uint64_t tokens = 6, head_stride = r + 5, offset = 2, stride = 3 * head_stride + 9;
      const std::vector<float> before = random.floats(tokens * stride);
      const std::vector<float> cos_sin = random.floats(tokens * (r + 1));
      std::vector<float> expected = before, x = before;
      for (std::uint64_t t = 0; t < tokens; ++t) {
        for (std::uint64_t head = 0; head < heads; ++head) {
          for (std::uint64_t j = 0; j < half; ++j) {
            const std::uint64_t at = t * stride + offset + head * head_stride + j;
            const float c = cos_sin[t * (r + 1) + j], s = cos_sin[t * (r + 1) + half + j];
            expected[at] = before[at] * c - before[at + half] * s;
            expected[at + half] = before[at + half] * c + before[at] * s;
          }
        }
      }
      cpu->ops().rotary(cpu->stream(), rows(x, stride), offset, head_stride, heads, r,
                        const_rows(cos_sin, r + 1), tokens);
      REQUIRE(same_bits(x, expected));
    }
  }
}

TEST_CASE("no tokens, no work") {
  Cpu cpu;
  Ops& ops = cpu.ops();
  Stream& stream = cpu.stream();
  ops.matmul(stream, {}, {.data = nullptr, .dtype = DType::kF32, .rows = 4, .cols = 4}, {}, 0);
  ops.matmul_transposed_accumulate(
      stream, {}, {.data = nullptr, .dtype = DType::kF32, .rows = 4, .cols = 4}, {}, 0);
  ops.convert(stream, {}, nullptr);
  ops.gather(stream, {}, DType::kF16, 4, {});
  ops.zero(stream, {}, 0, 4);
  ops.add(stream, {}, {}, 0, 4);
  ops.layer_norm(stream, {}, nullptr, nullptr, 0.0f, {}, 0, 4);
  ops.kv_append(stream, {}, {}, {.heads = 1, .kv_heads = 1, .head_dim = 4}, {});
  ops.attention(stream, {.qkv = {},
                         .layout = {},
                         .shape = {.heads = 1, .kv_heads = 1, .head_dim = 4},
                         .sequences = {},
                         .out = {}});
}

}  // namespace
}  // namespace tidemill::kernels::test
