// Fault model: the system may answer any read with any smaller count, with EINTR or EAGAIN, with an
// error, or with end of file because the file was cut. The state machine must deliver exactly the
// required bytes or say what went wrong. Seeds are printed.
#include "io/read_block.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <random>

#include "scratch.h"

namespace tidemill::io {
namespace {

using Step = ReadBlock::Step;

struct Fixture {
  ScratchDir dir;
  std::vector<std::byte> content = pattern(100'000);
  std::shared_ptr<const File> file;
  AlignedMemory memory{65536};

  Fixture() {
    write_file(dir / "file", content);
    file = File::open(dir / "file");
  }
  // What the kernel would do: at most `count` bytes at the place that was asked for.
  std::int64_t serve(const ReadRequest& request, std::uint64_t count,
                     std::uint64_t file_size) const {
    if (request.offset >= file_size) return 0;
    count = std::min({count, request.length, file_size - request.offset});
    std::memcpy(request.destination, content.data() + request.offset, count);
    return static_cast<std::int64_t>(count);
  }
};

TEST_CASE_FIXTURE(Fixture,
                  "random short answers, interruptions and cuts: exact bytes or an error") {
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const std::uint64_t unit = file->alignment();
    const std::uint64_t offset = random() % (content.size() / unit) * unit;
    const std::uint64_t length = std::min<std::uint64_t>((1 + random() % 16) * unit, memory.size());
    const std::uint64_t required = std::min(length, content.size() - offset);
    const bool cut = random() % 8 == 0;
    const std::uint64_t file_size = cut ? random() % (content.size() + 1) : content.size();
    std::memset(memory.data(), 0xFF, memory.size());

    ReadBlock block(file, offset, length, required, memory.data());
    int resumes = 0;
    int retries = 0;
    while (true) {
      const ReadRequest request = block.next();
      REQUIRE(request.offset + request.length == offset + length);
      REQUIRE(request.destination == memory.data() + (request.offset - offset));
      if (!request.buffered) {
        REQUIRE(request.offset % unit == 0);
        REQUIRE(request.length % unit == 0);
      }
      std::int64_t answer = 0;
      switch (random() % 8) {
        case 0:
          answer = random() % 2 == 0 ? -EINTR : -EAGAIN;
          ++retries;
          break;
        case 1:
          answer = serve(request, 1 + random() % 7, file_size);
          break;
        case 2:
          answer = serve(request, unit, file_size);
          break;
        case 3:
          answer = serve(request, unit - 1, file_size);
          break;
        case 4:
          answer = serve(request, request.length, file_size);
          break;
        default:
          answer = serve(request, 1 + random() % request.length, file_size);
      }
      if (block.on_result(answer) == Step::kFinished) break;
      if (answer > 0) ++resumes;
      REQUIRE(resumes <= ReadBlock::kMaxResumes);
      REQUIRE(retries <= ReadBlock::kMaxResumes);
    }
    if (block.error()) {
      // Only a file that was cut inside the required bytes may fail (a stall needs 64 tiny reads).
      const bool stalled = mentions(*block.error(), "stalled");
      REQUIRE((stalled || file_size < offset + required));
      if (!stalled) REQUIRE(block.error()->kind() == ErrorKind::kModel);
    } else {
      REQUIRE(block.done() >= required);
      REQUIRE(equal(memory.bytes().first(required), std::span(content).subspan(offset, required)));
    }
  }
}

TEST_CASE_FIXTURE(
    Fixture,
    "a short answer is continued behind its last byte, through the page cache if need be") {
  const std::uint64_t unit = file->alignment();
  ReadBlock block(file, unit, 4 * unit, 4 * unit, memory.data());
  CHECK(block.on_result(static_cast<std::int64_t>(unit)) == Step::kAgain);
  CHECK(block.next().offset == 2 * unit);
  CHECK(block.next().buffered == !file->direct());
  CHECK(block.on_result(1) == Step::kAgain);  // now in the middle of a sector
  CHECK(block.next().offset == 2 * unit + 1);
  CHECK(block.next().buffered);
  CHECK(block.next().fd == file->buffered_fd());
  CHECK(block.on_result(static_cast<std::int64_t>(3 * unit - 1)) == Step::kFinished);
  CHECK(!block.error());
  CHECK(block.short_reads() == 2);
}

TEST_CASE_FIXTURE(Fixture, "the last sector of a file ends where the file ends") {
  const std::uint64_t unit = file->alignment();
  const std::uint64_t offset = align_down(content.size(), unit);
  const std::uint64_t rest = content.size() - offset;
  REQUIRE(rest > 0);
  ReadBlock block(file, offset, unit, rest, memory.data());
  CHECK(block.on_result(static_cast<std::int64_t>(rest)) == Step::kFinished);
  CHECK(!block.error());
}

TEST_CASE_FIXTURE(Fixture, "end of file inside the required bytes is a truncated file") {
  ReadBlock block(file, 4096, 8192, 8192, memory.data());
  CHECK(block.on_result(100) == Step::kAgain);
  CHECK(block.on_result(0) == Step::kFinished);
  REQUIRE(block.error());
  CHECK(block.error()->kind() == ErrorKind::kModel);
  CHECK(mentions(*block.error(), "truncated file"));
  CHECK(mentions(*block.error(), "byte 4196"));
  CHECK(mentions(*block.error(), "at least 12288 bytes"));
  CHECK(block.error()->path() == file->path());
  CHECK(block.error()->offset() == 4196);
}

TEST_CASE_FIXTURE(Fixture, "errors carry file, offset and errno, and are not tried again") {
  ReadBlock block(file, 4096, 8192, 8192, memory.data());
  CHECK(block.on_result(4096) == Step::kAgain);
  CHECK(block.on_result(-EIO) == Step::kFinished);
  REQUIRE(block.error());
  CHECK(block.error()->kind() == ErrorKind::kIo);
  CHECK(block.error()->error_number() == EIO);
  CHECK(block.error()->offset() == 8192);
  CHECK(mentions(*block.error(), "Input/output error"));
}

TEST_CASE_FIXTURE(Fixture, "interruptions and crumbs have a bound") {
  ReadBlock interrupted(file, 0, 4096, 4096, memory.data());
  int answers = 1;
  while (interrupted.on_result(answers % 2 == 0 ? -EINTR : -EAGAIN) == Step::kAgain) ++answers;
  CHECK(answers == ReadBlock::kMaxResumes + 1);
  REQUIRE(interrupted.error());
  CHECK(interrupted.error()->kind() == ErrorKind::kIo);

  ReadBlock crumbs(file, 0, 4096, 4096, memory.data());
  answers = 1;
  while (crumbs.on_result(1) == Step::kAgain) ++answers;
  CHECK(answers == ReadBlock::kMaxResumes + 1);
  REQUIRE(crumbs.error());
  CHECK(mentions(*crumbs.error(), "stalled"));
}

TEST_CASE_FIXTURE(Fixture, "an answer larger than the question is not believed") {
  ReadBlock block(file, 0, 4096, 4096, memory.data());
  CHECK(block.on_result(4097) == Step::kFinished);
  CHECK(block.error());
}

}  // namespace
}  // namespace tidemill::io
