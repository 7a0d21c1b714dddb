// The two kinds of memory that pieces live in: the ring and the residents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/device.h"
#include "offload/piece_fences.h"
#include "offload/placement.h"
#include "offload/ring_allocator.h"

namespace tidemill::offload {

/// Device memory that begins at a multiple of `alignment`.
class Arena {
 public:
  Arena(kernels::Device& device, std::uint64_t bytes, std::uint64_t alignment);
  std::span<std::byte> bytes() const { return bytes_; }
  /// Gives the memory up: somebody may still write to it or read it.
  void leak();

 private:
  kernels::Buffer buffer_;
  std::span<std::byte> bytes_;
};

/// Streamed pieces, in the order in which they were claimed.
class PieceRing {
 public:
  /// Keeps references to `device` and `idle`.
  PieceRing(kernels::Device& device, std::uint64_t bytes, std::uint64_t alignment,
            const Idle& idle);
  /// Waits for reads and work that use the memory. No state holds a slot any more.
  ~PieceRing();
  PieceRing(const PieceRing&) = delete;
  PieceRing& operator=(const PieceRing&) = delete;

  std::span<std::byte> memory() const { return arena_.bytes(); }

  /// Room for the piece, or nothing if there is none at this moment.
  std::optional<Filling> try_claim(PieceId id, const Piece& piece);

  /// Room for the piece, waiting for the oldest ones to become idle where needed. No state holds a
  /// slot of this ring, so at the latest an empty ring has room: this cannot get stuck.
  Filling claim(PieceId id, const Piece& piece);

  /// Bytes of discarded reads that arrived, as far as their memory has been taken back.
  std::uint64_t bytes_read_for_nothing() const { return bytes_for_nothing_; }

 private:
  void free_oldest();

  kernels::Device& device_;
  const Idle& idle_;
  Arena arena_;
  RingAllocator allocator_;
  std::deque<std::unique_ptr<PieceSlot>> slots_;   ///< as the allocator's regions, oldest first
  std::vector<std::unique_ptr<PieceSlot>> spare_;  ///< to be used again
  std::uint64_t bytes_for_nothing_ = 0;
};

/// Pieces that stay for the whole run, each in its own place.
class ResidentPieces {
 public:
  /// Keeps references to `placement` and `idle`.
  ResidentPieces(const Placement& placement, kernels::Device& device, std::uint64_t alignment,
                 const Idle& idle);
  /// As ~PieceRing().
  ~ResidentPieces();
  ResidentPieces(const ResidentPieces&) = delete;
  ResidentPieces& operator=(const ResidentPieces&) = delete;

  bool contains(PieceId id) const { return at(id).slot != nullptr; }
  PieceSlot& slot(PieceId id) { return *at(id).slot; }
  const PieceSlot& slot(PieceId id) const { return *at(id).slot; }

  /// For the first fill.
  Filling claim(PieceId id);

 private:
  struct Place {
    std::unique_ptr<PieceSlot> slot;  ///< null: the piece is streamed
    std::uint64_t offset = 0;
  };
  const Place& at(PieceId id) const { return places_[static_cast<std::size_t>(id)]; }

  const Placement& placement_;
  const Idle& idle_;
  Arena arena_;
  std::vector<Place> places_;
};

}  // namespace tidemill::offload
