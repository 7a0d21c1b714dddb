#include "offload/piece_layout.h"

#include <algorithm>
#include <utility>

#include "io/base/checked.h"
#include "io/base/error.h"

namespace tidemill::offload {

PieceLayout::PieceLayout(const std::vector<Use>& uses) : uses_(uses) {
  for (const Use& use : uses) alignment_ = std::max(alignment_, use.tensor->file->alignment());
}

// Aligned ranges of all slices: files in the order of their first use, offsets ascending, ranges
// that touch or overlap merged.
std::vector<Extent> PieceLayout::merged_extents(const std::vector<Slice>& slices,
                                                const RowsOfTensor& more) const {
  struct Wanted {
    const std::shared_ptr<const io::File>* file;
    std::size_t file_order;
    ByteRange range;
  };
  std::vector<Wanted> wanted;
  wanted.reserve(slices.size() + 1);
  const auto add = [&](const io::TensorInfo& tensor, std::uint64_t begin, std::uint64_t end) {
    std::size_t file_order = wanted.size();
    for (const Wanted& earlier : wanted) {
      if (earlier.file->get() == tensor.file.get()) {
        file_order = earlier.file_order;
        break;
      }
    }
    wanted.push_back(
        {&tensor.file, file_order,
         io::align_extent(tensor.row_range(begin, end), tensor.file->alignment()).aligned});
  };
  for (const Slice& slice : slices) {
    add(*uses_[static_cast<std::size_t>(slice.use)].tensor, slice.row_begin, slice.row_end);
  }
  if (more.tensor != nullptr) add(*more.tensor, more.begin, more.end);

  std::sort(wanted.begin(), wanted.end(), [](const Wanted& a, const Wanted& b) {
    return std::pair(a.file_order, a.range.offset) < std::pair(b.file_order, b.range.offset);
  });
  std::vector<Extent> extents;
  std::size_t last_file = 0;
  for (const Wanted& next : wanted) {
    if (!extents.empty() && next.file_order == last_file &&
        next.range.offset <= extents.back().range.end()) {
      ByteRange& range = extents.back().range;
      range.length = std::max(range.end(), next.range.end()) - range.offset;
    } else {
      extents.push_back({*next.file, next.range, 0});
      last_file = next.file_order;
    }
  }
  return extents;
}

// Places the extents one behind the other; returns the memory that they occupy together.
std::uint64_t PieceLayout::place_extents(std::vector<Extent>& extents) const {
  std::uint64_t end = 0;
  for (Extent& extent : extents) {
    extent.offset = align_up(end, extent.file->alignment());
    end = extent.offset + extent.range.length;
  }
  return align_up(end, alignment_);
}

std::uint64_t PieceLayout::memory_bytes(const RowsOfTensor& rows) const {
  const io::TensorInfo& tensor = *rows.tensor;
  return align_up(io::align_extent(tensor.row_range(rows.begin, rows.end), tensor.file->alignment())
                      .aligned.length,
                  alignment_);
}

std::uint64_t PieceLayout::memory_bytes(const std::vector<Slice>& slices,
                                        const RowsOfTensor& more) const {
  std::vector<Extent> extents = merged_extents(slices, more);
  return place_extents(extents);
}

Piece PieceLayout::lay_out(Section section, std::vector<Slice> slices) const {
  Piece piece;
  piece.section = section;
  piece.slices = std::move(slices);
  piece.extents = merged_extents(piece.slices, {});
  piece.memory_bytes = place_extents(piece.extents);
  for (const Extent& extent : piece.extents) {
    piece.read_bytes += std::min(extent.range.length, extent.file->size() - extent.range.offset);
  }
  for (Slice& slice : piece.slices) {
    const io::TensorInfo& tensor = *uses_[static_cast<std::size_t>(slice.use)].tensor;
    const ByteRange rows = tensor.row_range(slice.row_begin, slice.row_end);
    const auto home =
        std::find_if(piece.extents.begin(), piece.extents.end(), [&](const Extent& extent) {
          return extent.file.get() == tensor.file.get() && extent.range.offset <= rows.offset &&
                 rows.end() <= extent.range.end();
        });
    TM_CHECK(home != piece.extents.end(), "{}: rows without an extent", tensor.name);
    slice.offset = home->offset + (rows.offset - home->range.offset);
  }
  return piece;
}

}  // namespace tidemill::offload
