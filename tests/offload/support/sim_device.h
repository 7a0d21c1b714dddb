// A device whose streams execute late: when a SimWorld says so.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/device.h"
#include "tests/offload/support/sim_world.h"

namespace tidemill::test {

class SimEvent : public kernels::Event {
 public:
  explicit SimEvent(SimWorld& world) : world_(world) {}
  bool complete() const override;
  void wait_on_host() override;

 private:
  friend class SimStream;
  struct State {
    std::uint64_t recorded = 0;  ///< how often record() was called
    std::uint64_t reached = 0;   ///< the last of those that was executed
  };
  SimWorld& world_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

class SimStream : public kernels::Stream, public SimActor {
 public:
  explicit SimStream(SimWorld& world) : world_(world) { world_.add(*this); }
  ~SimStream() override { world_.remove(*this); }

  void record(kernels::Event& event) override;
  void wait(kernels::Event& event) override;
  void upload(const void* host, std::byte* device, std::size_t bytes) override;
  void download(const std::byte* device, void* host, std::size_t bytes) override;
  void synchronize() override;

  /// Queues work, as a kernel launch does.
  void launch(std::function<void()> work);

  bool runnable() const override;
  void step() override;

 private:
  struct Item {
    std::function<bool()> ready;  ///< null: at once
    std::function<void()> work;
  };
  SimWorld& world_;
  std::deque<Item> queue_;
};

class SimDevice : public kernels::Device {
 public:
  explicit SimDevice(SimWorld& world);
  ~SimDevice() override;
  std::string_view name() const override { return "simulated"; }
  std::string description() const override { return "simulated"; }
  kernels::Buffer allocate(std::size_t bytes) override;
  kernels::Buffer allocate_host(std::size_t bytes) override { return allocate(bytes); }
  bool shares_host_memory() const override { return true; }
  std::unique_ptr<kernels::Stream> create_stream() override {
    return std::make_unique<SimStream>(world_);
  }
  std::unique_ptr<kernels::Event> create_event() override {
    return std::make_unique<SimEvent>(world_);
  }
  kernels::Ops& ops() override { return *ops_; }

  std::uint64_t allocated_bytes() const { return allocated_; }
  std::uint64_t allocations() const { return allocations_; }

 private:
  SimWorld& world_;
  std::unique_ptr<kernels::Ops> ops_;
  std::vector<std::byte*> released_;  ///< kept, so that late readers and writers find garbage
  std::uint64_t allocated_ = 0;       ///< now
  std::uint64_t allocations_ = 0;
};

}  // namespace tidemill::test
