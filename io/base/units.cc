#include "io/base/units.h"

#include <array>
#include <charconv>
#include <cmath>

#include "io/base/error.h"

namespace tidemill {
namespace {

struct Unit {
  std::string_view name;  // lower case
  double bytes;
};

constexpr double kBinary = 1024.0;
constexpr std::array<Unit, 18> kUnits = {{
    {"", 1},
    {"b", 1},
    {"kb", 1e3},
    {"mb", 1e6},
    {"gb", 1e9},
    {"tb", 1e12},
    {"k", kBinary},
    {"m", kBinary* kBinary},
    {"g", kBinary* kBinary* kBinary},
    {"t", kBinary* kBinary* kBinary* kBinary},
    {"kib", kBinary},
    {"mib", kBinary* kBinary},
    {"gib", kBinary* kBinary* kBinary},
    {"tib", kBinary* kBinary* kBinary* kBinary},
    {"ki", kBinary},
    {"mi", kBinary* kBinary},
    {"gi", kBinary* kBinary* kBinary},
    {"ti", kBinary* kBinary* kBinary* kBinary},
}};

}  // namespace

std::uint64_t parse_bytes(std::string_view text) {
  const auto fail = [&]() {
    throw_error(ErrorKind::kUsage,
                "\"{}\" is not a byte size; write for example 2GiB, 512MiB, 4096",
                printable(text, 40));
  };
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(value) || value < 0) fail();
  std::string unit;
  for (const char* p = rest; p != end; ++p) {
    if (*p == ' ' && unit.empty()) continue;
    unit += static_cast<char>(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
  }
  for (const Unit& u : kUnits) {
    if (unit != u.name) continue;
    const double bytes = std::floor(value * u.bytes);
    if (bytes >= 9.2e18) fail();
    return static_cast<std::uint64_t>(bytes);
  }
  fail();
  return 0;
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kNames = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kNames.size()) {
    value /= 1024.0;
    ++unit;
  }
  if (value == std::floor(value)) return fmt::format("{:.0f} {}", value, kNames[unit]);
  return fmt::format("{:.2f} {}", value, kNames[unit]);
}

std::string format_rate(double bytes_per_second) {
  if (bytes_per_second >= 1e9) return fmt::format("{:.2f} GB/s", bytes_per_second / 1e9);
  return fmt::format("{:.1f} MB/s", bytes_per_second / 1e6);
}

}  // namespace tidemill
