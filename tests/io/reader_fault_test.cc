// Fault model: reads fail, end early or never end. Every engine must say which file and offset,
// must not disturb other reads, and must not touch memory after it has said so.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>

#include "child.h"
#include "io/in_flight_memory.h"
#include "io/reader.h"
#include "scratch.h"

namespace tidemill::io {
namespace {

constexpr ReaderEngine kEngines[] = {ReaderEngine::kUring, ReaderEngine::kThreads};

TEST_CASE("EIO is reported with file, offset and errno, and other operations do not notice") {
  const ScratchDir dir;
  const auto content = pattern(100'000);
  write_file(dir / "good", content);
  const auto good = File::open(dir / "good");
  // Nothing is mapped at address 0, so that reading there is an I/O error.
  const auto broken = File::open("/proc/self/mem");
  for (const ReaderEngine engine : kEngines) {
    const auto reader = make_reader(engine, {.block_bytes = 4096, .queue_depth = 3, .threads = 3});
    INFO(reader->name());
    AlignedMemory memory(65536);
    ReadOp bad;
    bad.segments.push_back({broken, {0, 65536}, 65536, memory.data()});
    std::deque<RangeRead> neighbours;
    for (int i = 0; i < 20; ++i) {
      neighbours.emplace_back(good, ByteRange{0, content.size()});
      reader->submit(neighbours.back().op);
      if (i == 10) reader->submit(bad);
    }
    const Error error = error_of([&] { bad.wait(); });
    CHECK(error.kind() == ErrorKind::kIo);
    CHECK(error.error_number() == EIO);
    CHECK(error.path() == "/proc/self/mem");
    CHECK(error.offset().value_or(1) % 4096 == 0);
    CHECK(mentions(error, "/proc/self/mem: reading 4096 bytes at offset"));
    for (RangeRead& read : neighbours) {
      read.op.wait();
      CHECK(equal(read.bytes(), content));
    }
    // The same operation object works again.
    bad.segments = {{good, {0, 4096}, 4096, memory.data()}};
    reader->submit(bad);
    bad.wait();
    CHECK(equal(memory.bytes().first(4096), std::span(content).first(4096)));
  }
}

TEST_CASE("a file that is cut while it is being read is a truncated file, never zeros") {
  const ScratchDir dir;
  const auto content = pattern(100'000);
  for (const ReaderEngine engine : kEngines) {
    for (const DirectIo direct : {DirectIo::kAuto, DirectIo::kOff}) {
      for (const std::uint64_t left : {0U, 1U, 4095U, 4096U, 50'000U, 99'999U}) {
        CAPTURE(left);
        write_file(dir / "f", content);
        const auto file = File::open(dir / "f", direct);
        const auto reader = make_reader(engine, {.block_bytes = 8192, .queue_depth = 2});
        RangeRead read(file, {0, content.size()});
        std::filesystem::resize_file(dir / "f", left);
        reader->submit(read.op);
        const Error error = error_of([&] { read.op.wait(); });
        CHECK(error.kind() == ErrorKind::kModel);
        CHECK(mentions(error, "truncated file"));
        CHECK(error.path() == file->path());
      }
    }
  }
}

TEST_CASE("a file that is replaced while it is being read delivers its old contents") {
  const ScratchDir dir;
  const auto content = pattern(50'000, 1);
  for (const ReaderEngine engine : kEngines) {
    write_file(dir / "f", content);
    const auto file = File::open(dir / "f");
    write_file(dir / "g", pattern(50'000, 2));
    std::filesystem::rename(dir / "g", dir / "f");
    const auto reader = make_reader(engine, {});
    RangeRead read(file, {0, content.size()});
    reader->submit(read.op);
    read.op.wait();
    CHECK(equal(read.bytes(), content));
  }
}

TEST_CASE("a read that is destroyed in flight ends the process: its memory is not its own") {
  const int status = status_of_child([] {
    ::close(STDERR_FILENO);
    ReadOp op;
    OpCompletion::start(op, std::chrono::seconds(1));
    return true;
  });
  CHECK(status == -1);  // abort()
}

TEST_CASE(
    "a read that the kernel never gives back is an error; then its memory cannot be released") {
  const int status = status_of_child([] {
    ::close(STDERR_FILENO);
    ReadOp op;
    OpCompletion::start(op, std::chrono::seconds(1));
    const bool late = error_of([&] { op.wait(); }).kind() == ErrorKind::kIo;
    if (!late || op.done()) return false;
    return true;  // the destructor of op comes first
  });
  CHECK(status == static_cast<int>(ErrorKind::kIo));
}

#if defined(TIDEMILL_ASAN)
TEST_CASE("memory in flight is poisoned") {
  ScratchDir dir;
  write_file(dir / "f", pattern(4096));
  for (const ReaderEngine engine : kEngines) {
    const auto broken = File::open("/proc/self/mem");
    const auto reader = make_reader(engine, {});
    AlignedMemory memory(4096);
    begin_fill(memory.data(), 4096);
    CHECK(__asan_region_is_poisoned(memory.data(), 4096) == memory.data());
    end_fill(memory.data(), 4096);
    for (const auto& file : {File::open(dir / "f"), broken}) {
      ReadOp op;
      op.segments.push_back({file, {0, 4096}, 4096, memory.data()});
      reader->submit(op);
      try {
        op.wait();
      } catch (const Error&) {
      }
      CHECK(__asan_region_is_poisoned(memory.data(), 4096) == nullptr);
    }
  }
}
#endif

#if defined(TIDEMILL_TSAN)
// Run by the test below in a process of its own, in which the report is the expected result.
TEST_CASE("on purpose: reads its memory without waiting" * doctest::skip()) {
  const ScratchDir dir;
  write_file(dir / "f", pattern(4096));
  const auto file = File::open(dir / "f");
  const char* engine = std::getenv("TIDEMILL_TEST_ENGINE");
  const auto reader = make_reader(parse_reader_engine(engine == nullptr ? "auto" : engine), {});
  RangeRead read(file, {0, 4096});
  reader->submit(read.op);
  ::usleep(200'000);  // it has certainly arrived, and is a race all the same
  const volatile std::byte first = read.bytes()[0];
  (void)first;
  read.op.wait();
}

TEST_CASE("ThreadSanitizer sees the kernel's writes: not waiting is a reported race") {
  for (const char* engine : {"uring", "threads"}) {
    const std::string command = fmt::format(
        "TSAN_OPTIONS=exitcode=66 TIDEMILL_TEST_ENGINE={} {} --no-skip --test-case='on purpose*' "
        ">/dev/null 2>&1",
        engine, std::filesystem::read_symlink("/proc/self/exe").string());
    const int status = std::system(command.c_str());
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 66);
  }
}
#endif

// --- Through a real file system that misbehaves: see fault_fs.py. ---

constexpr std::uint64_t kRegion = 1 << 16;

std::shared_ptr<const File> fault_file() {
  const char* mount = std::getenv("TIDEMILL_FAULT_FS");
  return mount == nullptr ? nullptr : File::open(std::filesystem::path(mount) / "x");
}

bool counts_up(std::span<const std::byte> bytes, std::uint64_t offset) {
  for (std::uint64_t i = 0; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, 8);
    if (word != (offset + i) / 8) return false;
  }
  return true;
}

struct Outcome {
  std::optional<Error> error;
  bool exact = false;
  ReaderStats stats;
};

Outcome read_region(ReaderEngine engine, std::uint64_t region, std::uint64_t bytes = 16384) {
  const auto file = fault_file();
  const auto reader = make_reader(
      engine, {.block_bytes = 16384, .threads = 2, .deadline = std::chrono::seconds(1)});
  RangeRead read(file, {region * kRegion, bytes});
  reader->submit(read.op);
  Outcome outcome;
  try {
    read.op.wait();
    outcome.exact = counts_up(read.bytes(), region * kRegion);
  } catch (const Error& error) {
    outcome.error = error;
  }
  outcome.stats = reader->stats();
  return outcome;
}

TEST_CASE("fault_fs: every fault has its outcome" * doctest::skip()) {
  REQUIRE(fault_file() != nullptr);
  CHECK(fault_file()->fuse());
  for (const ReaderEngine engine : kEngines) {
    CAPTURE(static_cast<int>(engine));
    CHECK(read_region(engine, 0, kRegion).exact);

    const Outcome eio = read_region(engine, 1);
    REQUIRE(eio.error);
    CHECK(eio.error->error_number() == EIO);
    CHECK(eio.error->offset() == kRegion);

    const Outcome half = read_region(engine, 2);
    CHECK(half.exact);
    if (engine == kEngines[0]) CHECK(half.stats.short_reads == 1);  // the next engine's are served
    const Outcome pages = read_region(engine, 3);
    CHECK(pages.exact);
    CHECK(pages.stats.short_reads == 3);
    const Outcome crumbs = read_region(engine, 4);
    CHECK(crumbs.exact);
    CHECK(crumbs.stats.short_reads == 16);
    CHECK(crumbs.stats.buffered_reads >= 16);  // direct reads cannot begin at byte 1001

    const Outcome eof = read_region(engine, 5);
    REQUIRE(eof.error);
    CHECK(eof.error->kind() == ErrorKind::kModel);
    CHECK(mentions(*eof.error, "truncated file"));

    CHECK(read_region(engine, 6).exact);           // EINTR, then the bytes
    CHECK(read_region(engine, 9, kRegion).exact);  // slow, but in time
    CHECK(read_region(engine, 10, 2 * kRegion).exact);
  }
}

TEST_CASE("fault_fs: a read that takes too long is an error within the deadline" *
          doctest::skip()) {
  for (const ReaderEngine engine : kEngines) {
    CAPTURE(static_cast<int>(engine));
    const auto begin = std::chrono::steady_clock::now();
    const Outcome late = read_region(engine, 8);
    REQUIRE(late.error);
    CHECK(late.error->kind() == ErrorKind::kIo);
    CHECK(mentions(*late.error, "nothing arrived from offset 524288 for 1 s"));
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(4));
  }
}

TEST_CASE("fault_fs: a server that says EAGAIN for ever ends in an error" * doctest::skip()) {
  for (const ReaderEngine engine : kEngines) {
    CAPTURE(static_cast<int>(engine));
    // In a child, because a kernel that never answers costs the process (exit status 4).
    const int status = status_of_child([&] {
      const Outcome outcome = read_region(engine, 7);
      return outcome.error && outcome.error->kind() == ErrorKind::kIo;
    });
    CHECK((status == 0 || status == 4));
  }
}

TEST_CASE("a file system that fails on purpose, through the real interfaces of the kernel") {
  if (::geteuid() != 0 || ::access("/dev/fuse", R_OK | W_OK) != 0 ||
      std::system("python3 -c '' >/dev/null 2>&1") != 0) {
    MESSAGE("skipped: needs root, /dev/fuse and python3");
    return;
  }
  const ScratchDir dir;
  const std::string command = fmt::format(
      "TIDEMILL_FAULT_FS={0} python3 {1}/tests/io/fault_fs.py {0} {2} --no-skip "
      "--test-case='fault_fs:*' >{0}.log 2>&1",
      dir.path().string(), TIDEMILL_SOURCE_DIR,
      std::filesystem::read_symlink("/proc/self/exe").string());
  const int status = std::system(command.c_str());
  const auto log = read_file(dir.path().string() + ".log");
  std::filesystem::remove(dir.path().string() + ".log");
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    MESSAGE("skipped: the file system cannot be mounted here");
    return;
  }
  INFO(std::string(reinterpret_cast<const char*>(log.data()), log.size()));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace tidemill::io
