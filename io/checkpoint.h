// A Hugging Face checkpoint directory as a catalogue of tensors that can be read by ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/base/byte_range.h"
#include "io/base/dtype.h"
#include "io/file.h"

namespace tidemill::io {

/// One tensor of a checkpoint; its bytes lie in `file` at `bytes`, row-major, little-endian.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  std::shared_ptr<const File> file;
  ByteRange bytes;

  /// First dimension; 1 for a scalar.
  std::uint64_t rows() const { return shape.empty() ? 1 : shape.front(); }
  /// Elements of one row: the product of the other dimensions.
  std::uint64_t row_elements() const;
  std::uint64_t row_bytes() const { return row_elements() * size_of(dtype); }
  /// Bytes in the file of rows [begin, end).
  ByteRange row_range(std::uint64_t begin, std::uint64_t end) const {
    return {bytes.offset + begin * row_bytes(), (end - begin) * row_bytes()};
  }
};

/// "[3, 4]"
std::string shape_to_string(std::span<const std::uint64_t> shape);

/// Immutable after open(). Only headers are read; nothing is mapped.
class Checkpoint {
 public:
  /// Reads `model.safetensors`, or `model.safetensors.index.json` and the shards that it names.
  /// A path to a single .safetensors file works too. Error(kModel) for anything that is not a
  /// well-formed checkpoint: see safetensors.h and index_file.h for the rules.
  static Checkpoint open(const std::filesystem::path& path, DirectIo direct = DirectIo::kAuto);

  const std::filesystem::path& path() const { return path_; }
  std::span<const TensorInfo> tensors() const { return tensors_; }
  std::span<const std::shared_ptr<const File>> files() const { return files_; }

  /// The tensor of exactly that name, or nullptr. Valid as long as the checkpoint.
  const TensorInfo* find(std::string_view name) const;

 private:
  std::filesystem::path path_;
  std::vector<std::shared_ptr<const File>> files_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string, std::size_t> by_name_;
};

}  // namespace tidemill::io
