// The state machine of one block read: what to ask of the system, and what its answers mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "io/base/error.h"
#include "io/file.h"

namespace tidemill::io {

/// One system-level read.
struct ReadRequest {
  int fd = -1;
  bool buffered = false;  ///< through the page cache
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::byte* destination = nullptr;
};

/// Reads [offset, offset + length) of a file, of which the first `required` bytes must arrive.
/// Knows nothing of threads or rings, so that every sequence of answers can be tried.
class ReadBlock {
 public:
  /// A read is continued after a short answer, and tried again after EINTR or EAGAIN, this often.
  static constexpr int kMaxResumes = 64;

  ReadBlock() = default;
  ReadBlock(std::shared_ptr<const File> file, std::uint64_t offset, std::uint64_t length,
            std::uint64_t required, std::byte* destination);

  /// The next read to make. Valid until the block is finished.
  ReadRequest next() const;

  enum class Step {
    kAgain,     ///< next() must be read as well
    kFinished,  ///< all required bytes have arrived, or error() says why not
  };
  /// Takes the answer to next(): a count of bytes, or -errno.
  Step on_result(std::int64_t result);

  const std::optional<Error>& error() const { return error_; }
  const std::shared_ptr<const File>& file() const { return file_; }
  std::uint64_t offset() const { return offset_; }
  std::uint64_t length() const { return length_; }
  std::uint64_t done() const { return done_; }
  std::byte* destination() const { return destination_; }
  int short_reads() const { return short_reads_; }
  int retries() const { return retries_; }
  int buffered_reads() const { return buffered_reads_; }

 private:
  Step fail(ErrorKind kind, int error_number, const std::string& what);

  std::shared_ptr<const File> file_;
  std::uint64_t offset_ = 0;
  std::uint64_t length_ = 0;
  std::uint64_t required_ = 0;
  std::byte* destination_ = nullptr;
  std::uint64_t done_ = 0;
  int short_reads_ = 0;
  int retries_ = 0;
  int buffered_reads_ = 0;
  std::optional<Error> error_;
};

}  // namespace tidemill::io
