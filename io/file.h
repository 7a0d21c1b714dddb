// A read-only regular file whose bytes are fetched by ranges, never mapped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "io/base/byte_range.h"

namespace tidemill::io {

/// Whether reads bypass the page cache.
enum class DirectIo {
  kAuto,  ///< direct where the file system takes it, buffered otherwise (see File::direct())
  kOff,   ///< always through the page cache (which asynchronous readers empty behind them)
};

/// Identity of a file's contents, to notice that it was changed while it was in use.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// Thread-safe and immutable after open(). Symbolic links are followed if they end in a regular
/// file (Hugging Face caches are made of links); FIFOs, devices and directories are refused.
class File {
 public:
  /// Error(kModel) if the path does not name a readable regular file, Error(kIo) for other
  /// failures.
  static std::shared_ptr<const File> open(const std::filesystem::path& path,
                                          DirectIo direct = DirectIo::kAuto);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return identity_.size; }
  const FileIdentity& identity() const { return identity_; }

  /// True if `read_fd()` was opened with O_DIRECT.
  bool direct() const { return direct_; }
  /// Descriptor for asynchronous reads; O_DIRECT if direct().
  int read_fd() const { return read_fd_; }
  /// Descriptor through the page cache, for headers and for the tail that O_DIRECT refuses.
  int buffered_fd() const { return buffered_fd_; }

  /// A power of two. Offsets, lengths and memory addresses of asynchronous reads are multiples of
  /// it (a length may reach beyond the end of the file). From statx(STATX_DIOALIGN) where known.
  std::uint64_t alignment() const { return alignment_; }

  /// Synchronous read of exactly `range` through the page cache (headers, index files).
  /// Error(kModel) if the file ends inside the range, Error(kIo) with path, offset, errno.
  std::vector<std::byte> read(ByteRange range) const;

  /// Error(kModel) "file changed while in use" if the opened file's size or mtime differ from
  /// open(). A file that was replaced by rename is unaffected: the old one stays open (replaced()).
  void check_unchanged() const;

  /// True if the path no longer leads to the file that is open here.
  bool replaced() const;

  /// The size as it is now; Error(kIo) if the system does not say.
  std::uint64_t current_size() const;

  /// True on a FUSE mount. Their servers may shorten reads, and the kernel has been seen to
  /// continue such a read at the wrong place: worth a notice.
  bool fuse() const { return fuse_; }

 private:
  File() = default;
  std::string path_;
  FileIdentity identity_;
  int read_fd_ = -1;
  int buffered_fd_ = -1;
  bool direct_ = false;
  bool fuse_ = false;
  std::uint64_t alignment_ = 4096;
};

/// The aligned superset that a direct read of `range` fetches.
struct AlignedExtent {
  ByteRange aligned;       ///< offset and length are multiples of the alignment
  std::uint64_t head = 0;  ///< range.offset - aligned.offset: where the wanted bytes begin
};
AlignedExtent align_extent(ByteRange range, std::uint64_t alignment);

}  // namespace tidemill::io
