#include "offload/weight_stream.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/units.h"
#include "offload/piece_fences.h"
#include "offload/piece_layout.h"
#include "offload/piece_memory.h"
#include "offload/trace.h"

namespace tidemill::offload {
namespace {

// Residents are read straight into their places, so no ring limits how many are on their way. More
// than a few large reads at once gain nothing.
constexpr std::uint64_t kMaxResidentBytesAhead = 256 * kMiB;

std::uint64_t tape_alignment(const Placement& placement) {
  return PieceLayout(placement.tape.uses()).alignment();
}

// The timeline's lines. Reads overlap, so they take turns on several.
class TraceLanes {
 public:
  explicit TraceLanes(Trace* trace) : trace_(trace) {
    if (trace_ == nullptr) return;
    waits_ = trace_->lane("waits for weights");
    for (std::size_t i = 0; i < 8; ++i)
      reads_.push_back(trace_->lane("reads " + std::to_string(i)));
  }

  explicit operator bool() const { return trace_ != nullptr; }

  // `blocked` is the time for which compute waited for the piece; it ends now.
  void arrived(const PieceSlot& slot, std::chrono::nanoseconds blocked) {
    if (trace_ == nullptr) return;
    const std::string name = "piece " + std::to_string(static_cast<std::uint32_t>(slot.id()));
    trace_->span(reads_[turn_++ % reads_.size()], "read", name, slot.submitted(), slot.seen());
    if (blocked.count() == 0) return;
    trace_->span(waits_, "wait", name, slot.seen() - blocked, slot.seen());
  }

 private:
  Trace* trace_;
  Trace::Lane waits_{};
  std::vector<Trace::Lane> reads_;
  std::size_t turn_ = 0;
};

}  // namespace

struct WeightStream::Impl {
  Impl(const Placement& placement_in, io::Reader& reader_in, kernels::Device& device,
       const WeightStreamOptions& options_in)
      : placement(placement_in),
        pieces(placement_in.tape.pieces()),
        reader(reader_in),
        options(options_in),
        ring(device, placement.ring_bytes, tape_alignment(placement), options.idle),
        residents(placement, device, tape_alignment(placement), options.idle),
        fills(pieces.size()),
        trace(options_in.trace) {
    TM_CHECK(placement.resident.size() == pieces.size(), "placement of another tape");
    const std::vector<Use>& uses = placement.tape.uses();
    body_uses = static_cast<std::size_t>(std::count_if(
        uses.begin(), uses.end(), [](const Use& use) { return use.section == Section::kBody; }));
    body_pieces = static_cast<std::size_t>(
        std::count_if(pieces.begin(), pieces.end(),
                      [](const Piece& piece) { return piece.section == Section::kBody; }));
    if (placement.ring_bytes > 0) reader.register_memory(ring.memory());
  }

  // A sweep visits the pieces [0, piece_limit) and the uses [0, use_limit).
  std::size_t piece_limit(SweepSections s) const { return s.head ? pieces.size() : body_pieces; }
  std::size_t use_limit(SweepSections s) const {
    return s.head ? placement.tape.uses().size() : body_uses;
  }
  bool resident(std::size_t piece) const { return placement.resident[piece]; }

  // Runs `action`, keeping its error as the answer to everything that follows.
  template <typename Action>
  auto poisoning(Action&& action) {
    if (failed) throw Error(*failed);
    try {
      return action();
    } catch (const Error& error) {
      failed = error;
      throw;
    }
  }

  // ---- prefetch ----

  // The next piece to fetch: in this sweep, then in the one after it.
  struct Cursor {
    bool in_next = false;
    std::size_t piece = 0;
  };

  std::optional<std::size_t> piece_to_fetch() {
    if (!cursor.in_next && cursor.piece >= piece_limit(now)) cursor = {true, 0};
    if (!cursor.in_next) return cursor.piece;
    if (!next || cursor.piece >= piece_limit(*next)) return std::nullopt;
    return cursor.piece;
  }

  // Submits reads ahead of use for as long as there is room for them.
  void pump() {
    const std::size_t most = options.prefetch_pieces
                                 ? static_cast<std::size_t>(*options.prefetch_pieces)
                                 : std::numeric_limits<std::size_t>::max();
    if (trace) {
      for (InFlight& read : ahead) read.look();
    }
    while (const std::optional<std::size_t> piece = piece_to_fetch()) {
      if (!to_be_fetched(*piece)) {
        ++cursor.piece;
        continue;
      }
      if (ahead.size() + fills_ahead >= most) return;
      if (resident(*piece)) {
        const std::uint64_t bytes = pieces[*piece].memory_bytes;
        if (fill_bytes_ahead > 0 && fill_bytes_ahead + bytes > kMaxResidentBytesAhead) return;
        start_fill(*piece);
      } else {
        std::optional<Filling> room = ring.try_claim(PieceId(*piece), pieces[*piece]);
        if (!room) return;
        ahead.push_back(std::move(*room).submit(reader));
      }
      ++cursor.piece;
    }
  }

  // Residents are fetched once; the cursor meets streamed pieces once per sweep.
  bool to_be_fetched(std::size_t piece) const {
    return !resident(piece) || !residents.slot(PieceId(piece)).claimed();
  }

  void start_fill(std::size_t piece) {
    fills[piece].emplace(residents.claim(PieceId(piece)).submit(reader));
    ++fills_ahead;
    fill_bytes_ahead += pieces[piece].memory_bytes;
  }

  // Keeps of the reads ahead those that the new sweep begins with; the others were a wrong guess,
  // or what an abandoned sweep left behind.
  void match_reads_ahead() {
    const std::size_t limit = piece_limit(now);
    const auto streamed_from = [&](std::size_t piece) {
      while (piece < limit && resident(piece)) ++piece;
      return piece;
    };
    const auto id = [](const InFlight& read) { return static_cast<std::size_t>(read.slot().id()); };
    std::size_t expected = streamed_from(0);
    while (!ahead.empty() && (expected == limit || id(ahead.front()) != expected)) {
      ahead.pop_front();
      ++stats.pieces_discarded;
    }
    cursor = {};
    std::size_t kept = 0;
    while (kept < ahead.size() && expected < limit && id(ahead[kept]) == expected) {
      ++kept;
      cursor.piece = expected + 1;
      expected = streamed_from(expected + 1);
    }
    while (ahead.size() > kept) {
      ahead.pop_back();
      ++stats.pieces_discarded;
    }
  }

  // ---- use ----

  // The piece with its bytes in place, after its `filled` fence.
  PieceView acquire(std::size_t piece) {
    if (resident(piece) && residents.slot(PieceId(piece)).filled()) {
      stats.bytes_from_residency += pieces[piece].read_bytes;
      return PieceView::reopen(residents.slot(PieceId(piece)));
    }
    if (resident(piece) && !fills[piece]) start_fill(piece);
    if (!resident(piece) && ahead.empty()) {
      ahead.push_back(ring.claim(PieceId(piece), pieces[piece]).submit(reader));
    }
    if (!cursor.in_next) cursor.piece = std::max(cursor.piece, piece + 1);

    InFlight read = take_read(piece);
    pump();  // before the wait, so that the reads behind this one are on their way meanwhile
    PieceView filled = arrive(std::move(read), piece);
    if (resident(piece)) stats.bytes_read_resident += pieces[piece].read_bytes;
    return filled;
  }

  InFlight take_read(std::size_t piece) {
    if (!resident(piece)) {
      InFlight read = std::move(ahead.front());
      ahead.pop_front();
      return read;
    }
    InFlight read = std::move(*fills[piece]);
    fills[piece].reset();
    --fills_ahead;
    fill_bytes_ahead -= pieces[piece].memory_bytes;
    return read;
  }

  PieceView arrive(InFlight read, std::size_t piece) {
    TM_CHECK(read.slot().id() == PieceId(piece), "piece {} fetched where {} is used",
             static_cast<std::uint32_t>(read.slot().id()), piece);
    std::chrono::nanoseconds blocked{0};
    PieceView filled = std::move(read).wait(options.idle, blocked);
    stats.bytes_read += pieces[piece].read_bytes;
    stats.wait_time += blocked;
    if (blocked.count() > 0) ++stats.waits;
    trace.arrived(filled.slot(), blocked);
    return filled;
  }

  void visit(UseId use, kernels::Stream& stream,
             const std::function<void(const SliceView&)>& work) {
    const io::TensorInfo* tensor = placement.tape.uses()[static_cast<std::size_t>(use)].tensor;
    while (piece < piece_limit(now) && pieces[piece].slices[slice].use == use) {
      if (!view) poisoning([&] { view.emplace(acquire(piece)); });
      const Slice& part = pieces[piece].slices[slice];
      const std::byte* data = poisoning([&] { return view->rows(part, stream); });
      work({data, tensor, part.row_begin, part.row_end});
      if (++slice < pieces[piece].slices.size()) continue;
      view.reset();  // released: before the next piece is asked for, which may need the room
      slice = 0;
      ++piece;
      poisoning([&] { pump(); });
    }
  }

  const Placement& placement;
  const std::vector<Piece>& pieces;
  io::Reader& reader;
  const WeightStreamOptions options;
  std::size_t body_uses = 0, body_pieces = 0;

  // Destroyed from the bottom up: views and reads give their slots back before the memory goes.
  PieceRing ring;
  ResidentPieces residents;
  std::deque<InFlight> ahead;                  ///< streamed pieces to come, in order of use
  std::vector<std::optional<InFlight>> fills;  ///< first fills of residents, by piece
  std::size_t fills_ahead = 0;
  std::uint64_t fill_bytes_ahead = 0;
  std::optional<PieceView> view;  ///< of `piece`, while its slices are visited

  bool sweeping = false;
  SweepSections now;
  std::optional<SweepSections> next;
  std::size_t use = 0;               ///< that comes next
  std::size_t piece = 0, slice = 0;  ///< that come next
  Cursor cursor;

  std::optional<Error> failed;
  WeightStreamStats stats;
  TraceLanes trace;
};

WeightStream::WeightStream(const Placement& placement, io::Reader& reader, kernels::Device& device,
                           const WeightStreamOptions& options)
    : impl_(std::make_unique<Impl>(placement, reader, device, options)) {}

WeightStream::~WeightStream() = default;

void WeightStream::begin_sweep(SweepSections now, std::optional<SweepSections> next) {
  Impl& s = *impl_;
  TM_CHECK(!s.sweeping, "a sweep begins inside another");
  s.poisoning([&] {
    s.now = now;
    s.next = next;
    s.use = s.piece = s.slice = 0;
    s.match_reads_ahead();
    s.pump();
    s.sweeping = true;
  });
}

void WeightStream::for_each_slice(UseId use, kernels::Stream& stream,
                                  const std::function<void(const SliceView&)>& work) {
  Impl& s = *impl_;
  TM_CHECK(s.sweeping, "weights are used outside a sweep");
  TM_CHECK(static_cast<std::size_t>(use) == s.use && s.use < s.use_limit(s.now),
           "use {} where {} of {} is next", static_cast<std::uint32_t>(use), s.use,
           s.use_limit(s.now));
  s.visit(use, stream, work);
  ++s.use;
}

void WeightStream::end_sweep() {
  Impl& s = *impl_;
  TM_CHECK(s.sweeping && s.use == s.use_limit(s.now), "a sweep ends after {} of {} uses", s.use,
           s.use_limit(s.now));
  s.sweeping = false;
  ++s.stats.sweeps;
}

void WeightStream::abandon_sweep() {
  impl_->view.reset();
  impl_->sweeping = false;
}

const std::byte* WeightStream::resident_row(UseId use, std::uint64_t row) const {
  const Impl& s = *impl_;
  // Pieces are in the order of (use, row): the last that begins at or before this row has it.
  const auto after = std::upper_bound(s.pieces.begin(), s.pieces.end(), std::pair(use, row),
                                      [](const auto& wanted, const Piece& p) {
                                        return wanted < std::pair(p.slices.front().use,
                                                                  p.slices.front().row_begin);
                                      });
  if (after == s.pieces.begin()) return nullptr;
  const auto index = static_cast<std::size_t>(after - s.pieces.begin()) - 1;
  if (!s.resident(index)) return nullptr;
  const PieceSlot& slot = s.residents.slot(PieceId(index));
  if (!slot.filled()) return nullptr;
  for (const Slice& slice : s.pieces[index].slices) {
    if (slice.use != use || row < slice.row_begin || row >= slice.row_end) continue;
    const io::TensorInfo& tensor = *s.placement.tape.uses()[static_cast<std::size_t>(use)].tensor;
    return slot.memory() + slice.offset + (row - slice.row_begin) * tensor.row_bytes();
  }
  return nullptr;
}

WeightStreamStats WeightStream::stats() const {
  WeightStreamStats stats = impl_->stats;
  stats.bytes_read += impl_->ring.bytes_read_for_nothing();
  return stats;
}

}  // namespace tidemill::offload
