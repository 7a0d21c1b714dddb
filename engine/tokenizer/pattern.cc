#include "engine/tokenizer/pattern.h"

#include "engine/tokenizer/json_fields.h"
#include "io/base/error.h"

namespace tidemill::engine {

Pattern Pattern::parse(const nlohmann::json& json, std::string_view where) {
  if (json.is_object() && json.size() == 1) {
    if (json.contains("Regex")) return Pattern(Regex(string_field(json, "Regex", where)));
    if (json.contains("String")) {
      Pattern pattern;
      pattern.text_ = string_field(json, "String", where);
      if (!pattern.text_.empty()) return pattern;
    }
  }
  throw_error(ErrorKind::kModel,
              "{}: the pattern is neither a Regex nor a String that is not empty", where);
}

Pattern::Search::Search(const Pattern& pattern) : pattern_(pattern) {
  if (pattern.regex_) regex_.emplace(*pattern.regex_);
}

const std::vector<TextRange>& Pattern::Search::all(std::string_view text) {
  if (regex_) return regex_->all(text);
  matches_.clear();
  const std::string& wanted = pattern_.text_;
  for (std::size_t at = text.find(wanted); at != std::string_view::npos;
       at = text.find(wanted, at + wanted.size())) {
    matches_.push_back({at, at + wanted.size()});
  }
  return matches_;
}

std::string replace_all(std::string_view text, const Pattern& pattern, std::string_view content) {
  Pattern::Search search(pattern);
  std::string out;
  out.reserve(text.size());
  std::size_t done = 0;
  for (const TextRange& match : search.all(text)) {
    out += text.substr(done, match.begin - done);
    out += content;
    done = match.end;
  }
  out += text.substr(done);
  return out;
}

}  // namespace tidemill::engine
