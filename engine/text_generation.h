// Text generation as text: prompts in, text out as it comes, ended by stop strings.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/generator.h"
#include "engine/tokenizer/tokenizer.h"

namespace tidemill::engine {

struct TextRequest {
  GenerationRequest generation;
  std::vector<std::string> stop;  ///< the text ends in front of the first one that is complete
};

struct GeneratedText {
  std::vector<std::uint32_t> tokens;  ///< all that were generated, those of a stop string too
  std::string text;
  FinishReason reason = FinishReason::kLength;
};

struct TextCallbacks {
  /// The next part of a request's text: whole characters; all parts together are its text.
  std::function<void(std::size_t request, std::string_view text)> on_text;
  /// A request has one more token (which may or may not complete some text).
  std::function<void(std::size_t request, std::uint32_t token)> on_token;
  /// A request has ended. Called once for each, in the order in which they end.
  std::function<void(std::size_t request, const GeneratedText& result)> on_done;
  SweepCallback on_sweep;
};

/// Token ids of a prompt. A text without tokens becomes the model's bos token, Error(kUsage) if it
/// has none. Error(kUsage) if `text` is not valid UTF-8.
std::vector<std::uint32_t> encode_prompt(const Model& model, const Tokenizer& tokenizer,
                                         std::string_view text, bool add_special_tokens);

/// Error(kUsage) for a request that the model cannot take, or a stop string that is empty or not
/// valid UTF-8.
void validate(const Model& model, const TextRequest& request);

/// Runs all requests to their end, as generate() does. Special tokens give no text, nor do ids that
/// the tokenizer does not have. Without a tokenizer (nullptr) the text is the ids, separated by
/// spaces.
std::vector<GeneratedText> generate_text(Session& session, const Tokenizer* tokenizer,
                                         std::span<const TextRequest> requests,
                                         const TextCallbacks& callbacks);

}  // namespace tidemill::engine
