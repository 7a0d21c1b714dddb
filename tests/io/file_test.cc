// What may be opened as a model file, and what happens to it afterwards.
#include "io/file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "scratch.h"

namespace tidemill::io {
namespace {

namespace fs = std::filesystem;

TEST_CASE("ranges are read exactly; beyond the end is a truncated file, before allocating") {
  const ScratchDir dir;
  const auto content = pattern(10'001);
  write_file(dir / "f", content);
  const auto file = File::open(dir / "f");
  CHECK(file->size() == content.size());
  CHECK(equal(file->read({0, 10'001}), content));
  CHECK(equal(file->read({9'000, 1'001}), std::span(content).subspan(9'000)));
  CHECK(file->read({10'001, 0}).empty());
  for (const ByteRange bad :
       {ByteRange{10'001, 1}, {0, 10'002}, {10'002, 0}, {1, ~0ULL}, {~0ULL, 1}, {0, 1ULL << 62}}) {
    const Error error = error_of([&] { file->read(bad); });
    CHECK(error.kind() == ErrorKind::kModel);
    CHECK(mentions(error, "truncated file: ends at byte 10001"));
  }
}

TEST_CASE("only regular files are opened; nothing hangs") {
  const ScratchDir dir;
  REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
  const int sock = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = (dir / "socket").string();
  name.copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(sock, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  fs::create_symlink("loop_b", dir / "loop_a");
  fs::create_symlink("loop_a", dir / "loop_b");
  fs::create_symlink("nowhere", dir / "dangling");
  fs::create_symlink("fifo", dir / "to_fifo");

  const std::size_t before = open_descriptors();
  const struct {
    fs::path path;
    const char* message;
  } rows[] = {
      {dir / "fifo", "not a regular file"},
      {dir / "to_fifo", "not a regular file"},
      {dir / "socket", "cannot open"},
      {dir.path(), "is a directory"},
      {"/dev/zero", "not a regular file"},
      {dir / "loop_a", "Too many levels of symbolic links"},
      {dir / "dangling", "No such file"},
      {dir / "none", "No such file"},
      {dir / "fifo" / "x", "Not a directory"},
      {dir / std::string(300, 'x'), "File name too long"},
      {dir / std::string("a\0b", 3), "zero byte"},
      {"", "No such file"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.path);
    const Error error = error_of([&] { File::open(row.path); });
    CAPTURE(error.what());
    CHECK(error.kind() == ErrorKind::kModel);
    CHECK(mentions(error, row.message));
    CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  CHECK(open_descriptors() == before);
  ::close(sock);
}

TEST_CASE("links to regular files are followed") {
  const ScratchDir dir;
  write_file(dir / "blob", pattern(100));
  fs::create_symlink("blob", dir / "one");
  fs::create_symlink("one", dir / "two");
  CHECK(equal(File::open(dir / "two")->read({0, 100}), pattern(100)));
}

TEST_CASE("descriptors are closed with the file, and not inherited by programs") {
  const ScratchDir dir;
  write_file(dir / "f", pattern(100));
  const std::size_t before = open_descriptors();
  {
    const auto file = File::open(dir / "f");
    for (const int fd : {file->read_fd(), file->buffered_fd()}) {
      CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
      // io_uring would answer EAGAIN instead of reading.
      CHECK((::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0);
    }
    CHECK(((::fcntl(file->read_fd(), F_GETFL) & O_DIRECT) != 0) == file->direct());
    CHECK((::fcntl(file->buffered_fd(), F_GETFL) & O_DIRECT) == 0);
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("a file that was replaced keeps its old contents; one that was changed is noticed") {
  const ScratchDir dir;
  const auto old_content = pattern(5000, 1);
  write_file(dir / "f", old_content);
  const auto file = File::open(dir / "f");
  file->check_unchanged();
  CHECK(!file->replaced());

  write_file(dir / "g", pattern(6000, 2));
  fs::rename(dir / "g", dir / "f");
  file->check_unchanged();
  CHECK(file->replaced());
  CHECK(equal(file->read({0, 5000}), old_content));

  const auto changed = File::open(dir / "f");
  fs::resize_file(dir / "f", 100);
  const Error error = error_of([&] { changed->check_unchanged(); });
  CHECK(error.kind() == ErrorKind::kModel);
  CHECK(mentions(error, "changed while in use (6000 bytes before, 100 now)"));
  CHECK(mentions(error_of([&] { changed->read({0, 6000}); }), "truncated file"));

  write_file(dir / "h", pattern(10));
  const auto touched = File::open(dir / "h");
  fs::last_write_time(dir / "h", fs::last_write_time(dir / "h") + std::chrono::nanoseconds(1000));
  CHECK(error_of([&] { touched->check_unchanged(); }).kind() == ErrorKind::kModel);
}

TEST_CASE("an aligned extent covers its range") {
  const auto extent = align_extent({1000, 100}, 512);
  CHECK(extent.aligned == ByteRange{512, 1024});
  CHECK(extent.head == 488);
  CHECK(align_extent({512, 512}, 512).aligned == ByteRange{512, 512});
  CHECK(align_extent({700, 0}, 512).aligned == ByteRange{512, 0});
}

}  // namespace
}  // namespace tidemill::io
