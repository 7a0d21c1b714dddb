#include "tests/offload/support/sim_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

#include "io/base/error.h"

namespace tidemill::test {
namespace {

std::uint64_t scramble(std::uint64_t x) {  // splitmix64
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

}  // namespace

void file_content(const io::File& file, ByteRange range, std::byte* out) {
  const std::uint64_t salt = std::hash<std::string>{}(file.path());
  std::uint64_t at = range.offset;
  while (at < range.end()) {
    const std::uint64_t word = scramble(salt ^ (at / 8));
    const std::uint64_t first = at % 8;
    const std::uint64_t count = std::min(8 - first, range.end() - at);
    std::memcpy(out, reinterpret_cast<const char*>(&word) + first, count);
    out += count;
    at += count;
  }
}

SimReader::~SimReader() { world_.remove(*this); }

void SimReader::submit(io::ReadOp& op) {
  ++submitted_;
  if (op.urgent) ++urgent_;
  io::OpCompletion::start(op, deadline_, nullptr);
  Pending read;
  read.op = &op;
  for (const io::ReadSegment& segment : op.segments) {
    const std::uint64_t alignment = segment.file->alignment();
    TM_CHECK(segment.range.offset % alignment == 0 && segment.range.length % alignment == 0 &&
                 reinterpret_cast<std::uintptr_t>(segment.destination) % alignment == 0,
             "misaligned read of {} at {}", segment.range.length, segment.range.offset);
    TM_CHECK(segment.required ==
                 std::min(segment.range.length, segment.file->size() - segment.range.offset),
             "{} bytes required of {}", segment.required, segment.range.length);
    // Whoever looks before the bytes have arrived sees garbage.
    std::memset(segment.destination, static_cast<int>(submitted_ & 0xFF) ^ 0xA5,
                segment.range.length);
    read.parts.push_back({segment, 0});
  }
  if (submitted_ == failing_) {
    const io::ReadSegment& first = op.segments.front();
    read.error.emplace(ErrorKind::kIo,
                       fmt::format("{}: cannot read at {}", first.file->path(), first.range.offset),
                       ErrorContext{first.file->path(), first.range.offset, EIO});
  }
  if (world_.mutations.filled_too_early) {
    read.finished = true;
    io::OpCompletion::finish(op, std::nullopt);
  }
  pending_.push_back(std::move(read));
  most_in_flight_ = std::max(most_in_flight_, pending_.size());
  world_.pass_time();
}

void SimReader::step() {
  const std::size_t index = world_.pick(0, pending_.size() - 1);
  Pending& read = pending_[index];
  if (!read.parts.empty() && !(read.error && world_.chance(0.5))) {
    deliver_some(read);
    return;
  }
  // The completion is a step of its own: bytes may be there long before anybody is told.
  if (!read.finished) {
    if (!read.error) ++stats_.operations;
    io::OpCompletion::finish(*read.op, std::move(read.error));
  }
  pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(index));
}

void SimReader::deliver_some(Pending& read) {
  const std::size_t index = world_.pick(0, read.parts.size() - 1);
  Part& part = read.parts[index];
  const std::uint64_t left = part.segment.required - part.delivered;
  const std::uint64_t count = world_.chance(0.5) ? left : left / 2;
  file_content(*part.segment.file, {part.segment.range.offset + part.delivered, count},
               part.segment.destination + part.delivered);
  part.delivered += count;
  stats_.bytes += count;
  ++stats_.reads;
  if (part.delivered == part.segment.required) {
    read.parts.erase(read.parts.begin() + static_cast<std::ptrdiff_t>(index));
  }
}

}  // namespace tidemill::test
