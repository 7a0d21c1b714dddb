// Reads that fail or never come.
//
// Fault model: the n-th read of a run fails with EIO, for every n until a run meets no fault; or
// from some read on nothing arrives any more.
#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <string>

#include "io/base/error.h"
#include "offload/weight_stream.h"
#include "tests/offload/support/sim_device.h"
#include "tests/offload/support/sim_model.h"
#include "tests/offload/support/sim_reader.h"
#include "tests/offload/support/sim_world.h"

namespace tidemill::offload {
namespace {

using test::SimDevice;
using test::SimModel;
using test::SimReader;
using test::SimStream;
using test::SimWorld;

constexpr SweepSections kWithHead{.head = true};

Placement placed(const SimModel& model, std::uint64_t percent) {
  const std::uint64_t all = place(model.order, {.budget_bytes = 1ull << 40}).resident_bytes;
  return place(model.order, {.budget_bytes = all * percent / 100});
}

void sweep(WeightStream& weights, const SimModel& model, SimStream& stream) {
  weights.begin_sweep(kWithHead, kWithHead);
  for (std::size_t u = 0; u < model.order.uses().size(); ++u) {
    weights.for_each_slice(UseId(u), stream, [](const SliceView&) {});
  }
  weights.end_sweep();
}

// One run of three sweeps whose n-th read fails; false if it did not come to that.
bool run_with_fault(const SimModel& model, const Placement& placement, std::uint64_t n,
                    std::optional<std::uint32_t> prefetch) {
  SimWorld world(n);
  SimReader reader(world);
  SimDevice device(world);
  SimStream stream(world);
  reader.fail_operation(n);
  WeightStream weights(placement, reader, device,
                       {.prefetch_pieces = prefetch, .trace = nullptr, .idle = [&] {
                          TM_CHECK(world.step(), "compute waits for a read that never comes");
                        }});
  std::string first;
  try {
    for (int i = 0; i < 3; ++i) sweep(weights, model, stream);
    return false;
  } catch (const Error& error) {
    first = error.what();
    CHECK(error.kind() == ErrorKind::kIo);
    CHECK(error.path() == model.tensors[0].file->path());
    CHECK(error.offset().has_value());
    CHECK(error.error_number() == EIO);
  }
  weights.abandon_sweep();
  const std::uint64_t operations = reader.operations();
  // The first error is the answer from now on, and nothing more is read.
  for (int i = 0; i < 2; ++i) {
    try {
      sweep(weights, model, stream);
      FAIL("a stream that failed goes on");
    } catch (const Error& error) {
      CHECK(error.what() == first);
    }
    weights.abandon_sweep();
  }
  CHECK(reader.operations() == operations);
  return true;
}

TEST_CASE("whichever read fails: its error surfaces, stays, and the stream can be destroyed") {
  const auto model = SimModel::transformer(3, 64, 200);
  for (const std::uint64_t percent : std::initializer_list<std::uint64_t>{8, 60, 100}) {
    const Placement placement = placed(*model, percent);
    for (const std::optional<std::uint32_t> prefetch :
         {std::optional<std::uint32_t>{}, std::optional<std::uint32_t>{0}}) {
      std::uint64_t n = 1;
      while (run_with_fault(*model, placement, n, prefetch)) ++n;
      CAPTURE(percent);
      CHECK(n > (percent == 100 ? 1 : 10));
    }
  }
}

TEST_CASE("an error of a read that nobody wants any more is no error") {
  const auto model = SimModel::transformer(3, 64, 200);
  const Placement placement = placed(*model, 30);
  SimWorld world(1);
  SimReader reader(world);
  SimDevice device(world);
  SimStream stream(world);
  WeightStream weights(
      placement, reader, device,
      {.prefetch_pieces = {}, .trace = nullptr, .idle = [&] { TM_CHECK(world.step(), "stuck"); }});
  weights.begin_sweep(kWithHead, std::nullopt);
  reader.fail_operation(1);  // the next piece that is fetched ahead, once there is room for it
  const std::uint64_t operations = reader.operations();
  for (std::size_t u = 0; reader.operations() == operations; ++u) {
    weights.for_each_slice(UseId(u), stream, [](const SliceView&) {});
  }
  weights.abandon_sweep();
  sweep(weights, *model, stream);
  CHECK(weights.stats().sweeps == 1);
}

TEST_CASE("a read that never comes is an error after the deadline") {
  using Clock = std::chrono::steady_clock;
  const auto model = SimModel::transformer(3, 64, 200);
  const Placement placement = placed(*model, 8);
  SimWorld world(1);
  SimDevice device(world);
  SimReader reader(world);
  SimStream stream(world);
  // No simulated time here: the thread sleeps, as in earnest.
  auto weights = std::make_unique<WeightStream>(placement, reader, device, WeightStreamOptions{});
  reader.stall(std::chrono::seconds(1));
  const Clock::time_point begin = Clock::now();
  try {
    sweep(*weights, *model, stream);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kIo);
    CHECK(error.path() == model->tensors[0].file->path());
  }
  CHECK(Clock::now() - begin < std::chrono::seconds(30));
  weights->abandon_sweep();
  CHECK_THROWS_AS(weights->begin_sweep(kWithHead, std::nullopt), Error);

  SUBCASE("if the drive answers after all, everything is freed") {
    reader.resume();
    world.finish();
    weights.reset();
    CHECK(device.allocated_bytes() == 0);
  }
  SUBCASE("if it does not, the memory that it may still write to is leaked, without a hang") {
    weights.reset();
    CHECK(Clock::now() - begin < std::chrono::seconds(30));
    CHECK(device.allocated_bytes() == placement.ring_bytes);
    reader.resume();
    world.finish();  // it writes, to memory that is still there
  }
}

}  // namespace
}  // namespace tidemill::offload
