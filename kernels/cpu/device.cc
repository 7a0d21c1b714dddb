#include "kernels/device.h"

#include <sched.h>

#include <algorithm>
#include <string>

#include "io/base/checked.h"
#include "io/base/error.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/target.h"

namespace tidemill::kernels {
namespace {

// Work executes at submission, so that whatever an event marks has finished when it is recorded.
class CpuEvent final : public Event {
 public:
  bool complete() const override { return true; }
  void wait_on_host() override {}
};

class CpuStream final : public Stream {
 public:
  void record(Event&) override {}
  void wait(Event&) override {}
  void upload(const void* host, std::byte* device, std::size_t bytes) override {
    std::copy_n(static_cast<const std::byte*>(host), bytes, device);
  }
  void download(const std::byte* device, void* host, std::size_t bytes) override {
    std::copy_n(device, bytes, static_cast<std::byte*>(host));
  }
  void synchronize() override {}
};

class CpuDevice final : public Device {
 public:
  CpuDevice(CpuTarget target, unsigned threads) : target_(target), ops_(target, threads) {}

  std::string_view name() const override { return "cpu"; }
  std::string description() const override {
    return fmt::format("cpu: {}, {} {}", cpu::to_string(target_), ops_.threads(),
                       ops_.threads() == 1 ? "thread" : "threads");
  }
  Buffer allocate(std::size_t bytes) override { return cpu::allocate_pages(bytes); }
  Buffer allocate_host(std::size_t bytes) override { return allocate(bytes); }
  bool shares_host_memory() const override { return true; }
  std::unique_ptr<Stream> create_stream() override { return std::make_unique<CpuStream>(); }
  std::unique_ptr<Event> create_event() override { return std::make_unique<CpuEvent>(); }
  Ops& ops() override { return ops_; }

 private:
  CpuTarget target_;
  cpu::CpuOps ops_;
};

/// Cores that this process may run on.
unsigned available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return narrow<unsigned>(CPU_COUNT(&set));
  const unsigned cores = std::thread::hardware_concurrency();
  return cores == 0 ? 1 : cores;
}

}  // namespace

std::unique_ptr<Device> make_cpu_device(const CpuOptions& options) {
  const CpuTarget limit = cpu::limit_from_environment(options.max_target);
  const unsigned threads = options.threads != 0 ? options.threads : available_cores();
  return std::make_unique<CpuDevice>(cpu::supported_target(limit), threads);
}

}  // namespace tidemill::kernels
