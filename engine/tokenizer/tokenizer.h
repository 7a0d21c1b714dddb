// Text to token ids and back, as the model's tokenizer.json says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tidemill::engine {

/// The tokenizer of a model: immutable, cheap to copy, usable from any thread. BPE models of the
/// byte-level families (GPT-2, NeoX, BLOOM, Llama-3, Qwen) and of the SentencePiece family
/// (Llama-2). Whatever a tokenizer.json asks for is either done as the reference does it or
/// refused with Error(kModel).
class Tokenizer {
 public:
  /// Reads `model_dir`/tokenizer.json. Error(kIo) if it cannot be read, Error(kModel) if there
  /// is none, or it is bad or of an unsupported kind. A file of 14 MB takes about 20 MiB at the
  /// peak.
  static Tokenizer load(const std::filesystem::path& model_dir);

  /// The same from the bytes of a tokenizer.json; `origin` names them in errors.
  static Tokenizer parse(std::string_view tokenizer_json, const std::string& origin);

  /// Token ids of `text`, with the tokens that the model wants around a prompt if
  /// `add_special_tokens`. The text of a special token inside `text` becomes that token.
  /// Error(kUsage) if `text` is not valid UTF-8.
  std::vector<std::uint32_t> encode(std::string_view text, bool add_special_tokens = true) const;

  /// Text of `ids`. Bytes that do not form valid UTF-8 become U+FFFD. Error(kUsage) if an id is
  /// not below vocab_size(); an id in a hole of the vocabulary gives no text.
  std::string decode(std::span<const std::uint32_t> ids, bool skip_special_tokens) const;

  /// Largest id + 1, added tokens included. The model's embedding may have more rows.
  std::uint32_t vocab_size() const;

  /// True for tokens that decode() skips with `skip_special_tokens`.
  bool is_special(std::uint32_t id) const;

  /// The id whose token is exactly `token` as it stands in the file ("<s>", "\u0120the").
  std::optional<std::uint32_t> token_to_id(std::string_view token) const;

  /// Inverse of token_to_id; empty for ids that have no token.
  std::string id_to_token(std::uint32_t id) const;

 private:
  friend class StreamDecoder;
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl);

  std::shared_ptr<const Impl> impl_;
};

/// Text of a token stream as it can be shown: whole characters only, and all calls together give
/// exactly what Tokenizer::decode() gives for all ids.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens);
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;
  ~StreamDecoder();

  /// The text that `id` completes, often empty inside a character of several tokens. Error(kUsage)
  /// as decode().
  std::string push(std::uint32_t id);

  /// The rest, after the last id. Nothing may be pushed afterwards.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tidemill::engine
