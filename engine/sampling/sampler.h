// One request's choice of tokens: transformers' processors, torch's random numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/sampling/torch_rng.h"

namespace tidemill::engine {

/// Names, meaning and defaults of transformers' GenerationConfig.
struct SamplingParams {
  bool do_sample = false;                    ///< false: always the most likely token
  double temperature = 1.0;                  ///< > 0
  std::uint32_t top_k = 50;                  ///< 0: off
  double top_p = 1.0;                        ///< in (0, 1]; 1: off
  double min_p = 0.0;                        ///< in [0, 1]; 0: off
  double repetition_penalty = 1.0;           ///< > 0; 1: off
  std::uint32_t no_repeat_ngram = 0;         ///< 0: off
  std::uint32_t min_length = 0;              ///< tokens, prompt included, before eos may come
  std::uint32_t min_new_tokens = 0;          ///< the same without the prompt
  std::uint64_t seed = 0;                    ///< only the low 32 bits matter, as in torch
  std::optional<std::uint32_t> vocab_limit;  ///< ids from here on are never chosen
};

/// Error(kUsage) that names the option which is out of its range (NaN is).
void validate(const SamplingParams& params);

/// Chooses one token after the other for one request. The randomness depends on params.seed alone:
/// neither on other requests nor on where the request stands in a batch.
class Sampler {
 public:
  /// `eos` are the tokens that end a text. Validates `params`.
  Sampler(const SamplingParams& params, std::vector<std::uint32_t> eos);

  /// The next token. `logits` is the row of the last position and is overwritten; `history` is the
  /// prompt and all tokens chosen so far, without padding, the first `prompt_length` of them the
  /// prompt. With do_sample each call consumes 2 u32 per logit, so that a run can be compared with
  /// torch. Error(kModel) naming the token index if a logit is NaN or plus infinity, or if all are
  /// minus infinity; Error(kUsage) if the options leave no token, or an id of `history` is outside
  /// the row.
  std::uint32_t next(std::span<float> logits, std::span<const std::uint32_t> history,
                     std::size_t prompt_length);

  const SamplingParams& params() const { return params_; }

 private:
  void process(std::span<float> scores, std::span<const std::uint32_t> history,
               std::size_t prompt_length) const;
  void warp(std::span<float> scores) const;

  SamplingParams params_;
  std::vector<std::uint32_t> eos_;
  TorchRng rng_;
};

}  // namespace tidemill::engine
