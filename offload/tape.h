// The tape: the weights in the order in which a forward pass uses them, cut into pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/checkpoint.h"

namespace tidemill::offload {

/// Index of a use: "the sweep needs this tensor now". One tensor may be used more than once.
enum class UseId : std::uint32_t {};
enum class PieceId : std::uint32_t {};

/// A sweep runs over the body, and over the head only if logits are wanted (a prompt's earlier
/// chunks do not need the output matrix, and do not read it).
enum class Section : std::uint8_t { kBody, kHead };

/// One use in the order of the sweep, before it is cut.
struct Use {
  const io::TensorInfo* tensor = nullptr;  ///< owned by the checkpoint
  Section section = Section::kBody;
};

/// The order of use; independent of budgets. All body uses come before all head uses.
class TapeOrder {
 public:
  UseId add(const io::TensorInfo& tensor, Section section);
  const std::vector<Use>& uses() const { return uses_; }

 private:
  std::vector<Use> uses_;
};

/// Rows [row_begin, row_end) of a use, at `offset` in the piece's memory.
struct Slice {
  UseId use{};
  std::uint64_t row_begin = 0;
  std::uint64_t row_end = 0;
  std::uint64_t offset = 0;
};

/// A contiguous aligned read of a piece.
struct Extent {
  std::shared_ptr<const io::File> file;
  ByteRange range;           ///< aligned superset in the file
  std::uint64_t offset = 0;  ///< where it goes in the piece's memory (aligned as the file asks)
};

/// The unit that is streamed, pinned and fenced.
struct Piece {
  Section section = Section::kBody;
  std::vector<Slice> slices;       ///< in the order of use
  std::vector<Extent> extents;     ///< neighbours in the file are merged
  std::uint64_t memory_bytes = 0;  ///< room in the ring or the resident arena
  std::uint64_t read_bytes = 0;    ///< bytes that filling it reads (clipped at the end of a file)
};

/// Immutable. Pieces are in the order of use; a piece never mixes sections.
class Tape {
 public:
  /// Cuts the order into pieces of at most `max_piece_bytes` of memory, between rows. Whole tensors
  /// stay together where they fit. A single row larger than that makes a piece of its own.
  static Tape cut(const TapeOrder& order, std::uint64_t max_piece_bytes);

  const std::vector<Use>& uses() const { return uses_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  std::uint64_t largest_piece_bytes() const { return largest_; }

 private:
  std::vector<Use> uses_;
  std::vector<Piece> pieces_;
  std::uint64_t largest_ = 0;
};

}  // namespace tidemill::offload
