#include "io/uring_reader.h"

#include <liburing.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/base/checked.h"
#include "io/block_queue.h"
#include "io/io_thread.h"

namespace tidemill::io {
namespace {

using Clock = std::chrono::steady_clock;

// user_data of what is not a block; tickets of blocks are larger.
constexpr std::uint64_t kWakeTag = 1;
constexpr std::uint64_t kCancelTag = 2;
constexpr std::uint64_t kFirstTicket = 1ULL << 16;

constexpr unsigned kFileSlots = 256;
constexpr int kProbeTries = 64;
constexpr std::chrono::milliseconds kRetryPause{1};

[[noreturn]] void throw_uring(const char* what, int error) {
  throw Error(ErrorKind::kIo,
              fmt::format("io_uring: {}: {}", what, std::system_category().message(error)),
              {.path = {}, .offset = {}, .error_number = error});
}

// Files registered with the ring. The kernel holds a reference to each, so entries whose File is
// gone are cleared as soon as another one is looked up in vain.
class FileTable {
 public:
  void create(io_uring& ring) {
    if (io_uring_register_files_sparse(&ring, kFileSlots) != 0) return;  // before 5.19
    slots_.resize(kFileSlots);
  }

  // Index of file.read_fd() in the ring's table, or -1: use the descriptor itself.
  int find(io_uring& ring, const std::shared_ptr<const File>& file) {
    if (slots_.empty()) return -1;
    // A new File may lie where a dead one was: the weak pointer tells them apart.
    if (const auto found = index_.find(file.get()); found != index_.end()) {
      if (slots_[found->second].lock() == file) return static_cast<int>(found->second);
    }
    clear_dead(ring);
    for (unsigned i = 0; i < slots_.size(); ++i) {
      if (!slots_[i].expired()) continue;
      const int fd = file->read_fd();
      if (io_uring_register_files_update(&ring, i, &fd, 1) != 1) return -1;
      slots_[i] = file;
      index_[file.get()] = i;
      return static_cast<int>(i);
    }
    return -1;
  }

 private:
  void clear_dead(io_uring& ring) {
    for (auto entry = index_.begin(); entry != index_.end();) {
      if (!slots_[entry->second].expired()) {
        ++entry;
        continue;
      }
      const int none = -1;
      io_uring_register_files_update(&ring, entry->second, &none, 1);
      slots_[entry->second].reset();
      entry = index_.erase(entry);
    }
  }

  std::vector<std::weak_ptr<const File>> slots_;
  std::unordered_map<const File*, unsigned> index_;
};

// Memory registered with the ring, in pieces of at most 1 GiB as the kernel demands.
class BufferTable {
 public:
  void add(std::span<std::byte> memory) {
    constexpr std::size_t kPiece = 1ULL << 30;
    while (!memory.empty()) {
      const std::size_t bytes = std::min(kPiece, memory.size());
      pieces_.push_back({memory.data(), bytes});
      memory = memory.subspan(bytes);
    }
  }

  // True if there is memory and the kernel has registered it.
  bool create(io_uring& ring) {
    if (pieces_.empty()) return false;
    const int error =
        -io_uring_register_buffers(&ring, pieces_.data(), static_cast<unsigned>(pieces_.size()));
    if (error == 0) return true;
    spdlog::warn("io_uring: memory is not registered: {}{}", std::system_category().message(error),
                 error == ENOMEM ? " (see ulimit -l)" : "");
    pieces_.clear();
    return false;
  }

  // Index of the piece that holds all of [data, data + bytes), or -1.
  int find(const std::byte* data, std::uint64_t bytes) const {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const auto* begin = static_cast<const std::byte*>(pieces_[i].iov_base);
      if (data >= begin && bytes <= pieces_[i].iov_len &&
          static_cast<std::uint64_t>(data - begin) <= pieces_[i].iov_len - bytes) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }

 private:
  std::vector<iovec> pieces_;
};

// The ring and the loop of its thread. Shared by the reader and the thread, so that a thread that
// the kernel never lets go keeps it alive.
class Engine {
 public:
  explicit Engine(const ReaderOptions& options) : queue_(options, options.queue_depth) {
    io_uring_params params{};
    params.flags = IORING_SETUP_CLAMP;
    // Room for all blocks, the wake-up and some cancellations: completions, of which twice as many
    // fit, can never overflow.
    const int error = -io_uring_queue_init_params(options.queue_depth + 8, &ring_, &params);
    if (error != 0) throw_uring("not available", error);
    event_fd_ = ::eventfd(0, EFD_CLOEXEC);  // blocking: the ring answers EAGAIN otherwise
    try {
      if (event_fd_ < 0) throw_uring("eventfd", errno);
      probe();
    } catch (...) {
      release();
      throw;
    }
    queue_.on_cancel([this] { wake(); });
  }
  ~Engine() { release(); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  BlockQueue& queue() { return queue_; }

  /// Before the thread runs.
  void register_memory(const std::vector<std::span<std::byte>>& memory) {
    for (const auto& part : memory) buffers_.add(part);
    if (buffers_.create(ring_)) queue_.note_registered_buffers();
    files_.create(ring_);
  }

  /// Makes the thread look at the queue.
  void wake() const {
    const std::uint64_t one = 1;
    // Can fail only if 2^64 - 1 wake-ups were pending.
    [[maybe_unused]] const ssize_t written = ::write(event_fd_, &one, sizeof one);
  }

  /// The thread: returns after queue().close(), or after the ring has failed.
  void run() {
    try {
      loop();
    } catch (const Error& error) {
      shut_down(error);
    } catch (const std::exception& error) {
      shut_down(Error(ErrorKind::kBug, fmt::format("io_uring thread: {}", error.what())));
    }
  }

 private:
  void release() {
    io_uring_queue_exit(&ring_);
    if (event_fd_ >= 0) ::close(event_fd_);
  }

  // A sandbox may allow the setup and forbid the rest: one round trip proves the ring.
  void probe() {
    io_uring_probe* known = io_uring_get_probe_ring(&ring_);
    const bool able = known != nullptr && io_uring_opcode_supported(known, IORING_OP_READ) != 0 &&
                      io_uring_opcode_supported(known, IORING_OP_ASYNC_CANCEL) != 0;
    if (known != nullptr) io_uring_free_probe(known);
    if (!able) throw_uring("reads need Linux 5.6", ENOSYS);
    io_uring_prep_nop(io_uring_get_sqe(&ring_));
    int result = -EINTR;
    for (int i = 0; i < kProbeTries && (result == -EINTR || result == -EAGAIN); ++i) {
      result = io_uring_submit_and_wait(&ring_, 1);
    }
    io_uring_cqe* cqe = nullptr;
    if (result < 0) throw_uring("not usable", -result);
    if (io_uring_peek_cqe(&ring_, &cqe) != 0) throw_uring("does not complete", EIO);
    io_uring_cqe_seen(&ring_, cqe);
  }

  void loop() {
    arm_wake();
    while (true) {
      while (BlockQueue::Slot* slot = queue_.try_pop()) prepare(*slot);
      // close() is followed by a wake-up, so that the armed read always comes back.
      if (!wake_armed_ && queue_.closed() && queue_.idle()) return;
      submit_and_wait();
      reap();
    }
  }

  io_uring_sqe* next_sqe(std::uint64_t tag) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    if (sqe == nullptr) {  // more cancellations than there is room for
      submitted(io_uring_submit(&ring_));
      sqe = io_uring_get_sqe(&ring_);
    }
    if (sqe == nullptr) throw_uring("submission queue stays full", EBUSY);
    unsubmitted_.push_back(tag);
    return sqe;
  }

  void arm_wake() {
    io_uring_sqe* sqe = next_sqe(kWakeTag);
    io_uring_prep_read(sqe, event_fd_, &wake_value_, sizeof wake_value_, 0);
    io_uring_sqe_set_data64(sqe, kWakeTag);
    wake_armed_ = true;
  }

  void prepare(BlockQueue::Slot& slot) {
    const ReadRequest request = slot.block.next();
    io_uring_sqe* sqe = next_sqe(slot.ticket);
    const auto length = static_cast<unsigned>(request.length);
    const int buffer = buffers_.find(request.destination, request.length);
    const bool own_fd = request.fd == slot.block.file()->read_fd();
    const int file = own_fd ? files_.find(ring_, slot.block.file()) : -1;
    const int fd = file >= 0 ? file : request.fd;
    if (buffer >= 0) {
      io_uring_prep_read_fixed(sqe, fd, request.destination, length, request.offset, buffer);
    } else {
      io_uring_prep_read(sqe, fd, request.destination, length, request.offset);
    }
    if (file >= 0) sqe->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data64(sqe, slot.ticket);
  }

  // The kernel takes submissions in order: what is left in the queue is the end of our list.
  void submitted(int result) {
    const std::size_t left = io_uring_sq_ready(&ring_);
    unsubmitted_.erase(unsubmitted_.begin(),
                       unsubmitted_.end() - static_cast<std::ptrdiff_t>(left));
    if (result >= 0) {
      first_refusal_.reset();
      return;
    }
    if (result != -EINTR && result != -EAGAIN && result != -EBUSY) throw_uring("submit", -result);
    // Signals, or no memory, or completions to be fetched first: all pass; if not, we do.
    const Clock::time_point now = Clock::now();
    if (!first_refusal_) first_refusal_ = now;
    // Before the waiting operations give up by themselves: they could not say why.
    if (now - *first_refusal_ > queue_.deadline() / 2) throw_uring("submit", -result);
    std::this_thread::sleep_for(kRetryPause);
  }

  void submit_and_wait() { submitted(io_uring_submit_and_wait(&ring_, 1)); }

  void reap() {
    io_uring_cqe* cqe = nullptr;
    while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
      const std::uint64_t tag = io_uring_cqe_get_data64(cqe);
      const int result = cqe->res;
      io_uring_cqe_seen(&ring_, cqe);
      if (tag == kWakeTag) {
        wake_armed_ = false;
        if (result < 0 && result != -EINTR && result != -EAGAIN) throw_uring("eventfd", -result);
        if (!queue_.closed()) arm_wake();
        cancel_marked();
      } else if (tag >= kFirstTicket) {
        BlockQueue::Slot& slot = queue_.find(tag);
        if (queue_.complete(slot, result)) prepare(slot);
      }
    }
  }

  void cancel_marked() {
    for (const std::uint64_t ticket : queue_.take_cancelled()) {
      io_uring_sqe* sqe = next_sqe(kCancelTag);
      io_uring_prep_cancel64(sqe, ticket, 0);
      io_uring_sqe_set_data64(sqe, kCancelTag);
    }
  }

  // After a failure of the ring: ends all operations, those in flight once the kernel is done with
  // them. The ring is not asked for anything any more; completions still arrive in its memory.
  void shut_down(const Error& error) {
    queue_.fail(error);
    for (const std::uint64_t tag : std::exchange(unsubmitted_, {})) {
      if (tag >= kFirstTicket) queue_.give_up(queue_.find(tag), error);
    }
    const Clock::time_point end = Clock::now() + queue_.deadline();
    while (!queue_.idle() && Clock::now() < end) {
      io_uring_cqe* cqe = nullptr;
      while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
        const std::uint64_t tag = io_uring_cqe_get_data64(cqe);
        const int result = cqe->res;
        io_uring_cqe_seen(&ring_, cqe);
        if (tag < kFirstTicket) continue;
        BlockQueue::Slot& slot = queue_.find(tag);
        if (queue_.complete(slot, result)) queue_.give_up(slot, error);
      }
      std::this_thread::sleep_for(kRetryPause);
    }
  }

  BlockQueue queue_;
  io_uring ring_{};
  int event_fd_ = -1;
  FileTable files_;
  BufferTable buffers_;
  std::uint64_t wake_value_ = 0;
  bool wake_armed_ = false;
  std::vector<std::uint64_t> unsubmitted_;  // tags, in the order of the submission queue
  std::optional<Clock::time_point> first_refusal_;
};

class UringReader final : public Reader {
 public:
  explicit UringReader(const ReaderOptions& options) : engine_(std::make_shared<Engine>(options)) {}

  ~UringReader() override {
    BlockQueue& queue = engine_->queue();
    queue.close();
    if (!thread_.joinable()) return;
    engine_->wake();
    if (queue.wait_idle(queue.deadline())) {
      thread_.join();
    } else {
      // Some read never ended. The thread and the ring are left behind, and the operation stays
      // incomplete, so that nobody reuses its memory.
      keep_forever(engine_);
      thread_.detach();
    }
  }

  std::string_view name() const override { return "uring"; }

  void register_memory(std::span<std::byte> memory) override {
    TM_CHECK(!thread_.joinable(), "memory registered after the first read");
    memory_.push_back(memory);
  }

  void submit(ReadOp& op) override {
    // The thread starts late, because older kernels wait for all reads in flight, such as the one
    // that waits for work, before they register anything.
    std::call_once(started_, [this] {
      engine_->register_memory(memory_);
      thread_ = start_io_thread([engine = engine_] { engine->run(); });
    });
    engine_->queue().push(op);
    engine_->wake();
  }

  ReaderStats stats() const override { return engine_->queue().stats(); }

 private:
  static void keep_forever(const std::shared_ptr<Engine>& engine) {
    [[maybe_unused]] const auto* const leaked = new std::shared_ptr<Engine>(engine);
    // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): what the name says
  }

  std::shared_ptr<Engine> engine_;
  std::vector<std::span<std::byte>> memory_;
  std::once_flag started_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Reader> make_uring_reader(const ReaderOptions& options) {
  return std::make_unique<UringReader>(options);
}

}  // namespace tidemill::io
