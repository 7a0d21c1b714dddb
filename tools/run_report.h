// What a run did: the summary for people, the counters for machines.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/session.h"
#include "tools/options.h"

namespace tidemill::tools {

struct RunReport {
  std::string device;  ///< its description
  Budget budget;
  std::uint64_t requests = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t new_tokens = 0;
  double open_seconds = 0;  ///< until the first sweep
  double run_seconds = 0;   ///< sweeps and sampling
};

/// Error(kIo) if a report could not be written where the user wants it.
void check_reports(const ReportOptions& options);

/// A few lines, each beginning with "tidemill: ".
std::string summary(const engine::Session& session, const RunReport& report);

/// Keys are documented in README.md beside this file.
nlohmann::ordered_json stats_json(const engine::Session& session, const EngineOptions& options,
                                  const RunReport& report);

/// Summary to standard error, statistics and trace to their files: what the user asked for.
void write_reports(const ReportOptions& options, const engine::Session& session,
                   const EngineOptions& engine_options, const RunReport& report,
                   const offload::Trace* trace);

}  // namespace tidemill::tools
