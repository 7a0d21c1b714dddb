// Prompts from the command line or from a file of JSON lines.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/text_options.h"

namespace tidemill::tools {

struct Prompt {
  std::string where;  ///< "prompts.jsonl:3: ", or empty: begins the messages about it
  nlohmann::json id;  ///< string or number from the file, or null
  std::optional<std::string> text;
  std::vector<std::uint32_t> tokens;  ///< if there is no text
  TextOptions options;                ///< that the line gives
};

/// One prompt per line: a JSON string, or an object with "prompt" (a string) or "tokens" (a list of
/// ids), optionally "id", and options by their names in transformers ("max_new_tokens", "seed",
/// "temperature", "stop", ...). Empty lines are skipped. "-" reads standard input. Error(kModel)
/// names file and line.
std::vector<Prompt> read_prompt_file(const std::string& path);

/// Calls `work`; its errors become errors of the prompt's line.
void at_prompt(const Prompt& prompt, const std::function<void()>& work);

}  // namespace tidemill::tools
