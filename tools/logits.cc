// tidemill logits: what the model computes, for comparison with other engines.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <numeric>

#include "engine/generator.h"
#include "engine/text_generation.h"
#include "io/base/error.h"
#include "io/npy.h"
#include "tools/arguments.h"
#include "tools/interrupt.h"
#include "tools/model_input.h"
#include "tools/options.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/run_report.h"
#include "tools/verbs.h"

namespace tidemill::tools {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string model;
  PromptArguments prompt;
  std::string output;
  std::string hidden_states;
  bool last = false;
  EngineOptions engine;
  ReportOptions report;
};

void append_rows(io::NpyWriter& file, kernels::ConstRows rows, std::uint64_t count,
                 std::uint64_t cols) {
  for (std::uint64_t i = 0; i < count; ++i) {
    file.append(std::span<const float>(rows.data + i * rows.stride, cols));
  }
}

/// The files of --hidden-states, open side by side while the chunks of a prompt go by.
class HiddenFiles {
 public:
  HiddenFiles(const fs::path& directory, const engine::ModelSpec& spec, std::uint64_t tokens)
      : hidden_(spec.hidden) {
    std::error_code error;
    fs::create_directories(directory, error);
    if (error) {
      throw Error(ErrorKind::kIo,
                  fmt::format("{}: cannot create directory: {}", printable(directory.string()),
                              error.message()),
                  {.path = directory.string(), .error_number = error.value()});
    }
    const std::size_t layers = spec.layers.size();
    const std::array<std::uint64_t, 2> shape = {tokens, hidden_};
    for (std::size_t i = 0; i <= layers + 1; ++i) {
      const std::string name = i < layers    ? fmt::format("hidden_{:02}.npy", i)
                               : i == layers ? fmt::format("hidden_{:02}_pre_norm.npy", layers)
                                             : fmt::format("hidden_{:02}.npy", layers);
      files_.push_back(std::make_unique<io::NpyWriter>(directory / name, DType::kF32, shape));
    }
  }

  void append(std::size_t index, kernels::ConstRows rows, std::uint64_t count) {
    append_rows(*files_.at(index), rows, count, hidden_);
  }

  void finish() {
    for (const auto& file : files_) file->finish();
  }

 private:
  const std::uint64_t hidden_;
  std::vector<std::unique_ptr<io::NpyWriter>> files_;
};

std::vector<std::uint32_t> prompt_tokens(const Options& options, const engine::Model& model,
                                         const engine::Tokenizer* tokenizer) {
  if (options.prompt.tokens) return parse_token_ids(*options.prompt.tokens);
  return engine::encode_prompt(model, require_tokenizer(tokenizer, model), *options.prompt.text,
                               !options.prompt.raw);
}

void print_likeliest(std::span<const float> logits, const engine::Tokenizer* tokenizer) {
  constexpr std::size_t kShown = 5;
  std::vector<std::uint32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0U);
  const std::size_t shown = std::min(kShown, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(shown), ids.end(),
                    [&](std::uint32_t a, std::uint32_t b) {
                      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
                    });
  std::string table = fmt::format("{:>8}  {:>10}  {}\n", "token", "logit", "text");
  for (std::size_t i = 0; i < shown; ++i) {
    const std::uint32_t id = ids[i];
    std::string text;
    if (tokenizer != nullptr && id < tokenizer->vocab_size()) {
      text = '"' + printable(tokenizer->decode({&id, 1}, false)) + '"';
    }
    table += fmt::format("{:>8}  {:>10.5f}  {}\n", id, logits[id], text);
  }
  print(table);
}

void run(const Options& options) {
  const auto start = Clock::now();
  check_one_prompt(options.prompt, false);
  check_reports(options.report);
  const engine::Model model = open_model(options.model, options.engine, options.report.quiet);
  const std::optional<engine::Tokenizer> tokenizer = load_tokenizer(options.model);
  const engine::Tokenizer* const text = tokenizer ? &*tokenizer : nullptr;
  const std::vector<std::uint32_t> tokens = prompt_tokens(options, model, text);
  engine::validate(
      model, engine::GenerationRequest{.prompt = tokens, .max_new_tokens = 0, .sampling = {}});

  RunReport report;
  report.budget = choose_budget(options.engine);
  report.requests = 1;
  report.prompt_tokens = tokens.size();
  const auto trace = make_trace(options.report);
  const auto device = make_device(options.engine);
  report.device = device->description();
  // The rows after the final norm come with the logits, so all positions need both.
  const bool all = !options.last || !options.hidden_states.empty();
  const std::array<std::uint64_t, 1> length = {tokens.size()};
  const std::uint64_t wanted = std::min<std::uint64_t>(options.engine.chunk, tokens.size());
  engine::SessionOptions session_setup =
      session_options(options.engine, report.budget, trace.get());
  Progress progress(options.report.quiet, "tokens");
  std::uint64_t done = 0;
  session_setup.on_layer = [&](std::size_t layer, std::size_t layers) {
    progress.update(done, tokens.size(), fmt::format("layer {} of {}", layer, layers));
    check_interrupt();
  };
  engine::Session session(
      model, *device, engine::make_workload(model, *device, length, wanted, all), session_setup);
  const engine::WorkspaceLayout& limits = session.plan().workspace;
  const std::uint64_t chunk = all ? std::min(limits.tokens, limits.outputs) : limits.tokens;
  const auto cache = session.cache().acquire(tokens.size());
  TM_CHECK(cache.has_value(), "no cache for {} tokens", tokens.size());

  std::unique_ptr<HiddenFiles> hidden;
  engine::HiddenHook hook;
  if (!options.hidden_states.empty()) {
    hidden = std::make_unique<HiddenFiles>(options.hidden_states, model.spec, tokens.size());
    hook = [&](std::size_t index, kernels::ConstRows rows, std::uint64_t count) {
      hidden->append(index, rows, count);
    };
  }
  std::unique_ptr<io::NpyWriter> output;
  if (!options.output.empty()) {
    const std::array<std::uint64_t, 2> shape = {options.last ? 1 : tokens.size(), model.spec.vocab};
    output = std::make_unique<io::NpyWriter>(options.output, DType::kF32, shape);
  }

  const auto begin = Clock::now();
  report.open_seconds = std::chrono::duration<double>(begin - start).count();
  while (done < tokens.size()) {
    const std::uint64_t take = std::min(chunk, tokens.size() - done);
    const std::uint64_t left = tokens.size() - done - take;
    const bool wants_last = left == 0;
    const engine::SequenceChunk part{.tokens = std::span(tokens).subspan(done, take),
                                     .position = done,
                                     .prompt_length = tokens.size(),
                                     .cache = *cache,
                                     .want = all          ? engine::WantLogits::kAll
                                             : wants_last ? engine::WantLogits::kLast
                                                          : engine::WantLogits::kNone};
    std::optional<offload::SweepSections> next;
    if (left > 0) next = offload::SweepSections{.head = all || left <= chunk};
    const kernels::Rows logits = session.forward({&part, 1}, next, hook);
    const std::uint64_t rows = all ? take : (wants_last ? 1 : 0);
    const kernels::ConstRows last{logits.data + (rows > 0 ? rows - 1 : 0) * logits.stride,
                                  logits.stride};
    if (output && !options.last) {
      append_rows(*output, {logits.data, logits.stride}, rows, model.spec.vocab);
    } else if (output && wants_last) {
      append_rows(*output, last, 1, model.spec.vocab);
    }
    if (wants_last && !output) print_likeliest({last.data, model.spec.vocab}, text);
    done += take;
    check_interrupt();
    const double rate = static_cast<double>(done) / progress.elapsed().count();
    progress.update(done, tokens.size(), fmt::format("{:.1f} tokens/s", rate));
  }
  session.cache().release(*cache);
  if (hidden) hidden->finish();
  if (output) output->finish();
  progress.clear();
  report.run_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  write_reports(options.report, session, options.engine, report, trace.get());
}

}  // namespace

Run add_logits(CLI::App& program) {
  CLI::App& app = *program.add_subcommand("logits");
  app.description(
      "Computes logits and hidden states of a prompt, to compare with another engine. Without "
      "--output it prints the likeliest next tokens.");
  app.footer(
      "Example:\n  tidemill logits models/tidemill-kjv --tokens \"1 2 3\" --output logits.npy "
      "--hidden-states hidden\nhidden_00.npy is the embedding, hidden_NN.npy the output of layer "
      "NN - 1; the last one has the final\nnorm applied, as in transformers' output_hidden_states, "
      "and is there as ..._pre_norm.npy without it.");
  const auto options = std::make_shared<Options>();
  add_model_argument(app, options->model);
  add_prompt_arguments(app, options->prompt);
  const char* group = "Output";
  app.add_option("-o,--output", options->output,
                 "File for the logits of all positions: float32 [tokens, vocabulary]")
      ->type_name("FILE.npy")
      ->group(group);
  app.add_flag("--last", options->last, "Only the last position: [1, vocabulary]")->group(group);
  app.add_option("--hidden-states", options->hidden_states,
                 "Directory for hidden states: one float32 [tokens, hidden] file per layer")
      ->type_name("DIR")
      ->group(group);
  add_memory_options(app, options->engine);
  add_reading_options(app, options->engine);
  add_report_options(app, options->report);
  return [options] { run(*options); };
}

}  // namespace tidemill::tools
