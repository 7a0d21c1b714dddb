// Weights as a sweep sees them: the bytes of each use, in order, each behind its fences.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "io/reader.h"
#include "kernels/device.h"
#include "offload/placement.h"
#include "offload/tape.h"

namespace tidemill::offload {

class Trace;

/// Which sections a sweep visits.
struct SweepSections {
  bool head = true;
  friend bool operator==(const SweepSections&, const SweepSections&) = default;
};

struct WeightStreamOptions {
  /// Pieces that may be in flight or waiting ahead of the one in use; 0: no prefetch at all (each
  /// piece is read when it is needed), nothing: as many as the ring holds.
  std::optional<std::uint32_t> prefetch_pieces = std::nullopt;
  Trace* trace = nullptr;  ///< not owned, may be null
  /// If set, called again and again while a read is waited for, instead of sleeping: a simulation
  /// advances its world here.
  std::function<void()> idle;
};

/// Rows of a tensor, readable by work submitted to the stream given to for_each_slice and only
/// during the callback.
struct SliceView {
  const std::byte* data = nullptr;
  const io::TensorInfo* tensor = nullptr;
  std::uint64_t row_begin = 0;
  std::uint64_t row_end = 0;
};

/// Counters since construction.
struct WeightStreamStats {
  std::uint64_t sweeps = 0;
  std::uint64_t bytes_read = 0;  ///< completed reads of pieces, first fill of residents too
  std::uint64_t bytes_read_resident = 0;   ///< of those: into residents (once per run)
  std::uint64_t bytes_from_residency = 0;  ///< read_bytes of pieces found resident
  std::uint64_t pieces_discarded = 0;      ///< prefetched for a sweep that did not come
  std::uint64_t waits = 0;                 ///< pieces whose read compute had to wait for
  std::chrono::nanoseconds wait_time{0};   ///< how long compute stood still for reads
};

/// Prefetches exactly, across pieces, layers and sweeps, from the first sweep on. All memory is
/// allocated by the constructor. Used by one thread.
///
/// The first error of a read or a stream stays: every later sweep reports it again.
class WeightStream {
 public:
  /// Keeps references to `placement`, `reader` and `device`, which must outlive it. Registers the
  /// ring with `reader`, which must not have been used before, nor be used once this is destroyed.
  WeightStream(const Placement& placement, io::Reader& reader, kernels::Device& device,
               const WeightStreamOptions& options);
  /// Waits for reads in flight and for submitted work that uses the weights.
  ~WeightStream();
  WeightStream(const WeightStream&) = delete;
  WeightStream& operator=(const WeightStream&) = delete;

  /// Starts a sweep over `now`. If `next` is given, the pieces of the sweep after this one are
  /// prefetched as soon as there is room. A guess that turns out wrong costs reads, not results.
  void begin_sweep(SweepSections now, std::optional<SweepSections> next);

  /// Calls `work` for the slices of `use` in row order. Uses must come in the order of the tape
  /// (checked). Before each call the slice's piece has arrived (filled); work submitted to `stream`
  /// inside the call may read it; the memory is given back after the work submitted to `stream`
  /// has finished (released).
  void for_each_slice(UseId use, kernels::Stream& stream,
                      const std::function<void(const SliceView&)>& work);

  /// Ends the sweep: all its uses have been visited (checked).
  void end_sweep();

  /// Gives up a sweep in the middle (an error elsewhere); the next begin_sweep starts afresh.
  void abandon_sweep();

  /// The rows' bytes if their piece is resident and filled, else nullptr (see RowGather).
  const std::byte* resident_row(UseId use, std::uint64_t row) const;

  WeightStreamStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tidemill::offload
