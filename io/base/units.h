// Byte counts as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tidemill {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

/// "2GiB", "1.5 GB", "512M", "4096", "64k" -> bytes. B/kB/MB/GB/TB are decimal; KiB/MiB/GiB/TiB and
/// the bare letters K/M/G/T are binary (as in llama.cpp and fio). Error(kUsage) otherwise.
std::uint64_t parse_bytes(std::string_view text);

/// 1536 -> "1.50 KiB", 4096 -> "4 KiB", 2147483648 -> "2 GiB".
std::string format_bytes(std::uint64_t bytes);

/// Decimal rate: 2.5e9 -> "2.50 GB/s".
std::string format_rate(double bytes_per_second);

}  // namespace tidemill
