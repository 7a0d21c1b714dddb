// The subcommands of the program.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace tidemill::tools {

/// What a subcommand does once its options are parsed. Errors are thrown.
using Run = std::function<void()>;

/// Each adds one subcommand with its options; the result owns the options' values.
Run add_generate(CLI::App& program);
Run add_inspect(CLI::App& program);
Run add_plan(CLI::App& program);
Run add_logits(CLI::App& program);
Run add_synth(CLI::App& program);

}  // namespace tidemill::tools
