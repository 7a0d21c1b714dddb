// What memory this machine has for us, and how much of it we have used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace tidemill::engine {

/// Memory that can be taken without pushing anyone out.
struct HostMemory {
  std::uint64_t machine_available = 0;  ///< MemAvailable
  /// The tightest cgroup limit (v1 or v2, of any ancestor) less what is in use under it; page cache
  /// that the kernel can drop does not count as used. Nothing without a limit.
  std::optional<std::uint64_t> cgroup_available;

  std::uint64_t available() const {
    return cgroup_available && *cgroup_available < machine_available ? *cgroup_available
                                                                     : machine_available;
  }
  /// "free memory of this machine" or "room under the cgroup limit": which of the two counts.
  std::string source() const;
};

/// Reads /proc and /sys/fs/cgroup under `root` (tests give their own). Error(kIo) if /proc/meminfo
/// says nothing.
HostMemory read_host_memory(const std::filesystem::path& root = "/");

/// The budget for users who give none: four fifths of what is available. The rest is left to
/// others, to the program itself and to the page cache.
std::uint64_t default_budget(const HostMemory& memory);

/// The most physical memory that this process has ever held (VmHWM); 0 if unknown.
std::uint64_t peak_resident_bytes();

}  // namespace tidemill::engine
