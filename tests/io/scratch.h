// Files with known contents, and memory to read them into.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/checked.h"
#include "io/base/error.h"
#include "io/file.h"
#include "io/reader.h"

namespace tidemill::io {

/// A folder on a real file system that goes away with the object.
class ScratchDir {
 public:
  ScratchDir() {
    std::string name = (std::filesystem::temp_directory_path() / "tidemill_io_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw_error(ErrorKind::kIo, "mkdtemp {}", name);
    path_ = name;
  }
  ~ScratchDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Bytes that differ at every position, so that a shift by any amount shows.
inline std::vector<std::byte> pattern(std::size_t size, std::uint64_t seed = 0) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    std::uint64_t x = i / 8 + (seed << 40) + 1;
    x *= 0x9E3779B97F4A7C15ULL;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9ULL;
    bytes[i] = static_cast<std::byte>(x >> (8 * (i % 8)));
  }
  return bytes;
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw_error(ErrorKind::kIo, "cannot write {}", path.string());
}

inline void write_file(const std::filesystem::path& path, std::string_view text) {
  write_file(path, as_bytes(text));
}

inline std::vector<std::byte> read_file(const std::filesystem::path& path) {
  const auto file = File::open(path, DirectIo::kOff);
  return file->read({0, file->size()});
}

inline std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

/// Memory for direct reads, filled with 0xFF.
class AlignedMemory {
 public:
  explicit AlignedMemory(std::size_t size, std::size_t alignment = 4096)
      : size_(align_up(size, alignment)),
        data_(static_cast<std::byte*>(std::aligned_alloc(alignment, std::max(size_, alignment)))) {
    std::memset(data_.get(), 0xFF, size_);
  }
  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte[], Free> data_;
};

/// An operation that reads one range of a file, and the memory that it reads into.
struct RangeRead {
  RangeRead(const std::shared_ptr<const File>& file, ByteRange wanted)
      : range(wanted),
        extent(align_extent(wanted, file->alignment())),
        memory(extent.aligned.length, std::max<std::uint64_t>(file->alignment(), 4096)) {
    const std::uint64_t left = file->size() - extent.aligned.offset;
    op.segments.push_back({.file = file,
                           .range = extent.aligned,
                           .required = std::min(extent.aligned.length, left),
                           .destination = memory.data()});
  }
  /// The wanted bytes; after op.wait().
  std::span<const std::byte> bytes() const {
    return {memory.data() + extent.head, static_cast<std::size_t>(range.length)};
  }

  ByteRange range;
  AlignedExtent extent;
  AlignedMemory memory;
  ReadOp op;
};

inline bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

/// Writes as the kernel does: past AddressSanitizer, which reports everybody else who touches
/// memory that is being filled.
__attribute__((no_sanitize("address"))) inline void kernel_write(std::byte* destination,
                                                                 const std::byte* source,
                                                                 std::uint64_t bytes) {
  volatile std::byte* out = destination;  // or the loop becomes a call of memcpy
  for (std::uint64_t i = 0; i < bytes; ++i) out[i] = source[i];
}

/// The error that `work` throws; if it throws none, one of a kind that no test expects.
template <typename Work>
Error error_of(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind{}, "no error was thrown");
}

inline bool mentions(const Error& error, std::string_view text) {
  return std::string_view(error.what()).find(text) != std::string_view::npos;
}

}  // namespace tidemill::io
