#include "engine/tokenizer/pre_tokenizer.h"

#include "engine/tokenizer/byte_alphabet.h"
#include "engine/tokenizer/json_fields.h"
#include "engine/tokenizer/utf8.h"
#include "io/base/error.h"

namespace tidemill::engine {
namespace {

// GPT-2's: contractions, words, numbers and the rest, each with a space in front; a run of spaces
// leaves its last one to the word that follows.
constexpr std::string_view kByteLevelRegex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Rewrites every piece: rewrite(piece, index, out) appends its new text.
template <typename Rewrite>
void rewrite_pieces(Pieces& pieces, Rewrite rewrite) {
  std::string text;
  text.reserve(pieces.text.size() + pieces.text.size() / 4 + 4);
  for (std::size_t i = 0; i < pieces.ranges.size(); ++i) {
    const std::size_t begin = text.size();
    rewrite(pieces.piece(pieces.ranges[i]), i, text);
    pieces.ranges[i] = {begin, text.size()};
  }
  pieces.text = std::move(text);
}

Pattern string_pattern(std::string_view text) {
  return Pattern::parse(nlohmann::json{{"String", std::string(text)}}, "pre_tokenizer");
}

SplitBehavior parse_behavior(const std::string& name) {
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  throw_error(ErrorKind::kModel, "pre_tokenizer Split: behavior \"{}\" is unknown",
              printable(name, 40));
}

}  // namespace

PreTokenizer PreTokenizer::parse(const nlohmann::json& json) {
  PreTokenizer pre_tokenizer;
  if (!json.is_null()) pre_tokenizer.add(json);
  return pre_tokenizer;
}

void PreTokenizer::add(const nlohmann::json& json) {
  require_object(json, "pre_tokenizer");
  const std::string type = string_field(json, "type", "pre_tokenizer");
  if (type == "ByteLevel") {
    add_byte_level(json);
  } else if (type == "Split") {
    add_split(json);
  } else if (type == "Metaspace") {
    add_metaspace(json);
  } else if (type == "Digits") {
    const bool individual = bool_field(json, "individual_digits", false, "pre_tokenizer Digits");
    steps_.emplace_back(Split{Pattern(Regex(R"(\p{N})")),
                              individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous,
                              /*invert=*/false});
  } else if (type == "Sequence") {
    for (const auto& step : array_field(json, "pretokenizers", "pre_tokenizer Sequence")) add(step);
  } else {
    unsupported_type("pre_tokenizer", type);
  }
}

void PreTokenizer::add_byte_level(const nlohmann::json& json) {
  constexpr std::string_view kWhere = "pre_tokenizer ByteLevel";
  ByteLevel step;
  step.add_prefix_space = bool_field(json, "add_prefix_space", true, kWhere);
  if (bool_field(json, "use_regex", true, kWhere)) step.regex.emplace_back(Regex(kByteLevelRegex));
  steps_.emplace_back(std::move(step));
}

void PreTokenizer::add_split(const nlohmann::json& json) {
  constexpr std::string_view kWhere = "pre_tokenizer Split";
  const auto* pattern = find_field(json, "pattern");
  if (pattern == nullptr) throw_error(ErrorKind::kModel, "{} has no pattern", kWhere);
  steps_.emplace_back(Split{Pattern::parse(*pattern, kWhere),
                            parse_behavior(string_field(json, "behavior", kWhere)),
                            bool_field(json, "invert", false, kWhere)});
}

void PreTokenizer::add_metaspace(const nlohmann::json& json) {
  constexpr std::string_view kWhere = "pre_tokenizer Metaspace";
  using Prepend = Metaspace::Prepend;
  const std::string replacement = string_field(json, "replacement", kWhere);
  if (replacement.empty() || utf8_length(replacement[0]) != replacement.size()) {
    throw_error(ErrorKind::kModel, "{}: the replacement is not one character", kWhere);
  }
  Prepend prepend = bool_field(json, "add_prefix_space", true, kWhere) ? Prepend::kAlways  // older
                                                                       : Prepend::kNever;  // files
  if (find_field(json, "prepend_scheme") != nullptr) {
    const std::string scheme = string_field(json, "prepend_scheme", kWhere);
    if (scheme == "always") {
      prepend = Prepend::kAlways;
    } else if (scheme == "first") {
      prepend = Prepend::kFirst;
    } else if (scheme == "never") {
      prepend = Prepend::kNever;
    } else {
      throw_error(ErrorKind::kModel, "{}: prepend_scheme \"{}\" is unknown", kWhere,
                  printable(scheme, 40));
    }
  }
  steps_.emplace_back(Metaspace{string_pattern(" "), string_pattern(replacement), replacement,
                                prepend, bool_field(json, "split", true, kWhere)});
}

void PreTokenizer::apply(Pieces& pieces) const {
  for (const Step& step : steps_) {
    if (const auto* split = std::get_if<Split>(&step)) {
      split_pieces(pieces, split->pattern, split->behavior, split->invert);
    } else if (const auto* bytes = std::get_if<ByteLevel>(&step)) {
      if (bytes->add_prefix_space) {
        rewrite_pieces(pieces, [](std::string_view piece, std::size_t, std::string& out) {
          if (!piece.starts_with(' ')) out += ' ';
          out += piece;
        });
      }
      for (const Pattern& regex : bytes->regex) {
        split_pieces(pieces, regex, SplitBehavior::kIsolated, /*invert=*/false);
      }
      rewrite_pieces(pieces, [](std::string_view piece, std::size_t, std::string& out) {
        out += bytes_to_alphabet(piece);
      });
    } else if (const auto* meta = std::get_if<Metaspace>(&step)) {
      rewrite_pieces(pieces, [&](std::string_view piece, std::size_t index, std::string& out) {
        const std::string replaced = replace_all(piece, meta->space, meta->text);
        const bool wanted =
            meta->prepend == Metaspace::Prepend::kAlways ||
            (meta->prepend == Metaspace::Prepend::kFirst && index == 0 && pieces.at_start);
        if (wanted && !replaced.starts_with(meta->text)) out += meta->text;
        out += replaced;
      });
      if (meta->split) {
        split_pieces(pieces, meta->replacement, SplitBehavior::kMergedWithNext, /*invert=*/false);
      }
    }
  }
}

}  // namespace tidemill::engine
