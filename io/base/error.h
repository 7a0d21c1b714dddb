// The one exception type of the project and the always-on check for our own bugs.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tidemill {

/// What kind of thing went wrong. The value is the exit code of the command line.
enum class ErrorKind : int {
  kUsage = 2,   ///< the request is wrong: options, prompt, token ids
  kModel = 3,   ///< a model or input file is bad
  kIo = 4,      ///< the operating system could not read or write
  kBudget = 5,  ///< does not fit into the memory budget
  kDevice = 6,  ///< a compute device is missing or failed
  kBug = 70,    ///< a check of our own failed
};

/// Name of a kind as it is printed: "usage", "model", "io", "budget", "device", "bug".
const char* to_string(ErrorKind kind);

/// Where an error happened, as far as it is known.
struct ErrorContext {
  std::string path = {};                               ///< file, or empty
  std::optional<std::uint64_t> offset = std::nullopt;  ///< byte offset in that file
  int error_number = 0;                                ///< errno value, or 0
};

/// Thrown where a problem is found, caught where a verb of the command line ends. what() is one
/// line: what happened, where, and what to do about it.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, const std::string& message, ErrorContext context = {});

  const char* what() const noexcept override { return message_.c_str(); }
  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }
  const std::string& path() const { return context_.path; }
  std::optional<std::uint64_t> offset() const { return context_.offset; }
  int error_number() const { return context_.error_number; }

 private:
  // A string of its own: std::runtime_error's copies share one, also between threads.
  std::string message_;
  ErrorKind kind_;
  ErrorContext context_;
};

/// throw_error(ErrorKind::kModel, "tensor {}: {} bytes, expected {}", ...)
template <typename... Args>
[[noreturn]] void throw_error(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

/// Bytes from outside (names, file contents) made printable: control characters and invalid UTF-8
/// become \xNN, and anything beyond `max_bytes` is cut with "...".
std::string printable(std::string_view text, std::size_t max_bytes = 200);

[[noreturn]] void check_failed(const char* file, int line, const char* expression,
                               const std::string& detail);

}  // namespace tidemill

/// A condition that only a bug of ours can break. On in release builds; throws Error(kBug).
/// The further arguments are a fmt format string and its values.
#define TM_CHECK(condition, ...)                                                            \
  do {                                                                                      \
    if (!(condition)) [[unlikely]] {                                                        \
      ::tidemill::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
    }                                                                                       \
  } while (false)
