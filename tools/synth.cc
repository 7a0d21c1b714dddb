// tidemill synth: a checkpoint with random weights.
#include "engine/synth.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "io/base/checked.h"
#include "io/base/units.h"
#include "tools/arguments.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/verbs.h"

namespace tidemill::tools {
namespace {

struct Options {
  std::string config, out;
  std::optional<std::uint64_t> layers;
  std::string dtype;
  std::uint64_t seed = 0;
  std::uint64_t max_shard = 5'000'000'000;
  std::uint64_t threads = 0;
  bool quiet = false;
};

std::optional<DType> parse_type(const std::string& name) {
  if (name == "fp32") return DType::kF32;
  if (name == "fp16") return DType::kF16;
  if (name == "bf16") return DType::kBF16;
  return std::nullopt;
}

void run(const Options& options) {
  engine::SynthOptions synth{.layers = std::nullopt,
                             .dtype = parse_type(options.dtype),
                             .seed = options.seed,
                             .max_shard_bytes = options.max_shard,
                             .threads = narrow<unsigned>(options.threads)};
  if (options.layers) synth.layers = narrow<std::uint32_t>(*options.layers);
  Progress progress(options.quiet, "writing");
  const auto report = engine::synthesize(
      options.config, options.out, synth, [&](std::uint64_t done, std::uint64_t total) {
        check_interrupt();
        const double rate = static_cast<double>(done) / progress.elapsed().count();
        progress.update(done, total, format_rate(rate));
      });
  progress.clear();
  const double seconds = progress.elapsed().count();
  note(options.quiet,
       fmt::format("{}: {} parameters in {} tensors, {} of {} in {} file{}, {:.1f} s, {}",
                   printable(options.out), report.parameters, report.tensors,
                   format_bytes(report.bytes), to_string(report.dtype), report.files,
                   report.files == 1 ? "" : "s", seconds,
                   format_rate(static_cast<double>(report.bytes) / seconds)));
}

}  // namespace

Run add_synth(CLI::App& program) {
  CLI::App& app = *program.add_subcommand("synth");
  app.description(
      "Writes a checkpoint with random weights, for benchmarks at any size. It has the shape that "
      "a "
      "config.json describes and the usual initialisation, and Hugging Face transformers loads "
      "it.");
  app.footer(
      "Example:\n  tidemill synth bench/configs/bloom-176b.json /data/bloom-2-layers --layers 2");
  const auto options = std::make_shared<Options>();
  app.add_option("CONFIG", options->config, "A config.json of a supported architecture")
      ->required()
      ->type_name("FILE");
  app.add_option("OUT_DIR", options->out, "Directory to write; must not exist, or be empty")
      ->required()
      ->type_name("DIR");
  add_count(app, "--layers", options->layers, "Layers (default: the configuration's)", 1, 65536);
  add_choice(app, "--dtype", options->dtype,
             "Type of the weights (default: the configuration's, else fp16)",
             {"fp16", "bf16", "fp32"});
  add_count(app, "--seed", options->seed, "The same seed gives the same weights (default: 0)", 0,
            UINT64_MAX);
  add_size(app, "--max-shard-size", options->max_shard,
           "Start another file beyond this size (default: 5GB)");
  add_count(app, "--threads", options->threads, "Threads (default: one per core)", 1, 1024);
  app.add_flag("-q,--quiet", options->quiet, "No progress and no summary");
  return [options] { run(*options); };
}

}  // namespace tidemill::tools
