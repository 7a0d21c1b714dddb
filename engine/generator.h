// Text generation as token ids: many requests share each sweep and finish independently.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/sampling/sampler.h"
#include "engine/session.h"

namespace tidemill::engine {

struct GenerationRequest {
  std::vector<std::uint32_t> prompt;  ///< at least one id, all below the vocabulary
  std::uint64_t max_new_tokens = 20;
  SamplingParams sampling;
  bool ignore_eos = false;
};

enum class FinishReason {
  kEos,      ///< an end-of-sequence token, which is the last of the tokens
  kLength,   ///< max_new_tokens, or the model's last position
  kStopped,  ///< the callback said so (stop strings)
};
std::string_view to_string(FinishReason reason);  ///< "eos", "length", "stop"

struct Generated {
  std::vector<std::uint32_t> tokens;  ///< new tokens only
  FinishReason reason = FinishReason::kLength;
};

/// Called for each new token as it comes; false ends that request. `end` says why this token is the
/// request's last, if it is whatever the callback returns.
using TokenCallback =
    std::function<bool(std::size_t request, std::uint32_t token, std::optional<FinishReason> end)>;

/// Called once per sweep, after it, with the rows that it took.
using SweepCallback = std::function<void(std::uint64_t rows)>;

/// Error(kUsage) for a request that the model cannot take: no tokens, ids outside of the
/// vocabulary, more positions than the model has, sampling parameters out of range.
void validate(const Model& model, const GenerationRequest& request);

/// Positions that the request needs in the key/value cache.
std::uint64_t positions_needed(const Model& model, const GenerationRequest& request);

/// Runs all requests to their end. The answer to a request depends on the model and the request
/// alone. Requests beyond what the session's cache and rows hold wait for their turn.
std::vector<Generated> generate(Session& session, std::span<const GenerationRequest> requests,
                                const TokenCallback& on_token, const SweepCallback& on_sweep = {});

/// How many tokens each sequence contributes to the next sweep.
struct RowShare {
  std::uint64_t take = 0;
  bool wants_logits = false;  ///< the sequence's last known token is among them
};

/// Divides `max_rows` rows and `max_outputs` logits rows among sequences that have `remaining[i]`
/// tokens not yet fed. Sequences in decode (one token) come first, so that prompts of others do not
/// hold them up. At most max_outputs sequences are given.
std::vector<RowShare> share_rows(std::span<const std::uint64_t> remaining, std::uint64_t max_rows,
                                 std::uint64_t max_outputs);

}  // namespace tidemill::engine
