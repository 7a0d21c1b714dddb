#include "io/read_block.h"

#include <cerrno>
#include <system_error>
#include <utility>

namespace tidemill::io {

ReadBlock::ReadBlock(std::shared_ptr<const File> file, std::uint64_t offset, std::uint64_t length,
                     std::uint64_t required, std::byte* destination)
    : file_(std::move(file)),
      offset_(offset),
      length_(length),
      required_(required),
      destination_(destination) {}

ReadRequest ReadBlock::next() const {
  // After a short direct read the rest may begin in the middle of a sector, where O_DIRECT cannot:
  // the page cache delivers that rest exactly.
  const bool aligned = done_ % file_->alignment() == 0;
  const bool direct = file_->direct() && aligned;
  return {.fd = direct ? file_->read_fd() : file_->buffered_fd(),
          .buffered = !direct,
          .offset = offset_ + done_,
          .length = length_ - done_,
          .destination = destination_ + done_};
}

ReadBlock::Step ReadBlock::fail(ErrorKind kind, int error_number, const std::string& what) {
  const std::uint64_t at = offset_ + done_;
  error_.emplace(kind, fmt::format("{}: {}", printable(file_->path()), what),
                 ErrorContext{file_->path(), at, error_number});
  return Step::kFinished;
}

ReadBlock::Step ReadBlock::on_result(std::int64_t result) {
  const std::uint64_t at = offset_ + done_;
  const ReadRequest asked = next();
  if (result == -EINTR || result == -EAGAIN) {
    if (++retries_ <= kMaxResumes) return Step::kAgain;
    return fail(ErrorKind::kIo, static_cast<int>(-result),
                fmt::format("reading at offset {}: interrupted {} times in a row", at, retries_));
  }
  if (result < 0) {
    const int error = static_cast<int>(-result);
    return fail(ErrorKind::kIo, error,
                fmt::format("reading {} bytes at offset {}: {}", asked.length, at,
                            std::system_category().message(error)));
  }
  const auto count = static_cast<std::uint64_t>(result);
  if (count > asked.length) {
    return fail(ErrorKind::kIo, 0,
                fmt::format("reading {} bytes at offset {}: the system claims to have read {}",
                            asked.length, at, count));
  }
  if (asked.buffered) ++buffered_reads_;
  if (count == 0) {
    return fail(ErrorKind::kModel, 0,
                fmt::format("truncated file: ends at or before byte {}, expected at least {} bytes "
                            "(it had {} when it was opened)",
                            at, offset_ + required_, file_->size()));
  }
  done_ += count;
  if (done_ >= required_) return Step::kFinished;
  if (++short_reads_ <= kMaxResumes) return Step::kAgain;
  return fail(ErrorKind::kIo, 0,
              fmt::format("reading at offset {}: stalled after {} short reads", at, short_reads_));
}

}  // namespace tidemill::io
