#include "io/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "io/base/checked.h"

namespace tidemill::io {
namespace {

constexpr std::size_t kBufferBytes = 4U << 20;
constexpr std::uint64_t kWriteBackBytes = 64U << 20;
constexpr int kNameTries = 100;

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path) : path_(path) {
  std::error_code unknown;
  // A link stays, and what it leads to is written.
  if (std::filesystem::is_symlink(path, unknown)) {
    path_ = std::filesystem::weakly_canonical(path, unknown);
    if (unknown) fail("cannot follow the link", unknown.value());
  }
  // A device or a pipe would be replaced, not written to.
  const auto status = std::filesystem::status(path_, unknown);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw Error(ErrorKind::kIo,
                fmt::format("{}: exists and is no regular file; give another name",
                            printable(path_.native())),
                {.path = path_.native()});
  }
  // Beside its target, because rename() works only within a file system.
  for (int i = 0; i < kNameTries && fd_ < 0; ++i) {
    temporary_ = path_;
    temporary_ += fmt::format(".tmp.{}.{}", ::getpid(), i);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) break;
  }
  if (fd_ < 0) fail("cannot create", errno);
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void OutputFile::fail(const char* what, int error) const {
  throw Error(ErrorKind::kIo,
              fmt::format("{}: {}: {}", printable(path_.native()), what,
                          std::system_category().message(error)),
              {.path = path_.native(), .offset = written_, .error_number = error});
}

void OutputFile::reserve(std::uint64_t bytes) {
  if (bytes == 0) return;
  if (::fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, narrow<off_t>(bytes)) == 0) return;
  const int error = errno;
  if (error != EOPNOTSUPP && error != ENOSYS && error != EINTR) fail("reserving space", error);
}

void OutputFile::append(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() <= kBufferBytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return;
  }
  flush();
  if (bytes.size() >= kBufferBytes) {
    write_all(bytes);
  } else {
    buffer_.assign(bytes.begin(), bytes.end());
  }
}

void OutputFile::flush() {
  write_all(buffer_);
  buffer_.clear();
}

void OutputFile::write_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t want = std::min<std::size_t>(bytes.size(), kWriteBackBytes);
    const ssize_t count = ::write(fd_, bytes.data(), want);
    if (count < 0 && errno == EINTR) continue;
    // A full disk may take a part first: the rest then says why.
    if (count < 0) fail("writing", errno);
    if (count == 0) fail("writing", EIO);
    written_ += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    write_back();
  }
}

// Starts writing out each window as it is full and waits for the one before: the drive never idles,
// fsync finds little to do, and at most two windows of the page cache are ours.
void OutputFile::write_back() {
  if (written_ - flushing_ < kWriteBackBytes) return;
  const auto range = [](std::uint64_t from, std::uint64_t to) {
    return std::pair(static_cast<off_t>(from), static_cast<off_t>(to - from));
  };
  const auto [next, next_bytes] = range(flushing_, written_);
  ::sync_file_range(fd_, next, next_bytes, SYNC_FILE_RANGE_WRITE);
  const auto [last, last_bytes] = range(flushed_, flushing_);
  if (last_bytes > 0) {
    ::sync_file_range(
        fd_, last, last_bytes,
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    ::posix_fadvise(fd_, last, last_bytes, POSIX_FADV_DONTNEED);
  }
  flushed_ = flushing_;
  flushing_ = written_;
}

void OutputFile::finish() {
  TM_CHECK(fd_ >= 0, "{} was finished before", path_.native());
  flush();
  // An error of fsync is final: the kernel may have dropped the dirty pages, so that a second call
  // would succeed without their being on the drive.
  if (::fsync(fd_) != 0) fail("syncing", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("renaming", errno);
  const int error = ::close(std::exchange(fd_, -1)) != 0 ? errno : 0;
  if (error != 0 && error != EINTR) fail("closing", error);
  // The new name is safe only when the folder is. Some file systems cannot sync folders.
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  const int folder_fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_fd < 0) return;
  const int sync_error = ::fsync(folder_fd) != 0 ? errno : 0;
  ::close(folder_fd);
  if (sync_error != 0 && sync_error != EINVAL) fail("syncing the folder", sync_error);
}

}  // namespace tidemill::io
