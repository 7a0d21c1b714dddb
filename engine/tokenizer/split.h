// Cutting pieces of text at the matches of a pattern.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/pattern.h"

namespace tidemill::engine {

/// A text and the pieces of it that are pre-tokens so far.
struct Pieces {
  std::string text;
  std::vector<TextRange> ranges;  ///< ascending, none empty
  bool at_start = false;          ///< ranges[0] begins where the prompt begins

  std::string_view piece(const TextRange& range) const {
    return std::string_view(text).substr(range.begin, range.end - range.begin);
  }
};

/// What happens to the matches of a Split (and to the gaps between them).
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// Cuts each piece at the matches of `pattern`; `invert` swaps matches and gaps.
void split_pieces(Pieces& pieces, const Pattern& pattern, SplitBehavior behavior, bool invert);

}  // namespace tidemill::engine
