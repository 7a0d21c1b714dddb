#include "tools/text_options.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "io/base/checked.h"
#include "io/base/error.h"
#include "io/json_file.h"
#include "tools/arguments.h"

namespace tidemill::tools {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostTokens = std::numeric_limits<std::uint32_t>::max();

/// One option as the command line and the files know it.
struct Count {
  const char* key;  ///< in files; the command line has "--" and dashes
  std::optional<std::uint64_t> TextOptions::*field;
  std::uint64_t low;
  const char* help;
};
constexpr Count kLengths[] = {
    {"max_new_tokens", &TextOptions::max_new_tokens, 0, "Tokens to generate at most (default: 50)"},
    {"max_length", &TextOptions::max_length, 1,
     "The same, counting the prompt too (instead of --max-new-tokens)"},
    {"min_new_tokens", &TextOptions::min_new_tokens, 0, "No end of text before so many new tokens"},
    {"min_length", &TextOptions::min_length, 0, "The same, counting the prompt too"},
};
constexpr Count kSamplingCounts[] = {
    {"top_k", &TextOptions::top_k, 0, "Choose among the K likeliest; 0: all (default: 50)"},
    {"seed", &TextOptions::seed, 0,
     "The same seed gives the same text, and torch's choices for 32 bits of it (default: random, "
     "and reported)"},
};
constexpr Count kPenaltyCounts[] = {
    {"no_repeat_ngram", &TextOptions::no_repeat_ngram, 0, "Never repeat N tokens in a row; 0: off"},
};

struct Real {
  const char* key;
  std::optional<double> TextOptions::*field;
  const char* help;
};
constexpr Real kSamplingReals[] = {
    {"temperature", &TextOptions::temperature,
     "Divides the logits; below 1 is safer, above 1 wilder, 0 is greedy (default: 1)"},
    {"top_p", &TextOptions::top_p,
     "Choose among the likeliest that have this probability together (default: 1, off)"},
    {"min_p", &TextOptions::min_p,
     "Drop tokens below this share of the likeliest one's probability (default: 0, off)"},
};
constexpr Real kPenaltyReals[] = {
    {"repetition_penalty", &TextOptions::repetition_penalty,
     "Above 1 makes tokens that already occur less likely (default: 1, off)"},
};

std::string flag(const char* key) {
  std::string name = std::string("--") + key;
  for (char& c : name) c = c == '_' ? '-' : c;
  return name;
}

[[noreturn]] void refuse(const std::string& key, const json& value, const char* rule) {
  throw_error(ErrorKind::kUsage, "\"{}\": {} is not {}", key, printable(value.dump(), 60), rule);
}

template <typename T>
void fill(std::optional<T>& value, const std::optional<T>& over) {
  if (over) value = over;
}

}  // namespace

const char* TextOptions::sampling_option() const {
  for (const Real& option : kSamplingReals) {
    if (this->*option.field) return option.key;
  }
  for (const Count& option : kSamplingCounts) {
    if (this->*option.field) return option.key;
  }
  return nullptr;
}

void add_text_options(CLI::App& app, TextOptions& options) {
  const auto add = [&](const char* group, const auto& list) {
    for (const auto& option : list) {
      auto& field = options.*option.field;
      std::string names = flag(option.key);
      if (names == "--max-new-tokens") names = "-n," + names;
      if constexpr (requires { option.low; }) {
        const std::uint64_t high = option.key == std::string_view("seed")
                                       ? std::numeric_limits<std::uint64_t>::max()
                                       : kMostTokens;
        add_count(app, names, field, option.help, option.low, high)->group(group);
      } else {
        add_real(app, names, field, option.help)->group(group);
      }
    }
  };
  add("Length", kLengths);
  app.add_flag_callback(
         "--ignore-eos", [&options] { options.ignore_eos = true; },
         "Go on after an end-of-text token")
      ->group("Length");
  app.add_option("--stop", options.stop,
                 "End the text in front of this string; may be given several times")
      ->allow_extra_args(false)
      ->type_name("TEXT")
      ->group("Length");
  const char* sampling = "Sampling (greedy unless one of these is given)";
  app.add_flag_callback(
         "--sample", [&options] { options.sample = true; },
         "Choose tokens at random, as the model's generation_config.json recommends")
      ->group(sampling);
  app.add_flag_callback(
         "--greedy", [&options] { options.sample = false; },
         "Always the likeliest token (the default)")
      ->group(sampling);
  add(sampling, kSamplingReals);
  add(sampling, kSamplingCounts);
  add("Repetition", kPenaltyReals);
  add("Repetition", kPenaltyCounts);
}

void check_consistent(const TextOptions& options, Spelling spelling) {
  const auto name = [&](const char* key) {
    return spelling == Spelling::kCommandLine ? flag(key) : '"' + std::string(key) + '"';
  };
  const auto refuse_both = [&](const std::string& one, const std::string& other) {
    throw_error(ErrorKind::kUsage, "{} and {} contradict each other; give one of them", one, other);
  };
  const char* sampling = options.sampling_option();
  if (options.sample == false && sampling != nullptr && options.temperature != 0.0) {
    refuse_both(spelling == Spelling::kCommandLine ? "--greedy" : "\"do_sample\": false",
                name(sampling));
  }
  if (options.max_new_tokens && options.max_length) {
    refuse_both(name("max_new_tokens"), name("max_length"));
  }
  if (options.temperature && *options.temperature < 0) {
    throw_error(ErrorKind::kUsage,
                "{} is {}, below 0; small numbers stay close to the likeliest token, and 0 always "
                "takes it",
                name("temperature"), *options.temperature);
  }
}

TextOptions recommended_options(const std::string& model_directory) {
  const std::filesystem::path path =
      std::filesystem::path(model_directory) / "generation_config.json";
  TextOptions options;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return options;
  const json config = io::load_json_file(path);
  for (const char* key :
       {"temperature", "top_p", "min_p", "top_k", "repetition_penalty", "no_repeat_ngram_size"}) {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null()) continue;
    const std::string name =
        key == std::string_view("no_repeat_ngram_size") ? "no_repeat_ngram" : key;
    try {
      set_text_option(options, name, *found);
    } catch (const Error& refused) {
      throw Error(ErrorKind::kModel, path.string() + ": " + refused.what(),
                  {.path = path.string()});
    }
  }
  // Written by some models to say "greedy".
  if (options.temperature == 0.0) options.temperature.reset();
  return options;
}

bool set_text_option(TextOptions& options, const std::string& key, const json& value) {
  const auto set_count = [&](const Count& option) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() < option.low ||
        (value.get<std::uint64_t>() > kMostTokens && key != "seed")) {
      refuse(key, value, "a whole number in its range");
    }
    options.*option.field = value.get<std::uint64_t>();
    return true;
  };
  const auto set_real = [&](const Real& option) {
    if (!value.is_number()) refuse(key, value, "a number");
    options.*option.field = value.get<double>();
    return true;
  };
  for (const Count& option : kLengths) {
    if (key == option.key) return set_count(option);
  }
  for (const Count& option : kSamplingCounts) {
    if (key == option.key) return set_count(option);
  }
  for (const Count& option : kPenaltyCounts) {
    if (key == option.key) return set_count(option);
  }
  for (const Real& option : kSamplingReals) {
    if (key == option.key) return set_real(option);
  }
  for (const Real& option : kPenaltyReals) {
    if (key == option.key) return set_real(option);
  }
  if (key == "do_sample" || key == "ignore_eos") {
    if (!value.is_boolean()) refuse(key, value, "true or false");
    (key == "do_sample" ? options.sample : options.ignore_eos) = value.get<bool>();
    return true;
  }
  if (key == "stop") {
    const json list = value.is_string() ? json::array({value}) : value;
    if (!list.is_array()) refuse(key, value, "a string or a list of strings");
    options.stop.clear();
    for (const json& text : list) {
      if (!text.is_string()) refuse(key, value, "a string or a list of strings");
      options.stop.push_back(text.get<std::string>());
    }
    return true;
  }
  return false;
}

TextOptions merge(const TextOptions& base, const TextOptions& over) {
  TextOptions merged = base;
  // A length of either kind replaces one of the other, and "greedy" what was said about sampling.
  if (over.max_new_tokens || over.max_length) merged.max_new_tokens = merged.max_length = {};
  if (over.sample == false) {
    for (const Real& option : kSamplingReals) (merged.*option.field).reset();
    for (const Count& option : kSamplingCounts) (merged.*option.field).reset();
  } else if (over.sampling_option() != nullptr && merged.sample == false) {
    merged.sample.reset();
  }
  for (const Count& option : kLengths) fill(merged.*option.field, over.*option.field);
  for (const Count& option : kSamplingCounts) fill(merged.*option.field, over.*option.field);
  for (const Count& option : kPenaltyCounts) fill(merged.*option.field, over.*option.field);
  for (const Real& option : kSamplingReals) fill(merged.*option.field, over.*option.field);
  for (const Real& option : kPenaltyReals) fill(merged.*option.field, over.*option.field);
  fill(merged.sample, over.sample);
  fill(merged.ignore_eos, over.ignore_eos);
  if (!over.stop.empty()) merged.stop = over.stop;
  return merged;
}

engine::TextRequest make_request(const TextOptions& recommended, const TextOptions& asked,
                                 std::vector<std::uint32_t> prompt, std::uint64_t random_seed) {
  const bool greedy =
      asked.temperature == 0.0 || !asked.sample.value_or(asked.sampling_option() != nullptr);
  TextOptions all = merge(recommended, asked);
  engine::SamplingParams sampling;
  sampling.do_sample = !greedy;
  if (sampling.do_sample) {
    sampling.temperature = all.temperature.value_or(sampling.temperature);
    sampling.top_k = narrow<std::uint32_t>(all.top_k.value_or(sampling.top_k));
    sampling.top_p = all.top_p.value_or(sampling.top_p);
    sampling.min_p = all.min_p.value_or(sampling.min_p);
    sampling.seed = all.seed.value_or(random_seed);
  }
  sampling.repetition_penalty = all.repetition_penalty.value_or(sampling.repetition_penalty);
  sampling.no_repeat_ngram = narrow<std::uint32_t>(all.no_repeat_ngram.value_or(0));
  sampling.min_length = narrow<std::uint32_t>(all.min_length.value_or(0));
  sampling.min_new_tokens = narrow<std::uint32_t>(all.min_new_tokens.value_or(0));

  std::uint64_t new_tokens = all.max_new_tokens.value_or(kDefaultNewTokens);
  if (all.max_length) {
    if (*all.max_length <= prompt.size()) {
      throw_error(ErrorKind::kUsage,
                  "max_length {} leaves no room for new tokens: the prompt has {} tokens",
                  *all.max_length, prompt.size());
    }
    new_tokens = *all.max_length - prompt.size();
  }
  if (all.min_new_tokens.value_or(0) > new_tokens) {
    throw_error(ErrorKind::kUsage, "at least {} new tokens are wanted, and at most {}",
                *all.min_new_tokens, new_tokens);
  }
  return {.generation = {.prompt = std::move(prompt),
                         .max_new_tokens = new_tokens,
                         .sampling = sampling,
                         .ignore_eos = all.ignore_eos.value_or(false)},
          .stop = std::move(all.stop)};
}

}  // namespace tidemill::tools
