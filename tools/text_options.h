// How a text is to be generated, as far as somebody said so: the model's generation_config.json,
// the command line, a line of the prompt file. Each overrides those before it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/text_generation.h"

namespace CLI {
class App;
}

namespace tidemill::tools {

inline constexpr std::uint64_t kDefaultNewTokens = 50;

struct TextOptions {
  std::optional<std::uint64_t> max_new_tokens, max_length;  ///< not both
  std::optional<std::uint64_t> min_new_tokens, min_length;
  std::optional<bool> sample;
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::uint64_t> top_k, no_repeat_ngram, seed;
  std::optional<bool> ignore_eos;
  std::vector<std::string> stop;

  /// The first thing set that only sampling has a use for: "temperature", "seed", ...
  const char* sampling_option() const;
};

void add_text_options(CLI::App& app, TextOptions& options);

/// How messages spell options: "--top-k" or "top_k".
enum class Spelling { kCommandLine, kFile };

/// Error(kUsage) for options of one source that contradict one another.
void check_consistent(const TextOptions& options, Spelling spelling);

/// What the model's generation_config.json recommends for sampling and against repetition; its
/// do_sample and lengths are not followed. Error(kModel) for values of a wrong type.
TextOptions recommended_options(const std::string& model_directory);

/// Takes the key of a prompt file's line. False if there is no such option; Error(kUsage), whose
/// message begins with the key, if the value is not one that it takes.
bool set_text_option(TextOptions& options, const std::string& key, const nlohmann::json& value);

/// `over` where it says something, else `base`.
TextOptions merge(const TextOptions& base, const TextOptions& over);

/// Greedy unless sampling, or something that only sampling has a use for, was asked for by
/// `asked`; what `recommended` says fills the rest. `random_seed` is for those who gave none.
engine::TextRequest make_request(const TextOptions& recommended, const TextOptions& asked,
                                 std::vector<std::uint32_t> prompt, std::uint64_t random_seed);

}  // namespace tidemill::tools
