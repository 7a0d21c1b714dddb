// What a sweep promises beside the right bytes: exact counters, prefetch, constant memory, and a
// check for each way of using it wrongly.
#include "offload/weight_stream.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "offload/trace.h"
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
constexpr SweepSections kBodyOnly{.head = false};

// A small transformer, streamed through a simulated machine.
struct Machine {
  explicit Machine(std::uint64_t percent_resident,
                   std::optional<std::uint32_t> prefetch = std::nullopt, Trace* trace = nullptr)
      : model(SimModel::transformer(6, 64, 500)),
        world(percent_resident),
        reader(world),
        device(world),
        placement(place(model->order, {.budget_bytes = budget(percent_resident)})),
        stream(world),
        weights(placement, reader, device,
                {.prefetch_pieces = prefetch, .trace = trace, .idle = [this] {
                   TM_CHECK(world.step(), "compute waits for a read that never comes");
                 }}) {}

  std::uint64_t budget(std::uint64_t percent) const {
    return place(model->order, {.budget_bytes = 1ull << 40}).resident_bytes * percent / 100;
  }

  std::size_t uses(SweepSections sections) const {
    return model->order.uses().size() - (sections.head ? 0 : 1);
  }

  void visit(std::size_t use) {
    weights.for_each_slice(UseId(use), stream, [](const SliceView&) {});
  }

  void sweep(SweepSections now, std::optional<SweepSections> next) {
    weights.begin_sweep(now, next);
    for (std::size_t u = 0; u < uses(now); ++u) visit(u);
    weights.end_sweep();
    stream.synchronize();
  }

  std::unique_ptr<SimModel> model;
  SimWorld world;
  SimReader reader;
  SimDevice device;
  Placement placement;
  SimStream stream;
  WeightStream weights;
};

TEST_CASE("slices come in row order, without gaps, and know their tensor") {
  Machine machine(20);
  machine.weights.begin_sweep(kWithHead, std::nullopt);
  for (std::size_t u = 0; u < machine.uses(kWithHead); ++u) {
    const io::TensorInfo* tensor = machine.model->order.uses()[u].tensor;
    std::uint64_t row = 0;
    machine.weights.for_each_slice(UseId(u), machine.stream, [&](const SliceView& slice) {
      CHECK(slice.tensor == tensor);
      CHECK(slice.row_begin == row);
      std::vector<std::byte> expected((slice.row_end - slice.row_begin) * tensor->row_bytes());
      test::file_content(*tensor->file, tensor->row_range(slice.row_begin, slice.row_end),
                         expected.data());
      CHECK(std::memcmp(slice.data, expected.data(), expected.size()) == 0);
      row = slice.row_end;
    });
    CHECK(row == tensor->rows());
  }
  machine.weights.end_sweep();
}

TEST_CASE("the counters are those of the placement, to the byte") {
  for (const std::uint64_t percent :
       std::initializer_list<std::uint64_t>{5, 30, 80, 99, 100, 120}) {
    for (const std::optional<std::uint32_t> prefetch :
         {std::optional<std::uint32_t>{}, std::optional<std::uint32_t>{0},
          std::optional<std::uint32_t>{2}}) {
      CAPTURE(percent);
      Machine machine(percent, prefetch);
      const SectionBytes body = machine.placement.body, head = machine.placement.head;

      machine.sweep(kWithHead, kBodyOnly);
      machine.sweep(kBodyOnly, kWithHead);
      machine.sweep(kWithHead, std::nullopt);
      const WeightStreamStats stats = machine.weights.stats();
      CHECK(stats.sweeps == 3);
      CHECK(stats.bytes_read_resident == body.resident + head.resident);
      CHECK(stats.bytes_read == 3 * body.streamed + 2 * head.streamed + stats.bytes_read_resident);
      CHECK(stats.bytes_from_residency == 2 * body.resident + head.resident);
      CHECK(stats.pieces_discarded == 0);
      CHECK(machine.reader.stats().bytes == stats.bytes_read);
    }
  }
}

TEST_CASE("a section that is not visited is not read") {
  Machine machine(100);
  machine.sweep(kBodyOnly, kBodyOnly);
  machine.sweep(kBodyOnly, std::nullopt);
  CHECK(machine.weights.stats().bytes_read == machine.placement.body.resident);
}

TEST_CASE("prefetch goes as far as asked, and on into the next sweep") {
  Machine none(30, 0);
  none.sweep(kWithHead, kWithHead);
  CHECK(none.reader.most_in_flight() == 1);
  CHECK(none.weights.stats().waits > 0);  // though some reads are done as soon as submitted
  CHECK(none.weights.stats().waits <= none.reader.operations());

  Machine one(30, 1);
  one.sweep(kWithHead, kWithHead);
  CHECK(one.reader.most_in_flight() == 2);  // the one in use and one ahead

  Machine full(30);
  full.sweep(kWithHead, std::nullopt);
  const std::uint64_t alone = full.reader.operations();
  CHECK(full.reader.most_in_flight() > 2);
  full.sweep(kWithHead, kWithHead);
  std::uint64_t streamed = 0;
  for (const bool resident : full.placement.resident) streamed += !resident;
  CHECK(full.reader.operations() > alone + streamed);  // the third sweep's are on their way
  full.world.finish();
  const std::uint64_t waits = full.weights.stats().waits;
  full.weights.begin_sweep(kWithHead, std::nullopt);
  full.visit(0);
  CHECK(full.weights.stats().waits == waits);  // its first piece was there already
  full.weights.abandon_sweep();
}

TEST_CASE("a wrong guess costs reads, is counted, and changes nothing else") {
  Machine machine(100);
  // A ring that holds the whole model twice over, and no residents: the guess reaches the head.
  machine.placement = place(machine.model->order, {.budget_bytes = machine.budget(50)});
  Placement& placement = machine.placement;
  placement.resident.assign(placement.tape.pieces().size(), false);
  placement.resident_bytes = 0;
  placement.ring_bytes = 1 << 20;
  WeightStream weights(placement, machine.reader, machine.device,
                       {.prefetch_pieces = {}, .trace = nullptr, .idle = [&] {
                          TM_CHECK(machine.world.step(), "stuck");
                        }});
  std::uint64_t body_pieces = 0, head_pieces = 0;
  for (const Piece& piece : placement.tape.pieces()) {
    ++(piece.section == Section::kBody ? body_pieces : head_pieces);
  }
  const auto sweep = [&](SweepSections now, std::optional<SweepSections> next) {
    weights.begin_sweep(now, next);
    for (std::size_t u = 0; u < machine.uses(now); ++u) {
      weights.for_each_slice(UseId(u), machine.stream, [](const SliceView&) {});
    }
    weights.end_sweep();
  };
  sweep(kBodyOnly, kWithHead);
  machine.world.finish();
  CHECK(machine.reader.operations() == 2 * body_pieces + head_pieces);
  sweep(kBodyOnly, std::nullopt);  // no head after all
  CHECK(weights.stats().pieces_discarded == head_pieces);
  CHECK(machine.reader.operations() == 2 * body_pieces + head_pieces);  // the body was of use
}

TEST_CASE("an abandoned sweep leaves nothing behind that the next one minds") {
  Machine machine(30);
  for (std::size_t stop = 0; stop < machine.uses(kWithHead); stop += 5) {
    machine.weights.begin_sweep(kWithHead, kWithHead);
    for (std::size_t u = 0; u < stop; ++u) machine.visit(u);
    machine.weights.abandon_sweep();
  }
  machine.sweep(kWithHead, std::nullopt);
  CHECK(machine.weights.stats().sweeps == 1);
}

TEST_CASE("a callback that throws leaves a sweep that can be abandoned") {
  Machine machine(30);
  machine.weights.begin_sweep(kWithHead, std::nullopt);
  CHECK_THROWS_AS(machine.weights.for_each_slice(
                      UseId(0), machine.stream,
                      [](const SliceView&) { throw std::runtime_error("not our business"); }),
                  std::runtime_error);
  machine.weights.abandon_sweep();
  machine.sweep(kWithHead, std::nullopt);
}

TEST_CASE("use outside the order of the tape is a bug") {
  Machine machine(30);
  CHECK_THROWS_AS(machine.visit(0), Error);             // no sweep
  CHECK_THROWS_AS(machine.weights.end_sweep(), Error);  // none to end
  machine.weights.begin_sweep(kBodyOnly, std::nullopt);
  CHECK_THROWS_AS(machine.weights.begin_sweep(kBodyOnly, std::nullopt), Error);
  CHECK_THROWS_AS(machine.visit(1), Error);  // not the first
  machine.visit(0);
  CHECK_THROWS_AS(machine.visit(0), Error);             // twice
  CHECK_THROWS_AS(machine.weights.end_sweep(), Error);  // too early
  for (std::size_t u = 1; u < machine.uses(kBodyOnly); ++u) machine.visit(u);
  CHECK_THROWS_AS(machine.visit(machine.uses(kBodyOnly)), Error);  // the head, uninvited
  machine.weights.end_sweep();
}

TEST_CASE("resident rows can be had by number once they have been filled") {
  Machine machine(60);
  const std::size_t uses = machine.uses(kWithHead);
  const auto count = [&] {
    std::uint64_t rows = 0;
    for (std::size_t u = 0; u < uses; ++u) {
      const io::TensorInfo& tensor = *machine.model->order.uses()[u].tensor;
      std::vector<std::byte> expected(tensor.row_bytes());
      for (std::uint64_t row = 0; row < tensor.rows(); ++row) {
        const std::byte* data = machine.weights.resident_row(UseId(u), row);
        if (data == nullptr) continue;
        ++rows;
        test::file_content(*tensor.file, tensor.row_range(row, row + 1), expected.data());
        REQUIRE(std::memcmp(data, expected.data(), expected.size()) == 0);
      }
    }
    return rows;
  };
  CHECK(count() == 0);
  machine.sweep(kWithHead, std::nullopt);
  std::uint64_t resident = 0;
  for (std::size_t i = 0; i < machine.placement.resident.size(); ++i) {
    if (!machine.placement.resident[i]) continue;
    for (const Slice& slice : machine.placement.tape.pieces()[i].slices) {
      resident += slice.row_end - slice.row_begin;
    }
  }
  CHECK(resident > 0);
  CHECK(count() == resident);
}

TEST_CASE("memory is what the placement says, allocated once; only the ring is registered") {
  Machine machine(50);
  CHECK(machine.device.allocated_bytes() ==
        machine.placement.ring_bytes + machine.placement.resident_bytes);
  CHECK(machine.reader.registered_bytes() == machine.placement.ring_bytes);
  const auto descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  machine.sweep(kWithHead, kWithHead);
  const std::uint64_t allocations = machine.device.allocations();
  const auto open = descriptors();
  for (int i = 0; i < 1000; ++i) machine.sweep(kWithHead, kWithHead);
  CHECK(machine.device.allocations() == allocations);
  CHECK(descriptors() == open);
  CHECK(machine.weights.stats().sweeps == 1001);
}

TEST_CASE("the timeline shows each read, and the waits") {
  Trace trace;
  {
    Machine machine(30, 1, &trace);
    machine.sweep(kWithHead, std::nullopt);
    const auto path = std::filesystem::temp_directory_path() /
                      ("tidemill-stream-trace-" + std::to_string(getpid()) + ".json");
    trace.write(path);
    std::ifstream in(path);
    const nlohmann::json json = nlohmann::json::parse(in);
    std::filesystem::remove(path);
    std::uint64_t reads = 0, waits = 0;
    for (const auto& event : json["traceEvents"]) {
      if (event["ph"] != "X") continue;
      CHECK(event["dur"].get<double>() >= 0.0);
      reads += event["cat"] == "read";
      waits += event["cat"] == "wait";
    }
    CHECK(reads == machine.reader.operations());
    CHECK(waits == machine.weights.stats().waits);
  }
}

}  // namespace
}  // namespace tidemill::offload
