// The program: finds the subcommand, turns errors into one line and an exit status.
#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <new>
#include <string>

#include "io/base/error.h"
#include "tools/help.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/verbs.h"

namespace {

using namespace tidemill;

constexpr int kUsageStatus = static_cast<int>(ErrorKind::kUsage);

constexpr const char* kFooter = R"(Examples:
  tidemill generate models/tidemill-kjv -p "In the beginning" --max-new-tokens 40 --memory 5MB
  tidemill plan ~/models/Llama-3.1-70B --memory 16GiB

Exit status: 0 done, 2 wrong usage, 3 bad model or input, 4 reading or writing failed,
5 does not fit into --memory, 6 compute device, 70 a bug, 130 interrupted.)";

/// Messages may quote what users and files gave: one line, nothing that a terminal obeys.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return printable(text, 2000);
}

int fail(int status, const std::string& message) {
  tools::note(false, "tidemill: " + one_line(message));
  return status;
}

int fail_usage(const CLI::App& program, const std::string& message) {
  const auto verbs = program.get_subcommands();
  const std::string verb = verbs.empty() ? "" : " " + verbs.front()->get_name();
  tools::note(false, "tidemill: " + one_line(message));
  tools::note(false, "Try 'tidemill" + verb + " --help'.");
  return kUsageStatus;
}

int run(int argc, char** argv) {
  CLI::App program(
      "Runs transformer models that are larger than memory: their weights stream from the drive "
      "past the compute.",
      "tidemill");
  program.footer(kFooter);
  program.set_version_flag("--version", "tidemill " TIDEMILL_VERSION);
  program.require_subcommand(1);
  program.formatter(tools::help_formatter());
  const std::map<std::string, tools::Run> verbs = {
      {"generate", tools::add_generate(program)}, {"inspect", tools::add_inspect(program)},
      {"plan", tools::add_plan(program)},         {"logits", tools::add_logits(program)},
      {"synth", tools::add_synth(program)},
  };
  if (argc <= 1) {
    tools::note(false, tools::help_text(program, ""));
    return kUsageStatus;
  }
  if (argv[1][0] != '-' && !verbs.contains(argv[1])) {
    return fail_usage(program, fmt::format("\"{}\" is no subcommand", argv[1]));
  }
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    const auto chosen = program.get_subcommands();
    if (dynamic_cast<const CLI::CallForVersion*>(&wanted) != nullptr) {
      tools::print(std::string(wanted.what()) + "\n");
    } else {
      tools::print(chosen.empty() ? tools::help_text(program, "")
                                  : tools::help_text(*chosen.front(), program.get_name()));
    }
    return 0;
  } catch (const CLI::ParseError& error) {
    return fail_usage(program, error.what());
  }
  verbs.at(program.get_subcommands().front()->get_name())();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  tools::prepare_standard_streams();
  tools::catch_interrupts();
  spdlog::set_default_logger(spdlog::stderr_logger_mt("tidemill"));
  spdlog::set_pattern("tidemill: %v");
  try {
    return run(argc, argv);
  } catch (const tools::Interrupted&) {
    return tools::kInterruptedStatus;
  } catch (const Error& error) {
    return fail(error.exit_code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(static_cast<int>(ErrorKind::kBudget),
                "the system has no memory left; give a smaller --memory or end other programs");
  } catch (const std::exception& error) {
    return fail(static_cast<int>(ErrorKind::kBug),
                std::string("unexpected error, please report it: ") + error.what());
  }
}
