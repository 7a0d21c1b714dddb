// tidemill generate: text from prompts.
#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/text_generation.h"
#include "io/base/units.h"
#include "tools/arguments.h"
#include "tools/generate_output.h"
#include "tools/interrupt.h"
#include "tools/model_input.h"
#include "tools/options.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/prompts.h"
#include "tools/run_report.h"
#include "tools/text_options.h"
#include "tools/verbs.h"

namespace tidemill::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string model;
  PromptArguments prompt;
  std::string prompt_file;
  TextOptions text;
  EngineOptions engine;
  ReportOptions report;
  bool json = false;
  bool echo = false;
};

std::vector<Prompt> gather_prompts(const Options& options) {
  if (!options.prompt_file.empty()) return read_prompt_file(options.prompt_file);
  Prompt prompt;
  prompt.text = options.prompt.text;
  if (options.prompt.tokens) prompt.tokens = parse_token_ids(*options.prompt.tokens);
  return {std::move(prompt)};
}

std::vector<engine::TextRequest> make_requests(const engine::Model& model,
                                               const engine::Tokenizer* tokenizer,
                                               const Options& options,
                                               const std::vector<Prompt>& prompts) {
  const TextOptions recommended = recommended_options(options.model);
  std::uint64_t seed = std::random_device{}();
  std::vector<engine::TextRequest> requests;
  for (const Prompt& prompt : prompts) {
    at_prompt(prompt, [&] {
      std::vector<std::uint32_t> tokens = prompt.tokens;
      if (prompt.text) {
        tokens = encode_prompt(model, require_tokenizer(tokenizer, model), *prompt.text,
                               !options.prompt.raw);
      }
      const TextOptions asked = merge(options.text, prompt.options);
      engine::TextRequest request = make_request(recommended, asked, std::move(tokens), seed++);
      if (tokenizer == nullptr && !request.stop.empty()) {
        throw_error(ErrorKind::kUsage, "{}: has no tokenizer.json, so stop strings mean nothing",
                    printable(model.path));
      }
      engine::validate(model, request);
      requests.push_back(std::move(request));
    });
  }
  return requests;
}

engine::Workload workload_of(const engine::Model& model, kernels::Device& device,
                             const std::vector<engine::TextRequest>& requests,
                             std::uint64_t chunk) {
  std::vector<std::uint64_t> lengths;
  std::uint64_t prompt_tokens = 0;
  for (const engine::TextRequest& request : requests) {
    lengths.push_back(engine::positions_needed(model, request.generation));
    prompt_tokens += request.generation.prompt.size();
  }
  const std::uint64_t rows = std::max<std::uint64_t>(prompt_tokens, requests.size());
  return engine::make_workload(model, device, lengths, std::min(chunk, rows), false);
}

/// How far the prompts are, and then the new tokens.
class GenerateProgress {
 public:
  GenerateProgress(bool quiet, bool text_on_terminal, const RunReport& report,
                   std::uint64_t most_new_tokens)
      : text_on_terminal_(text_on_terminal),
        prompt_tokens_(report.prompt_tokens),
        most_new_tokens_(most_new_tokens),
        progress_(quiet, "prompt") {}

  /// Before text is printed.
  void make_room() { progress_.clear(); }

  void after_sweep(std::uint64_t rows, std::uint64_t new_tokens, bool text_begun) {
    rows_ += rows;
    new_tokens_ = new_tokens;
    text_begun_ = text_begun;
    last_sweep_ = Clock::now();
    show("");
  }

  /// A sweep over a giant model takes minutes; this shows that it goes on.
  void after_layer(std::size_t done, std::size_t layers) {
    if (Clock::now() - last_sweep_ < std::chrono::seconds(1)) return;
    show(fmt::format("layer {} of {}", done, layers));
  }

 private:
  void show(std::string detail) {
    // The text shows by itself that work goes on, and shares the screen with this line.
    if (text_begun_ && text_on_terminal_) return;
    if (rows_ > 0) {
      const double rate = static_cast<double>(rows_) / progress_.elapsed().count();
      detail = fmt::format("{:.1f} tokens/s{}{}", rate, detail.empty() ? "" : ", ", detail);
    }
    progress_.update(std::min(rows_, prompt_tokens_) + new_tokens_,
                     prompt_tokens_ + most_new_tokens_, detail);
  }

  const bool text_on_terminal_;
  const std::uint64_t prompt_tokens_, most_new_tokens_;
  std::uint64_t rows_ = 0, new_tokens_ = 0;
  bool text_begun_ = false;
  Clock::time_point last_sweep_ = Clock::now();
  Progress progress_;
};

void describe_sampling(const Options& options, const engine::TextRequest& request) {
  const engine::SamplingParams& sampling = request.generation.sampling;
  if (!sampling.do_sample) return;
  note(options.report.quiet,
       fmt::format("tidemill: sampling with temperature {}, top-k {}, top-p {}, min-p {}, seed {}",
                   sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p,
                   sampling.seed));
}

void run(const Options& options) {
  const auto start = Clock::now();
  check_one_prompt(options.prompt, !options.prompt_file.empty());
  check_consistent(options.text, Spelling::kCommandLine);
  if (options.echo && options.json) {
    throw_error(ErrorKind::kUsage, "--json has the prompt anyway; leave out --echo");
  }
  check_reports(options.report);
  const std::vector<Prompt> prompts = gather_prompts(options);
  const engine::Model model = open_model(options.model, options.engine, options.report.quiet);
  const std::optional<engine::Tokenizer> tokenizer = load_tokenizer(options.model);
  const engine::Tokenizer* const tokens = tokenizer ? &*tokenizer : nullptr;
  const auto requests = make_requests(model, tokens, options, prompts);

  RunReport report;
  report.budget = choose_budget(options.engine);
  report.requests = requests.size();
  std::uint64_t most_new_tokens = 0;
  for (const engine::TextRequest& request : requests) {
    report.prompt_tokens += request.generation.prompt.size();
    most_new_tokens += request.generation.max_new_tokens;
  }
  const auto trace = make_trace(options.report);
  const auto device = make_device(options.engine);
  report.device = device->description();
  std::optional<GenerateProgress> progress;
  engine::SessionOptions session_setup =
      session_options(options.engine, report.budget, trace.get());
  session_setup.on_layer = [&](std::size_t done, std::size_t layers) {
    progress->after_layer(done, layers);
    check_interrupt();
  };
  engine::Session session(
      model, *device, workload_of(model, *device, requests, options.engine.chunk), session_setup);
  if (requests.size() == 1) describe_sampling(options, requests.front());

  using Format = GenerateOutput::Format;
  GenerateOutput output(options.json ? Format::kJson : Format::kText, options.echo, prompts,
                        requests);
  progress.emplace(options.report.quiet, !options.json && output_is_terminal(), report,
                   most_new_tokens);
  const auto begin = Clock::now();
  report.open_seconds = std::chrono::duration<double>(begin - start).count();
  const auto finish = [&] {
    progress->make_room();
    report.run_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    write_reports(options.report, session, options.engine, report, trace.get());
  };
  try {
    engine::generate_text(session, tokens, requests,
                          {.on_text =
                               [&](std::size_t index, std::string_view text) {
                                 progress->make_room();
                                 output.on_text(index, text);
                               },
                           .on_token = [&](std::size_t, std::uint32_t) { ++report.new_tokens; },
                           .on_done =
                               [&](std::size_t index, const engine::GeneratedText& result) {
                                 progress->make_room();
                                 output.on_done(index, result);
                               },
                           .on_sweep =
                               [&](std::uint64_t rows) {
                                 progress->after_sweep(rows, report.new_tokens, output.begun());
                                 check_interrupt();
                               }});
  } catch (const Interrupted&) {
    output.break_line();
    finish();
    throw;
  }
  finish();
}

}  // namespace

Run add_generate(CLI::App& program) {
  CLI::App& app = *program.add_subcommand("generate");
  app.description(
      "Generates text from prompts. The model's weights stream from the drive as far as they do "
      "not "
      "fit into --memory. The text goes to standard output, everything else to standard error.");
  app.footer(
      "Example:\n  tidemill generate models/tidemill-kjv -p \"In the beginning\" -n 40 --memory "
      "5MB\n\nThe options under \"Memory and speed\" and \"Reading\" change the speed only: the "
      "same "
      "request with the\nsame seed gives the same text whatever they say.");
  const auto options = std::make_shared<Options>();
  add_model_argument(app, options->model);
  add_prompt_arguments(app, options->prompt);
  app.add_option("--prompt-file", options->prompt_file,
                 "Many prompts that share each sweep, one JSON per line: a string, or an object "
                 "with \"prompt\" or \"tokens\", and optionally \"id\", \"max_new_tokens\", "
                 "\"seed\", \"temperature\", \"stop\", ...; - reads standard input")
      ->type_name("FILE.jsonl")
      ->group("Prompt");
  app.add_flag("--json", options->json,
               "Print one JSON object per prompt: prompt, prompt_tokens, tokens, text, "
               "finish_reason")
      ->group("Output");
  app.add_flag("--echo", options->echo, "Print the prompt in front of the text")->group("Output");
  add_text_options(app, options->text);
  add_memory_options(app, options->engine);
  add_reading_options(app, options->engine);
  add_report_options(app, options->report);
  return [options] { run(*options); };
}

}  // namespace tidemill::tools
