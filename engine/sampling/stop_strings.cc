#include "engine/sampling/stop_strings.h"

#include <algorithm>
#include <utility>

#include "engine/tokenizer/utf8.h"
#include "io/base/error.h"

namespace tidemill::engine {

StopMatcher::StopMatcher(std::vector<std::string> stop_strings) : stops_(std::move(stop_strings)) {
  for (const std::string& stop : stops_) {
    if (stop.empty() || !is_valid_utf8(stop)) {
      throw_error(ErrorKind::kUsage, "stop string \"{}\" is empty or not valid UTF-8",
                  printable(stop, 40));
    }
  }
}

std::string StopMatcher::feed(std::string_view text) {
  if (matched_) return {};
  // held_ is shorter than the longest stop string, and no stop string ends inside it.
  std::string all = std::exchange(held_, {});
  const std::size_t old = all.size();
  all += text;
  for (std::size_t end = old + 1; end <= all.size(); ++end) {
    std::size_t begin = 0;
    if (ends_with_stop(std::string_view(all).substr(0, end), begin)) {
      all.resize(begin);
      return all;
    }
  }
  const std::size_t shown = all.size() - held_bytes(all);
  held_ = all.substr(shown);
  all.resize(shown);
  return all;
}

std::string StopMatcher::finish() {
  if (matched_) return {};
  return std::exchange(held_, {});
}

// Whether `text` ends with a stop string; the longest one begins at `begin`.
bool StopMatcher::ends_with_stop(std::string_view text, std::size_t& begin) {
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    const bool longer = !matched_ || stops_[i].size() > stops_[*matched_].size();
    if (longer && text.ends_with(stops_[i])) matched_ = i;
  }
  if (matched_) begin = text.size() - stops_[*matched_].size();
  return matched_.has_value();
}

// Length of the longest end of `text` that a stop string begins with.
std::size_t StopMatcher::held_bytes(std::string_view text) const {
  std::size_t held = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, text.size()); n > held; --n) {
      if (text.ends_with(std::string_view(stop).substr(0, n))) {
        held = n;
        break;
      }
    }
  }
  return held;
}

}  // namespace tidemill::engine
