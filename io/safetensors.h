// The safetensors container: an 8-byte length, a JSON header, then the tensors' bytes.
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
#include "io/limits.h"

namespace tidemill::io {

class OutputFile;

/// One tensor as the header describes it.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  ByteRange bytes;  ///< in the file
};

/// A tensor of a type that Tidemill does not know. The file is fine; using the tensor is an error.
struct UnsupportedTensor {
  std::string name;
  std::string dtype;  ///< as it is written: "F8_E4M3"
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  ///< by their place in the file
  std::vector<UnsupportedTensor> unsupported;
  std::vector<std::pair<std::string, std::string>> metadata;  ///< never interpreted
};

/// Length of the JSON header, from the first bytes (at least 8, unless the file is shorter) of a
/// file of `file_bytes`. Error(kModel) if it cannot be right.
std::uint64_t safetensors_header_length(std::span<const std::byte> first, std::uint64_t file_bytes,
                                        std::string_view path);

/// `json` is the header of a file of `file_bytes`; offsets are checked against that. Error(kModel)
/// unless: the JSON is strict, without duplicate keys, and begins with '{'; sizes equal shape times
/// element size; the tensors' bytes cover the rest of the file without gap or overlap (tensors
/// without elements own no bytes and may lie anywhere). `path` is only for the messages.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t file_bytes,
                                           std::string_view path);

/// Both of the above for a whole file in memory.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, std::string_view path);

/// What a tensor to be written looks like.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;

  std::uint64_t bytes() const;  ///< Error(kModel) if that exceeds 64 bits
};

/// Writes a file of any size without holding it. The file appears under its name, complete and
/// synced, in finish(); without that, nothing is left behind.
///
/// Tensors are written in the order given. Files are most widely readable if types do not go from
/// narrow to wide, so that every tensor begins at a multiple of its element size.
class SafetensorsWriter {
 public:
  /// Reserves the disk space: Error(kIo) at once if there is too little.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorSpec> tensors,
                    const std::vector<std::pair<std::string, std::string>>& metadata = {});
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// The next bytes of the data: any number of them, across tensors or not. Large calls are fast.
  void append(std::span<const std::byte> bytes);

  /// All declared bytes have been appended (checked).
  void finish();

  std::uint64_t data_offset() const { return data_offset_; }
  std::uint64_t data_bytes() const { return data_bytes_; }

 private:
  std::unique_ptr<OutputFile> file_;
  std::uint64_t data_offset_ = 0;
  std::uint64_t data_bytes_ = 0;
};

}  // namespace tidemill::io
