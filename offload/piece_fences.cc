#include "offload/piece_fences.h"

#include <algorithm>

#include "io/base/error.h"

namespace tidemill::offload {

namespace {

// Returns at once the second time: an operation keeps its outcome.
void wait_for(io::ReadOp& read, const Idle& idle) {
  if (idle) {
    while (!read.done()) idle();
  }
  read.wait();
}

}  // namespace

bool PieceSlot::idle() const {
  switch (state_) {
    case State::kUnused:
      return true;
    case State::kDiscarded:
      return read_.done();
    case State::kReleased:
      return released_->complete();
    case State::kFilling:
    case State::kInFlight:
    case State::kViewed:
    case State::kLost:
      return false;
  }
  return false;
}

void PieceSlot::wait_idle(const Idle& idle) {
  TM_CHECK(state_ != State::kFilling && state_ != State::kInFlight && state_ != State::kViewed,
           "waiting for a slot that is in use");
  if (state_ == State::kDiscarded) {
    try {
      wait_for(read_, idle);
    } catch (const Error&) {
      // Nobody wants these bytes, so their error matters only if the read is still going on.
      if (!read_.done()) throw;
    }
  }
  if (state_ == State::kReleased) released_->wait_on_host();
  if (state_ == State::kLost) {
    throw_error(ErrorKind::kDevice, "a stream failed while it used weights");
  }
}

bool PieceSlot::arrived_for_nothing() {
  if (state_ != State::kDiscarded) return false;
  try {
    read_.wait();
    return true;
  } catch (const Error&) {
    return false;
  }
}

void SlotDrain::wait(PieceSlot& slot) noexcept {
  if (stuck_) return;
  try {
    slot.wait_idle(idle_);
  } catch (...) {
    stuck_ = !slot.idle();
  }
}

Filling Filling::claim(PieceSlot& slot, PieceId id, const Piece& piece, std::byte* memory) {
  TM_CHECK(slot.idle(), "piece {} claimed before it was released", static_cast<unsigned>(id));
  slot.state_ = PieceSlot::State::kFilling;
  slot.filled_ = false;
  slot.id_ = id;
  slot.piece_ = &piece;
  slot.memory_ = memory;
  return Filling(slot);
}

Filling::~Filling() {
  if (slot_ != nullptr) slot_->state_ = PieceSlot::State::kUnused;
}

InFlight Filling::submit(io::Reader& reader) && {
  const Piece& piece = *slot_->piece_;
  io::ReadOp& read = slot_->read_;
  read.segments.clear();  // keeps its room: a sweep in the steady state allocates nothing here
  for (const Extent& extent : piece.extents) {
    const std::uint64_t in_file = extent.file->size() - extent.range.offset;
    read.segments.push_back({.file = extent.file,
                             .range = extent.range,
                             .required = std::min(extent.range.length, in_file),
                             .destination = slot_->memory_ + extent.offset});
  }
  slot_->submitted_ = std::chrono::steady_clock::now();
  slot_->seen_ = {};
  reader.submit(read);
  slot_->state_ = PieceSlot::State::kInFlight;
  return InFlight(*std::exchange(slot_, nullptr));
}

InFlight::~InFlight() {
  if (slot_ != nullptr) slot_->state_ = PieceSlot::State::kDiscarded;
}

void InFlight::look() {
  using TimePoint = std::chrono::steady_clock::time_point;
  if (slot_->seen_ == TimePoint{} && slot_->read_.done()) {
    slot_->seen_ = std::chrono::steady_clock::now();
  }
}

PieceView InFlight::wait(const Idle& idle, std::chrono::nanoseconds& blocked) && {
  const auto begin = std::chrono::steady_clock::now();
  const bool was_done = slot_->read_.done();
  wait_for(slot_->read_, idle);  // if it throws, the destructor discards
  blocked = was_done ? std::chrono::nanoseconds{0} : std::chrono::steady_clock::now() - begin;
  look();
  slot_->state_ = PieceSlot::State::kViewed;
  slot_->filled_ = true;
  return PieceView(*std::exchange(slot_, nullptr));
}

PieceView PieceView::reopen(PieceSlot& slot) {
  TM_CHECK(slot.filled_ && slot.state_ == PieceSlot::State::kReleased,
           "piece {} is not there to be viewed", static_cast<unsigned>(slot.id_));
  slot.state_ = PieceSlot::State::kViewed;
  return PieceView(slot);
}

PieceView::~PieceView() {
  if (slot_ == nullptr) return;
  slot_->state_ = PieceSlot::State::kReleased;
  if (stream_ == nullptr) return;
  try {
    stream_->record(*slot_->released_);
  } catch (...) {
    // Nobody can tell any more when the memory will be free: never.
    slot_->state_ = PieceSlot::State::kLost;
  }
}

const std::byte* PieceView::rows(const Slice& slice, kernels::Stream& stream) {
  if (stream_ == nullptr) {
    // Work of an earlier view, perhaps on another stream: `released` is about to be recorded anew
    // and must cover that work too.
    if (!slot_->released_->complete()) stream.wait(*slot_->released_);
  } else if (stream_ != &stream) {
    stream_->record(*slot_->handed_over_);
    stream.wait(*slot_->handed_over_);
  }
  stream_ = &stream;
  return slot_->memory_ + slice.offset;
}

}  // namespace tidemill::offload
