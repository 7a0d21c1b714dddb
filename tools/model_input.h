// Opening a model, and the prompt of subcommands that take one.
#pragma once

#include <optional>
#include <string>

#include "engine/model.h"
#include "engine/tokenizer/tokenizer.h"
#include "tools/options.h"

namespace CLI {
class App;
}

namespace tidemill::tools {

struct PromptArguments {
  std::optional<std::string> text;    ///< --prompt
  std::optional<std::string> tokens;  ///< --tokens
  bool raw = false;
};

void add_prompt_arguments(CLI::App& app, PromptArguments& arguments);

/// Error(kUsage) unless there is exactly one source of prompts. `other` says that there is one
/// besides --prompt and --tokens.
void check_one_prompt(const PromptArguments& arguments, bool other);

/// Opens the model and tells its notices.
engine::Model open_model(const std::string& path, const EngineOptions& options, bool quiet);

/// Nothing if the model has no tokenizer.json.
std::optional<engine::Tokenizer> load_tokenizer(const std::string& model);

/// Error(kUsage) that tells about --tokens if there is none.
const engine::Tokenizer& require_tokenizer(const engine::Tokenizer* tokenizer,
                                           const engine::Model& model);

}  // namespace tidemill::tools
