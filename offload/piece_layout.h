// How the rows of a piece lie in memory: which aligned ranges are read, and where they go.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/tape.h"

namespace tidemill::offload {

/// Pieces begin on page boundaries: a 1 MiB read into memory that straddles pages needs one page
/// more than a single block request can carry, and is split in two by the kernel.
inline constexpr std::uint64_t kPieceAlignment = 4096;

/// Rows of a tensor that might join a piece.
struct RowsOfTensor {
  const io::TensorInfo* tensor = nullptr;  ///< null: none
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class PieceLayout {
 public:
  /// Keeps a reference to `uses`.
  explicit PieceLayout(const std::vector<Use>& uses);

  /// The memory of every piece is a multiple of this and begins at one: kPieceAlignment, or more
  /// if a file of the tape asks for more.
  std::uint64_t alignment() const { return alignment_; }

  /// Memory of a piece that holds `rows` alone.
  std::uint64_t memory_bytes(const RowsOfTensor& rows) const;

  /// Memory of a piece of these slices and of `more`. The slices' offsets are ignored. Adding rows
  /// never makes it smaller.
  std::uint64_t memory_bytes(const std::vector<Slice>& slices, const RowsOfTensor& more) const;

  /// Computes the extents and the slices' offsets. `slices` is not empty, in the order of use.
  Piece lay_out(Section section, std::vector<Slice> slices) const;

 private:
  std::vector<Extent> merged_extents(const std::vector<Slice>& slices,
                                     const RowsOfTensor& more) const;
  std::uint64_t place_extents(std::vector<Extent>& extents) const;

  const std::vector<Use>& uses_;
  std::uint64_t alignment_ = kPieceAlignment;
};

}  // namespace tidemill::offload
