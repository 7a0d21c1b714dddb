#include "offload/tape.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "io/base/error.h"
#include "tests/offload/support/sim_model.h"
#include "tests/offload/support/sim_world.h"

namespace tidemill::offload {
namespace {

using test::SimModel;

// Every row of every use, once, in order; bodies and heads apart.
void check_rows(const Tape& tape) {
  std::size_t use = 0;
  std::uint64_t row = 0;
  const auto skip_finished = [&] {
    while (use < tape.uses().size()) {
      const io::TensorInfo& tensor = *tape.uses()[use].tensor;
      if (tensor.row_bytes() > 0 && row < tensor.rows()) return;
      ++use;
      row = 0;
    }
  };
  for (const Piece& piece : tape.pieces()) {
    REQUIRE(!piece.slices.empty());
    for (const Slice& slice : piece.slices) {
      skip_finished();
      REQUIRE(slice.use == UseId(use));
      REQUIRE(slice.row_begin == row);
      REQUIRE(slice.row_end > row);
      REQUIRE(piece.section == tape.uses()[use].section);
      row = slice.row_end;
    }
  }
  skip_finished();
  REQUIRE(use == tape.uses().size());
}

// Extents are aligned, lie apart in memory, and hold each slice where it says.
void check_memory(const Tape& tape, std::uint64_t max_bytes) {
  for (const Piece& piece : tape.pieces()) {
    std::uint64_t end = 0, read = 0;
    for (std::size_t i = 0; i < piece.extents.size(); ++i) {
      const Extent& extent = piece.extents[i];
      const std::uint64_t alignment = extent.file->alignment();
      REQUIRE(extent.range.offset % alignment == 0);
      REQUIRE(extent.range.length % alignment == 0);
      REQUIRE(extent.range.length > 0);
      REQUIRE(extent.offset % alignment == 0);
      REQUIRE(extent.offset >= end);
      REQUIRE(extent.range.offset < extent.file->size());
      REQUIRE(extent.range.end() < extent.file->size() + alignment);
      end = extent.offset + extent.range.length;
      read += std::min(extent.range.length, extent.file->size() - extent.range.offset);
      for (std::size_t j = 0; j < i; ++j) {  // neighbours were merged
        const Extent& other = piece.extents[j];
        if (other.file != extent.file) continue;
        REQUIRE(
            (other.range.end() < extent.range.offset || extent.range.end() < other.range.offset));
      }
    }
    REQUIRE(end <= piece.memory_bytes);
    REQUIRE(piece.memory_bytes < end + 4096);
    REQUIRE(piece.read_bytes == read);
    for (const Slice& slice : piece.slices) {
      const io::TensorInfo& tensor = *tape.uses()[static_cast<std::size_t>(slice.use)].tensor;
      const ByteRange rows = tensor.row_range(slice.row_begin, slice.row_end);
      const bool found =
          std::any_of(piece.extents.begin(), piece.extents.end(), [&](const Extent& extent) {
            return extent.file == tensor.file && extent.range.offset <= rows.offset &&
                   rows.end() <= extent.range.end() &&
                   slice.offset == extent.offset + (rows.offset - extent.range.offset);
          });
      REQUIRE(found);
    }
    const bool single_row =
        piece.slices.size() == 1 && piece.slices[0].row_end == piece.slices[0].row_begin + 1;
    REQUIRE((piece.memory_bytes <= max_bytes || single_row));
    REQUIRE(piece.memory_bytes <= tape.largest_piece_bytes());
  }
}

TEST_CASE("any tape of any piece size has every row once, in order, where the slice says") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const auto model = SimModel::random(seed);
    test::SimWorld dice(seed);
    for (int i = 0; i < 12; ++i) {
      const std::uint64_t max_bytes = i == 0   ? 0
                                      : i == 1 ? UINT64_MAX
                                               : dice.pick(1, dice.chance(0.5) ? 20'000 : 300'000);
      CAPTURE(max_bytes);
      const Tape tape = Tape::cut(model->order, max_bytes);
      check_rows(tape);
      check_memory(tape, max_bytes);
    }
  }
}

TEST_CASE("a tape without a limit is one piece per section, read in one go where the file allows") {
  SimModel model;
  model.begin_file();
  const auto& a = model.tensor({10, 100});
  const auto& b = model.tensor({7});
  const auto& c = model.tensor({20, 100}, DType::kF32, 100'000);
  model.end_file();
  model.use(a);
  model.use(b);
  model.use(c);
  model.use(a, Section::kHead);
  const Tape tape = Tape::cut(model.order, UINT64_MAX);
  REQUIRE(tape.pieces().size() == 2);
  CHECK(tape.pieces()[0].slices.size() == 3);
  CHECK(tape.pieces()[0].extents.size() == 2);  // a and b are neighbours, c lies further on
  CHECK(tape.pieces()[1].section == Section::kHead);
}

TEST_CASE("cuts inside a matrix fall on tiles of 16 rows where 16 rows fit") {
  SimModel model;
  model.begin_file(600);
  model.tensor({1000, 64}, DType::kF16);  // 128 bytes a row
  model.end_file();
  model.use(model.tensors[0]);
  const Tape tape = Tape::cut(model.order, 16'384);
  REQUIRE(tape.pieces().size() > 5);
  for (const Piece& piece : tape.pieces()) {
    CHECK(piece.slices[0].row_begin % 16 == 0);
    CHECK(piece.memory_bytes > 8192);  // and the room is used
  }
}

TEST_CASE("a tensor stays whole if it fits into a piece of its own") {
  SimModel model;
  model.begin_file();
  model.tensor({60, 256});  // 60 KiB
  model.tensor({60, 256});
  model.end_file();
  model.use(model.tensors[0]);
  model.use(model.tensors[1]);
  const Tape tape = Tape::cut(model.order, 100 * 1024);
  REQUIRE(tape.pieces().size() == 2);
  CHECK(tape.pieces()[1].slices[0].row_end == 60);
}

TEST_CASE("a row larger than the limit is a piece of its own") {
  SimModel model;
  model.begin_file();
  model.tensor({3, 5000});
  model.tensor({4, 2});
  model.end_file();
  model.use(model.tensors[0]);
  model.use(model.tensors[1]);
  const Tape tape = Tape::cut(model.order, 4096);
  REQUIRE(tape.pieces().size() == 4);
  CHECK(tape.largest_piece_bytes() >= 20'000);
  CHECK(tape.pieces()[3].slices[0].row_end == 4);
}

TEST_CASE("tensors without elements take part without taking room") {
  SimModel model;
  model.begin_file();
  model.tensor({0, 8});
  model.tensor({5, 0});
  model.end_file(10);
  model.use(model.tensors[0]);
  model.use(model.tensors[1]);
  const Tape tape = Tape::cut(model.order, 4096);
  CHECK(tape.uses().size() == 2);
  CHECK(tape.pieces().empty());
}

TEST_CASE("an order that makes no sense is a bug") {
  SimModel model;
  model.begin_file();
  model.tensor({4, 4});
  model.end_file();
  model.use(model.tensors[0], Section::kHead);
  CHECK_THROWS_AS(model.use(model.tensors[0], Section::kBody), Error);

  io::TensorInfo beyond = model.tensors[0];
  beyond.bytes.offset = 1;
  CHECK_THROWS_AS(model.use(beyond, Section::kHead), Error);
  io::TensorInfo odd = model.tensors[0];
  odd.bytes.length = 63;
  CHECK_THROWS_AS(model.use(odd, Section::kHead), Error);
}

}  // namespace
}  // namespace tidemill::offload
