// Fault model: the system grants less than usual. System calls are refused by a seccomp filter and
// limits are lowered, in a child process each.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>

#include "child.h"
#include "io/output_file.h"
#include "io/reader.h"
#include "scratch.h"

namespace tidemill::io {
namespace {

// From now on, in all threads, the system call fails with that errno; with `flags`, only if its
// third argument has one of them.
void refuse(long call, int error, std::uint32_t flags = 0) {
  const auto number = static_cast<std::uint32_t>(call);
  const std::uint32_t answer = SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error);
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args) + 16),
      BPF_JUMP(BPF_JMP | (flags == 0 ? BPF_JGE : BPF_JSET) | BPF_K, flags, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, answer),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = std::size(code), .filter = code};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
    throw_error(ErrorKind::kBug, "seccomp: errno {}", errno);
  }
}

struct Fixture {
  ScratchDir dir;
  std::vector<std::byte> content = pattern(200'000);
  Fixture() { write_file(dir / "f", content); }

  bool reads_right(Reader& reader, const std::shared_ptr<const File>& file) const {
    RangeRead read(file, {7, 150'000});
    reader.submit(read.op);
    read.op.wait();
    return equal(read.bytes(), std::span(content).subspan(7, 150'000));
  }
};

TEST_CASE_FIXTURE(Fixture, "io_uring refused: threads take over, unless it was asked for by name") {
  const struct {
    long call;
    int error;
  } rows[] = {{SYS_io_uring_setup, EPERM},  {SYS_io_uring_setup, ENOSYS},
              {SYS_io_uring_setup, ENOMEM}, {SYS_io_uring_enter, EPERM},
              {SYS_io_uring_enter, EINTR},  {SYS_eventfd2, EMFILE}};
  for (const auto& row : rows) {
    CAPTURE(row.call);
    CAPTURE(row.error);
    CHECK(status_of_child([&] {
            const auto file = File::open(dir / "f");
            refuse(row.call, row.error);
            const std::size_t before = open_descriptors();
            const Error error = error_of([] { make_reader(ReaderEngine::kUring, {}); });
            if (error.kind() != ErrorKind::kIo || error.error_number() != row.error) return false;
            if (open_descriptors() != before) return false;
            const auto reader = make_reader(ReaderEngine::kAuto, {});
            return reader->name() == "threads" && reads_right(*reader, file);
          }) == 0);
  }
}

TEST_CASE_FIXTURE(Fixture, "a ring that breaks in use: errors, no hang, and it stays broken") {
  for (const int error : {EPERM, EINTR, EBUSY}) {
    CAPTURE(error);
    CHECK(status_of_child([&] {
            const auto file = File::open(dir / "f");
            const auto reader = make_reader(
                ReaderEngine::kUring, {.block_bytes = 4096, .deadline = std::chrono::seconds(1)});
            if (!reads_right(*reader, file)) return false;
            refuse(SYS_io_uring_enter, error);
            const Error first = error_of([&] {
              // One that is on its way into the kernel may still succeed.
              for (int i = 0; i < 3; ++i) reads_right(*reader, file);
            });
            const Error second = error_of([&] { reads_right(*reader, file); });
            return first.kind() == ErrorKind::kIo && mentions(first, "io_uring") &&
                   std::string_view(first.what()) == second.what();
          }) == 0);
  }
}

// UBSan needs a descriptor itself when it looks at an object's type (the build defines this then).
#if !defined(TIDEMILL_SANITIZER_NEEDS_DESCRIPTORS)
TEST_CASE_FIXTURE(Fixture, "no descriptors left: opening says so, the reader falls back") {
  CHECK(status_of_child([&] {
          const auto file = File::open(dir / "f");
          const int next = ::dup(STDIN_FILENO);
          ::close(next);
          const rlimit limit{.rlim_cur = static_cast<rlim_t>(next), .rlim_max = 64};
          if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
          const Error error = error_of([&] { File::open(dir / "f"); });
          if (error.kind() != ErrorKind::kIo || error.error_number() != EMFILE) return false;
          const auto reader = make_reader(ReaderEngine::kAuto, {});
          return reader->name() == "threads" && reads_right(*reader, file);
        }) == 0);
}
#endif

TEST_CASE_FIXTURE(Fixture, "memory that may not be locked is used unregistered") {
  CHECK(status_of_child([&] {
          const auto file = File::open(dir / "f");
          AlignedMemory memory(4 << 20);
          const rlimit little{.rlim_cur = 1 << 20, .rlim_max = 1 << 20};  // enough for the ring
          if (::setrlimit(RLIMIT_MEMLOCK, &little) != 0) return false;
          // Root may lock memory whatever the limit.
          if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return false;
          const auto reader = make_reader(ReaderEngine::kAuto, {});
          reader->register_memory(memory.bytes());
          return reader->name() == "uring" && reads_right(*reader, file) &&
                 !reader->stats().registered_buffers;
        }) == 0);
}

TEST_CASE_FIXTURE(
    Fixture, "file systems without O_DIRECT, at open or at the first read, are read buffered") {
  for (const bool at_open : {true, false}) {
    CAPTURE(at_open);
    CHECK(status_of_child([&] {
            if (at_open) {
              refuse(SYS_openat, EINVAL, O_DIRECT);
            } else {
              refuse(SYS_pread64, EINVAL);
            }
            const auto file = File::open(dir / "f");
            if (file->direct() || file->read_fd() != file->buffered_fd()) return false;
            const auto reader = make_reader(ReaderEngine::kUring, {});
            return reads_right(*reader, file) && reader->stats().buffered_reads > 0;
          }) == 0);
  }
}

TEST_CASE_FIXTURE(Fixture, "threads that cannot be started: fewer will do, none is an error") {
  CHECK(status_of_child([&] {
          refuse(SYS_clone, EAGAIN);
          refuse(SYS_clone3, EAGAIN);
          return error_of([] { make_reader(ReaderEngine::kThreads, {}); }).kind() == ErrorKind::kIo;
        }) == 0);
}

TEST_CASE("a reader does not survive fork()") {
  const ScratchDir dir;
  write_file(dir / "f", pattern(4096));
  const auto file = File::open(dir / "f");
  auto reader = make_reader(ReaderEngine::kUring, {});
  CHECK(status_of_child([&] {
          RangeRead read(file, {0, 4096});
          const Error error = error_of([&] { reader->submit(read.op); });
          return error.kind() == ErrorKind::kBug && mentions(error, "fork");
        }) == 0);
}

TEST_CASE("a full disk, or a file too large: an error, the old file stays, nothing else does") {
  const ScratchDir dir;
  write_file(dir / "f", "old");
  for (const std::uint64_t limit : {0U, 4096U, 100'000U, 5'000'000U}) {
    CAPTURE(limit);
    CHECK(status_of_child([&] {
            ::signal(SIGXFSZ, SIG_IGN);
            const rlimit size{.rlim_cur = limit, .rlim_max = limit};
            if (::setrlimit(RLIMIT_FSIZE, &size) != 0) return false;
            const Error error = error_of([&] {
              OutputFile out(dir / "f");
              for (int i = 0; i < 100; ++i) out.append(pattern(100'001));
              out.finish();
            });
            return error.kind() == ErrorKind::kIo && error.error_number() == EFBIG;
          }) == 0);
    CHECK(equal(read_file(dir / "f"), as_bytes("old")));
    CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
  }
  for (const long call : {SYS_write, SYS_fsync, SYS_rename}) {
    CAPTURE(call);
    CHECK(status_of_child([&] {
            const Error error = error_of([&] {
              OutputFile out(dir / "f");
              out.append(pattern(100));
              refuse(call, ENOSPC);
              out.finish();
            });
            return error.kind() == ErrorKind::kIo && error.error_number() == ENOSPC;
          }) == 0);
    CHECK(equal(read_file(dir / "f"), as_bytes("old")));
    CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
  }
}

}  // namespace
}  // namespace tidemill::io
