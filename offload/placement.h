// Where each piece lives: pinned for the whole run, or streamed through the ring at each sweep.
#pragma once

#include <cstdint>
#include <vector>

#include "offload/tape.h"

namespace tidemill::offload {

struct PlacementOptions {
  std::uint64_t budget_bytes = 0;     ///< for weights: ring and residents together
  std::uint64_t max_piece_bytes = 0;  ///< 0: chosen from the budget; smaller where that must be
  std::uint64_t max_ring_bytes = 0;   ///< 0: chosen from the budget
};

/// Bytes that one sweep over a section reads and finds resident.
struct SectionBytes {
  std::uint64_t streamed = 0;
  std::uint64_t resident = 0;
};

/// A tape cut to the budget, with the residents chosen. ring_bytes + resident_bytes never exceed
/// the budget. Residents are spread evenly over the tape, so that the drive can work while they
/// are computed with.
struct Placement {
  Tape tape;
  std::vector<bool> resident;        ///< by PieceId
  std::uint64_t ring_bytes = 0;      ///< 0 if everything is resident
  std::uint64_t resident_bytes = 0;  ///< memory of all residents
  SectionBytes body, head;
};

/// Error(kBudget) naming the smallest budget that works if the two largest pieces after splitting
/// do not fit (nor max_ring_bytes, if given).
Placement place(const TapeOrder& order, const PlacementOptions& options);

/// The smallest budget with which place() succeeds.
std::uint64_t smallest_weight_budget(const TapeOrder& order);

}  // namespace tidemill::offload
