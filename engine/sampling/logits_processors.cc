#include "engine/sampling/logits_processors.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace tidemill::engine {
namespace {

constexpr float kOut = -std::numeric_limits<float>::infinity();

}  // namespace

void apply_repetition_penalty(std::span<float> scores, std::span<const std::uint32_t> history,
                              float penalty) {
  std::vector<bool> done(scores.size());
  for (const std::uint32_t id : history) {
    if (done[id]) continue;
    done[id] = true;
    scores[id] = scores[id] < 0.0F ? scores[id] * penalty : scores[id] / penalty;
  }
}

void ban_repeated_ngrams(std::span<float> scores, std::span<const std::uint32_t> history,
                         std::size_t size) {
  if (history.size() < size) return;
  const auto tail = history.last(size - 1);  // what the next token would continue
  for (std::size_t i = 0; i + size <= history.size(); ++i) {
    if (std::equal(tail.begin(), tail.end(), history.begin() + static_cast<std::ptrdiff_t>(i))) {
      scores[history[i + size - 1]] = kOut;
    }
  }
}

void ban(std::span<float> scores, std::span<const std::uint32_t> ids) {
  for (const std::uint32_t id : ids) scores[id] = kOut;
}

void apply_temperature(std::span<float> scores, float temperature) {
  for (float& score : scores) score /= temperature;
}

void keep_top_k(std::span<float> scores, std::size_t k) {
  if (k >= scores.size()) return;
  std::vector<float> sorted(scores.begin(), scores.end());
  const auto cut = sorted.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(sorted.begin(), cut, sorted.end(), std::greater<>());
  const float smallest = *cut;
  for (float& score : scores) {
    if (score < smallest) score = kOut;
  }
}

void keep_top_p(std::span<float> scores, double p) {
  // Tokens that are out already have probability 0 and change nothing.
  std::vector<std::uint32_t> order;
  for (std::uint32_t id = 0; id < scores.size(); ++id) {
    if (scores[id] != kOut) order.push_back(id);
  }
  if (order.empty()) return;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return scores[a] < scores[b]; });
  std::vector<float> probabilities(order.size());
  std::transform(order.begin(), order.end(), probabilities.begin(),
                 [&](std::uint32_t id) { return scores[id]; });
  softmax(probabilities, probabilities);
  // torch sums in double, rounds every partial sum to float and compares it with 1 - p as a float.
  const auto threshold = static_cast<float>(1.0 - p);
  double sum = 0;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    sum += static_cast<double>(probabilities[i]);
    if (static_cast<float>(sum) <= threshold) scores[order[i]] = kOut;
  }
}

void keep_min_p(std::span<float> scores, float p) {
  std::vector<float> probabilities(scores.size());
  softmax(scores, probabilities);
  const std::size_t best = argmax(probabilities);
  const float threshold = p * probabilities[best];
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (probabilities[i] < threshold && i != best) scores[i] = kOut;
  }
}

void softmax(std::span<const float> scores, std::span<float> out) {
  const double largest = static_cast<double>(*std::max_element(scores.begin(), scores.end()));
  const auto weight = [&](float score) { return std::exp(static_cast<double>(score) - largest); };
  double sum = 0;
  for (const float score : scores) {
    if (score != kOut) sum += weight(score);
  }
  for (std::size_t i = 0; i < scores.size(); ++i) {
    out[i] = scores[i] == kOut ? 0.0F : static_cast<float>(weight(scores[i]) / sum);
  }
}

std::size_t argmax(std::span<const float> scores) {
  return static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

}  // namespace tidemill::engine
