#include "io/thread_reader.h"

#include <spdlog/spdlog.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <vector>

#include "io/block_queue.h"
#include "io/io_thread.h"

namespace tidemill::io {
namespace {

// The system call itself: AddressSanitizer's pread would find the destination poisoned, as it is
// while it is being filled.
std::int64_t read_once(const ReadRequest& request) {
  const long count =
      ::syscall(SYS_pread64, request.fd, request.destination, request.length, request.offset);
  return count < 0 ? -errno : count;
}

void work(BlockQueue& queue) {
  while (BlockQueue::Slot* slot = queue.pop()) {
    while (queue.complete(*slot, read_once(slot->block.next()))) {
    }
  }
}

class ThreadReader final : public Reader {
 public:
  explicit ThreadReader(const ReaderOptions& options)
      : queue_(std::make_shared<BlockQueue>(options, options.threads)) {
    try {
      while (threads_.size() < options.threads) {
        threads_.push_back(start_io_thread([queue = queue_] { work(*queue); }));
      }
    } catch (const Error& error) {
      if (threads_.empty()) throw;
      spdlog::warn("{}; reading with {} threads instead of {}", error.what(), threads_.size(),
                   options.threads);
    }
  }

  ~ThreadReader() override {
    queue_->close();
    // A thread that is stuck inside the kernel keeps the queue alive and is left behind; the
    // operation that waits for it never completes, so that nobody reuses its memory.
    const bool idle = queue_->wait_idle(queue_->deadline());
    for (std::thread& thread : threads_) {
      if (idle) {
        thread.join();
      } else {
        thread.detach();
      }
    }
  }

  std::string_view name() const override { return "threads"; }
  void register_memory(std::span<std::byte>) override {}
  void submit(ReadOp& op) override { queue_->push(op); }
  ReaderStats stats() const override { return queue_->stats(); }

 private:
  std::shared_ptr<BlockQueue> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Reader> make_thread_reader(const ReaderOptions& options) {
  return std::make_unique<ThreadReader>(options);
}

}  // namespace tidemill::io
