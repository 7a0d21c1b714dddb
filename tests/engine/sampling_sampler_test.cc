#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/sampling/logits_processors.h"
#include "engine/sampling/sampler.h"
#include "engine/sampling/torch_rng.h"
#include "io/base/error.h"

namespace tidemill::engine {
namespace {

using Ids = std::vector<std::uint32_t>;
using Scores = std::vector<float>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// What the error says, or "" if there is none of this kind.
template <typename Call>
std::string error_of(ErrorKind kind, Call call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.kind() == kind) return error.what();
  }
  return "";
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("the generator gives the published values") {
  TorchRng rng(42);
  CHECK(rng.next_u32() == 1608637542U);
  CHECK(rng.next_u32() == 3421126067U);
  CHECK(rng.next_u32() == 4083286876U);
  CHECK(rng.next_u32() == 787846414U);
  TorchRng same(42);
  CHECK(same.exponential() == doctest::Approx(0.059914015690802146).epsilon(1e-15));
  CHECK(same.exponential() == doctest::Approx(0.0649761287933853).epsilon(1e-15));
  // 10000th output of mt19937 with its reference seed.
  TorchRng reference(5489);
  for (int i = 1; i < 10000; ++i) reference.next_u32();
  CHECK(reference.next_u32() == 4123659995U);
}

TEST_CASE("only the low 32 bits of a seed matter") {
  CHECK(TorchRng(~0ULL).next_u32() == TorchRng(0xFFFFFFFFU).next_u32());
  CHECK(TorchRng((1ULL << 40) + 7).next_u32() == TorchRng(7).next_u32());
}

TEST_CASE("discard skips exactly as many numbers as drawing takes") {
  for (const unsigned count : {0U, 1U, 2U, 623U, 624U, 625U, 1247U, 1248U, 1249U, 100000U}) {
    TorchRng drawn(3);
    TorchRng skipped(3);
    drawn.next_u32();
    skipped.next_u32();
    for (unsigned i = 0; i < count; ++i) drawn.next_u32();
    skipped.discard(count);
    CHECK(drawn.next_u32() == skipped.next_u32());
  }
}

TEST_CASE("entries without probability consume random numbers and are never drawn") {
  TorchRng with_zeros(5);
  TorchRng plain(5);
  const Scores p = {0.0F, 0.0F, 1.0F, 0.0F};
  CHECK(multinomial(p, with_zeros) == 2);
  plain.discard(8);
  CHECK(with_zeros.next_u32() == plain.next_u32());
}

TEST_CASE("softmax sums to one, with and without excluded tokens") {
  Scores p(3);
  softmax(Scores{0.0F, 0.0F, -kInf}, p);
  CHECK(p == Scores{0.5F, 0.5F, 0.0F});
  softmax(Scores{3e38F, -3e38F, 3e38F}, p);
  CHECK(p == Scores{0.5F, 0.0F, 0.5F});
}

TEST_CASE("options out of range are refused by name") {
  const double bad = std::numeric_limits<double>::quiet_NaN();
  const auto message = [](const SamplingParams& params) {
    return error_of(ErrorKind::kUsage, [&] { validate(params); });
  };
  for (const double value : {0.0, -1.0, bad, 1e60, 1e-60}) {
    SamplingParams params;
    params.temperature = value;
    CHECK(contains(message(params), "temperature"));
    params = {};
    params.repetition_penalty = value;
    CHECK(contains(message(params), "repetition_penalty"));
  }
  for (const double value : {0.0, -0.1, 1.1, bad}) {
    SamplingParams params;
    params.top_p = value;
    CHECK(contains(message(params), "top_p"));
  }
  for (const double value : {-0.1, 1.1, bad}) {
    SamplingParams params;
    params.min_p = value;
    CHECK(contains(message(params), "min_p"));
    CHECK_THROWS_AS(Sampler(params, {}), Error);
  }
  SamplingParams params;
  params.vocab_limit = 0;
  CHECK(contains(message(params), "vocab_limit"));
  CHECK(message({}).empty());
}

TEST_CASE("logits that are not finite stop the request and name the token") {
  Sampler sampler({}, {});
  for (const float value : {kNaN, kInf}) {
    Scores logits = {1.0F, 2.0F, value, 4.0F};
    CHECK(contains(error_of(ErrorKind::kModel, [&] { sampler.next(logits, {}, 0); }), "token 2"));
  }
  Scores nothing(4, -kInf);
  CHECK(contains(error_of(ErrorKind::kModel, [&] { sampler.next(nothing, {}, 0); }),
                 "minus infinity"));
  Scores masked = {-kInf, 1.0F, -kInf};
  CHECK(sampler.next(masked, {}, 0) == 1);
}

TEST_CASE("ids outside the row and options that leave no token are errors of the request") {
  Scores logits = {1.0F, 2.0F};
  CHECK(contains(error_of(ErrorKind::kUsage, [&] { Sampler({}, {}).next(logits, Ids{2}, 1); }),
                 "token id 2"));
  SamplingParams params;
  params.no_repeat_ngram = 1;
  CHECK(contains(error_of(ErrorKind::kUsage,
                          [&] {
                            Sampler(params, {}).next(logits, Ids{0, 1}, 2);
                          }),
                 "no token"));
}

TEST_CASE("rows of the embedding beyond the vocabulary are never chosen") {
  SamplingParams params;
  params.vocab_limit = 2;
  Scores logits = {1.0F, 2.0F, 9.0F};
  CHECK(Sampler(params, {}).next(logits, {}, 0) == 1);
  params.vocab_limit = 100;
  logits = {1.0F, 2.0F, 9.0F};
  CHECK(Sampler(params, {}).next(logits, {}, 0) == 2);
}

TEST_CASE("the end comes no earlier than asked for") {
  const Ids history = {0, 0, 0};
  const auto next = [&](std::uint32_t min_length, std::uint32_t min_new_tokens) {
    SamplingParams params;
    params.min_length = min_length;
    params.min_new_tokens = min_new_tokens;
    Scores logits = {1.0F, 5.0F, 3.0F, 4.0F};
    return Sampler(params, {1, 3, 1000}).next(logits, history, 2);
  };
  CHECK(next(0, 0) == 1);
  CHECK(next(3, 1) == 1);
  CHECK(next(4, 0) == 2);
  CHECK(next(0, 2) == 2);
}

TEST_CASE("a request's randomness depends on its seed alone") {
  const Scores row = {0.3F, 0.1F, 0.2F, 0.7F, 0.5F, 0.0F, 0.1F};
  const auto draw = [&](Sampler& sampler) {
    Scores logits = row;
    return sampler.next(logits, {}, 0);
  };
  SamplingParams params;
  params.do_sample = true;
  params.seed = 11;
  Sampler alone(params, {});
  Ids expected;
  for (int i = 0; i < 50; ++i) expected.push_back(draw(alone));
  Sampler again(params, {});
  params.seed = 12;
  Sampler neighbour(params, {});
  Ids interleaved;
  Ids other;
  for (int i = 0; i < 50; ++i) {
    interleaved.push_back(draw(again));
    other.push_back(draw(neighbour));
  }
  CHECK(interleaved == expected);
  CHECK(other != expected);
}

TEST_CASE("draws follow the probabilities") {
  const Scores p = {0.1F, 0.2F, 0.3F, 0.4F};
  std::vector<double> counts(4);
  TorchRng rng(1);
  constexpr int kDraws = 40000;
  for (int i = 0; i < kDraws; ++i) counts[multinomial(p, rng)] += 1;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double expected = static_cast<double>(p[i]);
    // Five standard deviations.
    CHECK(std::abs(counts[i] / kDraws - expected) <
          5 * std::sqrt(expected * (1 - expected) / kDraws));
  }
}

TEST_CASE("a temperature that leaves the range of float is refused, a high one is not") {
  SamplingParams params;
  params.do_sample = true;
  params.temperature = 1e-37;
  Scores logits = {1e3F, 2.0F};
  CHECK(contains(error_of(ErrorKind::kUsage, [&] { Sampler(params, {}).next(logits, {}, 0); }),
                 "temperature"));
  params.temperature = 1e30;
  logits = {1e3F, 2.0F};
  CHECK(Sampler(params, {}).next(logits, {}, 0) < 2);
}

}  // namespace
}  // namespace tidemill::engine
