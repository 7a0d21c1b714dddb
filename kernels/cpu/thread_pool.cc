#include "kernels/cpu/thread_pool.h"

#include <system_error>

#include "io/base/checked.h"
#include "io/base/error.h"

namespace tidemill::kernels::cpu {
namespace {

// Decoding submits a job every few tens of microseconds, and waking a sleeping thread costs about
// as much as a small job takes; spinning this long (some 20 us) covers the gaps within one layer.
constexpr int kSpins = 500;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// Waits while `value` is `old`.
void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    relax();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(unsigned threads) {
  TM_CHECK(threads > 0, "a pool without threads");
  workers_.reserve(threads - 1);
  for (unsigned worker = 1; worker < threads; ++worker) {
    try {
      workers_.emplace_back([this, worker] { worker_loop(worker); });
    } catch (const std::system_error& error) {
      stop_and_join();
      throw Error(ErrorKind::kDevice,
                  fmt::format("cannot start compute thread {} of {}: {}; use fewer threads",
                              worker + 1, threads, error.what()),
                  {.path = {}, .offset = {}, .error_number = error.code().value()});
    }
  }
}

ThreadPool::~ThreadPool() { stop_and_join(); }

void ThreadPool::stop_and_join() {
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(const Job& job) {
  const auto chunks = narrow<std::uint32_t>((job.items - 1) / job.grain + 1);
  job_ = job;
  unfinished_.store(chunks, std::memory_order_relaxed);
  const std::uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  tickets_.store(std::uint64_t{epoch} << 32 | chunks, std::memory_order_release);
  epoch_.store(epoch, std::memory_order_release);
  epoch_.notify_all();
  work(0, epoch);
  for (;;) {
    const std::uint32_t left = unfinished_.load(std::memory_order_acquire);
    if (left == 0) return;
    wait_while(unfinished_, left);
  }
}

void ThreadPool::work(unsigned worker, std::uint32_t epoch) {
  std::uint64_t ticket = tickets_.load(std::memory_order_acquire);
  for (;;) {
    const auto left = static_cast<std::uint32_t>(ticket);
    if (ticket >> 32 != epoch || left == 0) return;
    if (!tickets_.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel)) continue;
    // The claim keeps the job in place; see job_.
    const std::uint64_t chunks = (job_.items - 1) / job_.grain + 1;
    const std::uint64_t begin = (chunks - left) * job_.grain;
    const std::uint64_t end = job_.items - begin > job_.grain ? begin + job_.grain : job_.items;
    job_.call(job_.context, begin, end, worker);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_all();
    ticket = tickets_.load(std::memory_order_acquire);
  }
}

void ThreadPool::worker_loop(unsigned worker) {
  std::uint32_t seen = 0;
  for (;;) {
    wait_while(epoch_, seen);
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    work(worker, seen);
  }
}

}  // namespace tidemill::kernels::cpu
