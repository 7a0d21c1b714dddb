// Byte-pair encoding of one pre-token.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/merge_table.h"
#include "engine/tokenizer/vocabulary.h"

namespace tidemill::engine {

struct BpeOptions {
  std::optional<std::string> unk_token;  ///< stands for characters outside the vocabulary
  bool fuse_unk = false;                 ///< neighbouring unknown characters become one token
  bool byte_fallback = false;            ///< unknown characters become <0xHH> tokens
  bool ignore_merges = false;            ///< a pre-token that is a token is not taken apart
};

class Bpe {
 public:
  /// Error(kModel) if unk_token is not in the vocabulary.
  Bpe(Vocabulary vocabulary, MergeTable merges, const BpeOptions& options);

  /// Appends the ids of `word` (valid UTF-8). Starts from characters and joins the neighbours with
  /// the lowest rank, the leftmost first, until none is left: O(n log n). A character that the
  /// vocabulary, the byte tokens and unk_token all lack gives no id.
  void encode(std::string_view word, std::vector<std::uint32_t>& ids) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  struct Symbol;
  std::vector<Symbol> symbols_of(std::string_view word) const;
  bool append_bytes(std::string_view character, std::vector<Symbol>& symbols) const;
  void merge(std::vector<Symbol>& symbols) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  BpeOptions options_;
  std::optional<std::uint32_t> unk_id_;
  std::array<std::optional<std::uint32_t>, 256> byte_ids_;
};

}  // namespace tidemill::engine
