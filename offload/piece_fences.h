// The fences around the memory of a piece, as types: Filling -> InFlight -> PieceView.
//
// Each is move-only and each transition consumes the one before:
//   Filling   the exclusive right to overwrite the memory; exists only after `released`
//   InFlight  a read is on its way; offers no way to the bytes
//   PieceView the bytes have arrived (`filled` was waited for); work submitted to a stream may
//             read them; the destructor records `released` on that stream
// Reads land where the device computes, so the third fence, "ready on this stream", coincides
// with `filled`: work is submitted after the wait for the read has returned.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "io/reader.h"
#include "kernels/device.h"
#include "offload/tape.h"

namespace tidemill::offload {

class Filling;
class InFlight;
class PieceView;

/// What to do while a read is not there: called again and again until it is. Empty: sleep.
using Idle = std::function<void()>;

/// Memory of one piece at a time and its bookkeeping. Only the three states touch the memory.
class PieceSlot {
 public:
  explicit PieceSlot(kernels::Device& device)
      : released_(device.create_event()), handed_over_(device.create_event()) {}
  PieceSlot(const PieceSlot&) = delete;
  PieceSlot& operator=(const PieceSlot&) = delete;

  /// True if neither a read nor submitted work needs the memory any more.
  bool idle() const;
  /// Blocks the host until idle(), for a slot that no state holds. Throws if a device failed, or a
  /// read neither arrives nor can be cancelled: the memory must then never be used again.
  void wait_idle(const Idle& idle);

  /// False until the slot is first claimed.
  bool claimed() const { return piece_ != nullptr; }
  /// True after a read of the piece has arrived and was waited for.
  bool filled() const { return filled_; }
  /// Of an idle slot: whether its read was discarded, yet arrived in full.
  bool arrived_for_nothing();

  const Piece& piece() const { return *piece_; }
  PieceId id() const { return id_; }
  const std::byte* memory() const { return memory_; }
  std::chrono::steady_clock::time_point submitted() const { return submitted_; }
  /// When the read was first seen to have arrived.
  std::chrono::steady_clock::time_point seen() const { return seen_; }

 private:
  friend class Filling;
  friend class InFlight;
  friend class PieceView;
  enum class State : std::uint8_t {
    kUnused,
    kFilling,
    kInFlight,
    kDiscarded,
    kViewed,
    kReleased,
    kLost
  };

  io::ReadOp read_;
  std::unique_ptr<kernels::Event> released_;
  std::unique_ptr<kernels::Event> handed_over_;
  State state_ = State::kUnused;
  bool filled_ = false;
  PieceId id_{};
  const Piece* piece_ = nullptr;
  std::byte* memory_ = nullptr;
  std::chrono::steady_clock::time_point submitted_, seen_;
};

/// Waits until nothing needs the memory of any of the slots. After the first that cannot be waited
/// for, the others are only looked at: a drive that is gone costs one deadline, not one per piece.
class SlotDrain {
 public:
  explicit SlotDrain(const Idle& idle) : idle_(idle) {}
  void wait(PieceSlot& slot) noexcept;
  /// Some slot's memory is still in use, and must be leaked.
  bool stuck() const { return stuck_; }

 private:
  const Idle& idle_;
  bool stuck_ = false;
};

/// What the three states share: a slot that exactly one of them holds.
class SlotHolder {
 public:
  SlotHolder(SlotHolder&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  SlotHolder& operator=(SlotHolder&&) = delete;
  const PieceSlot& slot() const { return *slot_; }

 protected:
  explicit SlotHolder(PieceSlot& slot) : slot_(&slot) {}
  ~SlotHolder() = default;
  PieceSlot* slot_;
};

class Filling : public SlotHolder {
 public:
  /// The slot is idle (checked). `memory` has piece.memory_bytes bytes and nobody else's work.
  static Filling claim(PieceSlot& slot, PieceId id, const Piece& piece, std::byte* memory);
  Filling(Filling&&) noexcept = default;
  ~Filling();

  /// Submits the reads of the whole piece.
  InFlight submit(io::Reader& reader) &&;

 private:
  using SlotHolder::SlotHolder;
};

class InFlight : public SlotHolder {
 public:
  InFlight(InFlight&&) noexcept = default;
  /// Discards: the memory becomes idle when the read has ended.
  ~InFlight();

  /// Notes the time (see PieceSlot::seen) if the read has arrived.
  void look();

  /// Waits until the whole piece has arrived; throws the read's error. Returns the time spent
  /// blocked in `blocked`.
  PieceView wait(const Idle& idle, std::chrono::nanoseconds& blocked) &&;

 private:
  friend class Filling;
  using SlotHolder::SlotHolder;
};

class PieceView : public SlotHolder {
 public:
  /// A further view of a piece that has stayed in memory since it was filled (checked).
  static PieceView reopen(PieceSlot& slot);
  PieceView(PieceView&& other) noexcept
      : SlotHolder(std::move(other)), stream_(std::exchange(other.stream_, nullptr)) {}
  /// Records `released` on the stream that used the view, if one did.
  ~PieceView();

  /// The slice's bytes, for work that is submitted to `stream` while the view lives. If the stream
  /// changes, it first waits for the work of the one before, so that one event covers both.
  const std::byte* rows(const Slice& slice, kernels::Stream& stream);

 private:
  friend class InFlight;
  using SlotHolder::SlotHolder;
  kernels::Stream* stream_ = nullptr;
};

}  // namespace tidemill::offload
