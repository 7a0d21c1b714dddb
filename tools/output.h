// Standard output and error as a well-behaved program uses them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tidemill::tools {

/// Makes descriptors 0 to 2 safe (a file opened later must not become standard output), and lets a
/// reader that went away end the program quietly, as it ends other tools.
void prepare_standard_streams();

/// Writes at once. Error(kIo) if standard output takes no more (full disk, closed).
void print(std::string_view text);

/// One line to standard error, unless `quiet`.
void note(bool quiet, std::string_view line);

bool output_is_terminal();
bool error_is_terminal();

/// The same text, with control characters other than newline and tab made visible if standard
/// output is a terminal, which a model's text should not steer. Whole characters only.
std::string for_terminal(std::string_view text);

/// JSON for machines; bytes of file names that are not UTF-8 become replacement characters.
std::string json_text(const nlohmann::ordered_json& json);

/// True for what must not be replaced by a new file: devices, pipes, and links such as /dev/stderr.
bool written_in_place(const std::string& path);

/// Writes a small text file, whole or not at all unless it is written in place. Error(kIo) if that
/// fails.
void write_text_file(const std::string& path, std::string_view text);

}  // namespace tidemill::tools
