#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/sampling/logits_processors.h"
#include "io/base/checked.h"
#include "io/base/error.h"

namespace tidemill::engine {
namespace {

constexpr float kOut = -std::numeric_limits<float>::infinity();

void require(bool condition, const char* option, double value, const char* rule) {
  if (!condition) throw_error(ErrorKind::kUsage, "{} is {}, it must be {}", option, value, rule);
}

// The float that the processors work with must not have become 0 or infinity.
bool is_positive_float(double value) {
  return std::isfinite(static_cast<float>(value)) && static_cast<float>(value) > 0.0F;
}

void check_finite(std::span<const float> logits) {
  bool any = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == -kOut) {
      throw_error(ErrorKind::kModel, "the logit of token {} is {}", i, logits[i]);
    }
    any = any || logits[i] != kOut;
  }
  if (!any) {
    throw_error(ErrorKind::kModel, "all {} logits are minus infinity, from token 0 on",
                logits.size());
  }
}

}  // namespace

void validate(const SamplingParams& params) {
  require(is_positive_float(params.temperature), "temperature", params.temperature,
          "above 0 (for the most likely token use do_sample = false)");
  require(params.top_p > 0 && params.top_p <= 1, "top_p", params.top_p, "above 0 and at most 1");
  require(params.min_p >= 0 && params.min_p <= 1, "min_p", params.min_p, "from 0 to 1");
  require(is_positive_float(params.repetition_penalty), "repetition_penalty",
          params.repetition_penalty, "above 0");
  require(!params.vocab_limit || *params.vocab_limit > 0, "vocab_limit", 0, "above 0");
}

Sampler::Sampler(const SamplingParams& params, std::vector<std::uint32_t> eos)
    : params_(params), eos_(std::move(eos)), rng_(params.seed) {
  validate(params_);
}

std::uint32_t Sampler::next(std::span<float> logits, std::span<const std::uint32_t> history,
                            std::size_t prompt_length) {
  TM_CHECK(prompt_length <= history.size(), "{} > {}", prompt_length, history.size());
  check_finite(logits);
  for (const std::uint32_t id : history) {
    if (id >= logits.size()) {
      throw_error(ErrorKind::kUsage, "token id {} is outside the model's vocabulary of {}", id,
                  logits.size());
    }
  }
  process(logits, history, prompt_length);
  if (params_.do_sample) warp(logits);
  const std::size_t best = argmax(logits);
  if (logits[best] == kOut) {
    throw_error(ErrorKind::kUsage, "the sampling options leave no token to choose");
  }
  if (!params_.do_sample) return narrow<std::uint32_t>(best);
  softmax(logits, logits);
  return narrow<std::uint32_t>(multinomial(logits, rng_));
}

// What applies to greedy choice too, in transformers' order.
void Sampler::process(std::span<float> scores, std::span<const std::uint32_t> history,
                      std::size_t prompt_length) const {
  if (params_.vocab_limit && *params_.vocab_limit < scores.size()) {
    const auto padding = scores.subspan(*params_.vocab_limit);
    std::fill(padding.begin(), padding.end(), kOut);
  }
  if (params_.repetition_penalty != 1.0) {
    apply_repetition_penalty(scores, history, static_cast<float>(params_.repetition_penalty));
  }
  if (params_.no_repeat_ngram > 0) ban_repeated_ngrams(scores, history, params_.no_repeat_ngram);
  if (history.size() < params_.min_length ||
      history.size() - prompt_length < params_.min_new_tokens) {
    for (const std::uint32_t id : eos_) {
      if (id < scores.size()) scores[id] = kOut;
    }
  }
}

// What narrows down a random choice, in transformers' order.
void Sampler::warp(std::span<float> scores) const {
  if (params_.temperature != 1.0) {
    apply_temperature(scores, static_cast<float>(params_.temperature));
    // Differences of scores beyond the range of float: only the largest are left.
    if (std::isinf(scores[argmax(scores)])) {
      throw_error(ErrorKind::kUsage, "temperature {} is too small for these logits",
                  params_.temperature);
    }
  }
  if (params_.top_k > 0) keep_top_k(scores, params_.top_k);
  if (params_.top_p < 1.0) keep_top_p(scores, params_.top_p);
  if (params_.min_p > 0.0) keep_min_p(scores, static_cast<float>(params_.min_p));
}

}  // namespace tidemill::engine
