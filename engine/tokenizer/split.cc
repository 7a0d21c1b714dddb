#include "engine/tokenizer/split.h"

#include <algorithm>
#include <utility>

namespace tidemill::engine {
namespace {

struct Part {
  TextRange range;
  bool match = false;
};

// Matches and the gaps between them, in order; together they cover `size` bytes.
std::vector<Part> cover(const std::vector<TextRange>& matches, std::size_t size, bool invert) {
  std::vector<Part> parts;
  std::size_t done = 0;
  for (const TextRange& match : matches) {
    if (match.begin != done) parts.push_back({{done, match.begin}, invert});
    parts.push_back({match, !invert});
    done = match.end;
  }
  if (done != size) parts.push_back({{done, size}, invert});
  return parts;
}

// Joins a part to the one before it where `joins(match, previous part was a match)` says so.
template <typename Joins>
void join(std::vector<Part>& parts, Joins joins) {
  bool previous = false;
  std::size_t kept = 0;
  for (const Part part : parts) {
    if (joins(part.match, previous) && kept > 0) {
      // Walking backwards, the joined part lies in front.
      parts[kept - 1].range.begin = std::min(parts[kept - 1].range.begin, part.range.begin);
      parts[kept - 1].range.end = std::max(parts[kept - 1].range.end, part.range.end);
    } else {
      parts[kept++] = part;
    }
    previous = part.match;
  }
  parts.resize(kept);
}

void apply_behavior(std::vector<Part>& parts, SplitBehavior behavior) {
  const auto first_match = [](bool match, bool previous) { return match && !previous; };
  switch (behavior) {
    case SplitBehavior::kRemoved:
      std::erase_if(parts, [](const Part& part) { return part.match; });
      break;
    case SplitBehavior::kIsolated:
      break;
    case SplitBehavior::kContiguous:
      join(parts, [](bool match, bool previous) { return match == previous; });
      break;
    case SplitBehavior::kMergedWithPrevious:
      join(parts, first_match);
      break;
    case SplitBehavior::kMergedWithNext:
      std::reverse(parts.begin(), parts.end());
      join(parts, first_match);
      std::reverse(parts.begin(), parts.end());
      break;
  }
}

}  // namespace

void split_pieces(Pieces& pieces, const Pattern& pattern, SplitBehavior behavior, bool invert) {
  Pattern::Search search(pattern);
  std::vector<TextRange> result;
  result.reserve(pieces.ranges.size());
  for (std::size_t i = 0; i < pieces.ranges.size(); ++i) {
    const TextRange piece = pieces.ranges[i];
    std::vector<Part> parts =
        cover(search.all(pieces.piece(piece)), piece.end - piece.begin, invert);
    apply_behavior(parts, behavior);
    for (const Part& part : parts) {
      if (part.range.empty()) continue;
      const TextRange range{piece.begin + part.range.begin, piece.begin + part.range.end};
      // A removed match at the start: what follows is no longer the start of the prompt.
      if (result.empty() && (i > 0 || range.begin != piece.begin)) pieces.at_start = false;
      result.push_back(range);
    }
  }
  pieces.ranges = std::move(result);
}

}  // namespace tidemill::engine
