#include "engine/tokenizer/decoder.h"

#include <optional>
#include <utility>

#include "engine/tokenizer/byte_alphabet.h"
#include "engine/tokenizer/json_fields.h"
#include "io/base/error.h"

namespace tidemill::engine {
namespace {

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  return std::nullopt;
}

// "<0x0A>" -> '\n'
std::optional<char> byte_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const auto high = hex_digit(token[3]);
  const auto low = hex_digit(token[4]);
  if (!high || !low) return std::nullopt;
  return static_cast<char>(*high << 4 | *low);
}

std::string replace_text(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text.substr(at, from.size()) == from) {
      out += to;
      at += from.size();
    } else {
      out += text[at++];
    }
  }
  return out;
}

constexpr std::uint32_t kMaxStrip = 1024;

}  // namespace

Decoder::Decoder() { steps_.push_back({.kind = Kind::kJoin}); }

Decoder Decoder::parse(const nlohmann::json& json) {
  Decoder decoder;
  if (json.is_null()) return decoder;
  decoder.steps_.clear();
  decoder.add(json);
  return decoder;
}

void Decoder::add(const nlohmann::json& json) {
  require_object(json, "decoder");
  const std::string type = string_field(json, "type", "decoder");
  if (type == "Sequence") {
    for (const auto& step : array_field(json, "decoders", "decoder Sequence")) add(step);
    return;
  }
  Step step{.kind = Kind::kFuse, .fused = fused_};
  if (type == "ByteLevel") {
    step.kind = Kind::kByteLevel;
    fused_ = true;
  } else if (type == "Fuse") {
    fused_ = true;
  } else if (type == "ByteFallback") {
    step.kind = Kind::kByteFallback;
  } else if (type == "Metaspace") {
    step.kind = Kind::kMetaspace;
    step.content = string_field(json, "replacement", "decoder Metaspace");
    step.prepended = find_field(json, "prepend_scheme") != nullptr
                         ? string_field(json, "prepend_scheme", "decoder Metaspace") != "never"
                         : bool_field(json, "add_prefix_space", true, "decoder Metaspace");
  } else if (type == "Replace") {
    step.kind = Kind::kReplace;
    const auto* pattern = find_field(json, "pattern");
    if (pattern == nullptr) throw_error(ErrorKind::kModel, "decoder Replace has no pattern");
    step.pattern.push_back(Pattern::parse(*pattern, "decoder Replace"));
    step.content = string_field(json, "content", "decoder Replace");
  } else if (type == "Strip") {
    step.kind = Kind::kStrip;
    step.content = string_field(json, "content", "decoder Strip");
    step.start = count_field(json, "start", kMaxStrip, "decoder Strip");
    step.stop = count_field(json, "stop", kMaxStrip, "decoder Strip");
  } else {
    unsupported_type("decoder", type);
  }
  const bool one_character =
      !step.content.empty() && utf8_length(step.content[0]) == step.content.size();
  if ((step.kind == Kind::kStrip || step.kind == Kind::kMetaspace) && !one_character) {
    throw_error(ErrorKind::kModel, "decoder {}: its text is not one character", type);
  }
  // Behind a step that joins all tokens the rest works on the whole text. Only what can be done
  // while the text grows is supported there.
  const bool streams = step.kind == Kind::kFuse || (step.kind == Kind::kStrip && step.stop == 0);
  if (step.fused && !streams) {
    throw_error(ErrorKind::kModel, "decoder {} after a step that joins all tokens is not supported",
                type);
  }
  steps_.push_back(std::move(step));
}

Decoder::Run::Run(const Decoder& decoder) : decoder_(&decoder), states_(decoder.steps_.size()) {}

void Decoder::Run::feed(std::string_view token, std::string& out) { step(0, token, out); }

void Decoder::Run::finish(std::string& out) {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (decoder_->steps_[i].kind == Kind::kByteFallback) flush_bytes(i, out);
    if (decoder_->steps_[i].kind == Kind::kByteLevel) {
      std::string rest;
      states_[i].repair.finish(rest);
      step(i + 1, rest, out);
    }
  }
}

// Gives `token` to step `index`, which passes on what it makes of it.
void Decoder::Run::step(std::size_t index, std::string_view token, std::string& out) {
  if (index == states_.size()) {
    out += token;
    return;
  }
  const Step& step = decoder_->steps_[index];
  State& state = states_[index];
  const bool first = state.tokens++ == 0;
  switch (step.kind) {
    case Kind::kJoin:
      if (!first) this->step(index + 1, " ", out);
      this->step(index + 1, token, out);
      break;
    case Kind::kFuse:
      this->step(index + 1, token, out);
      break;
    case Kind::kReplace:
      this->step(index + 1, replace_all(token, step.pattern[0], step.content), out);
      break;
    case Kind::kMetaspace:
      this->step(index + 1, replace_text(token, step.content, first && step.prepended ? "" : " "),
                 out);
      break;
    case Kind::kByteLevel: {
      // A token outside the alphabet (an added one) stands for its own bytes.
      const auto bytes = alphabet_to_bytes(token);
      std::string text;
      state.repair.feed(bytes ? std::string_view(*bytes) : token, text);
      this->step(index + 1, text, out);
      break;
    }
    case Kind::kByteFallback:
      if (const auto byte = byte_token(token)) {
        state.bytes.push_back(*byte);
      } else {
        flush_bytes(index, out);
        this->step(index + 1, token, out);
      }
      break;
    case Kind::kStrip:
      strip(index, token, out);
      break;
  }
}

// A run of byte tokens is text only as a whole; otherwise each of them is a U+FFFD.
void Decoder::Run::flush_bytes(std::size_t index, std::string& out) {
  const std::string bytes = std::exchange(states_[index].bytes, {});
  if (bytes.empty()) return;
  if (is_valid_utf8(bytes)) {
    step(index + 1, bytes, out);
  } else {
    for (std::size_t i = 0; i < bytes.size(); ++i) step(index + 1, kReplacementCharacter, out);
  }
}

void Decoder::Run::strip(std::size_t index, std::string_view token, std::string& out) {
  const Step& step = decoder_->steps_[index];
  State& state = states_[index];
  std::uint32_t removed = step.fused ? state.removed : 0;
  if (!step.fused || !state.text_begun) {
    while (removed < step.start && token.starts_with(step.content)) {
      token.remove_prefix(step.content.size());
      ++removed;
    }
    state.removed = removed;
    if (!token.empty()) state.text_begun = true;
  }
  for (std::uint32_t i = 0; i < step.stop && token.ends_with(step.content); ++i) {
    token.remove_suffix(step.content.size());
  }
  this->step(index + 1, token, out);
}

}  // namespace tidemill::engine
