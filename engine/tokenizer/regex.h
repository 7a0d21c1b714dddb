// Regular expressions that cut text, on PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tidemill::engine {

/// A piece of a text, by byte offsets.
struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool empty() const { return begin == end; }
};

/// Compiled once, used from any thread.
class Regex {
 public:
  /// `pattern` is in the syntax of tokenizer.json (see translate_regex). Error(kModel).
  explicit Regex(std::string_view pattern);

  /// Everything that one search needs; one per call, reused over the pieces of a text.
  class Search {
   public:
    explicit Search(const Regex& regex);
    /// All matches in `text` (valid UTF-8) from left to right, without overlap; an empty match
    /// directly after another match does not count. Error(kModel) if a match takes more
    /// steps than a sane pattern needs. The result is valid until the next call.
    const std::vector<TextRange>& all(std::string_view text);

   private:
    struct State;
    struct Free {
      void operator()(State* state) const;
    };
    const Regex& regex_;
    std::unique_ptr<State, Free> state_;
    std::vector<TextRange> matches_;
  };

 private:
  struct Code;
  std::string pattern_;
  std::shared_ptr<const Code> code_;
};

}  // namespace tidemill::engine
