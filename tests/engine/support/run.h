// Runs a model the way the command line does and collects what it computed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/generator.h"
#include "engine/model.h"
#include "engine/session.h"

namespace tidemill::engine::testing {

/// One way of running: everything here may change the speed and nothing may change a bit.
struct Setup {
  std::uint64_t memory_bytes = 1ULL << 30;
  /// If set, memory_bytes := the smallest budget for the workload plus this share of the weights:
  /// 0 streams nearly everything in the smallest pieces, 1 keeps nearly everything resident.
  std::optional<double> memory_share;
  unsigned threads = 1;
  io::ReaderEngine io = io::ReaderEngine::kThreads;
  std::uint64_t block_bytes = 1 << 20;
  std::optional<std::uint32_t> prefetch;
  std::uint64_t piece_bytes = 0;
  std::uint64_t chunk = 512;  ///< prompt tokens per sweep
  std::string describe() const;
};

std::string fixture(const std::string& name);

/// Logits [n, vocab] of all positions of one sequence, hidden states if `hidden` is given.
std::vector<float> logits_of(const Model& model, const std::vector<std::uint32_t>& tokens,
                             const Setup& setup, std::vector<std::vector<float>>* hidden = nullptr);

/// Generates with the setup; all requests in one session.
std::vector<Generated> generate_with(const Model& model,
                                     const std::vector<GenerationRequest>& requests,
                                     const Setup& setup);

GenerationRequest greedy(std::vector<std::uint32_t> prompt, std::uint64_t new_tokens);

/// Runs `body` with a session for sequences of these lengths.
void with_session(const Model& model, const std::vector<std::uint64_t>& lengths, bool all_logits,
                  const Setup& setup, const std::function<void(Session&)>& body);

}  // namespace tidemill::engine::testing
