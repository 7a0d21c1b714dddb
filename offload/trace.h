// A timeline of what happened when: reads, waits, kernels.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tidemill::offload {

/// Collects spans and writes them in the Chrome trace format (chrome://tracing, ui.perfetto.dev).
/// Thread-safe; a span costs a lock and an append. Where tracing is off, a null pointer stands in
/// for the Trace.
///
/// Reads end when the compute thread first notices that they have ended, which may be a little
/// after the drive was done: a reader's completion has no hook of its own.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  /// A line of the timeline.
  enum class Lane : std::uint32_t {};

  /// After `max_events` spans the rest is counted and not kept.
  explicit Trace(std::size_t max_events = 1'000'000);

  /// The lane of that name; a new one at the first call.
  Lane lane(std::string_view name);

  void span(Lane lane, std::string_view category, std::string_view name, Clock::time_point begin,
            Clock::time_point end);

  std::size_t dropped() const;

  /// Writes everything so far. Error(kIo) if that fails.
  void write(const std::filesystem::path& path) const;

 private:
  struct Event {
    Lane lane{};
    std::string category, name;
    Clock::time_point begin, end;
  };

  const Clock::time_point start_ = Clock::now();
  const std::size_t max_events_;
  mutable std::mutex mutex_;
  std::vector<std::string> lanes_;
  std::vector<Event> events_;
  std::size_t dropped_ = 0;
};

/// A span from construction to destruction; does nothing if `trace` is null.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, Trace::Lane lane, std::string_view category, std::string_view name)
      : trace_(trace), lane_(lane), category_(category), name_(name) {
    if (trace_ != nullptr) begin_ = Trace::Clock::now();
  }
  ~TraceSpan() {
    if (trace_ != nullptr) trace_->span(lane_, category_, name_, begin_, Trace::Clock::now());
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Trace* trace_;
  Trace::Lane lane_;
  std::string_view category_, name_;  ///< must outlive the span
  Trace::Clock::time_point begin_;
};

}  // namespace tidemill::offload
