// A reader whose bytes come from a formula, in the order and at the time that a SimWorld chooses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/reader.h"
#include "tests/offload/support/sim_world.h"

namespace tidemill::test {

/// The bytes that every SimReader finds in `file` (the real file may be sparse).
void file_content(const io::File& file, ByteRange range, std::byte* out);

class SimReader : public io::Reader, public SimActor {
 public:
  explicit SimReader(SimWorld& world) : world_(world) { world_.add(*this); }
  ~SimReader() override;

  std::string_view name() const override { return "simulated"; }
  void register_memory(std::span<std::byte> memory) override { registered_ += memory.size(); }
  void submit(io::ReadOp& op) override;
  io::ReaderStats stats() const override { return stats_; }

  bool runnable() const override { return !pending_.empty() && !stalled_; }
  void step() override;

  /// The n-th operation from now (1: the next) fails with EIO.
  void fail_operation(std::uint64_t n) { failing_ = submitted_ + n; }
  /// From now on nothing arrives.
  void stall(std::chrono::seconds deadline) {
    stalled_ = true;
    deadline_ = deadline;
  }
  void resume() { stalled_ = false; }

  std::uint64_t registered_bytes() const { return registered_; }
  /// Submitted so far.
  std::uint64_t operations() const { return submitted_; }
  std::uint64_t urgent_operations() const { return urgent_; }
  std::size_t most_in_flight() const { return most_in_flight_; }

 private:
  struct Part {
    io::ReadSegment segment;
    std::uint64_t delivered = 0;
  };
  struct Pending {
    io::ReadOp* op = nullptr;
    std::vector<Part> parts;
    std::optional<Error> error;
    bool finished = false;
  };
  void deliver_some(Pending& read);

  SimWorld& world_;
  std::vector<Pending> pending_;
  io::ReaderStats stats_;
  std::uint64_t registered_ = 0, submitted_ = 0, urgent_ = 0, failing_ = 0;
  std::size_t most_in_flight_ = 0;
  bool stalled_ = false;
  std::chrono::seconds deadline_{120};
};

}  // namespace tidemill::test
