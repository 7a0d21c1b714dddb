#include "tools/options.h"

#include <CLI/CLI.hpp>

#include "engine/host_memory.h"
#include "io/base/checked.h"
#include "io/base/error.h"
#include "io/reader.h"
#include "tools/arguments.h"

namespace tidemill::tools {

void add_model_argument(CLI::App& app, std::string& model) {
  app.add_option("MODEL", model, "Hugging Face checkpoint directory (config.json, safetensors)")
      ->required()
      ->type_name("DIR");
}

void add_memory_options(CLI::App& app, EngineOptions& options) {
  const char* group = "Memory and speed";
  add_size(app, "--memory", options.memory,
           "Memory for weights, key/value cache and activations, such as 2GiB, 1500MB or 8G "
           "(default: four fifths of what the machine or its cgroup has free)")
      ->group(group);
  add_count(app, "--threads", options.threads, "Compute threads (default: one per core)", 1, 1024)
      ->group(group);
  add_count(app, "--chunk", options.chunk,
            "Prompt tokens that one sweep over the weights takes at most; results do not depend on "
            "it (default: 512)",
            1, 1 << 20)
      ->group(group);
  add_size(app, "--piece-size", options.piece,
           "Largest piece of weights that is streamed at once (default: from the budget)")
      ->group(group);
  add_size(app, "--ring-size", options.ring,
           "Most memory for pieces on their way; the rest of the budget keeps weights resident "
           "(default: from the budget)")
      ->group(group);
}

void add_reading_options(CLI::App& app, EngineOptions& options) {
  const char* group = "Reading";
  add_choice(app, "--io", options.io,
             "Read engine; auto takes io_uring where the kernel has it (default: auto)",
             {"auto", "uring", "threads"})
      ->group(group);
  add_count(app, "--queue-depth", options.queue_depth,
            "Blocks in flight at once with io_uring (default: 16)", 1, 4096)
      ->group(group);
  add_count(app, "--io-threads", options.io_threads,
            "Blocks in flight at once with the threads engine (default: 8)", 1, 1024)
      ->group(group);
  add_size(app, "--block-size", options.block, "Bytes of one read (default: 4MiB)")->group(group);
  add_count(app, "--prefetch", options.prefetch,
            "Pieces that are read ahead; 0 reads each when it is needed (default: as many as the "
            "ring holds)",
            0)
      ->group(group);
  app.add_flag("--buffered-io", options.buffered,
               "Read through the page cache (default: direct I/O where the file system has it)")
      ->group(group);
}

void add_report_options(CLI::App& app, ReportOptions& options) {
  const char* group = "Reports";
  app.add_option("--stats", options.stats, "Write counters, plan and options as JSON")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--trace", options.trace,
                 "Write a timeline of reads, waits and layers (chrome://tracing, Perfetto)")
      ->type_name("FILE")
      ->group(group);
  app.add_flag("-q,--quiet", options.quiet, "No summary, progress or notices")->group(group);
}

Budget choose_budget(const EngineOptions& options) {
  if (options.memory != 0) return {options.memory, "--memory"};
  const engine::HostMemory memory = engine::read_host_memory();
  return {engine::default_budget(memory), "four fifths of the " + memory.source()};
}

engine::SessionOptions session_options(const EngineOptions& options, const Budget& budget,
                                       offload::Trace* trace) {
  if (options.queue_depth && options.io == "threads") {
    throw_error(ErrorKind::kUsage,
                "--queue-depth is for io_uring; with --io threads give --io-threads");
  }
  if (options.io_threads && options.io == "uring") {
    throw_error(ErrorKind::kUsage,
                "--io-threads is for the threads engine; with --io uring give --queue-depth");
  }
  io::ReaderOptions reader;
  reader.block_bytes = options.block;
  if (options.queue_depth) reader.queue_depth = narrow<std::uint32_t>(*options.queue_depth);
  if (options.io_threads) reader.threads = narrow<std::uint32_t>(*options.io_threads);
  engine::SessionOptions session{.budget = {.memory_bytes = budget.bytes,
                                            .piece_bytes = options.piece,
                                            .ring_bytes = options.ring},
                                 .threads = narrow<unsigned>(options.threads),
                                 .io = io::parse_reader_engine(options.io),
                                 .reader = reader,
                                 .prefetch_pieces = std::nullopt,
                                 .trace = trace,
                                 .on_layer = {}};
  if (options.prefetch) session.prefetch_pieces = narrow<std::uint32_t>(*options.prefetch);
  return session;
}

std::unique_ptr<offload::Trace> make_trace(const ReportOptions& options) {
  return options.trace.empty() ? nullptr : std::make_unique<offload::Trace>();
}

std::unique_ptr<kernels::Device> make_device(const EngineOptions& options) {
  return kernels::make_cpu_device({.threads = narrow<unsigned>(options.threads)});
}

}  // namespace tidemill::tools
