// What executes: memory, streams of work and the events that order them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tidemill::kernels {

class Ops;

/// A point in a stream's work. Reusable: each Stream::record() sets it anew.
class Event {
 public:
  virtual ~Event() = default;
  /// True if the recorded work has finished, or nothing was recorded yet.
  virtual bool complete() const = 0;
  /// Blocks the host until complete(). Throws Error(kDevice) if the stream failed.
  virtual void wait_on_host() = 0;
};

/// A queue of work that executes in order; different streams are ordered by events only.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Marks the work submitted so far.
  virtual void record(Event& event) = 0;
  /// Work submitted from now on starts after the event's recorded work has finished.
  virtual void wait(Event& event) = 0;
  /// Copies host memory to memory of this device. Queued: the host memory must stay as it is until
  /// the stream has passed the copy.
  virtual void upload(const void* host, std::byte* device, std::size_t bytes) = 0;
  /// Copies memory of this device to host memory, which is undefined until the stream has passed
  /// the copy.
  virtual void download(const std::byte* device, void* host, std::size_t bytes) = 0;
  /// Blocks the host until all submitted work has finished.
  virtual void synchronize() = 0;
};

/// Device memory; releases it when destroyed. Move-only.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::byte* data, std::size_t size, std::function<void(std::byte*)> release)
      : data_(data), size_(size), release_(std::move(release)) {}
  ~Buffer() { reset(); }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      reset();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
      release_ = std::exchange(other.release_, nullptr);
    }
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }
  float* floats() const { return reinterpret_cast<float*>(data_); }

 private:
  void reset() {
    if (data_ != nullptr && release_) release_(data_);
    data_ = nullptr;
  }
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::function<void(std::byte*)> release_;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  /// One line for people: "cpu: AVX-512, 2 threads".
  virtual std::string description() const = 0;

  /// `bytes` of memory aligned to 2 MiB where that pays, at least to 4096. Contents undefined (and
  /// poisoned with 0xFF, which reads as NaN, in debug builds). Error(kBudget) if there is none.
  virtual Buffer allocate(std::size_t bytes) = 0;
  /// Host memory, aligned like allocate()'s, from and to which this device's streams copy at full
  /// speed (page-locked where the system permits). Error(kBudget) if there is none.
  virtual Buffer allocate_host(std::size_t bytes) = 0;
  /// True if host memory is this device's own memory: reads may land where operations compute, and
  /// the host may look at results. False: bytes come and go by Stream::upload() and download().
  virtual bool shares_host_memory() const = 0;
  virtual std::unique_ptr<Stream> create_stream() = 0;
  virtual std::unique_ptr<Event> create_event() = 0;
  virtual Ops& ops() = 0;
};

/// Instruction sets that the CPU kernels are compiled for, in ascending order. All of them give the
/// same bits.
enum class CpuTarget { kBaseline, kAvx2, kAvx512 };

struct CpuOptions {
  unsigned threads = 0;  ///< 0: one per available core
  /// The best one up to this that the processor has is used; the environment variable
  /// TIDEMILL_CPU_TARGET (baseline, avx2, avx512) can lower it further.
  CpuTarget max_target = CpuTarget::kAvx512;
};
/// The CPU device. Streams execute work at submission on a fixed pool of threads; operations may
/// be submitted from any thread, one executes at a time. Error(kDevice) if a thread cannot start.
std::unique_ptr<Device> make_cpu_device(const CpuOptions& options);

}  // namespace tidemill::kernels
