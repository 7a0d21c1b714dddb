// A file as an input stream whose errors are Error(kIo) with path and errno.
#pragma once

#include <cstdint>
#include <filesystem>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

namespace tidemill::engine {

/// Reads through a buffer of 64 KiB. Nothing is mapped: a failing disk is an error, not a signal.
class FileStreamBuffer final : public std::streambuf {
 public:
  /// Error(kIo) if the file cannot be opened; Error(kModel) if it has more than `max_bytes`.
  FileStreamBuffer(const std::filesystem::path& path, std::uint64_t max_bytes);
  FileStreamBuffer(const FileStreamBuffer&) = delete;
  FileStreamBuffer& operator=(const FileStreamBuffer&) = delete;
  ~FileStreamBuffer() override;

 protected:
  int_type underflow() override;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t position_ = 0;
  std::vector<char> buffer_;
};

/// Bytes in memory as an input stream, without a copy.
class MemoryStreamBuffer final : public std::streambuf {
 public:
  explicit MemoryStreamBuffer(std::string_view bytes) {
    // std::streambuf has no read-only interface; nothing writes through it.
    char* begin = const_cast<char*>(bytes.data());
    setg(begin, begin, begin + bytes.size());
  }
};

}  // namespace tidemill::engine
