#include "offload/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "io/base/error.h"

namespace tidemill::offload {
namespace {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  // printable() leaves no control characters and only valid UTF-8.
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

double microseconds(Trace::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

Trace::Trace(std::size_t max_events) : max_events_(max_events) {}

Trace::Lane Trace::lane(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find(lanes_.begin(), lanes_.end(), name);
  const auto index = found - lanes_.begin();
  if (found == lanes_.end()) lanes_.emplace_back(name);
  return static_cast<Lane>(index);
}

void Trace::span(Lane lane, std::string_view category, std::string_view name,
                 Clock::time_point begin, Clock::time_point end) {
  const std::lock_guard lock(mutex_);
  if (events_.size() >= max_events_) {
    ++dropped_;
    return;
  }
  events_.push_back({lane, std::string(category), std::string(name), begin, end});
}

std::size_t Trace::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

void Trace::write(const std::filesystem::path& path) const {
  const std::lock_guard lock(mutex_);
  errno = 0;
  std::ofstream out(path);
  out << "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped_events\":" << dropped_
      << "},\"traceEvents\":[";
  const char* separator = "\n";
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    out << separator
        << fmt::format(R"({{"ph":"M","pid":1,"tid":{},"name":"thread_name","args":{{"name":{}}}}})",
                       i, json_string(lanes_[i]));
    separator = ",\n";
  }
  for (const Event& event : events_) {
    out << separator
        << fmt::format(
               R"({{"ph":"X","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f},"cat":{},"name":{}}})",
               static_cast<std::uint32_t>(event.lane), microseconds(event.begin - start_),
               microseconds(event.end - event.begin), json_string(event.category),
               json_string(event.name));
    separator = ",\n";
  }
  out << "\n]}\n";
  out.close();
  if (!out) {
    const int error = errno;
    throw Error(ErrorKind::kIo,
                fmt::format("{}: cannot write the trace: {}", path.string(),
                            error != 0 ? std::strerror(error) : "write failed"),
                {.path = path.string(), .offset = std::nullopt, .error_number = error});
  }
}

}  // namespace tidemill::offload
