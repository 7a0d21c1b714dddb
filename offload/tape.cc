#include "offload/tape.h"

#include <algorithm>
#include <utility>

#include "io/base/checked.h"
#include "io/base/error.h"
#include "offload/piece_layout.h"

namespace tidemill::offload {
namespace {

// Kernels work on tiles of 16 output rows; a cut inside a tile would leave two partial ones.
constexpr std::uint64_t kTileRows = 16;

class Cutter {
 public:
  Cutter(const std::vector<Use>& uses, std::uint64_t max_bytes)
      : uses_(uses), layout_(uses), max_bytes_(max_bytes) {}

  std::vector<Piece> run() {
    for (std::size_t u = 0; u < uses_.size(); ++u) {
      const io::TensorInfo& tensor = *uses_[u].tensor;
      if (!open_.empty() && uses_[u].section != section_) close();
      section_ = uses_[u].section;
      if (tensor.row_bytes() == 0) continue;
      for (std::uint64_t row = 0; row < tensor.rows();) row = take_rows(UseId(u), tensor, row);
    }
    close();
    return std::move(pieces_);
  }

 private:
  // Appends rows from `begin` on to the open piece, or closes it to make room. Returns the first
  // row that is still to be placed.
  std::uint64_t take_rows(UseId use, const io::TensorInfo& tensor, std::uint64_t begin) {
    std::uint64_t end = rows_that_fit(tensor, begin);
    if (end < tensor.rows()) {
      const bool half_full = open_bytes_ >= max_bytes_ / 2;
      if (!open_.empty() && begin == 0 && half_full &&
          layout_.memory_bytes({&tensor, 0, tensor.rows()}) <= max_bytes_) {
        close();
        return begin;
      }
      const std::uint64_t tile_end = align_down(end, kTileRows);
      if (tile_end > begin) {
        end = tile_end;
      } else if (!open_.empty()) {
        close();
        return begin;
      }
      end = std::max(end, begin + 1);  // a row larger than the limit: a piece of its own
    }
    open_.push_back({use, begin, end, 0});
    open_bytes_ = layout_.memory_bytes(open_, {});
    if (open_bytes_ >= max_bytes_) close();
    return end;
  }

  // The largest `end` such that rows [begin, end) still fit into the open piece. The memory of a
  // piece grows with its rows (it is the size of a union of blocks), so bisection is exact.
  std::uint64_t rows_that_fit(const io::TensorInfo& tensor, std::uint64_t begin) {
    std::uint64_t low = begin, high = tensor.rows();
    if (fits_with(tensor, begin, high)) return high;
    while (high - low > 1) {
      const std::uint64_t middle = low + (high - low) / 2;
      (fits_with(tensor, begin, middle) ? low : high) = middle;
    }
    return low;
  }

  bool fits_with(const io::TensorInfo& tensor, std::uint64_t begin, std::uint64_t end) const {
    // Rows that do not even fit alone need no closer look at what else is in the piece.
    const RowsOfTensor rows{&tensor, begin, end};
    if (layout_.memory_bytes(rows) > max_bytes_) return false;
    return open_.empty() || layout_.memory_bytes(open_, rows) <= max_bytes_;
  }

  void close() {
    if (open_.empty()) return;
    pieces_.push_back(layout_.lay_out(section_, std::move(open_)));
    open_ = {};
    open_bytes_ = 0;
  }

  const std::vector<Use>& uses_;
  const PieceLayout layout_;
  const std::uint64_t max_bytes_;
  std::vector<Piece> pieces_;
  std::vector<Slice> open_;
  std::uint64_t open_bytes_ = 0;
  Section section_ = Section::kBody;
};

}  // namespace

UseId TapeOrder::add(const io::TensorInfo& tensor, Section section) {
  TM_CHECK(uses_.empty() || uses_.back().section <= section, "{}: body use after a head use",
           tensor.name);
  TM_CHECK(tensor.file != nullptr, "{}: no file", tensor.name);
  TM_CHECK(tensor.bytes.length == tensor.rows() * tensor.row_bytes() &&
               tensor.bytes.offset <= tensor.file->size() &&
               tensor.bytes.length <= tensor.file->size() - tensor.bytes.offset,
           "{}: {} bytes at {} of {}", tensor.name, tensor.bytes.length, tensor.bytes.offset,
           tensor.file->path());
  uses_.push_back({&tensor, section});
  return UseId(narrow<std::uint32_t>(uses_.size() - 1));
}

Tape Tape::cut(const TapeOrder& order, std::uint64_t max_piece_bytes) {
  Tape tape;
  tape.uses_ = order.uses();
  tape.pieces_ = Cutter(tape.uses_, max_piece_bytes).run();
  for (const Piece& piece : tape.pieces_) {
    tape.largest_ = std::max(tape.largest_, piece.memory_bytes);
  }
  return tape;
}

}  // namespace tidemill::offload
