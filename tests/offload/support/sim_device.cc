#include "tests/offload/support/sim_device.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "io/base/error.h"
#include "tests/offload/support/sim_ops.h"

namespace tidemill::test {
namespace {

constexpr std::align_val_t kAlignment{4096};

}  // namespace

bool SimEvent::complete() const {
  if (world_.mutations.release_not_awaited) return true;
  world_.pass_time();
  return state_->reached >= state_->recorded;
}

void SimEvent::wait_on_host() {
  while (!complete()) TM_CHECK(world_.step(), "the host waits for an event that never comes");
}

void SimStream::record(kernels::Event& event) {
  if (world_.mutations.release_not_recorded) return;
  const auto state = static_cast<SimEvent&>(event).state_;
  const std::uint64_t generation = ++state->recorded;
  queue_.push_back({nullptr, [state, generation] { state->reached = generation; }});
  world_.pass_time();
}

void SimStream::wait(kernels::Event& event) {
  if (world_.mutations.streams_not_ordered) return;
  const auto state = static_cast<SimEvent&>(event).state_;
  queue_.push_back(
      {[state, generation = state->recorded] { return state->reached >= generation; }, [] {}});
  world_.pass_time();
}

void SimStream::upload(const void* host, std::byte* device, std::size_t bytes) {
  launch([=] { std::copy_n(static_cast<const std::byte*>(host), bytes, device); });
}

void SimStream::download(const std::byte* device, void* host, std::size_t bytes) {
  launch([=] { std::copy_n(device, bytes, static_cast<std::byte*>(host)); });
}

void SimStream::synchronize() {
  while (!queue_.empty()) TM_CHECK(world_.step(), "a stream waits for an event that never comes");
}

void SimStream::launch(std::function<void()> work) {
  queue_.push_back({nullptr, std::move(work)});
  world_.pass_time();
}

bool SimStream::runnable() const {
  return !queue_.empty() && (!queue_.front().ready || queue_.front().ready());
}

void SimStream::step() {
  const Item item = std::move(queue_.front());
  queue_.pop_front();
  item.work();
}

SimDevice::SimDevice(SimWorld& world) : world_(world), ops_(std::make_unique<SimOps>()) {}

SimDevice::~SimDevice() {
  for (std::byte* memory : released_) ::operator delete(memory, kAlignment);
}

kernels::Buffer SimDevice::allocate(std::size_t bytes) {
  auto* data = static_cast<std::byte*>(::operator new(bytes, kAlignment));
  std::memset(data, 0xFF, bytes);
  allocated_ += bytes;
  ++allocations_;
  return {data, bytes, [this, bytes](std::byte* memory) {
            std::memset(memory, 0xDD, bytes);
            released_.push_back(memory);
            allocated_ -= bytes;
          }};
}

}  // namespace tidemill::test
