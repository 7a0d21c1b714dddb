#include "offload/row_gather.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "io/base/checked.h"
#include "io/base/error.h"
#include "offload/deliberate_leak.h"
#include "offload/piece_layout.h"
#include "offload/piece_memory.h"

namespace tidemill::offload {
namespace {

// The aligned range that is read for rows [begin, end).
ByteRange rows_to_read(const io::TensorInfo& tensor, std::uint64_t begin, std::uint64_t end) {
  return io::align_extent(tensor.row_range(begin, end), tensor.file->alignment()).aligned;
}

std::uint64_t memory_alignment(const io::TensorInfo& tensor) {
  return std::max(kPieceAlignment, tensor.file->alignment());
}

}  // namespace

struct RowGather::Impl {
  Impl(const io::TensorInfo& tensor_in, io::Reader& reader_in, kernels::Device& device_in,
       const RowGatherOptions& options_in)
      : tensor(tensor_in),
        reader(reader_in),
        device(device_in),
        options(options_in),
        memory(device, options.resident ? resident_bytes(tensor) : options.staging_bytes,
               memory_alignment(tensor)),
        read(std::make_unique<io::ReadOp>()),
        consumed(device.create_event()) {
    TM_CHECK(options.resident || options.staging_bytes >= smallest_staging(tensor),
             "{}: {} bytes of staging, {} needed", tensor.name, options.staging_bytes,
             smallest_staging(tensor));
    TM_CHECK((options.tape != nullptr) == options.tape_use.has_value(),
             "{}: a tape and a use on it go together", tensor.name);
    read->urgent = true;
  }

  ~Impl() {
    try {
      if (in_flight) read->wait();
    } catch (const Error&) {
      // Reported to the caller of gather(), or about rows that nobody wants any more.
    }
    bool stuck = in_flight && !read->done();
    try {
      if (!stuck) consumed->wait_on_host();
    } catch (const Error&) {
      stuck = true;
    }
    if (!stuck) return;
    memory.leak();
    if (in_flight && !read->done()) leak_on_purpose(std::move(read));
  }

  // Reads `segments` of the operation, and waits for them.
  void run_read() {
    if (in_flight && !read->done()) read->wait();  // a lost read: its error stays
    in_flight = true;
    reader.submit(*read);
    read->wait();
    in_flight = false;
    for (const io::ReadSegment& segment : read->segments) stats.bytes_read += segment.required;
  }

  void add_segment(ByteRange range, std::uint64_t memory_offset) {
    read->segments.push_back(
        {.file = tensor.file,
         .range = range,
         .required = std::min(range.length, tensor.file->size() - range.offset),
         .destination = memory.bytes().data() + memory_offset});
  }

  // The whole matrix, once.
  void load() {
    if (loaded || tensor.bytes.empty()) return;
    read->segments.clear();
    add_segment(rows_to_read(tensor, 0, tensor.rows()), 0);
    run_read();
    stats.rows_read += tensor.rows();
    loaded = true;
  }

  const std::byte* row_in_memory(std::uint64_t row) const {
    if (options.resident) {
      const ByteRange all = rows_to_read(tensor, 0, tensor.rows());
      return memory.bytes().data() + (tensor.row_range(row, row + 1).offset - all.offset);
    }
    return options.tape != nullptr ? options.tape->resident_row(*options.tape_use, row) : nullptr;
  }

  // Rows and where they are; sorted by row.
  struct Found {
    std::uint64_t row = 0;
    const std::byte* data = nullptr;
  };

  // Reads the rows from `next` on, as many as fit, into the staging memory. Rows that share an
  // aligned block, or whose blocks touch, are read together.
  std::vector<Found> read_batch(const std::vector<std::uint64_t>& missing, std::size_t& next) {
    consumed->wait_on_host();  // the staging memory may still be read by the batch before
    read->segments.clear();
    std::vector<Found> batch;
    const std::uint64_t room = memory.bytes().size();
    ByteRange open{};           // the segment that is being collected
    std::uint64_t open_at = 0;  // where it goes in memory
    for (; next < missing.size(); ++next) {
      const std::uint64_t row = missing[next];
      ByteRange range = rows_to_read(tensor, row, row + 1);
      const bool joins = !batch.empty() && range.offset <= open.end();
      const std::uint64_t at = joins ? open_at : open_at + open.length;
      if (joins) range = {open.offset, range.end() - open.offset};
      if (range.length > room - at) break;
      if (!joins && !batch.empty()) add_segment(open, open_at);
      open = range;
      open_at = at;
      batch.push_back({row, memory.bytes().data() + at +
                                (tensor.row_range(row, row + 1).offset - range.offset)});
    }
    add_segment(open, open_at);
    run_read();
    stats.rows_read += batch.size();
    return batch;
  }

  // Gathers those of `rows` that were found: one operation per run of neighbours.
  void gather_found(std::span<const std::uint64_t> rows, const std::vector<Found>& found,
                    kernels::Stream& stream, kernels::Rows dst) {
    std::vector<const std::byte*> run;
    std::size_t run_begin = 0;
    const auto flush = [&] {
      if (run.empty()) return;
      device.ops().gather(stream, run, tensor.dtype, tensor.row_elements(),
                          {dst.data + run_begin * dst.stride, dst.stride});
      run.clear();
    };
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto place = std::lower_bound(
          found.begin(), found.end(), rows[i],
          [](const Found& candidate, std::uint64_t row) { return candidate.row < row; });
      if (place == found.end() || place->row != rows[i]) {
        flush();
        continue;
      }
      if (run.empty()) run_begin = i;
      run.push_back(place->data);
    }
    flush();
    // One event for all streams: this one's record covers what another still has to do.
    if (!consumed->complete()) stream.wait(*consumed);
    stream.record(*consumed);
  }

  void gather(std::span<const std::uint64_t> rows, kernels::Stream& stream, kernels::Rows dst) {
    std::vector<std::uint64_t> distinct(rows.begin(), rows.end());
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    if (distinct.empty() || tensor.row_bytes() == 0) return;
    TM_CHECK(distinct.back() < tensor.rows(), "{}: row {} of {}", tensor.name, distinct.back(),
             tensor.rows());
    stats.rows += rows.size();

    if (options.resident) load();
    std::vector<Found> found;
    std::vector<std::uint64_t> missing;
    for (const std::uint64_t row : distinct) {
      if (const std::byte* data = row_in_memory(row)) {
        found.push_back({row, data});
      } else {
        missing.push_back(row);
      }
    }
    // The usual case is one batch, gathered together with what was in memory.
    std::size_t next = 0;
    do {
      if (next < missing.size()) {
        const std::vector<Found> batch = read_batch(missing, next);
        found.insert(found.end(), batch.begin(), batch.end());
        std::sort(found.begin(), found.end(),
                  [](const Found& a, const Found& b) { return a.row < b.row; });
      }
      gather_found(rows, found, stream, dst);
      found.clear();
    } while (next < missing.size());
  }

  const io::TensorInfo& tensor;
  io::Reader& reader;
  kernels::Device& device;
  const RowGatherOptions options;
  Arena memory;  ///< staging, or the whole matrix
  std::unique_ptr<io::ReadOp> read;
  std::unique_ptr<kernels::Event> consumed;  ///< by the work that reads `memory`
  bool in_flight = false;
  bool loaded = false;
  RowGatherStats stats;
};

RowGather::RowGather(const io::TensorInfo& tensor, io::Reader& reader, kernels::Device& device,
                     const RowGatherOptions& options)
    : impl_(std::make_unique<Impl>(tensor, reader, device, options)) {}

RowGather::~RowGather() = default;

void RowGather::gather(std::span<const std::uint64_t> rows, kernels::Stream& stream,
                       kernels::Rows dst) {
  impl_->gather(rows, stream, dst);
}

RowGatherStats RowGather::stats() const { return impl_->stats; }

std::uint64_t RowGather::smallest_staging(const io::TensorInfo& tensor) {
  // The rows' places relative to the file's blocks repeat, at the latest after a block of rows.
  const std::uint64_t rows = std::min(tensor.rows(), tensor.file->alignment());
  std::uint64_t largest = 0;
  for (std::uint64_t row = 0; row < rows && tensor.row_bytes() > 0; ++row) {
    largest = std::max(largest, rows_to_read(tensor, row, row + 1).length);
  }
  return largest;
}

std::uint64_t RowGather::resident_bytes(const io::TensorInfo& tensor) {
  return tensor.bytes.empty() ? 0 : rows_to_read(tensor, 0, tensor.rows()).length;
}

}  // namespace tidemill::offload
