#include "engine/tokenizer/file_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "io/base/error.h"
#include "io/base/units.h"

namespace tidemill::engine {
namespace {

constexpr std::size_t kBufferBytes = 64 * kKiB;

[[noreturn]] void throw_io(const char* what, const std::string& path, std::uint64_t offset) {
  const int error = errno;
  throw Error(ErrorKind::kIo,
              fmt::format("{}: cannot {}: {}", printable(path), what, std::strerror(error)),
              {.path = path, .offset = offset, .error_number = error});
}

}  // namespace

FileStreamBuffer::FileStreamBuffer(const std::filesystem::path& path, std::uint64_t max_bytes)
    : path_(path.string()), buffer_(kBufferBytes) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) throw_io("open", path_, 0);
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || (status.st_size > 0 && static_cast<std::uint64_t>(status.st_size) > max_bytes)) {
    ::close(descriptor_);
    if (!known) throw_io("examine", path_, 0);
    throw Error(
        ErrorKind::kModel,
        fmt::format("{}: {} bytes, the limit is {}", printable(path_), status.st_size, max_bytes),
        {.path = path_});
  }
}

FileStreamBuffer::~FileStreamBuffer() { ::close(descriptor_); }

FileStreamBuffer::int_type FileStreamBuffer::underflow() {
  ssize_t count = 0;
  do {
    count = ::read(descriptor_, buffer_.data(), buffer_.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) throw_io("read", path_, position_);
  if (count == 0) return traits_type::eof();
  position_ += static_cast<std::uint64_t>(count);
  setg(buffer_.data(), buffer_.data(), buffer_.data() + count);
  return traits_type::to_int_type(buffer_[0]);
}

}  // namespace tidemill::engine
