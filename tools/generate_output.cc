#include "tools/generate_output.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "io/base/error.h"
#include "tools/output.h"

namespace tidemill::tools {

GenerateOutput::GenerateOutput(Format format, bool echo, const std::vector<Prompt>& prompts,
                               const std::vector<engine::TextRequest>& requests)
    : format_(format), echo_(echo), prompts_(prompts), requests_(requests), items_(prompts.size()) {
  if (format_ == Format::kText && echo_) open();
}

// What stands before a prompt's text.
void GenerateOutput::open() {
  const Prompt& prompt = prompts_[current_];
  if (prompts_.size() > 1) {
    const std::string name = prompt.id.is_null()     ? fmt::format("{}", current_ + 1)
                             : prompt.id.is_string() ? printable(prompt.id.get<std::string>())
                                                     : prompt.id.dump();
    show(fmt::format("{}==> {} <==\n", current_ == 0 ? "" : "\n", name));
  }
  if (echo_ && prompt.text) show(*prompt.text);
}

void GenerateOutput::show(std::string_view text) {
  if (text.empty()) return;
  begun_ = true;
  in_line_ = text.back() != '\n';
  print(for_terminal(text));
}

void GenerateOutput::on_text(std::size_t index, std::string_view text) {
  if (format_ == Format::kJson) return;
  if (index != current_) {
    items_[index].waiting += text;
    return;
  }
  if (!begun_) open();
  show(text);
}

void GenerateOutput::on_done(std::size_t index, const engine::GeneratedText& result) {
  if (format_ == Format::kJson) items_[index].waiting = json_line(index, result);
  items_[index].done = true;
  if (format_ == Format::kText && index == current_ && !begun_) open();
  advance();
}

// Prints what waited for the prompts that are done now.
void GenerateOutput::advance() {
  while (current_ < items_.size()) {
    Item& item = items_[current_];
    show(item.waiting);
    item.waiting = {};
    if (!item.done) return;
    if (format_ == Format::kText) {
      show("\n");
    }
    if (++current_ < items_.size() && format_ == Format::kText) open();
  }
}

void GenerateOutput::break_line() {
  if (in_line_) show("\n");
}

std::string GenerateOutput::json_line(std::size_t index,
                                      const engine::GeneratedText& result) const {
  const Prompt& prompt = prompts_[index];
  const engine::GenerationRequest& request = requests_[index].generation;
  nlohmann::ordered_json line;
  line["index"] = index;
  if (!prompt.id.is_null()) line["id"] = prompt.id;
  line["prompt"] = prompt.text ? nlohmann::ordered_json(*prompt.text) : nullptr;
  line["prompt_tokens"] = request.prompt;
  line["tokens"] = result.tokens;
  line["text"] = result.text;
  line["finish_reason"] = engine::to_string(result.reason);
  if (request.sampling.do_sample) line["seed"] = request.sampling.seed;
  return line.dump() + "\n";
}

}  // namespace tidemill::tools
