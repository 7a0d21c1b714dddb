#include "kernels/cpu/thread_pool.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace tidemill::kernels::cpu {
namespace {

TEST_CASE("every item is done once, by a worker that does one thing at a time") {
  for (const unsigned threads : {1u, 2u, 3u, 8u}) {
    ThreadPool pool(threads);
    CHECK(pool.threads() == threads);
    std::vector<int> busy(threads, 0);  // plain: a race here is what TSan looks for
    for (const std::uint64_t items : std::initializer_list<std::uint64_t>{0, 1, 2, 7, 100, 1000}) {
      for (const std::uint64_t grain : std::initializer_list<std::uint64_t>{1, 3, 64, 5000}) {
        std::vector<int> done(items, 0);
        pool.parallel_for(items, grain,
                          [&](std::uint64_t begin, std::uint64_t end, unsigned worker) {
                            ++busy[worker];
                            for (std::uint64_t i = begin; i < end; ++i) ++done[i];
                          });
        REQUIRE(std::all_of(done.begin(), done.end(), [](int n) { return n == 1; }));
      }
    }
  }
}

TEST_CASE("jobs that follow each other closely, or after a pause, all finish") {
  ThreadPool pool(4);
  std::uint64_t total = 0;
  for (int i = 0; i < 5000; ++i) {
    std::vector<std::uint64_t> sums(4, 0);
    pool.parallel_for(
        8, 1, [&](std::uint64_t begin, std::uint64_t, unsigned worker) { sums[worker] += begin; });
    for (const std::uint64_t sum : sums) total += sum;
    if (i % 1000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  CHECK(total == 5000 * 28);
}

TEST_CASE("a pool that never had work stops") { const ThreadPool pool(5); }

}  // namespace
}  // namespace tidemill::kernels::cpu
