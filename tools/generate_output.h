// What `generate` prints: text as it comes, or one JSON object per prompt, in the prompts' order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text_generation.h"
#include "tools/prompts.h"

namespace tidemill::tools {

class GenerateOutput {
 public:
  enum class Format { kText, kJson };

  /// Keeps references to both, which belong together.
  GenerateOutput(Format format, bool echo, const std::vector<Prompt>& prompts,
                 const std::vector<engine::TextRequest>& requests);

  void on_text(std::size_t index, std::string_view text);
  void on_done(std::size_t index, const engine::GeneratedText& result);

  /// True once something was printed.
  bool begun() const { return begun_; }
  /// Ends the line that is being printed, if any.
  void break_line();

 private:
  struct Item {
    std::string waiting;  ///< text (or JSON) that comes after other prompts' output
    bool done = false;
  };
  void open();
  void advance();
  void show(std::string_view text);
  std::string json_line(std::size_t index, const engine::GeneratedText& result) const;

  const Format format_;
  const bool echo_;
  const std::vector<Prompt>& prompts_;
  const std::vector<engine::TextRequest>& requests_;
  std::vector<Item> items_;
  std::size_t current_ = 0;  ///< the prompt whose output is being printed
  bool begun_ = false;
  bool in_line_ = false;
};

}  // namespace tidemill::tools
