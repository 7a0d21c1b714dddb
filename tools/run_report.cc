#include "tools/run_report.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/host_memory.h"
#include "io/base/units.h"
#include "tools/output.h"
#include "tools/plan_report.h"

namespace tidemill::tools {
namespace {

using nlohmann::ordered_json;

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0.0; }

/// Early, because the files are written when a long run has ended.
void check_folder_of(const std::string& file) {
  if (file.empty() || written_in_place(file)) return;
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  if (access(folder.c_str(), W_OK | X_OK) == 0) return;
  const int error = errno;
  throw Error(ErrorKind::kIo,
              fmt::format("{}: cannot write there: {}", printable(file), std::strerror(error)),
              {.path = file, .error_number = error});
}

/// Bytes of weights that were read again and again: those of residents come once.
std::uint64_t streamed_bytes(const engine::SessionStats& stats) {
  return stats.weights.bytes_read - stats.weights.bytes_read_resident;
}

bool reads_direct(const engine::Model& model) {
  for (const auto& file : model.checkpoint.files()) {
    if (!file->direct()) return false;
  }
  return true;
}

ordered_json gather_json(const offload::RowGatherStats& stats) {
  return {{"rows", stats.rows}, {"rows_read", stats.rows_read}, {"bytes_read", stats.bytes_read}};
}

ordered_json options_json(const engine::Session& session, const EngineOptions& options,
                          const RunReport& report) {
  const io::ReaderOptions defaults;
  ordered_json json = {{"memory_bytes", report.budget.bytes},
                       {"memory_source", report.budget.source},
                       {"threads", options.threads},
                       {"chunk", options.chunk},
                       {"io", options.io},
                       {"queue_depth", options.queue_depth.value_or(defaults.queue_depth)},
                       {"io_threads", options.io_threads.value_or(defaults.threads)},
                       {"block_bytes", options.block},
                       {"prefetch", nullptr},
                       {"piece_bytes", options.piece},
                       {"ring_bytes", options.ring},
                       {"buffered_io", options.buffered},
                       {"direct_io", reads_direct(session.model())}};
  if (options.prefetch) json["prefetch"] = *options.prefetch;
  return json;
}

}  // namespace

void check_reports(const ReportOptions& options) {
  check_folder_of(options.stats);
  check_folder_of(options.trace);
}

std::string summary(const engine::Session& session, const RunReport& report) {
  const engine::SessionStats stats = session.stats();
  const double busy = seconds(stats.busy);
  std::string text;
  const auto line = [&](const std::string& what) { text += "tidemill: " + what + "\n"; };
  line(fmt::format("{} new tokens in {:.2f} s, {:.2f} tokens/s; {} prompt tokens; {} sweeps",
                   report.new_tokens, report.run_seconds,
                   ratio(static_cast<double>(report.new_tokens), report.run_seconds),
                   report.prompt_tokens, stats.sweeps));
  const std::uint64_t streamed = streamed_bytes(stats);
  const std::uint64_t sweeps = std::max<std::uint64_t>(1, stats.sweeps);
  const std::string what = streamed > 0
                               ? format_bytes(streamed / sweeps) + " of weights read per sweep"
                               : format_bytes(stats.weights.bytes_read) + " of weights read once";
  line(fmt::format("{} at {} ({}, {}); {:.0f}% of the time waiting for reads", what,
                   format_rate(ratio(static_cast<double>(stats.reader.bytes), busy)),
                   session.reader_name(),
                   reads_direct(session.model()) ? "direct I/O" : "page cache",
                   100 * ratio(seconds(stats.weights.wait_time), busy)));
  line(
      fmt::format("{:.0f}% of the weights resident; {} planned of a budget of {} ({}); peak "
                  "memory of the process {}",
                  100 * resident_share(session.plan()), format_bytes(session.plan().total_bytes()),
                  format_bytes(report.budget.bytes), report.budget.source,
                  format_bytes(engine::peak_resident_bytes())));
  return text;
}

ordered_json stats_json(const engine::Session& session, const EngineOptions& options,
                        const RunReport& report) {
  const engine::Model& model = session.model();
  const engine::SessionStats stats = session.stats();
  const WeightTotals totals = count_weights(model);
  const double busy = seconds(stats.busy);
  const double wait = seconds(stats.weights.wait_time);
  const std::uint64_t streamed = streamed_bytes(stats);
  const auto sweeps = static_cast<double>(std::max<std::uint64_t>(1, stats.sweeps));
  return {
      {"version", TIDEMILL_VERSION},
      {"model",
       {{"path", model.path},
        {"architecture", model.spec.architecture},
        {"layers", model.spec.layers.size()},
        {"parameters", totals.parameters},
        {"weight_bytes", totals.bytes}}},
      {"options", options_json(session, options, report)},
      {"device", report.device},
      {"plan", plan_json(session.plan())},
      {"run",
       {{"requests", report.requests},
        {"prompt_tokens", report.prompt_tokens},
        {"new_tokens", report.new_tokens},
        {"open_seconds", report.open_seconds},
        {"seconds", report.run_seconds},
        {"tokens_per_second", ratio(static_cast<double>(report.new_tokens), report.run_seconds)},
        {"sweeps", stats.sweeps},
        {"rows", stats.rows},
        {"sweep_seconds", busy},
        {"wait_seconds", wait},
        {"wait_share", ratio(wait, busy)},
        {"streamed_bytes", streamed},
        {"streamed_bytes_per_sweep", static_cast<double>(streamed) / sweeps},
        {"read_bytes_per_second", ratio(static_cast<double>(stats.reader.bytes), busy)}}},
      {"weights",
       {{"sweeps", stats.weights.sweeps},
        {"bytes_read", stats.weights.bytes_read},
        {"bytes_read_resident", stats.weights.bytes_read_resident},
        {"bytes_from_residency", stats.weights.bytes_from_residency},
        {"pieces_discarded", stats.weights.pieces_discarded},
        {"waits", stats.weights.waits}}},
      {"token_rows", gather_json(stats.tokens)},
      {"position_rows", gather_json(stats.positions)},
      {"reader",
       {{"engine", session.reader_name()},
        {"operations", stats.reader.operations},
        {"reads", stats.reader.reads},
        {"bytes", stats.reader.bytes},
        {"short_reads", stats.reader.short_reads},
        {"retries", stats.reader.retries},
        {"buffered_reads", stats.reader.buffered_reads},
        {"registered_buffers", stats.reader.registered_buffers}}},
      {"memory",
       {{"budget_bytes", report.budget.bytes},
        {"planned_bytes", session.plan().total_bytes()},
        {"peak_resident_bytes", engine::peak_resident_bytes()}}},
  };
}

void write_reports(const ReportOptions& options, const engine::Session& session,
                   const EngineOptions& engine_options, const RunReport& report,
                   const offload::Trace* trace) {
  std::string text = summary(session, report);
  text.pop_back();
  note(options.quiet, text);
  if (!options.stats.empty()) {
    write_text_file(options.stats, json_text(stats_json(session, engine_options, report)));
  }
  if (trace != nullptr) {
    trace->write(options.trace);
    if (trace->dropped() > 0) {
      note(options.quiet,
           fmt::format("tidemill: {} more events did not fit into the trace", trace->dropped()));
    }
  }
}

}  // namespace tidemill::tools
