#include "io/block_queue.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "io/base/checked.h"
#include "io/in_flight_memory.h"

namespace tidemill::io {
namespace {

constexpr std::uint64_t kSlotBits = 16;
constexpr std::uint64_t kSlotMask = (1ULL << kSlotBits) - 1;

void check_segment(const ReadSegment& segment) {
  TM_CHECK(segment.file != nullptr, "segment without a file");
  const std::uint64_t mask = segment.file->alignment() - 1;
  TM_CHECK((segment.range.offset & mask) == 0 && (segment.range.length & mask) == 0,
           "{}: read of {} bytes at {} is not aligned to {}", segment.file->path(),
           segment.range.length, segment.range.offset, mask + 1);
  TM_CHECK((reinterpret_cast<std::uintptr_t>(segment.destination) & mask) == 0,
           "destination {} is not aligned to {}", static_cast<void*>(segment.destination),
           mask + 1);
  TM_CHECK(segment.required <= segment.range.length, "{} bytes required of {}", segment.required,
           segment.range.length);
  TM_CHECK(segment.destination != nullptr || segment.range.length == 0, "no destination");
}

// A model larger than memory must not push everything else out of the page cache. The cache holds
// files in folios of up to 2 MiB, and drops none that is only half in the range: hence the range
// begins well before the block.
void drop_behind(const ReadBlock& block, std::uint64_t end) {
  constexpr std::uint64_t kWindow = 4ULL << 20;
  const std::uint64_t begin = align_down(block.offset(), kWindow);
  if (end >= block.file()->size()) end = align_up(end, kWindow);
  ::posix_fadvise(block.file()->buffered_fd(), static_cast<off_t>(begin),
                  static_cast<off_t>(end - begin), POSIX_FADV_DONTNEED);
}

}  // namespace

BlockQueue::BlockQueue(const ReaderOptions& options, std::uint32_t slots)
    : options_(options), process_(::getpid()), slots_(slots), last_progress_(Clock::now()) {
  TM_CHECK(slots >= 1 && slots <= kSlotMask, "{} reads in flight", slots);
  TM_CHECK(options.block_bytes >= 1 && options.block_bytes <= (1ULL << 30), "blocks of {} bytes",
           options.block_bytes);
  free_slots_.reserve(slots);
  for (std::uint32_t i = slots; i > 0; --i) free_slots_.push_back(i - 1);
}

void BlockQueue::push(ReadOp& op) {
  TM_CHECK(::getpid() == process_, "a reader does not survive fork()");
  for (const ReadSegment& segment : op.segments) check_segment(segment);
  OpCompletion::start(op, options_.deadline, this);
  for (const ReadSegment& s : op.segments) begin_fill(s.destination, s.range.length);
  std::vector<Finished> finished;
  {
    const std::lock_guard lock(mutex_);
    Operation& operation = operations_[&op];
    operation.op = &op;
    operation.progress = Clock::now();
    if (failure_) {
      operation.error = failure_;
    } else {
      operation.queued = true;
      (op.urgent ? urgent_ : ordinary_).push_back(&operation);
    }
    retire_if_done(operation, finished);  // at once if there is nothing to read
    work_.notify_one();
  }
  report(finished);
}

// Moves on to the next byte that was not handed out; false if there is none.
bool BlockQueue::skip_to_next(Operation& operation) {
  const std::vector<ReadSegment>& segments = operation.op->segments;
  while (operation.segment < segments.size() &&
         operation.position >= segments[operation.segment].required) {
    ++operation.segment;
    operation.position = 0;
  }
  return operation.segment < segments.size();
}

void BlockQueue::cut(Operation& operation, Slot& slot) {
  const ReadSegment& segment = operation.op->segments[operation.segment];
  const std::uint64_t block = align_up(options_.block_bytes, segment.file->alignment());
  const std::uint64_t at = operation.position;
  const std::uint64_t length = std::min(block, segment.range.length - at);
  slot.block = ReadBlock(segment.file, segment.range.offset + at, length,
                         std::min(length, segment.required - at), segment.destination + at);
  operation.position += length;
}

BlockQueue::Slot* BlockQueue::pop_locked() {
  if (free_slots_.empty()) return nullptr;
  for (auto* queue : {&urgent_, &ordinary_}) {
    while (!queue->empty()) {
      Operation& operation = *queue->front();
      Slot& slot = slots_[free_slots_.back()];
      if (operation.error || !skip_to_next(operation)) {
        // Its last blocks are in flight; the last one to come back completes it.
        operation.queued = false;
        queue->pop_front();
        continue;
      }
      cut(operation, slot);
      slot.operation = &operation;
      slot.ticket = (++flights_ << kSlotBits) | free_slots_.back();
      free_slots_.pop_back();
      ++operation.in_flight;
      operation.begun = true;
      operation.progress = Clock::now();
      return &slot;
    }
  }
  return nullptr;
}

BlockQueue::Slot* BlockQueue::try_pop() {
  const std::lock_guard lock(mutex_);
  return pop_locked();
}

BlockQueue::Slot* BlockQueue::pop() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (Slot* slot = pop_locked()) {
      // One operation is usually work for several threads.
      if (!urgent_.empty() || !ordinary_.empty()) work_.notify_one();
      return slot;
    }
    if (closed_) return nullptr;
    work_.wait(lock);
  }
}

BlockQueue::Slot& BlockQueue::find(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t index = ticket & kSlotMask;
  TM_CHECK(
      index < slots_.size() && slots_[index].operation != nullptr && slots_[index].ticket == ticket,
      "completion {:#x} was never submitted, or came twice", ticket);
  return slots_[index];
}

bool BlockQueue::complete(Slot& slot, std::int64_t result) {
  ReadBlock& block = slot.block;
  const ReadRequest asked = block.next();
  // The slot is this thread's alone until it is freed below.
  const ReadBlock::Step step = block.on_result(result);
  if (result > 0) {
    const std::uint64_t count = std::min(static_cast<std::uint64_t>(result), asked.length);
    note_kernel_write(asked.destination, count);
    if (asked.buffered) drop_behind(block, asked.offset + count);
  }
  std::vector<Finished> finished;
  bool again = step == ReadBlock::Step::kAgain;
  {
    const std::lock_guard lock(mutex_);
    Operation& operation = *slot.operation;
    if (result >= 0) ++stats_.reads;
    if (result > 0) operation.progress = last_progress_ = Clock::now();
    if (again && operation.error) again = false;  // a neighbour failed: do not go on
    if (again) return true;
    stats_.bytes += block.done();
    stats_.short_reads += static_cast<std::uint64_t>(block.short_reads());
    stats_.retries += static_cast<std::uint64_t>(block.retries());
    stats_.buffered_reads += static_cast<std::uint64_t>(block.buffered_reads());
    if (block.error() && !operation.error) operation.error = block.error();
    slot.operation = nullptr;
    slot.block = ReadBlock();  // lets go of the file
    free_slots_.push_back(static_cast<std::uint32_t>(slot.ticket & kSlotMask));
    --operation.in_flight;
    retire_if_done(operation, finished);
    drained_.notify_all();
  }
  report(finished);
  return false;
}

void BlockQueue::give_up(Slot& slot, const Error& error) {
  std::vector<Finished> finished;
  {
    const std::lock_guard lock(mutex_);
    Operation& operation = *slot.operation;
    if (!operation.error) operation.error = error;
    slot.operation = nullptr;
    slot.block = ReadBlock();
    free_slots_.push_back(static_cast<std::uint32_t>(slot.ticket & kSlotMask));
    --operation.in_flight;
    retire_if_done(operation, finished);
    drained_.notify_all();
  }
  report(finished);
}

// Removes the operation if nothing of it is in flight and nothing is left to hand out.
void BlockQueue::retire_if_done(Operation& operation, std::vector<Finished>& finished) {
  if (operation.in_flight > 0) return;
  if (!operation.error && skip_to_next(operation)) return;
  if (operation.queued) {
    auto& queue = operation.op->urgent ? urgent_ : ordinary_;
    queue.erase(std::find(queue.begin(), queue.end(), &operation));
  }
  ++stats_.operations;
  finished.push_back({operation.op, std::move(operation.error)});
  operations_.erase(operation.op);
}

// Completing is done without the queue's lock: a waiting operation holds its own lock when it asks
// for last_progress().
void BlockQueue::report(const std::vector<Finished>& finished) {
  for (const auto& [op, error] : finished) {
    for (const ReadSegment& s : op->segments) end_fill(s.destination, s.range.length);
    OpCompletion::finish(*op, error);
  }
}

void BlockQueue::stop_all(const Error& error, std::vector<Finished>& finished) {
  if (!failure_) failure_ = error;
  std::vector<Operation*> all;
  all.reserve(operations_.size());
  for (auto& [op, operation] : operations_) all.push_back(&operation);
  for (Operation* operation : all) {
    // One that has everything in flight already may still succeed.
    if (!operation->error && skip_to_next(*operation)) operation->error = failure_;
    retire_if_done(*operation, finished);
  }
}

void BlockQueue::fail(const Error& error) {
  std::vector<Finished> finished;
  {
    const std::lock_guard lock(mutex_);
    stop_all(error, finished);
    work_.notify_all();
  }
  report(finished);
}

void BlockQueue::close() {
  std::vector<Finished> finished;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    stop_all(Error(ErrorKind::kIo, "the reader was shut down before the read was made"), finished);
    work_.notify_all();
  }
  report(finished);
}

bool BlockQueue::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

bool BlockQueue::idle() const {
  const std::lock_guard lock(mutex_);
  return free_slots_.size() == slots_.size();
}

bool BlockQueue::wait_idle(std::chrono::nanoseconds timeout) const {
  std::unique_lock lock(mutex_);
  return drained_.wait_for(lock, timeout, [&] { return free_slots_.size() == slots_.size(); });
}

std::vector<std::uint64_t> BlockQueue::take_cancelled() {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint64_t> tickets;
  if (!std::exchange(cancelled_, false)) return tickets;
  for (const Slot& slot : slots_) {
    if (slot.operation != nullptr && slot.operation->cancelled) tickets.push_back(slot.ticket);
  }
  return tickets;
}

std::chrono::steady_clock::time_point BlockQueue::last_progress(const ReadOp& op) const {
  const std::lock_guard lock(mutex_);
  const auto found = operations_.find(&op);
  if (found == operations_.end()) return Clock::now();  // it is being completed
  const Operation& operation = found->second;
  return operation.begun ? operation.progress : std::max(operation.progress, last_progress_);
}

ErrorContext BlockQueue::cancel(const ReadOp& op) {
  ErrorContext where;
  std::vector<Finished> finished;
  {
    const std::lock_guard lock(mutex_);
    const auto found = operations_.find(&op);
    if (found == operations_.end()) return where;
    Operation& operation = found->second;
    std::uint64_t oldest = ~0ULL;
    for (const Slot& slot : slots_) {
      if (slot.operation != &operation || slot.ticket >> kSlotBits >= oldest) continue;
      oldest = slot.ticket >> kSlotBits;
      where.path = slot.block.file()->path();
      where.offset = slot.block.offset();
    }
    if (where.path.empty() && !op.segments.empty()) {
      where.path = op.segments.front().file->path();
      where.offset = op.segments.front().range.offset;
    }
    operation.cancelled = cancelled_ = true;
    if (!operation.error) operation.error = Error(ErrorKind::kIo, "cancelled", where);
    retire_if_done(operation, finished);
  }
  report(finished);
  if (wake_for_cancel_) wake_for_cancel_();
  return where;
}

ReaderStats BlockQueue::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void BlockQueue::note_registered_buffers() {
  const std::lock_guard lock(mutex_);
  stats_.registered_buffers = true;
}

}  // namespace tidemill::io
