// The first step of a tokenizer: text to normalised text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/tokenizer/pattern.h"

namespace tidemill::engine {

/// NFC, Prepend, Replace, and sequences of them.
class Normalizer {
 public:
  Normalizer() = default;  ///< leaves text as it is
  /// The "normalizer" of tokenizer.json, null included. Error(kModel) for other kinds.
  static Normalizer parse(const nlohmann::json& json);

  /// `text` is valid UTF-8.
  std::string apply(std::string_view text) const;

 private:
  struct Nfc {};
  struct Prepend {
    std::string text;  // nothing is put in front of an empty text
  };
  struct Replace {
    Pattern pattern;
    std::string content;
  };
  using Step = std::variant<Nfc, Prepend, Replace>;

  void add(const nlohmann::json& json);
  std::vector<Step> steps_;
};

/// Unicode normalisation form C.
std::string to_nfc(std::string_view text);

}  // namespace tidemill::engine
