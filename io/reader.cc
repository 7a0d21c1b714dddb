#include "io/reader.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "io/thread_reader.h"
#include "io/uring_reader.h"

namespace tidemill::io {
namespace {

// How long a cancelled read may take to be answered before its memory is given up for lost.
constexpr std::chrono::seconds kCancelGrace{5};

}  // namespace

ReadOp::~ReadOp() {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kInFlight) return;
  // The kernel may write to the destinations, which the owner is about to release.
  if (!error_) {
    std::fputs("error[bug]: a read was destroyed while it was in flight\n", stderr);
    std::abort();
  }
  std::fprintf(stderr, "error[io]: %s; the kernel does not give its memory back\n", error_->what());
  std::_Exit(static_cast<int>(ErrorKind::kIo));
}

bool ReadOp::done() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kDone;
}

std::chrono::nanoseconds ReadOp::wait() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  std::unique_lock lock(mutex_);
  TM_CHECK(state_ != State::kIdle, "waiting for a read that was never submitted");
  while (state_ == State::kInFlight && !error_) {
    const Clock::time_point progress =
        watch_ == nullptr ? started_ : std::max(started_, watch_->last_progress(*this));
    if (Clock::now() < progress + deadline_) {
      completed_.wait_until(lock, progress + deadline_);
      continue;
    }
    ErrorContext where;
    if (watch_ != nullptr) {
      lock.unlock();
      where = watch_->cancel(*this);
      lock.lock();
      if (state_ == State::kDone && !error_) break;  // arrived at the last moment
    }
    if (where.path.empty() && !segments.empty() && segments.front().file != nullptr) {
      where = {segments.front().file->path(), segments.front().range.offset, 0};
    }
    Error late(ErrorKind::kIo,
               fmt::format("{}: nothing arrived from offset {} for {} s; the drive or its server "
                           "does not answer",
                           printable(where.path), where.offset.value_or(0), deadline_.count()),
               where);
    // From here on the error stands, whatever the cancelled reads still say.
    error_ = std::move(late);
    completed_.wait_for(lock, std::min(kCancelGrace, deadline_),
                        [&] { return state_ == State::kDone; });
  }
  if (error_) throw Error(*error_);
  return Clock::now() - begin;
}

void OpCompletion::start(ReadOp& op, std::chrono::seconds deadline, ReadWatch* watch) {
  const std::lock_guard lock(op.mutex_);
  TM_CHECK(op.state_ != ReadOp::State::kInFlight, "submitted while in flight");
  op.state_ = ReadOp::State::kInFlight;
  op.error_.reset();
  op.deadline_ = deadline;
  op.started_ = std::chrono::steady_clock::now();
  op.watch_ = watch;
}

void OpCompletion::finish(ReadOp& op, std::optional<Error> error) {
  const std::lock_guard lock(op.mutex_);
  // Storing rather than throwing, even for a bug of ours: this runs on the engine's thread.
  if (op.state_ != ReadOp::State::kInFlight && !error) {
    error.emplace(ErrorKind::kBug, "internal check failed: a read completed twice; please report");
  }
  if (!op.error_) op.error_ = std::move(error);
  op.state_ = ReadOp::State::kDone;
  // Under the lock: after it, the owner may already have destroyed the operation.
  op.completed_.notify_all();
}

ReaderEngine parse_reader_engine(std::string_view name) {
  if (name == "auto") return ReaderEngine::kAuto;
  if (name == "uring") return ReaderEngine::kUring;
  if (name == "threads") return ReaderEngine::kThreads;
  throw_error(ErrorKind::kUsage, "\"{}\" is not a read engine; there are auto, uring, threads",
              printable(name, 40));
}

std::unique_ptr<Reader> make_reader(ReaderEngine engine, const ReaderOptions& options) {
  if (options.block_bytes < 1 || options.block_bytes > (1ULL << 30)) {
    throw_error(ErrorKind::kUsage, "block size {}: must be from 1 byte to 1 GiB",
                options.block_bytes);
  }
  if (options.queue_depth < 1 || options.queue_depth > 4096) {
    throw_error(ErrorKind::kUsage, "queue depth {}: must be from 1 to 4096", options.queue_depth);
  }
  if (options.threads < 1 || options.threads > 1024) {
    throw_error(ErrorKind::kUsage, "{} reading threads: must be from 1 to 1024", options.threads);
  }
  if (options.deadline.count() < 1) {
    throw_error(ErrorKind::kUsage, "a read deadline of {} s: must be at least 1 s",
                options.deadline.count());
  }
  if (engine == ReaderEngine::kThreads) return make_thread_reader(options);
  if (engine == ReaderEngine::kUring) return make_uring_reader(options);
  try {
    return make_uring_reader(options);
  } catch (const Error& error) {
    spdlog::warn("{}; reading with {} threads instead", error.what(), options.threads);
  }
  return make_thread_reader(options);
}

}  // namespace tidemill::io
