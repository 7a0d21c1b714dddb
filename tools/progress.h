// One line on a terminal that says how far long work is.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace tidemill::tools {

/// Silent where standard error is no terminal, and for work that ends within a second.
class Progress {
 public:
  Progress(bool quiet, std::string what);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `rate` is shown as it is: "2.31 GB/s", "14 tokens/s". A total of 0 means that nobody knows.
  void update(std::uint64_t done, std::uint64_t total, std::string_view rate);

  /// Takes the line off the terminal.
  void clear();

  std::chrono::duration<double> elapsed() const { return Clock::now() - start_; }

 private:
  using Clock = std::chrono::steady_clock;
  const bool shown_;
  const std::string what_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_ + std::chrono::seconds(1);
  bool visible_ = false;
};

/// 75 -> "1:15", 4000 -> "1:06:40".
std::string format_duration(double seconds);

}  // namespace tidemill::tools
