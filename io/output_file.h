// A file that appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tidemill::io {

/// Written front to back under a temporary name in the same folder; finish() syncs it and renames
/// it over `path` (what was there stays until then; a link is followed, a device or a pipe
/// refused). Destroyed without finish(), it leaves nothing. Keeps the page cache small behind
/// itself. All errors are Error(kIo) with path and errno.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Makes sure that the disk has room for a file of that size, where the file system can.
  void reserve(std::uint64_t bytes);

  /// Calls of any size; those of a few MiB are passed on without being copied.
  void append(std::span<const std::byte> bytes);

  void finish();

  /// Bytes appended so far.
  std::uint64_t size() const { return written_ + buffer_.size(); }

 private:
  void flush();
  void write_all(std::span<const std::byte> bytes);
  void write_back();
  [[noreturn]] void fail(const char* what, int error) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
  std::vector<std::byte> buffer_;
  std::uint64_t written_ = 0;
  std::uint64_t flushing_ = 0;  // the kernel was asked to write back up to here
  std::uint64_t flushed_ = 0;   // on the drive and out of the page cache up to here
};

}  // namespace tidemill::io
