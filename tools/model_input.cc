#include "tools/model_input.h"

#include <spdlog/spdlog.h>
#include <CLI/CLI.hpp>
#include <filesystem>

#include "io/base/error.h"
#include "tools/output.h"

namespace tidemill::tools {

void add_prompt_arguments(CLI::App& app, PromptArguments& arguments) {
  const char* group = "Prompt";
  app.add_option_function<std::string>(
         "-p,--prompt", [&](const std::string& text) { arguments.text = text; }, "The prompt")
      ->type_name("TEXT")
      ->group(group);
  app.add_option_function<std::string>(
         "--tokens", [&](const std::string& text) { arguments.tokens = text; },
         "The prompt as token ids, such as \"1 2 3\"; needs no tokenizer.json")
      ->type_name("IDS")
      ->group(group);
  app.add_flag("--raw", arguments.raw,
               "Add no special tokens (such as a begin-of-text token) to prompts")
      ->group(group);
}

void check_one_prompt(const PromptArguments& arguments, bool other) {
  const int sources = int{arguments.text.has_value()} + int{arguments.tokens.has_value()} + other;
  if (sources == 0) throw_error(ErrorKind::kUsage, "no prompt; give --prompt TEXT");
  if (sources > 1) {
    throw_error(ErrorKind::kUsage, "more than one source of prompts; give one of them");
  }
  if (arguments.raw && arguments.tokens) {
    throw_error(ErrorKind::kUsage, "--tokens are taken as they are; leave out --raw");
  }
}

engine::Model open_model(const std::string& path, const EngineOptions& options, bool quiet) {
  if (quiet) spdlog::set_level(spdlog::level::err);
  engine::Model model = engine::Model::open(path, options.direct());
  for (const std::string& notice : model.weights.notices) note(quiet, "tidemill: " + notice);
  return model;
}

std::optional<engine::Tokenizer> load_tokenizer(const std::string& model) {
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::path(model) / "tokenizer.json", error)) {
    return std::nullopt;
  }
  return engine::Tokenizer::load(model);
}

const engine::Tokenizer& require_tokenizer(const engine::Tokenizer* tokenizer,
                                           const engine::Model& model) {
  if (tokenizer == nullptr) {
    throw_error(ErrorKind::kUsage,
                "{}: has no tokenizer.json; give the prompt as token ids with --tokens \"1 2 3\"",
                printable(model.path));
  }
  return *tokenizer;
}

}  // namespace tidemill::tools
