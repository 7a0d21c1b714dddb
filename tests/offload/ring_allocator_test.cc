#include "offload/ring_allocator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "io/base/error.h"
#include "tests/offload/support/sim_world.h"

namespace tidemill::offload {
namespace {

TEST_CASE("regions follow one another and wrap round") {
  RingAllocator ring(100, 1);
  CHECK(ring.allocate(40) == 0);
  CHECK(ring.allocate(40) == 40);
  CHECK(!ring.allocate(40));  // 20 left at the end, nothing at the beginning
  ring.free_oldest();
  CHECK(ring.allocate(40) == 0);  // the 20 at the end stay unused
  CHECK(!ring.allocate(1));       // full: [0, 40) and [40, 80)
  ring.free_oldest();
  CHECK(ring.allocate(60) == 40);  // behind the newest, up to the end
  ring.free_oldest();
  CHECK(ring.allocate(30) == 0);
  CHECK(!ring.allocate(11));
  CHECK(ring.allocate(10) == 30);
}

TEST_CASE("sizes are rounded up to the alignment, the capacity down") {
  RingAllocator ring(4096 * 3 + 100, 4096);
  CHECK(ring.capacity() == 4096 * 3);
  CHECK(ring.allocate(1) == 0);
  CHECK(ring.allocate(4097) == 4096);
  CHECK(!ring.allocate(1));
}

TEST_CASE("an empty ring takes a region as large as itself, and nothing larger") {
  RingAllocator ring(64, 8);
  CHECK(ring.allocate(24) == 0);
  ring.free_oldest();
  CHECK(ring.allocate(64) == 0);
  ring.free_oldest();
  CHECK(ring.empty());
  CHECK(!ring.allocate(65));
  CHECK_THROWS_AS(ring.free_oldest(), Error);
  CHECK_THROWS_AS(ring.allocate(0), Error);
}

TEST_CASE("regions in use never overlap, and freeing the oldest always leads to room") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    test::SimWorld dice(seed);
    const std::uint64_t alignment = 1ull << dice.pick(0, 4);
    const std::uint64_t largest = dice.pick(1, 300);
    const std::uint64_t capacity =
        (largest + alignment) + dice.pick(0, 1000);  // at least one region of the largest size
    RingAllocator ring(capacity, alignment);
    std::deque<std::pair<std::uint64_t, std::uint64_t>> used;
    for (int i = 0; i < 300; ++i) {
      const std::uint64_t size = dice.pick(1, largest);
      std::optional<std::uint64_t> begin = ring.allocate(size);
      while (!begin) {
        REQUIRE(!used.empty());
        ring.free_oldest();
        used.pop_front();
        begin = ring.allocate(size);
      }
      REQUIRE(*begin % alignment == 0);
      REQUIRE(*begin + size <= capacity);
      for (const auto& [other, end] : used) REQUIRE((*begin + size <= other || end <= *begin));
      used.emplace_back(*begin, *begin + size);
      REQUIRE(ring.regions() == used.size());
      while (!used.empty() && dice.chance(0.3)) {
        ring.free_oldest();
        used.pop_front();
      }
    }
  }
}

}  // namespace
}  // namespace tidemill::offload
