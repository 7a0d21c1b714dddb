// Tokens that are found in the text before the model sees it: specials and user additions.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/regex.h"
#include "engine/tokenizer/vocabulary.h"

namespace tidemill::engine {

inline constexpr std::size_t kMaxAddedTokens = 1U << 16;
inline constexpr std::size_t kMaxAddedTokenBytes = 1024;

struct AddedToken {
  std::uint32_t id = 0;
  std::string content;
  std::string searched;      ///< what is looked for and given to the decoder: content, normalised
                             ///< if `normalized`
  bool single_word = false;  ///< not inside a word
  bool lstrip = false;       ///< swallows white space on its left
  bool rstrip = false;       ///< swallows white space on its right
  bool normalized = false;   ///< looked for after normalisation, in its normalised form
  bool special = false;      ///< can be skipped when decoding
};

/// Finds the longest of many strings at each position of a text.
class TokenFinder {
 public:
  /// The first token with a given text wins.
  void add(std::string_view text, std::size_t index);
  struct Match {
    TextRange range;
    std::size_t index = 0;
  };
  /// The leftmost match at or after `start`, the longest one there.
  std::optional<Match> find(std::string_view text, std::size_t start) const;

 private:
  struct Node {
    std::map<char, std::uint32_t> children;
    std::optional<std::size_t> index;
  };
  std::vector<Node> nodes_{1};
};

class AddedTokens {
 public:
  AddedTokens() = default;
  /// The "added_tokens" of tokenizer.json. A token that the model has too keeps the model's id: a
  /// different one is an Error(kModel), like an id that is another token's.
  static AddedTokens parse(const nlohmann::json& json, const Vocabulary& vocabulary,
                           const Normalizer& normalizer);

  struct Segment {
    TextRange range;
    std::optional<std::uint32_t> id;  ///< the added token, or nothing: text
  };
  /// Cuts `text` at the tokens with `normalized` == false or true.
  std::vector<Segment> split(std::string_view text, bool normalized) const;

  const AddedToken* find(std::uint32_t id) const;
  std::optional<std::uint32_t> find(std::string_view content) const;
  bool is_special(std::uint32_t id) const;
  std::uint32_t size() const { return size_; }  ///< largest id + 1, 0 if there are none

 private:
  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, std::size_t> by_content_;
  std::unordered_map<std::uint32_t, std::size_t> by_id_;
  TokenFinder raw_;
  TokenFinder normalized_;
  std::uint32_t size_ = 0;
};

}  // namespace tidemill::engine
