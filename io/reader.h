// Asynchronous reads behind one interface: io_uring, a pool of threads that call pread, and (in
// tests) readers that delay, reorder, shorten or fail.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/byte_range.h"
#include "io/base/error.h"
#include "io/file.h"

namespace tidemill::io {

/// One contiguous read. `range` is aligned to file->alignment() and may reach beyond the end of
/// the file by less than the alignment; `required` bytes from its start must arrive.
struct ReadSegment {
  std::shared_ptr<const File> file;
  ByteRange range;
  std::uint64_t required = 0;        ///< min(range.length, file size - range.offset)
  std::byte* destination = nullptr;  ///< range.length bytes, aligned to file->alignment()
};

class ReadOp;

/// What a waiting operation asks of the reader that has it, for implementations of Reader only.
class ReadWatch {
 public:
  virtual ~ReadWatch() = default;
  /// When bytes of the operation last arrived or, if it has to queue, bytes of any other.
  virtual std::chrono::steady_clock::time_point last_progress(const ReadOp& op) const = 0;
  /// Asks for the operation's reads to be cancelled; says where it stands. Does not block.
  virtual ErrorContext cancel(const ReadOp& op) = 0;
};

/// A group of reads that completes as a whole, usually one piece of the tape.
///
/// The caller owns the operation and the destination memory until it has completed; an operation
/// in flight cannot move and must not be destroyed (checked). It may be reused after completion.
class ReadOp {
 public:
  ReadOp() = default;
  ~ReadOp();
  ReadOp(const ReadOp&) = delete;
  ReadOp& operator=(const ReadOp&) = delete;

  std::vector<ReadSegment> segments;

  /// Urgent operations (single embedding rows) go before everything that is still queued.
  bool urgent = false;

  /// True once every byte has arrived or an error was recorded. Never blocks.
  bool done() const;

  /// Blocks until completion; throws the operation's error (path, offset, errno). Acts as the
  /// acquire side of the fence: all bytes are visible after. Returns the time that was spent
  /// blocked.
  ///
  /// If nothing arrives for as long as the reader's deadline, the reads are cancelled and an
  /// Error(kIo) is thrown. In the rare case that the kernel does not even answer the cancellation,
  /// done() stays false, since the kernel may still write to the destinations: they must then be
  /// leaked. Destroying such an operation ends the process rather than let memory be reused.
  std::chrono::nanoseconds wait();

 private:
  friend class OpCompletion;
  mutable std::mutex mutex_;
  std::condition_variable completed_;
  enum class State { kIdle, kInFlight, kDone } state_ = State::kIdle;
  std::optional<Error> error_;  // set while kInFlight: the deadline has passed
  std::chrono::seconds deadline_{0};
  std::chrono::steady_clock::time_point started_;
  ReadWatch* watch_ = nullptr;
};

/// The reader's side of a ReadOp, for implementations of Reader (and test doubles) only.
class OpCompletion {
 public:
  /// Without `watch`, the deadline counts from here.
  static void start(ReadOp& op, std::chrono::seconds deadline, ReadWatch* watch = nullptr);
  /// May be the last access to `op`: its owner can destroy it as soon as wait() has returned.
  static void finish(ReadOp& op, std::optional<Error> error);
};

struct ReaderOptions {
  std::uint64_t block_bytes = 4 << 20;  ///< large segments are cut into blocks of this size
  std::uint32_t queue_depth = 16;       ///< blocks in flight at once
  std::uint32_t threads = 8;            ///< for the thread engine: blocks in flight at once
  std::chrono::seconds deadline{120};   ///< no completion within this time is an error
};

/// Counters since construction. All reads through wait()ed or finished operations are included.
struct ReaderStats {
  std::uint64_t operations = 0;
  std::uint64_t reads = 0;           ///< system-level reads completed
  std::uint64_t bytes = 0;           ///< bytes delivered
  std::uint64_t short_reads = 0;     ///< reads that had to be continued
  std::uint64_t retries = 0;         ///< EINTR/EAGAIN seen
  std::uint64_t buffered_reads = 0;  ///< reads that went through the page cache
  bool registered_buffers = false;   ///< destination memory is registered with the kernel
};

/// Thread-safe. A reader that failed as a whole stays failed: later operations report the first
/// error. An error of one operation (EIO on its file) does not affect others.
class Reader {
 public:
  virtual ~Reader() = default;

  /// "uring", "threads", ...
  virtual std::string_view name() const = 0;

  /// Registers memory that destinations will lie in, if the engine can make use of it. Call before
  /// the first submit. The memory must outlive the reader.
  virtual void register_memory(std::span<std::byte> memory) = 0;

  /// Queues the operation and returns at once. Errors are delivered by op.wait().
  virtual void submit(ReadOp& op) = 0;

  virtual ReaderStats stats() const = 0;
};

enum class ReaderEngine { kAuto, kUring, kThreads };

/// "auto", "uring", "threads"; Error(kUsage) otherwise.
ReaderEngine parse_reader_engine(std::string_view name);

/// kAuto probes io_uring and falls back to threads with one notice on the log; kUring makes its
/// absence an Error(kIo).
std::unique_ptr<Reader> make_reader(ReaderEngine engine, const ReaderOptions& options);

}  // namespace tidemill::io
