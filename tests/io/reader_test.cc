// Both engines through the same table: any size, any offset, any alignment, exact bytes.
#include "io/reader.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <random>
#include <thread>

#include "scratch.h"

namespace tidemill::io {
namespace {

constexpr ReaderEngine kEngines[] = {ReaderEngine::kUring, ReaderEngine::kThreads};

const char* name_of(ReaderEngine engine) {
  return engine == ReaderEngine::kUring ? "uring" : "threads";
}

TEST_CASE("every size and offset arrives exactly, whatever the alignment") {
  const ScratchDir dir;
  for (const std::uint64_t base : {0ULL, 4096ULL, 8192ULL, 65536ULL}) {
    for (const int delta : {-513, -512, -511, -1, 0, 1, 511, 512, 513}) {
      if (base == 0 && delta < 0) continue;
      const auto size = static_cast<std::uint64_t>(static_cast<std::int64_t>(base) + delta);
      const auto content = pattern(size, base);
      const auto path = dir / "file";
      write_file(path, content);
      for (const DirectIo direct : {DirectIo::kAuto, DirectIo::kOff}) {
        const auto file = File::open(path, direct);
        for (const ReaderEngine engine : kEngines) {
          CAPTURE(size);
          CAPTURE(file->direct());
          INFO(name_of(engine));
          const auto reader = make_reader(engine, {.block_bytes = 4096, .queue_depth = 4});
          std::deque<RangeRead> reads;
          for (const std::uint64_t offset :
               {0ULL, 1ULL, 511ULL, 512ULL, 4095ULL, 4096ULL, 5000ULL}) {
            if (offset > size) continue;
            for (const std::uint64_t length : {0ULL, 1ULL, 4096ULL, ~0ULL}) {
              reads.emplace_back(file, ByteRange{offset, std::min(length, size - offset)});
              reader->submit(reads.back().op);
            }
          }
          for (RangeRead& read : reads) {
            read.op.wait();
            CAPTURE(read.range.offset);
            CAPTURE(read.range.length);
            CHECK(equal(read.bytes(),
                        std::span(content).subspan(read.range.offset, read.range.length)));
          }
          CHECK(reader->stats().operations == reads.size());
        }
      }
    }
  }
}

TEST_CASE("block size and queue depth change nothing but speed") {
  const ScratchDir dir;
  const auto content = pattern(1'000'001);
  write_file(dir / "file", content);
  const auto file = File::open(dir / "file");
  for (const ReaderEngine engine : kEngines) {
    for (const std::uint64_t block : {1ULL, 512ULL, 4096ULL, 100'000ULL, 1ULL << 20, 1ULL << 30}) {
      for (const std::uint32_t depth : {1U, 2U, 7U, 64U}) {
        INFO(name_of(engine));
        CAPTURE(block);
        CAPTURE(depth);
        const auto reader = make_reader(
            engine, {.block_bytes = block, .queue_depth = depth, .threads = std::min(depth, 8U)});
        RangeRead read(file, {3, 999'000});
        reader->submit(read.op);
        read.op.wait();
        CHECK(equal(read.bytes(), std::span(content).subspan(3, 999'000)));
        CHECK(reader->stats().bytes == read.op.segments[0].required);
      }
    }
  }
}

TEST_CASE("one operation gathers segments of several files") {
  const ScratchDir dir;
  std::vector<std::shared_ptr<const File>> files;
  std::vector<std::vector<std::byte>> contents;
  for (std::uint64_t i = 0; i < 5; ++i) {
    contents.push_back(pattern(10'000 + 777 * i, i));
    const auto path = dir / std::to_string(i);
    write_file(path, contents.back());
    files.push_back(File::open(path));
  }
  for (const ReaderEngine engine : kEngines) {
    INFO(name_of(engine));
    const auto reader = make_reader(engine, {.block_bytes = 4096, .queue_depth = 3});
    AlignedMemory memory(files.size() * 16384);
    reader->register_memory(memory.bytes());
    ReadOp op;
    for (std::size_t i = 0; i < files.size(); ++i) {
      op.segments.push_back({.file = files[i],
                             .range = {0, align_up(files[i]->size(), files[i]->alignment())},
                             .required = files[i]->size(),
                             .destination = memory.data() + i * 16384});
    }
    for (int repetition = 0; repetition < 3; ++repetition) {  // an operation can be used again
      reader->submit(op);
      op.wait();
      for (std::size_t i = 0; i < files.size(); ++i) {
        CHECK(equal(memory.bytes().subspan(i * 16384, contents[i].size()), contents[i]));
      }
      // After completion the memory is the owner's again.
      std::memset(memory.data(), 0xFF, memory.size());
    }
    CHECK(reader->stats().registered_buffers == (engine == ReaderEngine::kUring));
  }
}

TEST_CASE("ten thousand reads leave the descriptor count as it was") {
  const ScratchDir dir;
  const auto content = pattern(1 << 20);
  write_file(dir / "file", content);
  for (const ReaderEngine engine : kEngines) {
    INFO(name_of(engine));
    const auto reader = make_reader(engine, {});
    std::mt19937_64 random(7);
    std::size_t before = 0;
    for (int i = 0; i < 10'000; ++i) {
      // A new File every hundred reads: the engine must let go of the old ones.
      static std::shared_ptr<const File> file;
      if (i % 100 == 0) file = File::open(dir / "file");
      const std::uint64_t offset = random() % (content.size() - 100);
      RangeRead read(file, {offset, 100});
      read.op.urgent = i % 2 == 0;
      reader->submit(read.op);
      read.op.wait();
      if (!equal(read.bytes(), std::span(content).subspan(offset, 100)))
        FAIL("wrong bytes at " << offset);
      if (i == 0) before = open_descriptors();
      if (i % 1000 == 999) CHECK(open_descriptors() == before);
      if (i == 9'999) file.reset();
    }
    CHECK(reader->stats().operations == 10'000);
  }
}

TEST_CASE("a file that died does not lend its place in the ring's table to the next one") {
  // Were registered files known by address alone, a new File at an old address would read the old
  // contents.
  const ScratchDir dir;
  write_file(dir / "old", pattern(4096, 1));
  write_file(dir / "new", pattern(4096, 2));
  const auto reader = make_reader(ReaderEngine::kUring, {});
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t seed = 1 + static_cast<std::uint64_t>(i % 2);
    RangeRead read(File::open(dir / (seed == 1 ? "old" : "new")), {0, 4096});
    reader->submit(read.op);
    read.op.wait();
    if (!equal(read.bytes(), pattern(4096, seed))) FAIL("contents of another file, i = " << i);
  }
}

TEST_CASE("many threads may submit at once") {
  const ScratchDir dir;
  const auto content = pattern(4 << 20);
  write_file(dir / "file", content);
  const auto file = File::open(dir / "file");
  for (const ReaderEngine engine : kEngines) {
    INFO(name_of(engine));
    const auto reader = make_reader(engine, {.block_bytes = 65536, .queue_depth = 5});
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 random(t);
        for (int i = 0; i < 50; ++i) {
          const std::uint64_t offset = random() % content.size();
          const std::uint64_t length =
              random() % std::min<std::uint64_t>(content.size() - offset, 300'000);
          RangeRead read(file, {offset, length});
          read.op.urgent = random() % 4 == 0;
          reader->submit(read.op);
          read.op.wait();
          if (!equal(read.bytes(), std::span(content).subspan(offset, length))) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(reader->stats().operations == 200);
  }
}

TEST_CASE("an operation without bytes completes at once") {
  for (const ReaderEngine engine : kEngines) {
    const auto reader = make_reader(engine, {});
    ReadOp op;
    reader->submit(op);
    op.wait();
    CHECK(op.done());
    op.wait();  // again is fine
  }
}

TEST_CASE("destroying the reader waits for what is in flight and ends the rest with an error") {
  const ScratchDir dir;
  const auto content = pattern(64 << 20);
  write_file(dir / "file", content);
  const auto file = File::open(dir / "file");
  for (const ReaderEngine engine : kEngines) {
    INFO(name_of(engine));
    std::deque<RangeRead> reads;
    auto reader = make_reader(engine, {.queue_depth = 1, .threads = 1});
    for (int i = 0; i < 8; ++i) {
      reads.emplace_back(file, ByteRange{0, content.size()});
      reader->submit(reads.back().op);
    }
    reader.reset();
    int failed = 0;
    for (RangeRead& read : reads) {
      CHECK(read.op.done());
      try {
        read.op.wait();
        CHECK(equal(read.bytes(), content));
      } catch (const Error& error) {
        CHECK(mentions(error, "shut down"));
        ++failed;
      }
    }
    CHECK(failed > 0);
  }
}

TEST_CASE("misaligned reads are refused where they are submitted") {
  const ScratchDir dir;
  write_file(dir / "file", pattern(16384));
  const auto file = File::open(dir / "file");
  AlignedMemory memory(16384);
  const std::uint64_t unit = file->alignment();
  for (const ReaderEngine engine : kEngines) {
    const auto reader = make_reader(engine, {});
    const ReadSegment bad[] = {
        {file, {unit / 2, unit}, unit, memory.data()},
        {file, {0, unit + 1}, unit, memory.data()},
        {file, {0, unit}, unit, memory.data() + 4},
        {file, {0, unit}, unit + 1, memory.data()},
        {file, {0, unit}, unit, nullptr},
    };
    for (const ReadSegment& segment : bad) {
      ReadOp op;
      op.segments.push_back(segment);
      CHECK(error_of([&] { reader->submit(op); }).kind() == ErrorKind::kBug);
    }
  }
}

TEST_CASE("files that bypass nothing do not stay in the page cache") {
  const ScratchDir dir;
  const auto content = pattern(32 << 20);
  write_file(dir / "file", content);
  const int fd = ::open((dir / "file").c_str(), O_RDONLY);
  ::fsync(fd);
  for (const ReaderEngine engine : kEngines) {
    INFO(name_of(engine));
    const auto reader = make_reader(engine, {});
    RangeRead read(File::open(dir / "file", DirectIo::kOff), {0, content.size()});
    reader->submit(read.op);
    read.op.wait();
    CHECK(equal(read.bytes(), content));
    CHECK(reader->stats().buffered_reads > 0);
    void* map = ::mmap(nullptr, content.size(), PROT_READ, MAP_SHARED, fd, 0);
    std::vector<unsigned char> present(content.size() / 4096);
    REQUIRE(::mincore(map, content.size(), present.data()) == 0);
    const auto cached = std::count_if(present.begin(), present.end(),
                                      [](unsigned char page) { return (page & 1) != 0; });
    // Blocks that end out of order may leave a folio of 2 MiB.
    CHECK(cached < static_cast<std::ptrdiff_t>(present.size() / 2));
    ::munmap(map, content.size());
  }
  ::close(fd);
}

TEST_CASE("options out of range are usage errors") {
  CHECK(error_of([] { make_reader(ReaderEngine::kAuto, {.queue_depth = 0}); }).kind() ==
        ErrorKind::kUsage);
  CHECK(error_of([] { make_reader(ReaderEngine::kAuto, {.block_bytes = 0}); }).kind() ==
        ErrorKind::kUsage);
  CHECK(error_of([] { make_reader(ReaderEngine::kAuto, {.threads = 0}); }).kind() ==
        ErrorKind::kUsage);
  CHECK(error_of([] { make_reader(ReaderEngine::kAuto, {.deadline = {}}); }).kind() ==
        ErrorKind::kUsage);
  CHECK(error_of([] { parse_reader_engine("aio"); }).kind() == ErrorKind::kUsage);
  CHECK(parse_reader_engine("uring") == ReaderEngine::kUring);
}

}  // namespace
}  // namespace tidemill::io
