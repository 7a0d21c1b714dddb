#include "engine/host_memory.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "io/base/error.h"
#include "io/base/units.h"
#include "tests/support/checkpoint_dir.h"

namespace tidemill::engine {
namespace {

using tidemill::testing::TemporaryDirectory;

// A stand-in for /proc and /sys.
class Machine {
 public:
  void file(const std::string& path, const std::string& text) const {
    const auto full = root_.path() / path;
    std::filesystem::create_directories(full.parent_path());
    tidemill::testing::write_text(full, text);
  }
  Machine() { file("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n"); }
  HostMemory read() const { return read_host_memory(root_.path()); }

 private:
  TemporaryDirectory root_;
};

TEST_CASE("without a cgroup limit the machine's free memory counts") {
  const Machine machine;
  CHECK(machine.read().available() == 8000 * kKiB);
  CHECK_FALSE(machine.read().cgroup_available);
  machine.file("proc/self/cgroup", "0::/user\n");
  machine.file("sys/fs/cgroup/user/memory.max", "max\n");
  machine.file("sys/fs/cgroup/user/memory.current", "100\n");
  CHECK_FALSE(machine.read().cgroup_available);
  CHECK(default_budget(machine.read()) == 6400 * kKiB);
}

TEST_CASE("cgroup v2: the tightest ancestor counts, droppable page cache is free") {
  const Machine machine;
  machine.file("proc/self/cgroup", "0::/slice/job\n");
  machine.file("sys/fs/cgroup/slice/job/memory.max", "5000000\n");
  machine.file("sys/fs/cgroup/slice/job/memory.current", "1000000\n");
  CHECK(machine.read().available() == 4000000);
  machine.file("sys/fs/cgroup/slice/memory.max", "3000000\n");
  machine.file("sys/fs/cgroup/slice/memory.current", "2500000\n");
  CHECK(machine.read().available() == 500000);
  machine.file("sys/fs/cgroup/slice/memory.stat",
               "anon 5\ninactive_file 700000\nactive_file 300000\n");
  CHECK(machine.read().available() == 1500000);
  CHECK(machine.read().source() == "room under the cgroup limit");
}

TEST_CASE("cgroup v1, with the path of the host inside a container") {
  const Machine machine;
  machine.file("proc/self/cgroup", "5:cpu:/docker/1234\n4:hugetlb,memory:/docker/1234\n");
  machine.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n");
  machine.file("sys/fs/cgroup/memory/memory.usage_in_bytes", "2500000\n");
  CHECK(machine.read().available() == 0);
  machine.file("sys/fs/cgroup/memory/memory.usage_in_bytes", "500000\n");
  CHECK(machine.read().available() == 1500000);
  machine.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK_FALSE(machine.read().cgroup_available);
}

TEST_CASE("a machine that does not say how much is free is an error, and we have a peak") {
  const TemporaryDirectory empty;
  CHECK_THROWS_AS(read_host_memory(empty.path()), Error);
  CHECK(peak_resident_bytes() > 1 * kMiB);
}

}  // namespace
}  // namespace tidemill::engine
