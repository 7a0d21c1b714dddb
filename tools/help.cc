#include "tools/help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <string_view>

namespace tidemill::tools {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kHelpColumn = 36;  // where descriptions of options begin

/// Breaks a line at spaces; what follows a break is indented.
std::string wrap(std::string_view line, std::size_t indent) {
  std::string text;
  while (line.size() > kWidth - (text.empty() ? 0 : indent)) {
    const std::size_t room = kWidth - (text.empty() ? 0 : indent);
    const std::size_t at = line.rfind(' ', room);
    // Nothing to break at behind the indentation or the option's name.
    if (at == std::string_view::npos || (text.empty() && at <= indent)) break;
    text += std::string(text.empty() ? 0 : indent, ' ');
    text.append(line.substr(0, at)).append("\n");
    line.remove_prefix(at + 1);
  }
  text += std::string(text.empty() ? 0 : indent, ' ');
  return text.append(line).append("\n");
}

/// Lists subcommands with the first sentence of their descriptions.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(kHelpColumn); }
  std::string make_subcommand(const CLI::App* sub) const override {
    const std::string description = sub->get_description();
    std::ostringstream line;
    CLI::detail::format_help(line, sub->get_name(), description.substr(0, description.find(". ")),
                             get_column_width());
    return line.str();
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<HelpFormatter>(); }

std::string help_text(const CLI::App& app, const std::string& parent) {
  const std::string raw = app.help(parent);
  std::string text;
  bool blank = false;  // the line before was empty: CLI11 leaves two between groups
  for (std::string_view rest = raw; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (!(blank && line.empty())) text += wrap(line, line.starts_with("  ") ? kHelpColumn : 0);
    blank = line.empty();
  }
  return text;
}

}  // namespace tidemill::tools
