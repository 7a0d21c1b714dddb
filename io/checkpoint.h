// A Hugging Face checkpoint directory as a catalogue of tensors that can be read by ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/base/byte_range.h"
#include "io/base/dtype.h"
#include "io/file.h"
#include "io/safetensors.h"

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

  /// As find(), but Error(kModel) that says whether the tensor is missing or its type unsupported.
  const TensorInfo& at(std::string_view name) const;

  /// Tensors of types that Tidemill does not know (F8_E4M3, ...): not among tensors().
  std::span<const UnsupportedTensor> unsupported() const { return unsupported_; }
  const UnsupportedTensor* find_unsupported(std::string_view name) const;

  /// The `__metadata__` of all files, in their order. Never interpreted.
  std::span<const std::pair<std::string, std::string>> metadata() const { return metadata_; }

 private:
  struct Counts {
    std::size_t known = 0;
    std::size_t unsupported = 0;
  };
  void add_shard(std::shared_ptr<const File> file);
  void open_index(const std::filesystem::path& index_path, DirectIo direct);

  std::filesystem::path path_;
  std::vector<std::shared_ptr<const File>> files_;
  std::vector<TensorInfo> tensors_;
  std::vector<UnsupportedTensor> unsupported_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  Counts shard_tensors_;              // of the shard that was added last
  std::vector<std::size_t> by_name_;  // indices into tensors_, sorted by name
};

}  // namespace tidemill::io
