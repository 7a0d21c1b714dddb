#include "engine/text_generation.h"

#include <optional>

#include "engine/sampling/stop_strings.h"
#include "io/base/error.h"

namespace tidemill::engine {
namespace {

/// The text of one request in the making.
class Writer {
 public:
  Writer(const Tokenizer* tokenizer, const TextRequest& request)
      : tokenizer_(tokenizer), matcher_(request.stop) {
    if (tokenizer != nullptr) decoder_.emplace(*tokenizer, /*skip_special_tokens=*/true);
  }

  /// Takes a token, which is the last if `last` is given; returns the text that can be shown now.
  std::string push(std::uint32_t token, std::optional<FinishReason> last) {
    result_.tokens.push_back(token);
    std::string shown = matcher_.feed(text_of(token));
    if (matcher_.matched()) {
      end(FinishReason::kStopped);
    } else if (last) {
      shown += end(*last);
    }
    result_.text += shown;
    return shown;
  }

  bool done() const { return done_; }
  GeneratedText& result() { return result_; }

 private:
  std::string text_of(std::uint32_t token) {
    if (decoder_) return token < tokenizer_->vocab_size() ? decoder_->push(token) : "";
    return result_.tokens.size() == 1 ? fmt::format("{}", token) : fmt::format(" {}", token);
  }

  /// The text that had been held back.
  std::string end(FinishReason reason) {
    done_ = true;
    result_.reason = reason;
    if (reason == FinishReason::kStopped) return "";
    std::string rest = decoder_ ? matcher_.feed(decoder_->finish()) : "";
    if (matcher_.matched()) {
      result_.reason = FinishReason::kStopped;
      return rest;
    }
    return rest + matcher_.finish();
  }

  const Tokenizer* tokenizer_;
  std::optional<StreamDecoder> decoder_;
  StopMatcher matcher_;
  GeneratedText result_;
  bool done_ = false;
};

}  // namespace

std::vector<std::uint32_t> encode_prompt(const Model& model, const Tokenizer& tokenizer,
                                         std::string_view text, bool add_special_tokens) {
  std::vector<std::uint32_t> tokens = tokenizer.encode(text, add_special_tokens);
  if (!tokens.empty()) return tokens;
  if (!model.spec.bos) {
    throw_error(ErrorKind::kUsage,
                "the prompt is empty and the model has no token to begin a text with; give a "
                "prompt");
  }
  return {*model.spec.bos};
}

void validate(const Model& model, const TextRequest& request) {
  validate(model, request.generation);
  static_cast<void>(StopMatcher(request.stop));
}

std::vector<GeneratedText> generate_text(Session& session, const Tokenizer* tokenizer,
                                         std::span<const TextRequest> requests,
                                         const TextCallbacks& callbacks) {
  std::vector<Writer> writers;
  std::vector<GenerationRequest> generations;
  writers.reserve(requests.size());
  for (const TextRequest& request : requests) {
    validate(session.model(), request);
    generations.push_back(request.generation);
    writers.emplace_back(tokenizer, request);
  }
  const auto take = [&](std::size_t index, std::uint32_t token, std::optional<FinishReason> end) {
    Writer& writer = writers[index];
    if (callbacks.on_token) callbacks.on_token(index, token);
    const std::string shown = writer.push(token, end);
    if (callbacks.on_text && !shown.empty()) callbacks.on_text(index, shown);
    if (!writer.done()) return true;
    if (callbacks.on_done) callbacks.on_done(index, writer.result());
    return writer.result().reason != FinishReason::kStopped;
  };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    // Nothing to generate: ended before it began.
    if (requests[i].generation.max_new_tokens == 0 && callbacks.on_done) {
      callbacks.on_done(i, writers[i].result());
    }
  }
  const std::vector<Generated> generated = generate(session, generations, take, callbacks.on_sweep);
  std::vector<GeneratedText> results;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    TM_CHECK(writers[i].result().tokens == generated[i].tokens, "request {}", i);
    results.push_back(std::move(writers[i].result()));
  }
  return results;
}

}  // namespace tidemill::engine
