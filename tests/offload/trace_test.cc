#include "offload/trace.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "io/base/error.h"

namespace tidemill::offload {
namespace {

nlohmann::json written(const Trace& trace) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("tidemill-trace-" + std::to_string(getpid()) + ".json");
  trace.write(path);
  std::ifstream in(path);
  nlohmann::json json = nlohmann::json::parse(in);
  std::filesystem::remove(path);
  return json;
}

TEST_CASE("spans appear on their named lanes, in microseconds") {
  Trace trace;
  const auto begin = Trace::Clock::now();
  const Trace::Lane reads = trace.lane("reads"), compute = trace.lane("compute");
  CHECK(trace.lane("reads") == reads);
  trace.span(reads, "read", "piece \"1\"\\\n", begin, begin + std::chrono::microseconds(1500));
  { const TraceSpan span(&trace, compute, "kernel", "matmul"); }
  const auto json = written(trace);
  const auto& events = json["traceEvents"];
  REQUIRE(events.size() == 4);
  CHECK(events[0]["ph"] == "M");
  CHECK(events[0]["args"]["name"] == "reads");
  CHECK(events[1]["args"]["name"] == "compute");
  CHECK(events[2]["ph"] == "X");
  CHECK(events[2]["tid"] == 0);
  CHECK(events[2]["dur"] == doctest::Approx(1500.0));
  CHECK(events[2]["ts"].get<double>() >= 0.0);
  CHECK(events[3]["cat"] == "kernel");
  CHECK(json["otherData"]["dropped_events"] == 0);
}

TEST_CASE("no trace, no span") { const TraceSpan span(nullptr, Trace::Lane{}, "kernel", "matmul"); }

TEST_CASE("memory is bounded, and the file says what is missing") {
  Trace trace(10);
  const Trace::Lane lane = trace.lane("x");
  const auto now = Trace::Clock::now();
  for (int i = 0; i < 25; ++i) trace.span(lane, "c", "n", now, now);
  CHECK(trace.dropped() == 15);
  const auto json = written(trace);
  CHECK(json["traceEvents"].size() == 11);
  CHECK(json["otherData"]["dropped_events"] == 15);
}

TEST_CASE("several threads may trace at once") {
  Trace trace;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&trace, t] {
      const Trace::Lane lane = trace.lane("thread " + std::to_string(t));
      for (int i = 0; i < 500; ++i) const TraceSpan span(&trace, lane, "c", "n");
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(written(trace)["traceEvents"].size() == 4 + 2000);
}

TEST_CASE("a file that cannot be written is an error that names it") {
  const Trace trace;
  try {
    trace.write("/nowhere/at/all.json");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kIo);
    CHECK(error.path() == "/nowhere/at/all.json");
  }
}

}  // namespace
}  // namespace tidemill::offload
