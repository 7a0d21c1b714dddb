// Matrix products beside OpenBLAS sgemm and the memory's read bandwidth; attention, norms and what
// a small operation costs. On two threads.
#include <benchmark/benchmark.h>
#include <cblas.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/device.h"
#include "kernels/ops.h"

namespace {

using tidemill::DType;
using tidemill::kernels::Buffer;

constexpr unsigned kThreads = 2;
constexpr std::uint64_t kPositions = 4096;

struct Cpu {
  std::unique_ptr<tidemill::kernels::Device> device =
      tidemill::kernels::make_cpu_device({.threads = kThreads});
  std::unique_ptr<tidemill::kernels::Stream> stream = device->create_stream();
  Cpu() { device->ops().reserve(512, 14336, kPositions); }
};

Cpu& cpu() {
  static Cpu cpu;
  return cpu;
}

struct Line {
  std::uint64_t words __attribute__((vector_size(64)));
};

// Sums lines in the widest registers there are: with narrow ones too few cache lines are on their
// way at a time to keep the memory busy (measured: a third less).
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
std::uint64_t
sum_lines(const Line* lines, std::size_t count) {
  constexpr std::size_t kAhead = 24;
  Line a{}, b{}, c{}, d{};
  for (std::size_t i = 0; i < count; i += 4) {
    __builtin_prefetch(lines + i + kAhead);
    __builtin_prefetch(lines + i + kAhead + 1);
    __builtin_prefetch(lines + i + kAhead + 2);
    __builtin_prefetch(lines + i + kAhead + 3);
    a.words += lines[i].words;
    b.words += lines[i + 1].words;
    c.words += lines[i + 2].words;
    d.words += lines[i + 3].words;
  }
  a.words += b.words + c.words + d.words;
  std::uint64_t sum = 0;
  for (int i = 0; i < 8; ++i) sum += a.words[i];
  return sum;
}

// Reads a buffer that no cache holds. Threads claim shares as they come free, so that one that is
// kept waiting does not hold up the other.
void MemoryRead(benchmark::State& state) {
  constexpr std::size_t kLines = (1ULL << 30) / sizeof(Line);
  constexpr std::size_t kShare = (1ULL << 20) / sizeof(Line);
  const Buffer buffer = cpu().device->allocate(kLines * sizeof(Line));
  std::memset(buffer.data(), 1, buffer.size());
  const auto* lines = reinterpret_cast<const Line*>(buffer.data());
  for (auto _ : state) {
    std::atomic<std::size_t> next = 0;
    const auto read = [&] {
      std::uint64_t sum = 0;
      for (std::size_t share = next++; share < kLines / kShare; share = next++) {
        sum += sum_lines(lines + share * kShare, kShare);
      }
      benchmark::DoNotOptimize(sum);
    };
    std::vector<std::thread> threads;
    for (unsigned t = 1; t < kThreads; ++t) threads.emplace_back(read);
    read();
    for (std::thread& thread : threads) thread.join();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kLines * sizeof(Line)));
}
BENCHMARK(MemoryRead)->UseRealTime();

void count(benchmark::State& state, std::uint64_t m, std::uint64_t n, std::uint64_t k,
           std::size_t element) {
  state.counters["FLOP/s"] = benchmark::Counter(
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
      benchmark::Counter::kIsIterationInvariantRate);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(n * k * element));
}

void Sgemm(benchmark::State& state) {
  const auto m = static_cast<std::uint64_t>(state.range(0));
  const auto n = static_cast<std::uint64_t>(state.range(1));
  const auto k = static_cast<std::uint64_t>(state.range(2));
  openblas_set_num_threads(kThreads);
  const std::vector<float> x(m * k, 0.5f), w(n * k, 0.25f);
  std::vector<float> y(m * n);
  for (auto _ : state) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(m), static_cast<int>(n),
                static_cast<int>(k), 1.0f, x.data(), static_cast<int>(k), w.data(),
                static_cast<int>(k), 0.0f, y.data(), static_cast<int>(n));
    benchmark::DoNotOptimize(y.data());
  }
  count(state, m, n, k, sizeof(float));
  state.SetLabel(openblas_get_corename());
}

// Enough copies of the weights that no cache holds them when one token passes.
void Matmul(benchmark::State& state, DType dtype) {
  const auto m = static_cast<std::uint64_t>(state.range(0));
  const auto n = static_cast<std::uint64_t>(state.range(1));
  const auto k = static_cast<std::uint64_t>(state.range(2));
  const std::size_t bytes = n * k * tidemill::size_of(dtype);
  const std::size_t copies = m == 1 ? (1ULL << 29) / bytes + 1 : 1;
  const Buffer weights = cpu().device->allocate(bytes * copies);
  std::fill_n(weights.data(), weights.size(), std::byte{0x11});
  const std::vector<float> x(m * k, 0.5f);
  std::vector<float> y(m * n);
  std::size_t copy = 0;
  for (auto _ : state) {
    cpu().device->ops().matmul(*cpu().stream, {x.data(), k},
                               {weights.data() + (copy++ % copies) * bytes, dtype, n, k},
                               {y.data(), n}, m);
    cpu().stream->synchronize();
    benchmark::DoNotOptimize(y.data());
  }
  count(state, m, n, k, tidemill::size_of(dtype));
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t m : {1, 4, 16, 128, 512}) {
    benchmark->Args({m, 2048, 2048})->Args({m, 8192, 2048})->Args({m, 2048, 8192});
  }
  benchmark->UseRealTime();
}
BENCHMARK(Sgemm)->Apply(shapes);
BENCHMARK_CAPTURE(Matmul, fp16, DType::kF16)->Apply(shapes);
BENCHMARK_CAPTURE(Matmul, bf16, DType::kBF16)->Apply(shapes);
BENCHMARK_CAPTURE(Matmul, fp32, DType::kF32)->Apply(shapes);

// y += x W for weights of [in, out].
void MatmulTransposed(benchmark::State& state, DType dtype) {
  const auto m = static_cast<std::uint64_t>(state.range(0));
  const auto n = static_cast<std::uint64_t>(state.range(1));
  const auto k = static_cast<std::uint64_t>(state.range(2));
  const std::size_t bytes = n * k * tidemill::size_of(dtype);
  const std::size_t copies = m == 1 ? (1ULL << 29) / bytes + 1 : 1;
  const Buffer weights = cpu().device->allocate(bytes * copies);
  std::fill_n(weights.data(), weights.size(), std::byte{0x11});
  const std::vector<float> x(m * k, 0.5f);
  std::vector<float> y(m * n);
  std::size_t copy = 0;
  for (auto _ : state) {
    cpu().device->ops().matmul_transposed_accumulate(
        *cpu().stream, {x.data(), k}, {weights.data() + (copy++ % copies) * bytes, dtype, k, n},
        {y.data(), n}, m);
    benchmark::DoNotOptimize(y.data());
  }
  count(state, m, n, k, tidemill::size_of(dtype));
}
BENCHMARK_CAPTURE(MatmulTransposed, fp16, DType::kF16)->Apply(shapes);

// `count` tokens behind `past` ones, 32 heads over 8 cache heads of 128: the shape of a 7B model.
// The bytes are those of the keys and values, once.
void Attention(benchmark::State& state) {
  const auto tokens = static_cast<std::uint64_t>(state.range(0));
  const auto past = static_cast<std::uint64_t>(state.range(1));
  const tidemill::kernels::AttentionShape shape{.heads = 32, .kv_heads = 8, .head_dim = 128};
  const std::uint64_t row = (32 + 16) * 128;
  const tidemill::kernels::QkvLayout layout{.q_offset = 0,
                                            .q_head_stride = 128,
                                            .k_offset = 32 * 128,
                                            .k_head_stride = 128,
                                            .v_offset = 40 * 128,
                                            .v_head_stride = 128};
  auto& ops = cpu().device->ops();
  std::vector<float> cache(ops.kv_cache_floats(shape, kPositions), 0.01f);
  const std::vector<float> qkv(tokens * row, 0.02f);
  std::vector<float> out(tokens * 32 * 128);
  const tidemill::kernels::SequenceRows sequence{
      .first_row = 0, .count = tokens, .position = past, .cache = {cache.data(), kPositions}};
  for (auto _ : state) {
    ops.kv_append(*cpu().stream, {qkv.data(), row}, layout, shape, {&sequence, 1});
    ops.attention(*cpu().stream, {.qkv = {qkv.data(), row},
                                  .layout = layout,
                                  .shape = shape,
                                  .sequences = {&sequence, 1},
                                  .out = {out.data(), 32 * 128}});
    benchmark::DoNotOptimize(out.data());
  }
  const double seen = static_cast<double>(tokens * past + tokens * (tokens + 1) / 2);
  state.counters["FLOP/s"] =
      benchmark::Counter(seen * 32 * 128 * 4, benchmark::Counter::kIsIterationInvariantRate);
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>((past + tokens) * 8 * 2 * 128 * 4));
}
BENCHMARK(Attention)
    ->Args({1, 100})
    ->Args({1, 1024})
    ->Args({1, 4000})
    ->Args({128, 0})
    ->Args({512, 0})
    ->Args({128, 3000})
    ->UseRealTime();

void Norm(benchmark::State& state) {
  const auto tokens = static_cast<std::uint64_t>(state.range(0));
  constexpr std::uint64_t kCols = 4096;
  const std::vector<float> x(tokens * kCols, 0.5f), weight(kCols, 1.0f);
  std::vector<float> y(tokens * kCols);
  for (auto _ : state) {
    cpu().device->ops().rms_norm(*cpu().stream, {x.data(), kCols}, weight.data(), 1e-5f,
                                 {y.data(), kCols}, tokens, kCols);
    benchmark::DoNotOptimize(y.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(tokens * kCols * 8));
}
BENCHMARK(Norm)->Arg(1)->Arg(128)->UseRealTime();

void Activate(benchmark::State& state, tidemill::kernels::Activation f) {
  const auto tokens = static_cast<std::uint64_t>(state.range(0));
  constexpr std::uint64_t kCols = 14336;
  std::vector<float> y(tokens * kCols, 1.0f);
  for (auto _ : state) {
    cpu().device->ops().activate(*cpu().stream, f, {y.data(), kCols}, tokens, kCols);
    benchmark::DoNotOptimize(y.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(tokens * kCols));
}
BENCHMARK_CAPTURE(Activate, gelu_erf, tidemill::kernels::Activation::kGeluErf)
    ->Arg(1)
    ->Arg(128)
    ->UseRealTime();
BENCHMARK_CAPTURE(Activate, silu, tidemill::kernels::Activation::kSilu)
    ->Arg(1)
    ->Arg(128)
    ->UseRealTime();

// The smallest operation, on the calling thread, and the smallest that both threads share.
void SmallOp(benchmark::State& state) {
  const auto cols = static_cast<std::uint64_t>(state.range(0));
  const std::vector<float> x(cols * 64, 0.5f);
  std::vector<float> y(cols * 64);
  for (auto _ : state) {
    cpu().device->ops().add(*cpu().stream, {x.data(), cols}, {y.data(), cols}, 64, cols);
    benchmark::DoNotOptimize(y.data());
  }
}
BENCHMARK(SmallOp)->Arg(16)->Arg(2048)->Arg(4096)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
