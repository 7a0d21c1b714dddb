#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "io/base/checked.h"
#include "io/base/error.h"

namespace tidemill::io {
namespace {

// Where the kernel does not say what direct reads need (before 6.1, or tmpfs), and for buffered
// files: the page size of the page cache, and no drive asks for more.
constexpr std::uint64_t kDefaultAlignment = 4096;
// Linux moves at most 2 GiB - 4 KiB per call.
constexpr std::uint64_t kMaxRead = 1ULL << 30;
constexpr auto kFuseMagic = 0x65735546;

// Owns a descriptor until it is handed over, so that every path out of open() closes it.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::string errno_text(int error) { return std::system_category().message(error); }

// What the user can put right by giving another path is the model's fault, the rest the system's.
ErrorKind kind_of_open_error(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EACCES:
    case EPERM:
    case ELOOP:
    case ENAMETOOLONG:
    case ENXIO:  // a socket, or a FIFO
    case ENODEV:
    case EISDIR:
      return ErrorKind::kModel;
    default:
      return ErrorKind::kIo;
  }
}

FileIdentity identity_of(const struct stat& status) {
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .size = static_cast<std::uint64_t>(status.st_size),
          .mtime_ns = status.st_mtim.tv_sec * 1'000'000'000LL + status.st_mtim.tv_nsec};
}

FileIdentity identity_of(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    const int error = errno;
    throw Error(ErrorKind::kIo, fmt::format("{}: fstat: {}", printable(path), errno_text(error)),
                {.path = path, .offset = {}, .error_number = error});
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorKind::kModel,
                fmt::format("{}: {}, expected a regular file", printable(path),
                            S_ISDIR(status.st_mode) ? "is a directory" : "not a regular file"),
                {.path = path, .offset = {}, .error_number = 0});
  }
  return identity_of(status);
}

// The alignment that direct reads need; nothing if the file system says that it has none.
std::optional<std::uint64_t> direct_alignment(int fd) {
#ifdef STATX_DIOALIGN
  struct statx status {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
      (status.stx_mask & STATX_DIOALIGN) != 0) {
    const std::uint64_t alignment =
        std::max<std::uint64_t>(status.stx_dio_mem_align, status.stx_dio_offset_align);
    if (status.stx_dio_mem_align == 0 || status.stx_dio_offset_align == 0) return std::nullopt;
    if (!std::has_single_bit(alignment)) return std::nullopt;
    return alignment;
  }
#else
  (void)fd;
#endif
  return kDefaultAlignment;
}

// Some file systems take O_DIRECT at open and refuse the reads: only a read proves it.
bool direct_read_works(int fd, std::uint64_t alignment) {
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(alignment, alignment),
                                                           &std::free);
  if (!memory) return false;
  ssize_t count = 0;
  do {
    count = ::pread(fd, memory.get(), alignment, 0);
  } while (count < 0 && errno == EINTR);
  return count >= 0;
}

}  // namespace

std::shared_ptr<const File> File::open(const std::filesystem::path& path, DirectIo direct) {
  const std::string& name = path.native();
  const auto fail = [&](ErrorKind kind, const std::string& what, int error) {
    throw Error(kind, fmt::format("{}: {}", printable(name), what),
                {.path = name, .offset = {}, .error_number = error});
  };
  if (name.find('\0') != std::string::npos) {
    fail(ErrorKind::kModel, "a file name cannot contain a zero byte", 0);
  }
  // O_NONBLOCK: opening a FIFO that nobody writes to returns at once, to be refused below.
  Descriptor buffered(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (buffered.get() < 0) {
    const int error = errno;
    fail(kind_of_open_error(error), "cannot open: " + errno_text(error), error);
  }
  // Not make_shared: the constructor is private.
  std::shared_ptr<File> file(new File);
  file->path_ = name;
  file->identity_ = identity_of(buffered.get(), name);
  // io_uring takes O_NONBLOCK at its word even on regular files and answers EAGAIN.
  if (::fcntl(buffered.get(), F_SETFL, 0) != 0) {
    const int error = errno;
    fail(ErrorKind::kIo, "fcntl: " + errno_text(error), error);
  }
  struct statfs mount {};
  file->fuse_ = ::fstatfs(buffered.get(), &mount) == 0 && mount.f_type == kFuseMagic;

  if (direct == DirectIo::kAuto) {
    Descriptor bypass(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_DIRECT));
    if (bypass.get() < 0 && (errno == EMFILE || errno == ENFILE)) {
      const int error = errno;  // a leak or a limit: going on more slowly would hide it
      fail(ErrorKind::kIo, "cannot open: " + errno_text(error), error);
    }
    if (bypass.get() >= 0) {
      const FileIdentity second = identity_of(bypass.get(), name);
      if (second.inode != file->identity_.inode || second.device != file->identity_.device) {
        fail(ErrorKind::kModel, "replaced while it was being opened; try again", 0);
      }
      const auto alignment = direct_alignment(bypass.get());
      if (alignment && ::fcntl(bypass.get(), F_SETFL, O_DIRECT) == 0 &&
          direct_read_works(bypass.get(), *alignment)) {
        file->direct_ = true;
        file->alignment_ = *alignment;
        file->read_fd_ = bypass.release();
      }
    }
  }
  if (!file->direct_) {
    file->alignment_ = kDefaultAlignment;
    file->read_fd_ = buffered.get();
  }
  file->buffered_fd_ = buffered.release();
  return file;
}

File::~File() {
  if (read_fd_ >= 0 && read_fd_ != buffered_fd_) ::close(read_fd_);
  if (buffered_fd_ >= 0) ::close(buffered_fd_);
}

std::vector<std::byte> File::read(ByteRange range) const {
  const auto truncated = [&](std::uint64_t end) {
    throw Error(ErrorKind::kModel,
                fmt::format("{}: truncated file: ends at byte {}, expected {} bytes at offset {}",
                            printable(path_), end, range.length, range.offset),
                {.path = path_, .offset = range.offset, .error_number = 0});
  };
  // Before allocating: the length comes from a file.
  if (range.offset > size() || range.length > size() - range.offset) truncated(size());
  std::vector<std::byte> bytes(range.length);
  std::uint64_t done = 0;
  while (done < range.length) {
    const std::uint64_t offset = range.offset + done;
    const ssize_t count = ::pread(buffered_fd_, bytes.data() + done,
                                  std::min(range.length - done, kMaxRead), narrow<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int error = errno;
      throw Error(
          ErrorKind::kIo,
          fmt::format("{}: reading at offset {}: {}", printable(path_), offset, errno_text(error)),
          {.path = path_, .offset = offset, .error_number = error});
    }
    if (count == 0) truncated(offset);
    done += static_cast<std::uint64_t>(count);
  }
  return bytes;
}

std::uint64_t File::current_size() const { return identity_of(buffered_fd_, path_).size; }

void File::check_unchanged() const {
  const FileIdentity now = identity_of(buffered_fd_, path_);
  if (now == identity_) return;
  throw Error(ErrorKind::kModel,
              fmt::format("{}: file changed while in use ({} bytes before, {} now); start again",
                          printable(path_), identity_.size, now.size),
              {.path = path_, .offset = {}, .error_number = 0});
}

bool File::replaced() const {
  struct stat status {};
  return ::stat(path_.c_str(), &status) != 0 || identity_of(status) != identity_;
}

AlignedExtent align_extent(ByteRange range, std::uint64_t alignment) {
  const std::uint64_t begin = align_down(range.offset, alignment);
  if (range.empty()) return {.aligned = {begin, 0}, .head = range.offset - begin};
  const std::uint64_t end = align_up(range.end(), alignment);
  return {.aligned = {begin, end - begin}, .head = range.offset - begin};
}

}  // namespace tidemill::io
