// NumPy's .npy: arrays of floats or integers for other tools to look at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "io/base/dtype.h"
#include "io/output_file.h"

namespace tidemill::io {

/// Writes an array row by row; it appears under its name in finish().
class NpyWriter {
 public:
  /// `dtype` is kF32 ('<f4') or kI64 ('<i8').
  NpyWriter(const std::filesystem::path& path, DType dtype, std::span<const std::uint64_t> shape);

  /// The next elements in row-major order, any number of them, of the declared type (checked).
  void append(std::span<const float> values);
  void append(std::span<const std::int64_t> values);

  /// All declared elements have been appended (checked).
  void finish();

 private:
  void append_bytes(DType dtype, std::span<const std::byte> bytes);

  OutputFile file_;
  DType dtype_;
  std::uint64_t file_bytes_ = 0;
};

struct NpyArray {
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> data;  ///< row-major, little-endian

  std::span<const float> floats() const;       ///< dtype is kF32 (checked)
  std::span<const std::int64_t> ints() const;  ///< dtype is kI64 (checked)
};

/// Version 1.0, '<f4' or '<i8', C order, as NpyWriter and numpy.save write them; Error(kModel)
/// for anything else.
NpyArray read_npy(const std::filesystem::path& path);

}  // namespace tidemill::io
