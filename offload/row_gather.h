// Embedding lookup: single rows of a matrix, read by id, without holding the matrix.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "io/checkpoint.h"
#include "io/reader.h"
#include "kernels/device.h"
#include "kernels/ops.h"
#include "offload/weight_stream.h"

namespace tidemill::offload {

struct RowGatherOptions {
  std::uint64_t staging_bytes = 0;  ///< room for rows that are read; at least smallest_staging()
  bool resident = false;            ///< keep the whole matrix in memory (loaded at first use)
  /// The matrix is also on the tape (tied output head): rows of resident pieces are taken from it.
  WeightStream* tape = nullptr;
  std::optional<UseId> tape_use = std::nullopt;
};

struct RowGatherStats {
  std::uint64_t rows = 0;
  std::uint64_t rows_read = 0;   ///< rows that came from the file
  std::uint64_t bytes_read = 0;  ///< including alignment
};

/// Used by one thread. The result does not depend on where rows come from.
class RowGather {
 public:
  RowGather(const io::TensorInfo& tensor, io::Reader& reader, kernels::Device& device,
            const RowGatherOptions& options);
  ~RowGather();
  RowGather(const RowGather&) = delete;
  RowGather& operator=(const RowGather&) = delete;

  /// dst[i, :] = float(matrix[rows[i], :]). Each distinct row is read at most once per call. Row
  /// numbers are below tensor.rows() (checked).
  void gather(std::span<const std::uint64_t> rows, kernels::Stream& stream, kernels::Rows dst);

  RowGatherStats stats() const;

  /// Memory for one row at a time.
  static std::uint64_t smallest_staging(const io::TensorInfo& tensor);
  /// Memory that `resident` needs.
  static std::uint64_t resident_bytes(const io::TensorInfo& tensor);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tidemill::offload
