// Matrix products beside OpenBLAS sgemm and the memory's read bandwidth, on two threads.
#include <benchmark/benchmark.h>
#include <cblas.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/device.h"
#include "kernels/ops.h"

namespace {

using tidemill::DType;
using tidemill::kernels::Buffer;

constexpr unsigned kThreads = 2;

struct Cpu {
  std::unique_ptr<tidemill::kernels::Device> device =
      tidemill::kernels::make_cpu_device({.threads = kThreads});
  std::unique_ptr<tidemill::kernels::Stream> stream = device->create_stream();
  Cpu() { device->ops().reserve(512, 14336, 16); }
};

Cpu& cpu() {
  static Cpu cpu;
  return cpu;
}

// Sums a buffer that no cache holds, each thread its half.
void MemoryRead(benchmark::State& state) {
  constexpr std::size_t kWords = (1ULL << 30) / sizeof(std::uint64_t);
  const Buffer buffer = cpu().device->allocate(kWords * sizeof(std::uint64_t));
  auto* words = reinterpret_cast<std::uint64_t*>(buffer.data());
  for (std::size_t i = 0; i < kWords; ++i) words[i] = i;
  for (auto _ : state) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([=] {
        std::uint64_t sums[8] = {};
        const std::size_t end = (t + 1) * (kWords / kThreads);
        for (std::size_t i = t * (kWords / kThreads); i < end; i += 8) {
          for (std::size_t j = 0; j < 8; ++j) sums[j] += words[i + j];
        }
        benchmark::DoNotOptimize(sums);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(kWords * sizeof(std::uint64_t)));
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
  for (const std::int64_t m : {1, 16, 128}) {
    benchmark->Args({m, 2048, 2048})->Args({m, 8192, 2048})->Args({m, 2048, 8192});
  }
  benchmark->UseRealTime();
}
BENCHMARK(Sgemm)->Apply(shapes);
BENCHMARK_CAPTURE(Matmul, fp16, DType::kF16)->Apply(shapes);
BENCHMARK_CAPTURE(Matmul, bf16, DType::kBF16)->Apply(shapes);
BENCHMARK_CAPTURE(Matmul, fp32, DType::kF32)->Apply(shapes);

}  // namespace

BENCHMARK_MAIN();
