#include "engine/host_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

#include "io/base/error.h"
#include "io/base/units.h"

namespace tidemill::engine {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

/// A file that holds one number; nothing for "max" and files that are not there.
std::optional<std::uint64_t> read_number(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  return parse_number(word);
}

/// The number behind `key` in a file of "key value" lines, such as memory.stat and meminfo.
std::optional<std::uint64_t> read_field(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name, value;
    if (words >> name >> value && name == key) return parse_number(value);
  }
  return std::nullopt;
}

/// Names of the files of one cgroup version.
struct Version {
  const char* limit;
  const char* usage;
  const char* file_pages[2];  // in memory.stat: can be dropped
};
constexpr Version kV2 = {"memory.max", "memory.current", {"inactive_file", "active_file"}};
constexpr Version kV1 = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};

/// Room in one cgroup, ancestors not considered.
std::optional<std::uint64_t> room_in(const fs::path& group, const Version& version) {
  const auto limit = read_number(group / version.limit);
  const auto usage = read_number(group / version.usage);
  // v1 says "unlimited" with a number near 2^63.
  if (!limit || !usage || *limit >= (std::uint64_t{1} << 62)) return std::nullopt;
  std::uint64_t droppable = 0;
  for (const char* key : version.file_pages) {
    droppable += read_field(group / "memory.stat", key).value_or(0);
  }
  const std::uint64_t used = *usage > droppable ? *usage - droppable : 0;
  return *limit > used ? *limit - used : 0;
}

/// The tightest of a group and its ancestors up to the mount.
std::optional<std::uint64_t> room_above(const fs::path& mount, std::string_view group,
                                        const Version& version) {
  std::optional<std::uint64_t> tightest;
  // Inside a container the path may be the host's and lead nowhere here: then its ancestors' files
  // are missing too, and the mount itself is the container's group.
  fs::path relative = fs::path(group).relative_path();
  for (;;) {
    if (const auto room = room_in(mount / relative, version)) {
      tightest = std::min(tightest.value_or(*room), *room);
    }
    if (relative.empty()) return tightest;
    relative = relative.parent_path();
  }
}

std::optional<std::uint64_t> cgroup_room(const fs::path& root) {
  std::ifstream file(root / "proc/self/cgroup");
  const fs::path mount = root / "sys/fs/cgroup";
  std::optional<std::uint64_t> tightest;
  std::string line;
  while (std::getline(file, line)) {
    // "0::/a/b" is version 2, "7:memory:/a/b" is version 1.
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string_view group = std::string_view(line).substr(second + 1);
    std::optional<std::uint64_t> room;
    if (controllers == ",,") {
      room = room_above(mount, group, kV2);
      if (!room) room = room_above(mount / "unified", group, kV2);
    } else if (controllers.find(",memory,") != std::string::npos) {
      room = room_above(mount / "memory", group, kV1);
    }
    if (room) tightest = std::min(tightest.value_or(*room), *room);
  }
  return tightest;
}

}  // namespace

std::string HostMemory::source() const {
  return cgroup_available && *cgroup_available < machine_available ? "room under the cgroup limit"
                                                                   : "free memory of this machine";
}

HostMemory read_host_memory(const fs::path& root) {
  const fs::path meminfo = root / "proc/meminfo";
  const auto kilobytes = read_field(meminfo, "MemAvailable:");
  if (!kilobytes) {
    throw Error(ErrorKind::kIo,
                fmt::format("{}: does not say how much memory is available; give --memory",
                            meminfo.string()),
                {.path = meminfo.string()});
  }
  return {.machine_available = *kilobytes * kKiB, .cgroup_available = cgroup_room(root)};
}

std::uint64_t default_budget(const HostMemory& memory) { return memory.available() / 5 * 4; }

std::uint64_t peak_resident_bytes() {
  return read_field("/proc/self/status", "VmHWM:").value_or(0) * kKiB;
}

}  // namespace tidemill::engine
