#include "tools/read_speed.h"

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <utility>

#include "io/base/checked.h"
#include "io/base/units.h"

namespace tidemill::tools {
namespace {

constexpr std::size_t kPieces = 3;  // on their way at once, so that the drive never waits for us
constexpr std::uint64_t kPieceBytes = 16 * kMiB;
constexpr std::align_val_t kAlignment{2 * kMiB};

struct Release {
  void operator()(std::byte* memory) const { operator delete[](memory, kAlignment); }
};

/// Reads on their way, which end before their memory does also if one of them fails.
class Reads {
 public:
  Reads() = default;
  ~Reads() {
    for (std::size_t i = 0; i < kPieces; ++i) {
      try {
        wait(i);
      } catch (const Error&) {  // the first one is on its way to the caller
      }
    }
  }
  Reads(const Reads&) = delete;
  Reads& operator=(const Reads&) = delete;

  void submit(std::size_t i, io::Reader& reader, io::ReadSegment segment) {
    operations_[i].segments = {std::move(segment)};
    reader.submit(operations_[i]);
    in_flight_[i] = true;
  }
  void wait(std::size_t i) {
    if (std::exchange(in_flight_[i], false)) operations_[i].wait();
  }

 private:
  std::array<io::ReadOp, kPieces> operations_;
  std::array<bool, kPieces> in_flight_ = {};
};

}  // namespace

ReadSpeed measure_read_speed(const engine::Model& model, io::ReaderEngine engine,
                             const io::ReaderOptions& options, std::chrono::milliseconds duration) {
  const auto files = model.checkpoint.files();
  const auto& file =
      *std::max_element(files.begin(), files.end(),
                        [](const auto& a, const auto& b) { return a->size() < b->size(); });
  const std::unique_ptr<std::byte[], Release> memory(
      static_cast<std::byte*>(operator new[](kPieces* kPieceBytes, kAlignment)));
  const auto reader = io::make_reader(engine, options);
  reader->register_memory({memory.get(), kPieces * kPieceBytes});
  Reads reads;  // after what they use: destroyed first
  std::uint64_t position = 0;
  std::uint64_t bytes = 0;
  const auto submit = [&](std::size_t i) {
    const std::uint64_t length =
        std::min(kPieceBytes, align_up(file->size() - position, file->alignment()));
    const std::uint64_t required = std::min(length, file->size() - position);
    reads.submit(i, *reader,
                 {.file = file,
                  .range = {position, length},
                  .required = required,
                  .destination = memory.get() + i * kPieceBytes});
    position = position + length < file->size() ? position + length : 0;
    bytes += required;
  };
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < kPieces; ++i) submit(i);
  for (std::size_t i = 0; std::chrono::steady_clock::now() - start < duration;
       i = (i + 1) % kPieces) {
    reads.wait(i);
    submit(i);
  }
  for (std::size_t i = 0; i < kPieces; ++i) reads.wait(i);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return {.bytes_per_second = static_cast<double>(bytes) / elapsed.count(),
          .bytes = bytes,
          .direct = file->direct(),
          .engine = std::string(reader->name())};
}

}  // namespace tidemill::tools
