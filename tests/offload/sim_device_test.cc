// The simulated device itself: what it must not do early.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/offload/support/sim_device.h"
#include "tests/offload/support/sim_world.h"

namespace tidemill::test {
namespace {

TEST_CASE("a simulated stream copies in its turn, what the host memory holds by then") {
  bool late = false;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SimWorld world(seed);
    SimDevice device(world);
    SimStream stream(world);
    const kernels::Buffer buffer = device.allocate(4);
    std::vector<std::byte> sent(4, std::byte{1}), received(4);
    stream.upload(sent.data(), buffer.data(), 4);
    const bool copied = buffer.data()[0] == std::byte{1};
    late = late || !copied;
    sent.assign(4, std::byte{2});
    stream.download(buffer.data(), received.data(), 3);
    stream.synchronize();
    const std::byte expected = copied ? std::byte{1} : std::byte{2};
    CHECK(received == std::vector<std::byte>{expected, expected, expected, std::byte{0}});
  }
  CHECK(late);
}

}  // namespace
}  // namespace tidemill::test
