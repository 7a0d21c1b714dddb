#include "tools/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "io/base/error.h"
#include "io/base/units.h"

namespace tidemill::tools {
namespace {

template <typename T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::uint64_t parse_count(const std::string& names, const std::string& text, std::uint64_t low,
                          std::uint64_t high) {
  const auto value = parse_whole<std::uint64_t>(text);
  if (!value || *value < low || *value > high) {
    throw CLI::ValidationError(
        names, fmt::format("\"{}\" is not a whole number from {} to {}", text, low, high));
  }
  return *value;
}

/// "-n,--max-new-tokens" -> "--max-new-tokens"
std::string long_name(const std::string& names) { return names.substr(names.rfind(',') + 1); }

}  // namespace

CLI::Option* add_size(CLI::App& app, const std::string& names, std::uint64_t& value,
                      const std::string& help) {
  return app
      .add_option_function<std::string>(
          names,
          [&value, names](const std::string& text) {
            try {
              value = parse_bytes(text);
            } catch (const Error& error) {
              throw CLI::ValidationError(long_name(names), error.what());
            }
            if (value == 0) throw CLI::ValidationError(long_name(names), "must be more than 0");
          },
          help)
      ->type_name("SIZE");
}

CLI::Option* add_count(CLI::App& app, const std::string& names, std::uint64_t& value,
                       const std::string& help, std::uint64_t low, std::uint64_t high) {
  return app
      .add_option_function<std::string>(
          names,
          [&value, names, low, high](const std::string& text) {
            value = parse_count(long_name(names), text, low, high);
          },
          help)
      ->type_name("N");
}

CLI::Option* add_count(CLI::App& app, const std::string& names, std::optional<std::uint64_t>& value,
                       const std::string& help, std::uint64_t low, std::uint64_t high) {
  return app
      .add_option_function<std::string>(
          names,
          [&value, names, low, high](const std::string& text) {
            value = parse_count(long_name(names), text, low, high);
          },
          help)
      ->type_name("N");
}

CLI::Option* add_real(CLI::App& app, const std::string& names, std::optional<double>& value,
                      const std::string& help) {
  return app
      .add_option_function<std::string>(
          names,
          [&value, names](const std::string& text) {
            const auto parsed = parse_whole<double>(text);
            if (!parsed || !std::isfinite(*parsed)) {
              throw CLI::ValidationError(long_name(names),
                                         fmt::format("\"{}\" is not a number", text));
            }
            value = *parsed;
          },
          help)
      ->type_name("X");
}

CLI::Option* add_choice(CLI::App& app, const std::string& names, std::string& value,
                        const std::string& help, const std::vector<std::string>& choices) {
  std::string words;
  for (const std::string& choice : choices) words += (words.empty() ? "" : "|") + choice;
  return app
      .add_option_function<std::string>(
          names,
          [&value, names, choices, words](const std::string& text) {
            if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
              throw CLI::ValidationError(long_name(names),
                                         fmt::format("\"{}\" is none of {}", text, words));
            }
            value = text;
          },
          help)
      ->type_name(words);
}

std::vector<std::uint32_t> parse_token_ids(std::string_view text) {
  constexpr std::string_view kSeparators = " ,\t\r\n";
  std::vector<std::uint32_t> ids;
  for (;;) {
    const std::size_t begin = text.find_first_not_of(kSeparators);
    if (begin == std::string_view::npos) return ids;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(kSeparators));
    const auto id = parse_whole<std::uint32_t>(word);
    if (!id) {
      throw_error(ErrorKind::kUsage, "\"{}\" is not a token id; give numbers such as \"1 2 3\"",
                  printable(word, 40));
    }
    ids.push_back(*id);
    text.remove_prefix(word.size());
  }
}

}  // namespace tidemill::tools
