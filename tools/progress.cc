#include "tools/progress.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "tools/output.h"

namespace tidemill::tools {

Progress::Progress(bool quiet, std::string what)
    : shown_(!quiet && error_is_terminal()), what_(std::move(what)) {}

void Progress::update(std::uint64_t done, std::uint64_t total, std::string_view rate) {
  if (!shown_ || Clock::now() < next_) return;
  next_ = Clock::now() + std::chrono::milliseconds(250);
  visible_ = true;
  const auto share = [&] { return static_cast<double>(done) / static_cast<double>(total); };
  // "\r" and "erase to the end of the line" keep it to one line.
  if (total == 0 || done == 0) {
    fmt::print(stderr, "\r{} {}\x1b[K", what_, rate);
  } else {
    const double left = elapsed().count() * (1 - share()) / share();
    fmt::print(stderr, "\r{} {:.0f}%, {}, {} left\x1b[K", what_, 100 * share(), rate,
               format_duration(left));
  }
  std::fflush(stderr);
}

void Progress::clear() {
  if (!visible_) return;
  visible_ = false;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

std::string format_duration(double seconds) {
  const auto whole = static_cast<std::uint64_t>(seconds < 0 ? 0 : seconds + 0.5);
  const std::uint64_t hours = whole / 3600;
  const std::uint64_t minutes = whole / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

}  // namespace tidemill::tools
