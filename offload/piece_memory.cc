#include "offload/piece_memory.h"

#include <utility>

#include "io/base/checked.h"
#include "io/base/error.h"
#include "offload/deliberate_leak.h"
#include "offload/piece_layout.h"

namespace tidemill::offload {

Arena::Arena(kernels::Device& device, std::uint64_t bytes, std::uint64_t alignment) {
  if (bytes == 0) return;
  // Devices promise pages; a file system that asks for more costs up to one unit beyond the budget.
  const std::uint64_t slack = alignment > kPieceAlignment ? alignment : 0;
  buffer_ = device.allocate(narrow<std::size_t>(bytes + slack));
  const auto address = reinterpret_cast<std::uintptr_t>(buffer_.data());
  const std::uint64_t head = align_up(address, alignment) - address;
  TM_CHECK(head <= slack, "{}: memory is aligned to less than {}", device.name(), alignment);
  bytes_ = buffer_.bytes().subspan(head, bytes);
}

void Arena::leak() { leak_on_purpose(std::make_unique<kernels::Buffer>(std::move(buffer_))); }

PieceRing::PieceRing(kernels::Device& device, std::uint64_t bytes, std::uint64_t alignment,
                     const Idle& idle)
    : device_(device),
      idle_(idle),
      arena_(device, bytes, alignment),
      allocator_(bytes, alignment) {}

PieceRing::~PieceRing() {
  SlotDrain drain(idle_);
  for (auto& slot : slots_) drain.wait(*slot);
  if (!drain.stuck()) return;
  arena_.leak();
  for (auto& slot : slots_) {
    if (!slot->idle()) leak_on_purpose(std::move(slot));
  }
}

std::optional<Filling> PieceRing::try_claim(PieceId id, const Piece& piece) {
  while (!slots_.empty() && slots_.front()->idle()) free_oldest();
  const std::optional<std::uint64_t> offset = allocator_.allocate(piece.memory_bytes);
  if (!offset) return std::nullopt;
  if (spare_.empty()) spare_.push_back(std::make_unique<PieceSlot>(device_));
  slots_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  return Filling::claim(*slots_.back(), id, piece, arena_.bytes().data() + *offset);
}

Filling PieceRing::claim(PieceId id, const Piece& piece) {
  for (;;) {
    if (std::optional<Filling> filling = try_claim(id, piece)) return std::move(*filling);
    TM_CHECK(!slots_.empty(), "a piece of {} bytes in a ring of {}", piece.memory_bytes,
             allocator_.capacity());
    slots_.front()->wait_idle(idle_);
    free_oldest();
  }
}

void PieceRing::free_oldest() {
  PieceSlot& slot = *slots_.front();
  if (slot.arrived_for_nothing()) bytes_for_nothing_ += slot.piece().read_bytes;
  spare_.push_back(std::move(slots_.front()));
  slots_.pop_front();
  allocator_.free_oldest();
}

ResidentPieces::ResidentPieces(const Placement& placement, kernels::Device& device,
                               std::uint64_t alignment, const Idle& idle)
    : placement_(placement), idle_(idle), arena_(device, placement.resident_bytes, alignment) {
  const std::vector<Piece>& pieces = placement.tape.pieces();
  places_.resize(pieces.size());
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (!placement.resident[i]) continue;
    places_[i] = {std::make_unique<PieceSlot>(device), offset};
    offset += pieces[i].memory_bytes;
  }
  TM_CHECK(offset == placement.resident_bytes, "residents need {} bytes, not {}", offset,
           placement.resident_bytes);
}

ResidentPieces::~ResidentPieces() {
  SlotDrain drain(idle_);
  for (Place& place : places_) {
    if (place.slot) drain.wait(*place.slot);
  }
  if (!drain.stuck()) return;
  arena_.leak();
  for (Place& place : places_) {
    if (place.slot && !place.slot->idle()) leak_on_purpose(std::move(place.slot));
  }
}

Filling ResidentPieces::claim(PieceId id) {
  const auto index = static_cast<std::size_t>(id);
  return Filling::claim(slot(id), id, placement_.tape.pieces()[index],
                        arena_.bytes().data() + places_[index].offset);
}

}  // namespace tidemill::offload
