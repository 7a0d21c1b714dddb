// Options whose values are checked when they are parsed, so that a mistake names its option.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tidemill::tools {

/// A size as parse_bytes() takes it: "2GiB", "1.5 GB", "512M".
CLI::Option* add_size(CLI::App& app, const std::string& names, std::uint64_t& value,
                      const std::string& help);

/// A whole number from `low` to `high`.
CLI::Option* add_count(CLI::App& app, const std::string& names, std::uint64_t& value,
                       const std::string& help, std::uint64_t low,
                       std::uint64_t high = std::numeric_limits<std::uint32_t>::max());
CLI::Option* add_count(CLI::App& app, const std::string& names, std::optional<std::uint64_t>& value,
                       const std::string& help, std::uint64_t low,
                       std::uint64_t high = std::numeric_limits<std::uint32_t>::max());

/// A finite number.
CLI::Option* add_real(CLI::App& app, const std::string& names, std::optional<double>& value,
                      const std::string& help);

/// One of a few words.
CLI::Option* add_choice(CLI::App& app, const std::string& names, std::string& value,
                        const std::string& help, const std::vector<std::string>& choices);

/// "1 2 3" or "1,2,3" -> ids. Error(kUsage) naming the word that is not one; empty text has none.
std::vector<std::uint32_t> parse_token_ids(std::string_view text);

}  // namespace tidemill::tools
