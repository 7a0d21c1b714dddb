// Ends a text at given strings while it is being streamed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidemill::engine {

/// Text goes in as it is generated and comes out as it may be shown. What could become a stop
/// string is held back; a complete one ends the text in front of it. The result does not depend on
/// how the text is cut: the stop string that is complete first counts, of several the longest.
class StopMatcher {
 public:
  /// Error(kUsage) if a stop string is empty or not valid UTF-8.
  explicit StopMatcher(std::vector<std::string> stop_strings);

  /// The part of the text so far that may be shown now. Whole characters in, whole characters out.
  /// After a match: nothing.
  std::string feed(std::string_view text);

  /// The end of the text without a match: what was held back.
  std::string finish();

  /// Index of the stop string that was found.
  std::optional<std::size_t> matched() const { return matched_; }

 private:
  bool ends_with_stop(std::string_view text, std::size_t& begin);
  std::size_t held_bytes(std::string_view text) const;

  std::vector<std::string> stops_;
  std::string held_;
  std::optional<std::size_t> matched_;
};

}  // namespace tidemill::engine
