#include "offload/placement.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "io/base/checked.h"
#include "io/base/error.h"
#include "io/base/units.h"
#include "offload/piece_layout.h"

namespace tidemill::offload {
namespace {

// Larger pieces make no read faster, but leave less room for others beside them.
constexpr std::uint64_t kMaxPieceBytes = 64 * kMiB;
// Enough to keep several drives busy; what is beyond it serves better as residency.
constexpr std::uint64_t kMaxRingBytes = 256 * kMiB;
// A modern drive is busy with this much in flight.
constexpr std::uint64_t kFullSpeedBytes = 32 * kMiB;
constexpr std::uint64_t kPiecesPerRing = 6;
// One read costs about as much time as this many bytes more (50 us at 1.3 GB/s). Where pieces would
// be smaller than kCheapPieceBytes, a larger ring with fewer of them can be the better bargain.
constexpr std::uint64_t kReadCostBytes = 64 * kKiB;
constexpr std::uint64_t kCheapPieceBytes = kMiB;

// The two largest of a set of sizes, which the ring must hold: one in use, one on its way.
class TwoLargest {
 public:
  void add(std::uint64_t bytes) {
    if (bytes > first_) std::swap(bytes, first_);
    second_ = std::max(second_, bytes);
  }
  std::uint64_t sum() const { return first_ + second_; }

 private:
  std::uint64_t first_ = 0, second_ = 0;
};

std::uint64_t two_largest(const Tape& tape) {
  TwoLargest sizes;
  for (const Piece& piece : tape.pieces()) sizes.add(piece.memory_bytes);
  return sizes.sum();
}

// The ring of a tape that is cut between all rows.
std::uint64_t two_largest_rows(const TapeOrder& order) {
  const PieceLayout layout(order.uses());
  TwoLargest sizes;
  for (const Use& use : order.uses()) {
    if (use.tensor->row_bytes() == 0) continue;
    for (std::uint64_t row = 0; row < use.tensor->rows(); ++row) {
      sizes.add(layout.memory_bytes({use.tensor, row, row + 1}));
    }
  }
  return sizes.sum();
}

std::uint64_t memory_of(const Tape& tape) {
  std::uint64_t bytes = 0;
  for (const Piece& piece : tape.pieces()) bytes += piece.memory_bytes;
  return bytes;
}

// What the ring is worth: it takes residency away, so its bytes are read at each sweep on top of
// what has to be read anyway. A sixth more is a fair price for a drive that never pauses; a ring
// of kFullSpeedBytes is worth up to a 32nd of the budget.
std::uint64_t preferred_ring(std::uint64_t model_bytes, std::uint64_t budget) {
  const std::uint64_t must_read = model_bytes - budget;
  const std::uint64_t least = std::min(kFullSpeedBytes, budget / 32);
  const std::uint64_t most = std::min(kMaxRingBytes, budget / 2);
  return std::min(std::max(must_read / 6, least), most);
}

// Chooses residents of at most `room` bytes: first along a straight line over the tape, then
// whatever still fits, the largest first.
void choose_residents(Placement& placement, std::uint64_t room) {
  const std::vector<Piece>& pieces = placement.tape.pieces();
  const std::uint64_t total = memory_of(placement.tape);
  placement.resident.assign(pieces.size(), false);
  std::uint64_t passed = 0, chosen = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::uint64_t bytes = pieces[i].memory_bytes;
    passed += bytes;
    // chosen / passed may not exceed room / total; a long double holds such products closely
    // enough, and the room is checked exactly.
    const long double line = static_cast<long double>(room) * static_cast<long double>(passed) /
                             static_cast<long double>(total);
    if (static_cast<long double>(chosen + bytes) > line || bytes > room - chosen) continue;
    placement.resident[i] = true;
    chosen += bytes;
  }
  std::vector<std::size_t> rest;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (!placement.resident[i]) rest.push_back(i);
  }
  std::stable_sort(rest.begin(), rest.end(), [&](std::size_t a, std::size_t b) {
    return pieces[a].memory_bytes > pieces[b].memory_bytes;
  });
  for (const std::size_t i : rest) {
    if (pieces[i].memory_bytes > room - chosen) continue;
    placement.resident[i] = true;
    chosen += pieces[i].memory_bytes;
  }
  placement.resident_bytes = chosen;
}

// Nothing is streamed.
Placement all_resident(Tape tape) {
  Placement placement;
  placement.tape = std::move(tape);
  placement.resident.assign(placement.tape.pieces().size(), true);
  placement.resident_bytes = memory_of(placement.tape);
  return placement;
}

Placement count_sections(Placement placement) {
  const std::vector<Piece>& pieces = placement.tape.pieces();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    SectionBytes& section = pieces[i].section == Section::kBody ? placement.body : placement.head;
    (placement.resident[i] ? section.resident : section.streamed) += pieces[i].read_bytes;
  }
  return placement;
}

// What a sweep costs, in bytes.
std::uint64_t cost(const Placement& placement) {
  const auto streamed_pieces = static_cast<std::uint64_t>(
      std::count(placement.resident.begin(), placement.resident.end(), false));
  return placement.body.streamed + placement.head.streamed + streamed_pieces * kReadCostBytes;
}

// A ring of at least `ring` bytes, and the residents that fit beside it.
Placement choose(Tape tape, std::uint64_t ring, std::uint64_t alignment, std::uint64_t budget) {
  Placement placement;
  ring = align_down(std::max(ring, two_largest(tape)), alignment);
  placement.tape = std::move(tape);
  choose_residents(placement, budget - ring);
  const bool streams = std::count(placement.resident.begin(), placement.resident.end(), false) > 0;
  placement.ring_bytes = streams ? ring : 0;
  return count_sections(std::move(placement));
}

[[noreturn]] void does_not_fit(const char* what, std::uint64_t have, std::uint64_t need) {
  throw_error(ErrorKind::kBudget,
              "{} of {} is too small for this model's weights: the smallest that works is {} "
              "({} bytes)",
              what, format_bytes(have), format_bytes(need), need);
}

}  // namespace

std::uint64_t smallest_weight_budget(const TapeOrder& order) {
  return std::min(memory_of(Tape::cut(order, kMaxPieceBytes)), two_largest_rows(order));
}

Placement place(const TapeOrder& order, const PlacementOptions& options) {
  const std::uint64_t budget = options.budget_bytes;
  Tape tape = Tape::cut(order, options.max_piece_bytes ? options.max_piece_bytes : kMaxPieceBytes);
  const std::uint64_t all_bytes = memory_of(tape);
  if (all_bytes <= budget) return count_sections(all_resident(std::move(tape)));

  const std::uint64_t least_ring = two_largest_rows(order);
  if (least_ring > budget) {
    // A tiny model may fit as a whole where two pieces of it, each rounded up to pages, do not.
    tape = Tape::cut(order, kMaxPieceBytes);
    const std::uint64_t whole = memory_of(tape);
    if (whole <= budget) return count_sections(all_resident(std::move(tape)));
    does_not_fit("a budget", budget, std::min(whole, least_ring));
  }
  std::uint64_t ring_limit = budget;
  std::uint64_t ring = preferred_ring(all_bytes, budget);
  if (options.max_ring_bytes != 0) {
    ring_limit = std::min(ring_limit, options.max_ring_bytes);
    ring = std::min(ring, ring_limit);
    if (least_ring > ring_limit) does_not_fit("a ring", ring_limit, least_ring);
  }

  const std::uint64_t alignment = PieceLayout(order.uses()).alignment();
  std::uint64_t piece_bytes = options.max_piece_bytes;
  if (piece_bytes == 0) {
    piece_bytes = std::min(kMaxPieceBytes, std::max(ring / kPiecesPerRing, alignment));
  }
  Tape cut = Tape::cut(order, piece_bytes);
  while (two_largest(cut) > ring_limit) {
    TM_CHECK(piece_bytes > 0, "single rows need {} bytes, not {}", two_largest(cut), least_ring);
    piece_bytes /= 2;
    cut = Tape::cut(order, piece_bytes);
  }
  Placement best = choose(std::move(cut), ring, alignment, budget);
  if (options.max_piece_bytes != 0) return best;
  for (piece_bytes *= 2; piece_bytes <= kCheapPieceBytes; piece_bytes *= 2) {
    Tape larger = Tape::cut(order, std::max<std::uint64_t>(piece_bytes, alignment));
    if (two_largest(larger) > ring_limit) break;
    Placement candidate = choose(std::move(larger), ring, alignment, budget);
    if (cost(candidate) < cost(best)) best = std::move(candidate);
  }
  return best;
}

}  // namespace tidemill::offload
