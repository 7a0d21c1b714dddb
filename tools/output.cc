#include "tools/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "io/base/error.h"
#include "io/output_file.h"

namespace tidemill::tools {
namespace {

/// Writes all of it; 0 or an errno.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

void prepare_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // A closed standard output stays unwritable, so that output lost is an error; a closed
    // standard error is what people do who do not want messages.
    const int opened = open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY);
    if (opened >= 0 && opened != fd) {
      dup2(opened, fd);
      close(opened);
    }
  }
  std::signal(SIGPIPE, SIG_DFL);
}

void print(std::string_view text) {
  if (const int error = write_all(STDOUT_FILENO, text); error != 0) {
    throw Error(ErrorKind::kIo, fmt::format("standard output: {}", std::strerror(error)),
                {.path = "standard output", .error_number = error});
  }
}

void note(bool quiet, std::string_view line) {
  if (quiet) return;
  // Nobody can be told that standard error is gone.
  static_cast<void>(write_all(STDERR_FILENO, std::string(line) + "\n"));
}

bool output_is_terminal() { return isatty(STDOUT_FILENO) == 1; }

bool error_is_terminal() { return isatty(STDERR_FILENO) == 1; }

std::string for_terminal(std::string_view text) {
  if (!output_is_terminal()) return std::string(text);
  std::string safe;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) {
      safe += fmt::format("\\x{:02X}", byte);
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {  // U+0080 to U+009F
      safe += fmt::format("\\u00{:02X}", next);
      ++i;
    } else {
      safe += text[i];
    }
  }
  return safe;
}

std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

bool written_in_place(const std::string& path) {
  std::error_code unknown;
  const auto status = std::filesystem::symlink_status(path, unknown);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

void write_text_file(const std::string& path, std::string_view text) {
  if (written_in_place(path)) {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
    const int error = fd < 0 ? errno : write_all(fd, text);
    if (fd >= 0) close(fd);
    if (error == 0) return;
    throw Error(ErrorKind::kIo,
                fmt::format("{}: cannot write: {}", printable(path), std::strerror(error)),
                {.path = path, .error_number = error});
  }
  io::OutputFile file(path);
  file.append(std::as_bytes(std::span(text)));
  file.finish();
}

}  // namespace tidemill::tools
