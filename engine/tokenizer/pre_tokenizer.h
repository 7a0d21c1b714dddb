// Cutting normalised text into the pre-tokens that no merge crosses.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/tokenizer/pattern.h"
#include "engine/tokenizer/split.h"

namespace tidemill::engine {

/// ByteLevel, Split, Metaspace, Digits, and sequences of them.
class PreTokenizer {
 public:
  PreTokenizer() = default;  ///< the whole text is one pre-token
  /// The "pre_tokenizer" of tokenizer.json, null included. Error(kModel) for other kinds.
  static PreTokenizer parse(const nlohmann::json& json);

  void apply(Pieces& pieces) const;

 private:
  struct ByteLevel {
    bool add_prefix_space = false;
    std::vector<Pattern> regex;  // none or the one of GPT-2
  };
  struct Split {
    Pattern pattern;
    SplitBehavior behavior;
    bool invert;
  };
  struct Metaspace {
    enum class Prepend { kAlways, kFirst, kNever };
    Pattern space;        // " "
    Pattern replacement;  // what takes its place
    std::string text;     // the same as text
    Prepend prepend;
    bool split;
  };
  using Step = std::variant<ByteLevel, Split, Metaspace>;

  void add(const nlohmann::json& json);
  void add_byte_level(const nlohmann::json& json);
  void add_split(const nlohmann::json& json);
  void add_metaspace(const nlohmann::json& json);

  std::vector<Step> steps_;
};

}  // namespace tidemill::engine
