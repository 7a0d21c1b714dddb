// What Split and Replace look for: a fixed string or a regular expression.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/regex.h"

namespace tidemill::engine {

class Pattern {
 public:
  /// {"String": "..."} or {"Regex": "..."}. Error(kModel) otherwise; `where` names it.
  static Pattern parse(const nlohmann::json& json, std::string_view where);
  explicit Pattern(Regex regex) : regex_(std::move(regex)) {}

  class Search {
   public:
    explicit Search(const Pattern& pattern);
    /// The matches from left to right, without overlap. Valid until the next call.
    const std::vector<TextRange>& all(std::string_view text);

   private:
    const Pattern& pattern_;
    std::optional<Regex::Search> regex_;
    std::vector<TextRange> matches_;
  };

 private:
  Pattern() = default;
  std::optional<Regex> regex_;
  std::string text_;  // if there is no regex_; not empty
};

/// `text` with every match replaced by `content`.
std::string replace_all(std::string_view text, const Pattern& pattern, std::string_view content);

}  // namespace tidemill::engine
