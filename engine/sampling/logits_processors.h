// The steps between a model's logits and the choice of a token, each as transformers does it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tidemill::engine {

// All work in place on one row of scores in float32; a token that is out has minus infinity. Ids
// must be below scores.size().

/// Divides positive scores of ids that occur in `history` by `penalty`, multiplies negative ones:
/// once per id.
void apply_repetition_penalty(std::span<float> scores, std::span<const std::uint32_t> history,
                              float penalty);

/// Bans every token that would complete an n-gram of `history`. `size` >= 1.
void ban_repeated_ngrams(std::span<float> scores, std::span<const std::uint32_t> history,
                         std::size_t size);

/// Bans the given tokens.
void ban(std::span<float> scores, std::span<const std::uint32_t> ids);

/// Divides by `temperature` > 0.
void apply_temperature(std::span<float> scores, float temperature);

/// Keeps the `k` >= 1 largest scores, and all that tie with the smallest of them.
void keep_top_k(std::span<float> scores, std::size_t k);

/// Keeps the smallest set of most likely tokens whose probability is at least `p`; at least one.
/// Of equal scores across the cut those with the higher ids stay (the order of a stable sort).
void keep_top_p(std::span<float> scores, double p);

/// Keeps tokens that are at least `p` times as likely as the most likely one.
void keep_min_p(std::span<float> scores, float p);

/// Probabilities in float32, from exponentials and a sum in double; the scores may hold minus
/// infinity but not only. `out` has the size of `scores` and may be the same memory.
void softmax(std::span<const float> scores, std::span<float> out);

/// The first index of the largest score.
std::size_t argmax(std::span<const float> scores);

}  // namespace tidemill::engine
