// The order of reads, work and reuse of memory, tried in thousands of seeded schedules.
//
// Each run streams a small model over random budgets, piece sizes and prefetch depths, with sweeps
// that are guessed right, wrong or not at all. Work on simulated streams takes fingerprints of the
// weights long after the host has moved on. All runs must find the bytes of the files, and with
// any single fence taken away, some run must not.
#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

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
using test::SimMutations;
using test::SimReader;
using test::SimStream;
using test::SimWorld;

constexpr std::uint64_t kModels = 25;
constexpr std::uint64_t kSeeds = 2500;

struct ModelUnderTest {
  std::unique_ptr<SimModel> model;
  std::vector<std::uint64_t> fingerprints;  ///< by use
  std::uint64_t all_bytes = 0;
};

const std::vector<ModelUnderTest>& models() {
  static const std::vector<ModelUnderTest> all = [] {
    std::vector<ModelUnderTest> models(kModels);
    for (std::uint64_t i = 0; i < kModels; ++i) {
      models[i].model = SimModel::random(i);
      const TapeOrder& order = models[i].model->order;
      for (const Use& use : order.uses()) {
        models[i].fingerprints.push_back(test::tensor_fingerprint(*use.tensor));
      }
      models[i].all_bytes = place(order, {.budget_bytes = 1ull << 40}).resident_bytes;
    }
    return models;
  }();
  return all;
}

PlacementOptions random_placement(SimWorld& world, const ModelUnderTest& subject) {
  PlacementOptions options;
  const std::uint64_t smallest = smallest_weight_budget(subject.model->order);
  options.budget_bytes = world.pick(smallest, smallest + subject.all_bytes);
  if (world.chance(0.5)) options.max_piece_bytes = world.pick(1, 40'000);
  return options;
}

// One sweep, sometimes given up in the middle: false. The sums appear when the streams have
// executed.
bool run_sweep(SimWorld& world, WeightStream& weights, const ModelUnderTest& subject,
               std::array<SimStream*, 2> streams, bool head, std::vector<std::uint64_t>& sums) {
  const std::vector<Use>& uses = subject.model->order.uses();
  const std::uint64_t abandoned_at =
      world.chance(0.2) ? world.pick(0, uses.size()) : uses.size() + 1;
  sums.assign(uses.size(), 0);
  for (std::size_t u = 0; u < uses.size(); ++u) {
    if (uses[u].section == Section::kHead && !head) {
      sums[u] = subject.fingerprints[u];
      continue;
    }
    if (u == abandoned_at) {
      weights.abandon_sweep();
      return false;
    }
    SimStream& stream = *streams[world.pick(0, 1)];
    weights.for_each_slice(UseId(u), stream, [&](const SliceView& slice) {
      stream.launch([slice, sum = &sums[u]] {
        const std::uint64_t bytes = slice.tensor->row_bytes();
        for (std::uint64_t row = slice.row_begin; row < slice.row_end; ++row) {
          *sum += test::row_fingerprint(row, slice.data + (row - slice.row_begin) * bytes, bytes);
        }
      });
    });
  }
  weights.end_sweep();
  return true;
}

enum class End { kAtOnce, kWhenStreamsAreDone };

// True if every sweep found the right bytes. The weights are destroyed while reads and work are
// still under way, or when only reads are.
bool run(std::uint64_t seed, const SimMutations& mutations, End end) {
  const ModelUnderTest& subject = models()[seed % kModels];
  SimWorld world(seed, mutations);
  SimReader reader(world);
  SimDevice device(world);
  const Placement placement = place(subject.model->order, random_placement(world, subject));
  WeightStreamOptions options;
  options.idle = [&] { TM_CHECK(world.step(), "compute waits for a read that never comes"); };
  if (world.chance(0.5)) options.prefetch_pieces = static_cast<std::uint32_t>(world.pick(0, 4));

  const auto stream_a = device.create_stream();
  const auto stream_b = world.chance(0.5) ? device.create_stream() : nullptr;
  auto* first = static_cast<SimStream*>(stream_a.get());
  auto* second = stream_b ? static_cast<SimStream*>(stream_b.get()) : first;

  const std::uint64_t sweeps = world.pick(1, 5);
  std::vector<std::vector<std::uint64_t>> sums(sweeps);
  std::vector<bool> finished(sweeps);
  {
    WeightStream weights(placement, reader, device, options);
    for (std::uint64_t i = 0; i < sweeps; ++i) {
      const bool head = world.chance(0.7);
      std::optional<SweepSections> next;
      if (world.chance(0.8)) next = SweepSections{.head = world.chance(0.7)};
      weights.begin_sweep({.head = head}, next);
      finished[i] = run_sweep(world, weights, subject, {first, second}, head, sums[i]);
    }
    if (end == End::kWhenStreamsAreDone) {
      first->synchronize();
      second->synchronize();
    }
  }
  first->synchronize();
  second->synchronize();
  for (std::uint64_t i = 0; i < sweeps; ++i) {
    if (finished[i] && sums[i] != subject.fingerprints) return false;
  }
  return true;
}

// How many of the first `seeds` seeds notice.
std::uint64_t seeds_that_fail(const SimMutations& mutations, std::uint64_t seeds,
                              End end = End::kWhenStreamsAreDone) {
  std::uint64_t failures = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    try {
      if (!run(seed, mutations, end)) ++failures;
    } catch (const Error&) {
      ++failures;
    }
  }
  MESSAGE(failures, " of ", seeds, " schedules notice");
  return failures;
}

TEST_CASE("every schedule finds the bytes of the files") {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    REQUIRE(run(seed, {}, seed % 3 == 0 ? End::kWhenStreamsAreDone : End::kAtOnce));
  }
}

// Each fence is load-bearing: if the first of these found nothing, the simulation would be blind.
TEST_CASE("without the wait for `filled`, compute sees bytes that have not arrived") {
  CHECK(seeds_that_fail({.filled_too_early = true}, 200) > 0);
}

TEST_CASE("without the record of `released`, reads overwrite what is still in use") {
  CHECK(seeds_that_fail({.release_not_recorded = true}, 200) > 0);
}

TEST_CASE("without the wait for `released`, reads overwrite what is still in use") {
  CHECK(seeds_that_fail({.release_not_awaited = true}, 200) > 0);
}

TEST_CASE("without `released`, memory is freed while it is still in use") {
  CHECK(seeds_that_fail({.release_not_recorded = true}, 200, End::kAtOnce) > 0);
  CHECK(seeds_that_fail({.release_not_awaited = true}, 200, End::kAtOnce) > 0);
}

TEST_CASE("without order between streams that share a piece, one is overwritten") {
  CHECK(seeds_that_fail({.streams_not_ordered = true}, 1000) > 0);
}

}  // namespace
}  // namespace tidemill::offload
