// A fixed set of threads that share the chunks of one job at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace tidemill::kernels::cpu {

/// The caller takes part as worker 0. Workers claim chunks as they come free, so that a worker that
/// the operating system keeps waiting (I/O threads share the cores) holds nobody up; which worker
/// computes which chunk must not matter to the result.
class ThreadPool {
 public:
  /// Error(kDevice) if a thread cannot be started.
  explicit ThreadPool(unsigned threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  unsigned threads() const { return static_cast<unsigned>(workers_.size()) + 1; }

  /// Calls body(begin, end, worker) for disjoint ranges that cover [0, items), each but the last
  /// of `grain` items, and returns when all have returned. worker < threads(), and no two calls run
  /// with the same worker at a time. One caller at a time. The body must not throw.
  template <typename Body>
  void parallel_for(std::uint64_t items, std::uint64_t grain, const Body& body) {
    if (items == 0) return;
    if (workers_.empty() || items <= grain) {
      body(std::uint64_t{0}, items, 0u);
      return;
    }
    run(Job{
        .call = [](const void* context, std::uint64_t begin, std::uint64_t end,
                   unsigned worker) { (*static_cast<const Body*>(context))(begin, end, worker); },
        .context = &body,
        .items = items,
        .grain = grain});
  }

 private:
  struct Job {
    void (*call)(const void* context, std::uint64_t begin, std::uint64_t end,
                 unsigned worker) = nullptr;
    const void* context = nullptr;
    std::uint64_t items = 0;
    std::uint64_t grain = 1;
  };

  void run(const Job& job);
  void work(unsigned worker, std::uint32_t epoch);
  void worker_loop(unsigned worker);
  void stop_and_join();

  // Written by run() before it publishes tickets_, read by a worker only after it has claimed a
  // chunk: until that chunk is done run() does not return, so the job cannot change meanwhile.
  Job job_;
  // Upper half: number of the job. Lower half: chunks not yet claimed. One word, so that a worker
  // that wakes up late can never claim a chunk of another job than the one it looked at.
  std::atomic<std::uint64_t> tickets_{0};
  std::atomic<std::uint32_t> unfinished_{0};
  std::atomic<std::uint32_t> epoch_{0};  // what idle workers wait on
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace tidemill::kernels::cpu
