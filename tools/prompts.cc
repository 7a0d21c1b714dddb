#include "tools/prompts.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "io/base/error.h"
#include "io/json_file.h"

namespace tidemill::tools {
namespace {

using nlohmann::json;

std::vector<std::uint32_t> token_list(const json& value) {
  std::vector<std::uint32_t> tokens;
  const auto is_id = [](const json& id) {
    return id.is_number_unsigned() && id.get<std::uint64_t>() <= UINT32_MAX;
  };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_id)) {
    throw_error(ErrorKind::kModel, "\"tokens\" is not a list of token ids");
  }
  for (const json& id : value) tokens.push_back(id.get<std::uint32_t>());
  return tokens;
}

void parse_line(const json& line, Prompt& prompt) {
  if (line.is_string()) {
    prompt.text = line.get<std::string>();
    return;
  }
  if (!line.is_object()) throw_error(ErrorKind::kModel, "neither a JSON object nor a string");
  bool has_tokens = false;
  for (const auto& [key, value] : line.items()) {
    if (key == "prompt") {
      if (!value.is_string()) throw_error(ErrorKind::kModel, "\"prompt\" is not a string");
      prompt.text = value.get<std::string>();
    } else if (key == "tokens") {
      prompt.tokens = token_list(value);
      has_tokens = true;
    } else if (key == "id") {
      if (!value.is_string() && !value.is_number()) {
        throw_error(ErrorKind::kModel, "\"id\" is neither a string nor a number");
      }
      prompt.id = value;
    } else if (!set_text_option(prompt.options, key, value)) {
      throw_error(ErrorKind::kModel, "unknown key \"{}\"", printable(key, 60));
    }
  }
  if (prompt.text.has_value() == has_tokens) {
    throw_error(ErrorKind::kModel, "give either \"prompt\" or \"tokens\"");
  }
  check_consistent(prompt.options, Spelling::kFile);
}

}  // namespace

void at_prompt(const Prompt& prompt, const std::function<void()>& work) {
  if (prompt.where.empty()) return work();
  try {
    work();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kModel) throw;
    // The parser's messages begin with the place already.
    const std::string what = error.what();
    throw Error(ErrorKind::kModel, what.starts_with(prompt.where) ? what : prompt.where + what);
  }
}

std::vector<Prompt> read_prompt_file(const std::string& path) {
  std::ifstream file;
  const bool standard_input = path == "-";
  if (!standard_input) file.open(path);
  std::istream& in = standard_input ? std::cin : file;
  const std::string name = standard_input ? "standard input" : printable(path);
  if (!in) {
    const int error = errno;
    throw Error(ErrorKind::kModel, fmt::format("{}: cannot open: {}", name, std::strerror(error)),
                {.path = path, .error_number = error});
  }
  std::vector<Prompt> prompts;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Prompt prompt;
    prompt.where = fmt::format("{}:{}: ", name, number);
    at_prompt(prompt, [&] {
      parse_line(io::parse_json(line, fmt::format("{}:{}", name, number)), prompt);
    });
    prompts.push_back(std::move(prompt));
  }
  if (in.bad()) {
    throw Error(ErrorKind::kIo, fmt::format("{}: cannot read: {}", name, std::strerror(errno)),
                {.path = path, .error_number = errno});
  }
  if (prompts.empty()) throw_error(ErrorKind::kModel, "{}: holds no prompts", name);
  return prompts;
}

}  // namespace tidemill::tools
