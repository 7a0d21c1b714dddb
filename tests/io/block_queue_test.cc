// The queue by itself: order, draining and completion, without any system below it.
#include "io/block_queue.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <random>
#include <thread>

#include "scratch.h"

namespace tidemill::io {
namespace {

struct Fixture {
  ScratchDir dir;
  std::shared_ptr<const File> file;
  AlignedMemory memory{1 << 16};
  ReaderOptions options{.block_bytes = 4096};

  Fixture() {
    write_file(dir / "file", pattern(1 << 16));
    file = File::open(dir / "file");
  }
  ReadSegment segment(std::uint64_t offset, std::uint64_t length) const {
    return {file, {offset, length}, length, memory.data() + offset};
  }
};

TEST_CASE_FIXTURE(Fixture, "segments are cut into blocks in their order, as slots allow") {
  BlockQueue queue(options, 3);
  ReadOp op;
  op.segments = {segment(0, 8192), segment(16384, 4096), segment(32768, 4096)};
  queue.push(op);
  std::vector<BlockQueue::Slot*> slots;
  for (const std::uint64_t offset : {0U, 4096U, 16384U}) {
    slots.push_back(queue.try_pop());
    REQUIRE(slots.back() != nullptr);
    CHECK(slots.back()->block.offset() == offset);
  }
  CHECK(queue.try_pop() == nullptr);  // all slots are taken
  CHECK(!queue.complete(*slots[1], 4096));
  BlockQueue::Slot* last = queue.try_pop();
  REQUIRE(last != nullptr);
  CHECK(last->block.offset() == 32768);
  CHECK(!queue.complete(*last, 4096));
  CHECK(!queue.complete(*slots[2], 4096));
  CHECK(!op.done());
  CHECK(!queue.complete(*slots[0], 4096));
  CHECK(op.done());
  CHECK(queue.idle());
}

TEST_CASE_FIXTURE(Fixture, "urgent operations overtake everything that is still queued") {
  BlockQueue queue(options, 1);
  ReadOp large;
  large.segments = {segment(0, 16384)};
  ReadOp row;
  row.segments = {segment(32768, 4096)};
  row.urgent = true;
  queue.push(large);
  BlockQueue::Slot* slot = queue.try_pop();
  CHECK(slot->block.offset() == 0);
  queue.push(row);
  CHECK(!queue.complete(*slot, 4096));
  slot = queue.try_pop();
  CHECK(slot->block.offset() == 32768);
  CHECK(!queue.complete(*slot, 4096));
  CHECK(row.done());
  for (const std::uint64_t offset : {4096U, 8192U, 12288U}) {
    slot = queue.try_pop();
    CHECK(slot->block.offset() == offset);
    CHECK(!queue.complete(*slot, 4096));
  }
  CHECK(large.done());
}

TEST_CASE_FIXTURE(Fixture,
                  "after an error nothing more is read, and it leaves when all has drained") {
  BlockQueue queue(options, 2);
  ReadOp op;
  op.segments = {segment(0, 65536)};
  queue.push(op);
  BlockQueue::Slot* first = queue.try_pop();
  BlockQueue::Slot* second = queue.try_pop();
  CHECK(!queue.complete(*first, -EIO));
  CHECK(queue.try_pop() == nullptr);
  CHECK(!op.done());                     // the kernel still writes to its memory
  CHECK(!queue.complete(*second, 100));  // short, but not worth continuing
  CHECK(op.done());
  const Error error = error_of([&] { op.wait(); });
  CHECK(error.error_number() == EIO);
  CHECK(error.offset() == 0);

  ReadOp next;  // the queue is as good as before
  next.segments = {segment(0, 4096)};
  queue.push(next);
  CHECK(!queue.complete(*queue.try_pop(), 4096));
  next.wait();
}

TEST_CASE_FIXTURE(Fixture, "the first error of an operation is the one that is reported") {
  BlockQueue queue(options, 2);
  ReadOp op;
  op.segments = {segment(0, 65536)};
  queue.push(op);
  BlockQueue::Slot* first = queue.try_pop();
  BlockQueue::Slot* second = queue.try_pop();
  CHECK(!queue.complete(*second, -ENXIO));
  CHECK(!queue.complete(*first, -EIO));
  CHECK(error_of([&] { op.wait(); }).error_number() == ENXIO);
}

TEST_CASE_FIXTURE(Fixture, "completions that were never submitted, or come twice, are bugs") {
  BlockQueue queue(options, 2);
  ReadOp op;
  op.segments = {segment(0, 4096)};
  queue.push(op);
  BlockQueue::Slot* slot = queue.try_pop();
  const std::uint64_t ticket = slot->ticket;
  CHECK(&queue.find(ticket) == slot);
  CHECK(error_of([&] { queue.find(ticket + 1); }).kind() == ErrorKind::kBug);
  CHECK(error_of([&] { queue.find(12345 << 16); }).kind() == ErrorKind::kBug);
  CHECK(!queue.complete(*slot, 4096));
  CHECK(mentions(error_of([&] { queue.find(ticket); }), "never submitted, or came twice"));
  ReadOp again;  // the same slot, but another flight
  again.segments = {segment(0, 4096)};
  queue.push(again);
  CHECK(queue.try_pop() == slot);
  CHECK(error_of([&] { queue.find(ticket); }).kind() == ErrorKind::kBug);
  CHECK(!queue.complete(*slot, 4096));
}

TEST_CASE_FIXTURE(Fixture, "an engine that failed stays failed, with the first error") {
  BlockQueue queue(options, 1);
  ReadOp in_flight;
  in_flight.segments = {segment(0, 4096)};
  ReadOp queued;
  queued.segments = {segment(4096, 4096)};
  queue.push(in_flight);
  queue.push(queued);
  BlockQueue::Slot* slot = queue.try_pop();
  queue.fail(Error(ErrorKind::kIo, "the ring broke"));
  queue.fail(Error(ErrorKind::kIo, "it broke again"));
  CHECK(mentions(error_of([&] { queued.wait(); }), "the ring broke"));
  CHECK(!in_flight.done());
  CHECK(!queue.complete(*slot, 4096));
  in_flight.wait();  // had everything in flight, and everything arrived
  ReadOp later;
  later.segments = {segment(0, 4096)};
  queue.push(later);
  CHECK(mentions(error_of([&] { later.wait(); }), "the ring broke"));
}

TEST_CASE_FIXTURE(Fixture, "blocks may complete in any order, whole or in parts, with any errors") {
  const auto content = read_file(dir / "file");
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    BlockQueue queue(options, 1 + static_cast<std::uint32_t>(random() % 6));
    std::memset(memory.data(), 0xFF, memory.size());
    constexpr std::size_t kOps = 4;
    ReadOp ops[kOps];
    bool failed[kOps] = {};
    for (std::size_t i = 0; i < kOps; ++i) {
      ops[i].urgent = random() % 3 == 0;
      for (std::uint64_t s = 0; s < 1 + random() % 2; ++s) {
        ops[i].segments.push_back(segment(i * 16384 + s * 8192, (1 + random() % 2) * 4096));
      }
      queue.push(ops[i]);
    }
    std::vector<BlockQueue::Slot*> flying;
    while (true) {
      while (random() % 4 != 0) {
        BlockQueue::Slot* slot = queue.try_pop();
        if (slot == nullptr) break;
        flying.push_back(slot);
      }
      if (flying.empty()) {
        if (queue.idle() && std::all_of(ops, ops + kOps, [](auto& op) { return op.done(); })) break;
        continue;
      }
      const std::size_t pick = random() % flying.size();
      BlockQueue::Slot* slot = flying[pick];
      const ReadRequest request = slot->block.next();
      std::int64_t result = -EIO;
      if (random() % 32 == 0) {
        failed[request.offset / 16384] = true;
      } else {
        result = static_cast<std::int64_t>(random() % 2 == 0 ? request.length
                                                             : 1 + random() % request.length);
        kernel_write(request.destination, content.data() + request.offset,
                     static_cast<std::uint64_t>(result));
      }
      if (!queue.complete(*slot, result)) {
        flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(pick));
      }
    }
    for (std::size_t i = 0; i < kOps; ++i) {
      if (failed[i]) {
        REQUIRE(error_of([&] { ops[i].wait(); }).error_number() == EIO);
        continue;
      }
      ops[i].wait();
      for (const ReadSegment& s : ops[i].segments) {
        REQUIRE(equal({s.destination, s.range.length},
                      std::span(content).subspan(s.range.offset, s.range.length)));
      }
    }
    REQUIRE(queue.stats().operations == kOps);
  }
}

TEST_CASE_FIXTURE(Fixture, "nothing arrives before the deadline: an error that says where") {
  options.deadline = std::chrono::seconds(1);
  BlockQueue queue(options, 2);
  std::atomic<int> wakes = 0;
  queue.on_cancel([&] { ++wakes; });
  ReadOp hung;
  hung.segments = {segment(8192, 4096)};
  queue.push(hung);
  BlockQueue::Slot* slot = queue.try_pop();
  const Error error = error_of([&] { hung.wait(); });
  CHECK(error.kind() == ErrorKind::kIo);
  CHECK(error.path() == file->path());
  CHECK(error.offset() == 8192);
  CHECK(wakes == 1);
  CHECK(queue.take_cancelled() == std::vector<std::uint64_t>{slot->ticket});
  CHECK(!hung.done());  // the kernel was asked to let go, and has not answered
  CHECK(error_of([&] { hung.wait(); }).offset() == 8192);  // at once: no second deadline
  CHECK(!queue.complete(*slot, -ECANCELED));
  CHECK(hung.done());
  CHECK(mentions(error_of([&] { hung.wait(); }), "nothing arrived"));
}

TEST_CASE_FIXTURE(Fixture, "an operation that queues behind a slow but living one is not late") {
  options.deadline = std::chrono::seconds(1);
  BlockQueue queue(options, 1);
  ReadOp slow;
  slow.segments = {segment(0, 16384)};
  ReadOp behind;
  behind.segments = {segment(32768, 4096)};
  queue.push(slow);
  queue.push(behind);
  std::thread engine([&] {
    while (BlockQueue::Slot* slot = queue.pop()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
      (void)queue.complete(*slot, 4096);
    }
  });
  behind.wait();  // after two seconds
  slow.wait();
  queue.close();
  engine.join();
}

}  // namespace
}  // namespace tidemill::io
