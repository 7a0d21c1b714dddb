// The help of the program and its subcommands, laid out for a terminal.
#pragma once

#include <memory>
#include <string>

namespace CLI {
class App;
class FormatterBase;
}  // namespace CLI

namespace tidemill::tools {

/// Set it before subcommands are added, which inherit it.
std::shared_ptr<CLI::FormatterBase> help_formatter();

/// The help of `app`, whose parent is called `parent` (empty for the program itself).
std::string help_text(const CLI::App& app, const std::string& parent);

}  // namespace tidemill::tools
