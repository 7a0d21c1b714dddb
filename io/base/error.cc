#include "io/base/error.h"

#include <string_view>

namespace tidemill {

const char* to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return "usage";
    case ErrorKind::kModel:
      return "model";
    case ErrorKind::kIo:
      return "io";
    case ErrorKind::kBudget:
      return "budget";
    case ErrorKind::kDevice:
      return "device";
    case ErrorKind::kBug:
      return "bug";
  }
  return "unknown";
}

Error::Error(ErrorKind kind, const std::string& message, ErrorContext context)
    : message_(message), kind_(kind), context_(std::move(context)) {}

namespace {

// Length of the valid UTF-8 sequence at the front of `text`, or 0.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  std::size_t length = 0;
  unsigned low = 0x80;
  unsigned high = 0xBF;
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) length = 2;
  if (lead >= 0xE0 && lead <= 0xEF) length = 3;
  if (lead >= 0xF0 && lead <= 0xF4) length = 4;
  if (length == 0 || text.size() < length) return 0;
  if (lead == 0xE0) low = 0xA0;   // shorter forms are not allowed
  if (lead == 0xED) high = 0x9F;  // surrogates
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;  // beyond U+10FFFF
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return length;
}

}  // namespace

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_bytes) return out + "...";
    const auto lead = static_cast<unsigned char>(text.front());
    const std::size_t length = utf8_length(text);
    // C1 controls (U+0080..U+009F) can drive a terminal just as ESC does.
    const bool c1 = length == 2 && lead == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
    if (length == 0 || lead < 0x20 || lead == 0x7F || c1) {
      const std::size_t bytes = c1 ? 2 : 1;
      for (std::size_t i = 0; i < bytes; ++i) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
      }
      text.remove_prefix(bytes);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return out;
}

void check_failed(const char* file, int line, const char* expression, const std::string& detail) {
  throw Error(ErrorKind::kBug, fmt::format("internal check failed at {}:{}: {} ({}); please report",
                                           file, line, expression, detail));
}

}  // namespace tidemill
