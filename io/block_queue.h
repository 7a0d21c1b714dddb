// The queue between those who submit reads and the engine that makes them: operations go in, blocks
// come out, results go in, operations complete.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "io/read_block.h"
#include "io/reader.h"

namespace tidemill::io {

/// Thread-safe. Operations are cut lazily, so that a queue of gigabytes costs nothing, and urgent
/// ones go first. An operation completes when its last block has come back: after an error no more
/// of its blocks are handed out, but those in flight are still waited for, because the kernel
/// writes to their memory.
class BlockQueue final : public ReadWatch {
 public:
  struct Operation;

  /// A block in flight, in one of a fixed number of slots.
  struct Slot {
    ReadBlock block;
    Operation* operation = nullptr;  ///< nullptr: the slot is free
    std::uint64_t ticket = 0;        ///< slot number and a count: names this flight and no other
  };

  BlockQueue(const ReaderOptions& options, std::uint32_t slots);

  /// Accepts an operation; its errors are delivered by op.wait(). Checks alignment (kBug).
  void push(ReadOp& op);

  /// The next block, or nullptr if there is none or no slot is free.
  Slot* try_pop();
  /// Blocks until there is a block; nullptr after close().
  Slot* pop();

  /// The slot in flight under that ticket; a ticket that is not in flight is a bug (checked).
  Slot& find(std::uint64_t ticket);

  /// Takes the system's answer (bytes or -errno). True: slot.block.next() must be read as well.
  /// False: the slot is free.
  [[nodiscard]] bool complete(Slot& slot, std::int64_t result);

  /// Takes back a block that the engine could not hand to the system.
  void give_up(Slot& slot, const Error& error);

  /// The engine failed for good: everything queued and everything to come ends with this error.
  void fail(const Error& error);
  /// No more work: what is queued ends with an error, what is in flight is waited for.
  void close();
  bool closed() const;

  bool idle() const;  ///< nothing in flight
  /// Waits until nothing is in flight; false if that takes longer.
  bool wait_idle(std::chrono::nanoseconds timeout) const;

  /// Called (without locks) when cancel() has marked operations; the engine then asks
  /// take_cancelled(). Set before the first push.
  void on_cancel(std::function<void()> wake) { wake_for_cancel_ = std::move(wake); }
  /// Tickets in flight of operations that were cancelled since the last call.
  std::vector<std::uint64_t> take_cancelled();

  std::chrono::steady_clock::time_point last_progress(const ReadOp& op) const override;
  ErrorContext cancel(const ReadOp& op) override;

  ReaderStats stats() const;
  void note_registered_buffers();
  std::chrono::seconds deadline() const { return options_.deadline; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Finished {
    ReadOp* op = nullptr;
    std::optional<Error> error;
  };

  Slot* pop_locked();
  static bool skip_to_next(Operation& operation);
  void cut(Operation& operation, Slot& slot);
  void retire_if_done(Operation& operation, std::vector<Finished>& finished);
  void stop_all(const Error& error, std::vector<Finished>& finished);
  static void report(const std::vector<Finished>& finished);

  const ReaderOptions options_;
  const int process_;  // the one whose threads serve this queue
  std::function<void()> wake_for_cancel_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  mutable std::condition_variable drained_;
  std::unordered_map<const ReadOp*, Operation> operations_;
  std::deque<Operation*> urgent_, ordinary_;  // operations with blocks that were not handed out
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::uint64_t flights_ = 0;
  std::optional<Error> failure_;
  bool closed_ = false;
  bool cancelled_ = false;
  Clock::time_point last_progress_;
  ReaderStats stats_;
};

struct BlockQueue::Operation {
  ReadOp* op = nullptr;
  std::size_t segment = 0;     // the next block begins here ...
  std::uint64_t position = 0;  // ... at this distance from the segment's start
  std::uint32_t in_flight = 0;
  bool queued = false;  // in urgent_ or ordinary_
  bool begun = false;
  bool cancelled = false;
  std::chrono::steady_clock::time_point progress;
  std::optional<Error> error;  // the first one
};

}  // namespace tidemill::io
