#include <doctest/doctest.h>

#include <numeric>

#include "tests/kernels/kernel_fixture.h"

namespace tidemill::kernels::test {
namespace {

/// One sequence of random queries, keys and values, laid out as [q heads | k heads | v heads].
struct Case {
  AttentionShape shape;
  std::uint64_t tokens;
  std::uint64_t window = 0;
  std::vector<float> slopes;
  float scale = 0.25f;
  std::vector<float> qkv;

  Case(Random& random, AttentionShape s, std::uint64_t n, float magnitude = 1.0f)
      : shape(s), tokens(n), qkv(random.floats(n * stride(), magnitude)) {}

  std::uint64_t stride() const {
    return std::uint64_t{shape.heads + 2 * shape.kv_heads} * shape.head_dim;
  }
  std::uint64_t out_stride() const { return std::uint64_t{shape.heads} * shape.head_dim; }
  QkvLayout layout() const {
    const std::uint64_t d = shape.head_dim;
    return {.q_offset = 0,
            .q_head_stride = d,
            .k_offset = shape.heads * d,
            .k_head_stride = d,
            .v_offset = (shape.heads + shape.kv_heads) * d,
            .v_head_stride = d};
  }
  float q(std::uint64_t t, std::uint64_t head, std::uint64_t d) const {
    return qkv[t * stride() + head * shape.head_dim + d];
  }
  float k(std::uint64_t t, std::uint64_t head, std::uint64_t d) const {
    return qkv[t * stride() + (shape.heads + head) * shape.head_dim + d];
  }
  float v(std::uint64_t t, std::uint64_t head, std::uint64_t d) const {
    return qkv[t * stride() + (shape.heads + shape.kv_heads + head) * shape.head_dim + d];
  }
};

/// Runs the sequence in chunks of the given sizes (repeated), from a poisoned cache.
std::vector<float> attend(Cpu& cpu, const Case& c, const std::vector<std::uint64_t>& chunks,
                          std::uint64_t capacity) {
  std::vector<float> cache(cpu.ops().kv_cache_floats(c.shape, capacity), NAN);
  std::vector<float> out(c.tokens * c.out_stride(), NAN);
  std::uint64_t position = 0;
  for (std::size_t i = 0; position < c.tokens; ++i) {
    const std::uint64_t count = std::min(chunks[i % chunks.size()], c.tokens - position);
    const SequenceRows sequence{.first_row = 0,
                                .count = count,
                                .position = position,
                                .cache = {.data = cache.data(), .capacity = capacity}};
    const ConstRows qkv{.data = c.qkv.data() + position * c.stride(), .stride = c.stride()};
    cpu.ops().kv_append(cpu.stream(), qkv, c.layout(), c.shape, {&sequence, 1});
    cpu.ops().attention(cpu.stream(), {.qkv = qkv,
                                       .layout = c.layout(),
                                       .shape = c.shape,
                                       .sequences = {&sequence, 1},
                                       .scale = c.scale,
                                       .alibi_slopes = c.slopes.empty() ? nullptr : c.slopes.data(),
                                       .window = c.window,
                                       .out = {.data = out.data() + position * c.out_stride(),
                                               .stride = c.out_stride()}});
    position += count;
  }
  return out;
}

/// The largest error against double precision, relative to the largest |v|. Scores are below
/// scale * d + slope * n in magnitude, each with a relative error of about d / 2 ulps; the
/// exponentials turn that into a relative error of the weights.
double largest_error(const Case& c, const std::vector<float>& out) {
  double largest = 0;
  const std::uint64_t group = c.shape.heads / c.shape.kv_heads;
  for (std::uint64_t t = 0; t < c.tokens; ++t) {
    for (std::uint64_t head = 0; head < c.shape.heads; ++head) {
      const std::uint64_t begin = c.window != 0 && t + 1 > c.window ? t + 1 - c.window : 0;
      std::vector<double> weight(t + 1, 0.0);
      double best = -INFINITY;
      for (std::uint64_t j = begin; j <= t; ++j) {
        double score = 0;
        for (std::uint64_t d = 0; d < c.shape.head_dim; ++d) {
          score += double{c.q(t, head, d)} * c.k(j, head / group, d);
        }
        score *= c.scale;
        if (!c.slopes.empty()) score += double{c.slopes[head]} * static_cast<double>(j);
        weight[j] = score;
        best = std::max(best, score);
      }
      double sum = 0;
      for (std::uint64_t j = begin; j <= t; ++j) sum += weight[j] = std::exp(weight[j] - best);
      for (std::uint64_t d = 0; d < c.shape.head_dim; ++d) {
        double exact = 0;
        for (std::uint64_t j = begin; j <= t; ++j) {
          exact += weight[j] / sum * c.v(j, head / group, d);
        }
        const float value = out[t * c.out_stride() + head * c.shape.head_dim + d];
        largest = std::max(largest, std::isnan(value) ? INFINITY : std::abs(value - exact));
      }
    }
  }
  return largest;
}

TEST_CASE("attention agrees with double precision") {
  Random random(1);
  Cpu cpu(2);
  for (const std::uint32_t head_dim :
       std::initializer_list<std::uint32_t>{1, 5, 16, 17, 64, 80, 100}) {
    for (const auto& [heads, kv_heads] : {std::pair{1u, 1u}, {4u, 4u}, {6u, 2u}, {5u, 1u}}) {
      for (const std::uint64_t tokens :
           std::initializer_list<std::uint64_t>{1, 3, 15, 16, 17, 70}) {
        Case c(random, {.heads = heads, .kv_heads = kv_heads, .head_dim = head_dim}, tokens);
        // Scores are of order 10, so 1e-5 is some tens of ulps of a score.
        REQUIRE(largest_error(c, attend(cpu, c, {tokens}, tokens)) < 1e-5);
        c.window = 7;
        REQUIRE(largest_error(c, attend(cpu, c, {tokens}, tokens)) < 1e-5);
        c.slopes = random.floats(heads, 0.5f);
        REQUIRE(largest_error(c, attend(cpu, c, {tokens}, tokens)) < 1e-5);
        c.window = 0;
        REQUIRE(largest_error(c, attend(cpu, c, {tokens}, tokens)) < 1e-5);
      }
    }
  }
}

TEST_CASE("attention has the same bits for any chunks, capacity, threads and instruction set") {
  Random random(2);
  const auto kinds = all_kinds();
  for (const std::uint64_t window : std::initializer_list<std::uint64_t>{0, 1, 2, 13, 40}) {
    for (const bool alibi : {false, true}) {
      Case c(random, {.heads = 6, .kv_heads = 3, .head_dim = 24}, 75);
      c.window = window;
      if (alibi) c.slopes = random.floats(6, 0.5f);
      const std::vector<float> expected = attend(*kinds[0], c, {1}, 75);
      for (const auto& cpu : kinds) {
        REQUIRE(same_bits(attend(*cpu, c, {75}, 75), expected));
        REQUIRE(same_bits(attend(*cpu, c, {1}, 200), expected));
        REQUIRE(same_bits(attend(*cpu, c, {2, 3, 1, 17, 16}, 99), expected));
        REQUIRE(same_bits(attend(*cpu, c, {33}, 80), expected));
      }
    }
  }
}

TEST_CASE("sequences of a ragged batch do not see each other") {
  Random random(3);
  Cpu cpu(2);
  const AttentionShape shape{.heads = 2, .kv_heads = 1, .head_dim = 18};
  std::vector<Case> cases;
  std::vector<std::vector<float>> caches;
  std::vector<SequenceRows> sequences;
  std::vector<float> qkv;
  for (const std::uint64_t tokens : std::initializer_list<std::uint64_t>{5, 0, 33, 1, 2}) {
    cases.emplace_back(random, shape, tokens);
    caches.emplace_back(cpu.ops().kv_cache_floats(shape, 40), NAN);
    sequences.push_back({.first_row = qkv.size() / cases[0].stride(),
                         .count = tokens,
                         .position = 0,
                         .cache = {.data = caches.back().data(), .capacity = 40}});
    qkv.insert(qkv.end(), cases.back().qkv.begin(), cases.back().qkv.end());
  }
  const Case& c = cases[0];
  std::vector<float> out(41 * c.out_stride(), NAN);
  cpu.ops().kv_append(cpu.stream(), const_rows(qkv, c.stride()), c.layout(), shape, sequences);
  cpu.ops().attention(cpu.stream(), {.qkv = const_rows(qkv, c.stride()),
                                     .layout = c.layout(),
                                     .shape = shape,
                                     .sequences = sequences,
                                     .scale = c.scale,
                                     .out = rows(out, c.out_stride())});
  std::vector<float> expected;
  for (const Case& each : cases) {
    const std::vector<float> alone = attend(cpu, each, {3}, 64);
    expected.insert(expected.end(), alone.begin(), alone.end());
  }
  CHECK(same_bits(out, expected));
}

TEST_CASE("a query that matches one key reads its value exactly") {
  for (const auto& cpu : all_kinds()) {
    Random random(4);
    const std::uint64_t tokens = 40;
    Case c(random, {.heads = 1, .kv_heads = 1, .head_dim = 40}, tokens, 0.0f);
    c.scale = 200.0f;  // e^-200 is 0 in fp32
    for (std::uint64_t t = 0; t < tokens; ++t) {
      float* const row = c.qkv.data() + t * c.stride();
      row[t * 7 % (t + 1)] = 1.0f;  // sees key t * 7 % (t + 1)
      row[40 + t] = 1.0f;
      for (std::uint64_t d = 0; d < 40; ++d) row[80 + d] = random();
    }
    const std::vector<float> out = attend(*cpu, c, {11}, 44);
    for (std::uint64_t t = 0; t < tokens; ++t) {
      for (std::uint64_t d = 0; d < 40; ++d) {
        REQUIRE(out[t * 40 + d] == c.v(t * 7 % (t + 1), 0, d));
      }
    }
  }
}

TEST_CASE("a NaN or infinity reaches the tokens that see it and no other") {
  Random random(5);
  Cpu cpu;
  for (const int part : {1, 2}) {  // key, value
    for (const float bad : {NAN, INFINITY}) {
      Case c(random, {.heads = 1, .kv_heads = 1, .head_dim = 8}, 30);
      c.window = 6;
      for (std::uint64_t t = 0; t < c.tokens; ++t) c.qkv[t * 24] = 1.0f;
      c.qkv[20 * 24 + static_cast<std::size_t>(part) * 8] = bad;
      const std::vector<float> out = attend(cpu, c, {4}, 30);
      for (std::uint64_t t = 0; t < c.tokens; ++t) {
        CHECK(std::isfinite(out[t * 8]) == (t < 20 || t >= 26));
      }
    }
  }
}

TEST_CASE("attention beyond the reserved positions or the cache is refused") {
  Random random(6);
  Cpu cpu;
  Case c(random, {.heads = 1, .kv_heads = 1, .head_dim = 8}, 20);
  CHECK_THROWS(attend(cpu, c, {20}, 19));
  cpu.ops().reserve(1, 1, 16);
  CHECK_THROWS(attend(cpu, c, {20}, 20));
  c.shape = {.heads = 3, .kv_heads = 2, .head_dim = 1};
  CHECK_THROWS(attend(cpu, c, {1}, 20));
}

}  // namespace
}  // namespace tidemill::kernels::test
