// The rows of an embedding, wherever they come from.
#include "offload/row_gather.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "io/base/error.h"
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

// Reads are answered at once by a reader that does not wait for the world to move: RowGather waits
// for each batch, so what matters is what was read, and when the staging memory is used again.
class PromptReader : public io::Reader {
 public:
  std::string_view name() const override { return "prompt"; }
  void register_memory(std::span<std::byte>) override {}
  void submit(io::ReadOp& op) override {
    ++operations;
    all_urgent = all_urgent && op.urgent;
    io::OpCompletion::start(op, std::chrono::seconds(10));
    for (const io::ReadSegment& segment : op.segments) {
      test::file_content(*segment.file, {segment.range.offset, segment.required},
                         segment.destination);
      bytes += segment.required;
    }
    std::optional<Error> error;
    if (operations == fail_at) {
      error.emplace(ErrorKind::kIo, "no such luck",
                    ErrorContext{op.segments[0].file->path(), op.segments[0].range.offset, EIO});
    }
    io::OpCompletion::finish(op, std::move(error));
  }
  io::ReaderStats stats() const override { return {}; }

  std::uint64_t operations = 0, bytes = 0, fail_at = 0;
  bool all_urgent = true;
};

struct Bench {
  Bench(std::uint64_t rows, std::uint64_t columns, DType dtype = DType::kF32,
        std::uint64_t seed = 1)
      : world(seed), device(world), stream(world) {
    model.begin_file(700);
    model.tensor({rows, columns}, dtype);
    model.end_file();
  }

  const io::TensorInfo& tensor() const { return model.tensors[0]; }

  // Gathers and compares with the file.
  void check(RowGather& gather, const std::vector<std::uint64_t>& rows) {
    const std::uint64_t columns = tensor().row_elements(), stride = columns + 3;
    std::vector<float> out(rows.size() * stride, -1.0f);
    gather.gather(rows, stream, {out.data(), stride});
    stream.synchronize();
    std::vector<std::byte> expected(tensor().row_bytes());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      test::file_content(*tensor().file, tensor().row_range(rows[i], rows[i] + 1), expected.data());
      REQUIRE(std::memcmp(&out[i * stride], expected.data(), expected.size()) == 0);
      REQUIRE(out[i * stride + columns] == -1.0f);
    }
  }

  SimModel model;
  SimWorld world;
  PromptReader reader;
  SimDevice device;
  SimStream stream;
};

TEST_CASE("each distinct row is read once, in one urgent operation if all fit") {
  Bench bench(1000, 64);
  RowGather gather(bench.tensor(), bench.reader, bench.device, {.staging_bytes = 1 << 16});
  bench.check(gather, {5, 900, 5, 5, 17, 900, 0, 999});
  CHECK(bench.reader.operations == 1);
  CHECK(bench.reader.all_urgent);
  const RowGatherStats stats = gather.stats();
  CHECK(stats.rows == 8);
  CHECK(stats.rows_read == 5);
  CHECK(stats.bytes_read == bench.reader.bytes);
  bench.check(gather, {});
  bench.check(gather, {7});
  CHECK(bench.reader.operations == 2);
}

TEST_CASE("rows smaller than a block and larger than several, with room for one or for many") {
  for (const std::uint64_t columns :
       std::initializer_list<std::uint64_t>{1, 3, 64, 1000, 1024, 3001}) {
    Bench bench(300, columns, DType::kF32, columns);
    const std::uint64_t smallest = RowGather::smallest_staging(bench.tensor());
    for (const std::uint64_t staging : {smallest, 3 * smallest, 40 * smallest}) {
      CAPTURE(columns);
      CAPTURE(staging);
      RowGather gather(bench.tensor(), bench.reader, bench.device, {.staging_bytes = staging});
      std::vector<std::uint64_t> rows;
      std::uint64_t distinct = 0;
      std::vector<bool> seen(300);
      for (int i = 0; i < 60; ++i) {
        rows.push_back(bench.world.pick(0, 299));
        distinct += !seen[rows.back()];
        seen[rows.back()] = true;
      }
      bench.check(gather, rows);
      CHECK(gather.stats().rows_read == distinct);
      bench.check(gather, rows);
    }
    CHECK_THROWS_AS(
        RowGather(bench.tensor(), bench.reader, bench.device, {.staging_bytes = smallest - 1}),
        Error);
  }
}

TEST_CASE("staging is not used again before the stream has consumed it") {
  // Work runs late; with room for one row, each row waits for the one before.
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Bench bench(50, 200, DType::kF32, seed);
    RowGather gather(bench.tensor(), bench.reader, bench.device,
                     {.staging_bytes = RowGather::smallest_staging(bench.tensor())});
    bench.check(gather, {1, 7, 3, 49, 7, 0, 1});
  }
}

TEST_CASE("without that wait, the rows are wrong") {
  std::uint64_t wrong = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SimModel model;
    model.begin_file();
    model.tensor({50, 200});
    model.end_file();
    SimWorld world(seed, {.release_not_awaited = true});
    PromptReader reader;
    SimDevice device(world);
    SimStream stream(world);
    std::vector<float> out(4 * 200);
    RowGather gather(model.tensors[0], reader, device,
                     {.staging_bytes = RowGather::smallest_staging(model.tensors[0])});
    const std::vector<std::uint64_t> rows{1, 20, 30, 49};
    gather.gather(rows, stream, {out.data(), 200});
    stream.synchronize();
    std::vector<std::byte> expected(800);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      test::file_content(*model.tensors[0].file, model.tensors[0].row_range(rows[i], rows[i] + 1),
                         expected.data());
      wrong += std::memcmp(&out[i * 200], expected.data(), 800) != 0;
    }
  }
  CHECK(wrong > 0);
}

TEST_CASE("a resident matrix is read once, as a whole") {
  Bench bench(300, 70);
  RowGather gather(bench.tensor(), bench.reader, bench.device, {.resident = true});
  CHECK(bench.device.allocated_bytes() == RowGather::resident_bytes(bench.tensor()));
  bench.check(gather, {5, 299, 5, 0});
  bench.check(gather, {1, 2, 3});
  CHECK(bench.reader.operations == 1);
  CHECK(gather.stats().bytes_read == bench.reader.bytes);
}

TEST_CASE("rows that the tape holds are taken from there") {
  Bench bench(1000, 64);
  const UseId use = bench.model.use(bench.tensor(), Section::kHead);
  const Placement placement =
      place(bench.model.order, {.budget_bytes = 150'000, .max_piece_bytes = 20'000});
  PromptReader reader;
  WeightStream weights(placement, reader, bench.device, {});
  RowGather gather(bench.tensor(), bench.reader, bench.device,
                   {.staging_bytes = 1 << 16, .tape = &weights, .tape_use = use});
  std::vector<std::uint64_t> rows;
  for (std::uint64_t row = 0; row < 1000; row += 3) rows.push_back(row);
  bench.check(gather, rows);
  CHECK(gather.stats().rows_read == rows.size());  // nothing is filled yet

  weights.begin_sweep({.head = true}, std::nullopt);
  weights.for_each_slice(use, bench.stream, [](const SliceView&) {});
  weights.end_sweep();
  bench.check(gather, rows);
  const std::uint64_t from_file = gather.stats().rows_read - rows.size();
  CHECK(from_file > 0);
  CHECK(from_file < rows.size());
}

TEST_CASE("a failed read is an error, and the next call tries again") {
  Bench bench(100, 64);
  RowGather gather(bench.tensor(), bench.reader, bench.device, {.staging_bytes = 1 << 16});
  bench.reader.fail_at = 1;
  std::vector<float> out(64);
  const std::vector<std::uint64_t> rows{3};
  CHECK_THROWS_AS(gather.gather(rows, bench.stream, {out.data(), 64}), Error);
  bench.check(gather, {3});
}

TEST_CASE("a row that does not exist is a bug of the caller") {
  Bench bench(100, 64);
  RowGather gather(bench.tensor(), bench.reader, bench.device, {.staging_bytes = 1 << 16});
  std::vector<float> out(64);
  const std::vector<std::uint64_t> rows{100};
  CHECK_THROWS_AS(gather.gather(rows, bench.stream, {out.data(), 64}), Error);
}

}  // namespace
}  // namespace tidemill::offload
