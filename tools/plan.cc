// tidemill plan: what a run would do, before anything is loaded.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/kv_cache.h"
#include "engine/session.h"
#include "io/base/checked.h"
#include "io/base/units.h"
#include "tools/arguments.h"
#include "tools/model_input.h"
#include "tools/options.h"
#include "tools/output.h"
#include "tools/plan_report.h"
#include "tools/progress.h"
#include "tools/read_speed.h"
#include "tools/verbs.h"

namespace tidemill::tools {
namespace {

using nlohmann::ordered_json;

struct Options {
  std::string model;
  std::uint64_t prompt_tokens = 128;
  std::uint64_t new_tokens = 50;
  std::uint64_t sequences = 1;
  std::uint64_t bandwidth = 0;  ///< bytes per second; 0: measured
  EngineOptions engine;
  bool json = false;
};

/// What the drive allows; nothing can be faster.
struct Roofline {
  double bandwidth = 0;      ///< bytes per second
  std::string source;        ///< of the bandwidth
  std::uint64_t batch = 0;   ///< sequences that share a sweep
  double sweep_seconds = 0;  ///< that a sweep waits for the drive
  double tokens_per_second = 0;
  std::uint64_t prompt_sweeps = 0;
};

std::uint64_t positions(const Options& options, const engine::Model& model) {
  const std::uint64_t wanted = options.prompt_tokens + options.new_tokens;
  const std::uint64_t most = model.spec.max_positions;
  return most != 0 ? std::min(wanted, most) : wanted;
}

Roofline roofline(const Options& options, const engine::Model& model,
                  const engine::MemoryPlan& plan, kernels::Device& device,
                  const engine::SessionOptions& session) {
  Roofline line;
  const std::uint64_t streamed = streamed_per_sweep(plan);
  if (options.bandwidth != 0) {
    line.bandwidth = static_cast<double>(options.bandwidth);
    line.source = "--bandwidth";
  } else if (streamed > 0) {
    const ReadSpeed speed =
        measure_read_speed(model, session.io, session.reader, std::chrono::milliseconds(500));
    line.bandwidth = speed.bytes_per_second;
    line.source = fmt::format("{} of the model's largest file read in half a second with {}, {}",
                              format_bytes(speed.bytes), speed.engine,
                              speed.direct ? "direct I/O" : "through the page cache");
  }
  const std::uint64_t per_sequence = engine::KvCache::sequence_bytes(
      device.ops(), model.spec.attention, model.spec.layers.size(), positions(options, model));
  line.batch = std::min({options.sequences, plan.workspace.outputs,
                         std::max<std::uint64_t>(1, plan.cache_bytes / per_sequence)});
  line.prompt_sweeps =
      (options.prompt_tokens * line.batch + plan.workspace.tokens - 1) / plan.workspace.tokens;
  if (streamed > 0) {
    line.sweep_seconds = static_cast<double>(streamed) / line.bandwidth;
    line.tokens_per_second = static_cast<double>(line.batch) / line.sweep_seconds;
  }
  return line;
}

ordered_json to_json(const Roofline& line) {
  ordered_json json = {{"batch", line.batch}, {"prompt_sweeps", line.prompt_sweeps}};
  json["bandwidth_bytes_per_second"] =
      line.bandwidth > 0 ? ordered_json(line.bandwidth) : ordered_json();
  json["bandwidth_source"] = line.source.empty() ? ordered_json() : ordered_json(line.source);
  const bool streams = line.sweep_seconds > 0;
  json["sweep_seconds"] = streams ? ordered_json(line.sweep_seconds) : ordered_json();
  json["tokens_per_second"] = streams ? ordered_json(line.tokens_per_second) : ordered_json();
  return json;
}

std::string prediction(const Roofline& line, const engine::MemoryPlan& plan) {
  const std::uint64_t streamed = streamed_per_sweep(plan);
  std::string text = fmt::format("each sweep over the weights\n  {:<22} {:>12}\n  {:<22} {:>12}\n",
                                 "from the drive", format_bytes(streamed), "from memory",
                                 format_bytes(resident_per_sweep(plan)));
  if (streamed == 0) {
    return text + "limit: computation and memory speed; nothing is read after the first sweep\n";
  }
  text += fmt::format("read speed: {} ({})\n", format_rate(line.bandwidth), line.source);
  text += fmt::format(
      "limit: the drive, {:.3g} s per sweep; {} sequence{} at a time: at most {:.3g} tokens/s\n",
      line.sweep_seconds, line.batch, line.batch == 1 ? "" : "s", line.tokens_per_second);
  text +=
      fmt::format("the prompts take {} sweep{}, at least {}\n", line.prompt_sweeps,
                  line.prompt_sweeps == 1 ? "" : "s",
                  format_duration(static_cast<double>(line.prompt_sweeps) * line.sweep_seconds));
  return text;
}

void run(const Options& options) {
  const engine::Model model = open_model(options.model, options.engine, /*quiet=*/true);
  const Budget budget = choose_budget(options.engine);
  const engine::SessionOptions session = session_options(options.engine, budget, nullptr);
  const auto device = make_device(options.engine);
  const std::vector<std::uint64_t> lengths(options.sequences, positions(options, model));
  const std::uint64_t rows =
      std::max(options.sequences,
               checked_mul(options.prompt_tokens, options.sequences, "tokens of all prompts"));
  const engine::Workload workload = engine::make_workload(
      model, *device, lengths, std::min(options.engine.chunk, rows), /*all_logits=*/false);
  const engine::MemoryPlan plan = engine::plan_memory(model, workload, session.budget, *device);
  const std::uint64_t smallest = engine::smallest_memory(model, workload, *device);
  const Roofline line = roofline(options, model, plan, *device, session);
  const WeightTotals weights = count_weights(model);

  if (options.json) {
    const ordered_json json = {
        {"model", model.path},
        {"weight_bytes", weights.bytes},
        {"memory_source", budget.source},
        {"smallest_memory_bytes", smallest},
        {"request",
         {{"sequences", options.sequences},
          {"prompt_tokens", options.prompt_tokens},
          {"max_new_tokens", options.new_tokens}}},
        {"plan", plan_json(plan)},
        {"roofline", to_json(line)},
        {"limit", streamed_per_sweep(plan) > 0 ? "drive" : "computation"},
    };
    print(json_text(json));
    return;
  }
  std::string text =
      fmt::format("{}: {} layers, {} of weights\n{} sequence{} of {} prompt and {} new tokens\n",
                  printable(model.path), model.spec.layers.size(), format_bytes(weights.bytes),
                  options.sequences, options.sequences == 1 ? "" : "s", options.prompt_tokens,
                  options.new_tokens);
  text += fmt::format("memory: {} ({}); the smallest for this is {}\n", format_bytes(budget.bytes),
                      budget.source, format_bytes(align_up(smallest, kKiB)));
  print(text + plan_table(plan) + prediction(line, plan));
}

}  // namespace

Run add_plan(CLI::App& program) {
  CLI::App& app = *program.add_subcommand("plan");
  app.description(
      "Shows how a budget is divided, what each sweep reads, and what limits the speed. The drive "
      "allows batch x bandwidth / streamed bytes tokens/s. Nothing is loaded, but unless "
      "--bandwidth is given the "
      "model's files are read for half a second to know their speed.");
  app.footer("Example:\n  tidemill plan models/tidemill-kjv --memory 5MB --sequences 4");
  const auto options = std::make_shared<Options>();
  add_model_argument(app, options->model);
  const char* group = "Request";
  add_count(app, "--prompt-tokens", options->prompt_tokens, "Tokens of each prompt (default: 128)",
            1)
      ->group(group);
  add_count(app, "-n,--max-new-tokens", options->new_tokens,
            "New tokens of each sequence (default: 50)", 0)
      ->group(group);
  add_count(app, "--sequences", options->sequences, "Prompts that are run together (default: 1)", 1,
            1 << 20)
      ->group(group);
  app.add_option_function<std::string>(
         "--bandwidth",
         [options](std::string text) {
           if (text.ends_with("/s")) text.resize(text.size() - 2);
           try {
             options->bandwidth = parse_bytes(text);
           } catch (const Error& error) {
             throw CLI::ValidationError("--bandwidth", error.what());
           }
           if (options->bandwidth == 0) {
             throw CLI::ValidationError("--bandwidth", "must be more than 0");
           }
         },
         "What the drive reads, such as 2.5GB/s (default: measured)")
      ->type_name("RATE")
      ->group(group);
  app.add_flag("--json", options->json, "Print one JSON object");
  add_memory_options(app, options->engine);
  add_reading_options(app, options->engine);
  return [options] { run(*options); };
}

}  // namespace tidemill::tools
