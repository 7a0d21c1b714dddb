// Options that several subcommands share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/session.h"
#include "io/file.h"
#include "offload/trace.h"

namespace CLI {
class App;
}

namespace tidemill::tools {

/// Memory, speed and reading.
struct EngineOptions {
  std::uint64_t memory = 0;  ///< 0: default_budget()
  std::uint64_t threads = 0;
  std::uint64_t chunk = 512;
  std::string io = "auto";
  std::optional<std::uint64_t> queue_depth, io_threads;
  std::uint64_t block = 4 << 20;
  std::optional<std::uint64_t> prefetch;
  std::uint64_t piece = 0;
  std::uint64_t ring = 0;
  bool buffered = false;

  io::DirectIo direct() const { return buffered ? io::DirectIo::kOff : io::DirectIo::kAuto; }
};

/// What is written besides the result.
struct ReportOptions {
  std::string stats;  ///< file, or empty
  std::string trace;  ///< file, or empty
  bool quiet = false;
};

void add_memory_options(CLI::App& app, EngineOptions& options);
void add_reading_options(CLI::App& app, EngineOptions& options);
void add_report_options(CLI::App& app, ReportOptions& options);
/// The positional MODEL.
void add_model_argument(CLI::App& app, std::string& model);

/// The budget, and where it comes from when the user did not say.
struct Budget {
  std::uint64_t bytes = 0;
  std::string source;  ///< "--memory", or what default_budget() was computed from
};
Budget choose_budget(const EngineOptions& options);

/// Error(kUsage) for options that contradict one another.
engine::SessionOptions session_options(const EngineOptions& options, const Budget& budget,
                                       offload::Trace* trace);

/// Null if no trace is wanted.
std::unique_ptr<offload::Trace> make_trace(const ReportOptions& options);

std::unique_ptr<kernels::Device> make_device(const EngineOptions& options);

}  // namespace tidemill::tools
