#include "kernels/device.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <vector>

#include "io/base/error.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/target.h"
#include "tests/kernels/kernel_fixture.h"

namespace tidemill::kernels::test {
namespace {

TEST_CASE("the cpu device describes itself and respects the limit of its instruction set") {
  const auto baseline = make_cpu_device({.threads = 3, .max_target = CpuTarget::kBaseline});
  CHECK(baseline->name() == "cpu");
  CHECK(baseline->description() == "cpu: baseline, 3 threads");
  CHECK(make_cpu_device({.threads = 1, .max_target = CpuTarget::kBaseline})->description() ==
        "cpu: baseline, 1 thread");
  CHECK(make_cpu_device({})->description().find("thread") != std::string::npos);
}

TEST_CASE("the environment lowers the instruction set, and nonsense in it is refused") {
  const char* const old = std::getenv("TIDEMILL_CPU_TARGET");
  const std::string kept = old == nullptr ? "" : old;
  setenv("TIDEMILL_CPU_TARGET", "baseline", 1);
  CHECK(make_cpu_device({.threads = 1})->description() == "cpu: baseline, 1 thread");
  setenv("TIDEMILL_CPU_TARGET", "avx2", 1);
  if (cpu::supported_target(CpuTarget::kAvx2) == CpuTarget::kAvx2) {
    CHECK(make_cpu_device({.threads = 1})->description() == "cpu: AVX2, 1 thread");
  }
  setenv("TIDEMILL_CPU_TARGET", "mmx", 1);
  CHECK_THROWS_AS(make_cpu_device({.threads = 1}), Error);
  setenv("TIDEMILL_CPU_TARGET", kept.c_str(), 1);
}

TEST_CASE(
    "each instruction set has its own copy of the kernels, and a lower limit selects another") {
  const auto best = cpu::supported_target(CpuTarget::kAvx512);
  for (const CpuTarget limit : {CpuTarget::kBaseline, CpuTarget::kAvx2, CpuTarget::kAvx512}) {
    CHECK(cpu::supported_target(limit) == std::min(limit, best));
  }
#if defined(__x86_64__) && !defined(__AVX2__)  // else the baseline is no lower than the others
  const auto* const baseline = &cpu::matmul_kernels(CpuTarget::kBaseline);
  const auto* const avx2 = &cpu::matmul_kernels(CpuTarget::kAvx2);
  const auto* const avx512 = &cpu::matmul_kernels(CpuTarget::kAvx512);
  CHECK(baseline != avx2);
  CHECK(baseline != avx512);
  CHECK(avx2 != avx512);
  CHECK(avx2->token_tile < avx512->token_tile);  // fewer registers
#endif
}

TEST_CASE("memory is aligned, writable to the last byte, and refused when there is none") {
  const auto device = make_cpu_device({.threads = 1});
  for (const std::size_t bytes :
       std::initializer_list<std::size_t>{1u, 4096u, 4097u, 2u << 20, (5u << 20) + 3}) {
    const Buffer buffer = device->allocate(bytes);
    REQUIRE(buffer.size() == bytes);
    const auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
    CHECK(address % (bytes >= 2u << 20 ? 2u << 20 : 4096u) == 0);
    buffer.bytes().front() = std::byte{1};
    buffer.bytes().back() = std::byte{2};
  }
  CHECK(device->allocate(0).size() == 0);
  for (const std::size_t bytes :
       std::initializer_list<std::size_t>{std::size_t{1} << 55, SIZE_MAX}) {
    try {
      (void)device->allocate(bytes);
      FAIL("allocated");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kBudget);
    }
  }
}

TEST_CASE("streams and events are complete as soon as the call returns") {
  const auto device = make_cpu_device({.threads = 1});
  const auto stream = device->create_stream();
  const auto event = device->create_event();
  CHECK(event->complete());
  stream->record(*event);
  stream->wait(*event);
  event->wait_on_host();
  stream->synchronize();
  CHECK(event->complete());
}

TEST_CASE("bytes come back from the device as they went there, and nothing around them changes") {
  const auto device = make_cpu_device({.threads = 1});
  const auto stream = device->create_stream();
  const Buffer buffer = device->allocate(64);
  std::vector<std::byte> before(64, std::byte{7}), after(64);
  const std::vector<std::byte> sent = {std::byte{1}, std::byte{2}, std::byte{3}};
  stream->upload(before.data(), buffer.data(), 64);
  stream->upload(sent.data(), buffer.data() + 5, 3);
  stream->upload(nullptr, buffer.data(), 0);
  stream->download(buffer.data(), after.data(), 63);
  stream->synchronize();
  std::copy(sent.begin(), sent.end(), before.begin() + 5);
  before.back() = std::byte{0};  // not asked for
  CHECK(after == before);
}

TEST_CASE("scratch: its size is told before it is allocated, and more than it is refused") {
  Cpu cpu(2);
  Ops& ops = cpu.ops();
  CHECK(ops.scratch_bytes(1, 1, 1) <= ops.scratch_bytes(128, 4096, 1));
  CHECK(ops.scratch_bytes(128, 4096, 1) < ops.scratch_bytes(128, 4096, 1 << 20));
  CHECK_THROWS_AS((void)ops.scratch_bytes(1, UINT64_MAX, 1), Error);
  CHECK_THROWS_AS((void)ops.scratch_bytes(1, 1, UINT64_MAX), Error);

  ops.reserve(2, 40, 1);
  Random random(1);
  const Weight w(random, DType::kF32, 41, 41);
  const std::vector<float> x = random.floats(3 * 41);
  std::vector<float> y(3 * 41);
  const auto run = [&](std::uint64_t tokens, std::uint64_t cols) {
    ops.matmul(cpu.stream(), const_rows(x, 41),
               {.data = w.all().data, .dtype = DType::kF32, .rows = 3, .cols = cols}, rows(y, 41),
               tokens);
  };
  CHECK_NOTHROW(run(2, 40));
  CHECK_THROWS_AS(run(3, 40), Error);
  CHECK_THROWS_AS(run(2, 41), Error);
  ops.reserve(3, 41, 1);
  CHECK_NOTHROW(run(3, 41));
}

TEST_CASE("operations submitted from several threads do not disturb each other") {
  Cpu cpu(3);
  Random random(2);
  const std::uint64_t tokens = 20, cols = 200, out = 300;
  const Weight w(random, DType::kF16, out, cols);
  const std::vector<float> x = random.floats(tokens * cols);
  std::vector<float> expected(tokens * out);
  cpu.ops().matmul(cpu.stream(), const_rows(x, cols), w.all(), rows(expected, out), tokens);
  std::vector<std::thread> threads;
  std::vector<int> good(4, 0);
  for (int& count : good) {
    threads.emplace_back([&] {
      const auto stream = cpu.device().create_stream();
      for (int i = 0; i < 50; ++i) {
        std::vector<float> y(tokens * out);
        cpu.ops().matmul(*stream, const_rows(x, cols), w.all(), rows(y, out), tokens);
        if (same_bits(y, expected)) ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : good) CHECK(count == 50);
}

}  // namespace
}  // namespace tidemill::kernels::test
