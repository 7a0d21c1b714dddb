#include "engine/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>

#include "engine/tokenizer/json_fields.h"
#include "engine/tokenizer/utf8.h"
#include "io/base/error.h"

namespace tidemill::engine {
namespace {

int combining_class(utf8proc_int32_t character) {
  return utf8proc_get_property(character)->combining_class;
}

// Below U+0300 nothing composes with what is in front of it.
bool is_certainly_nfc(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0xCC; });
}

}  // namespace

std::string to_nfc(std::string_view text) {
  if (is_certainly_nfc(text)) return std::string(text);
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(text.size());
  for (std::size_t position = 0; position < text.size();) {
    utf8proc_int32_t parts[8];  // no canonical decomposition is longer than 4
    int boundary = 0;
    const auto character = static_cast<utf8proc_int32_t>(next_character(text, position));
    const auto count = utf8proc_decompose_char(
        character, parts, 8, static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE),
        &boundary);
    TM_CHECK(count >= 0 && count <= 8, "decomposition of U+{:04X} has {} parts", character, count);
    characters.insert(characters.end(), parts, parts + count);
  }
  // Canonical order: marks by class, equal ones as they came. A stable sort of each run of marks
  // because utf8proc's own is quadratic in the length of the run.
  for (auto run = characters.begin(); run != characters.end();) {
    if (combining_class(*run) == 0) {
      ++run;
      continue;
    }
    const auto end =
        std::find_if(run, characters.end(), [](auto c) { return combining_class(c) == 0; });
    std::stable_sort(run, end,
                     [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    run = end;
  }
  const auto length =
      utf8proc_normalize_utf32(characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  TM_CHECK(length >= 0, "utf8proc error {}", length);
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < static_cast<std::size_t>(length); ++i) {
    append_utf8(out, static_cast<char32_t>(characters[i]));
  }
  return out;
}

Normalizer Normalizer::parse(const nlohmann::json& json) {
  Normalizer normalizer;
  if (!json.is_null()) normalizer.add(json);
  return normalizer;
}

void Normalizer::add(const nlohmann::json& json) {
  require_object(json, "normalizer");
  const std::string type = string_field(json, "type", "normalizer");
  if (type == "NFC") {
    steps_.emplace_back(Nfc{});
  } else if (type == "Prepend") {
    steps_.emplace_back(Prepend{string_field(json, "prepend", "normalizer Prepend")});
  } else if (type == "Replace") {
    const auto* pattern = find_field(json, "pattern");
    if (pattern == nullptr) throw_error(ErrorKind::kModel, "normalizer Replace has no pattern");
    steps_.emplace_back(Replace{Pattern::parse(*pattern, "normalizer Replace"),
                                string_field(json, "content", "normalizer Replace")});
  } else if (type == "Sequence") {
    for (const auto& step : array_field(json, "normalizers", "normalizer Sequence")) add(step);
  } else {
    unsupported_type("normalizer", type);
  }
}

std::string Normalizer::apply(std::string_view text) const {
  std::string current(text);
  for (const Step& step : steps_) {
    if (std::holds_alternative<Nfc>(step)) {
      current = to_nfc(current);
    } else if (const auto* prepend = std::get_if<Prepend>(&step)) {
      if (!current.empty()) current.insert(0, prepend->text);
    } else if (const auto* replace = std::get_if<Replace>(&step)) {
      current = replace_all(current, replace->pattern, replace->content);
    }
  }
  return current;
}

}  // namespace tidemill::engine
