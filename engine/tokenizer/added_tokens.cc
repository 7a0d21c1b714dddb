#include "engine/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "engine/tokenizer/json_fields.h"
#include "engine/tokenizer/utf8.h"
#include "io/base/error.h"

namespace tidemill::engine {
namespace {

AddedToken parse_token(const nlohmann::json& json) {
  constexpr std::string_view kWhere = "added_tokens";
  require_object(json, kWhere);
  AddedToken token;
  token.content = string_field(json, "content", kWhere);
  token.id = count_field(json, "id", kMaxTokens, kWhere);
  token.single_word = bool_field(json, "single_word", false, kWhere);
  token.lstrip = bool_field(json, "lstrip", false, kWhere);
  token.rstrip = bool_field(json, "rstrip", false, kWhere);
  token.special = bool_field(json, "special", false, kWhere);
  token.normalized = bool_field(json, "normalized", !token.special, kWhere);
  return token;
}

std::size_t white_space_before(std::string_view text, std::size_t position) {
  while (position > 0) {
    std::size_t before = position;
    if (!is_white_space(previous_character(text, before))) break;
    position = before;
  }
  return position;
}

std::size_t white_space_after(std::string_view text, std::size_t position) {
  while (position < text.size()) {
    std::size_t after = position;
    if (!is_white_space(next_character(text, after))) break;
    position = after;
  }
  return position;
}

bool is_inside_word(std::string_view text, const TextRange& range) {
  std::size_t before = range.begin;
  if (before > 0 && is_word_character(previous_character(text, before))) return true;
  std::size_t after = range.end;
  return after < text.size() && is_word_character(next_character(text, after));
}

}  // namespace

void TokenFinder::add(std::string_view text, std::size_t index) {
  std::uint32_t node = 0;
  for (const char byte : text) {
    const auto [child, is_new] =
        nodes_[node].children.try_emplace(byte, static_cast<std::uint32_t>(nodes_.size()));
    node = child->second;
    if (is_new) nodes_.emplace_back();
  }
  if (!nodes_[node].index) nodes_[node].index = index;
}

std::optional<TokenFinder::Match> TokenFinder::find(std::string_view text,
                                                    std::size_t start) const {
  if (nodes_[0].children.empty()) return std::nullopt;
  for (; start < text.size(); ++start) {
    std::optional<Match> longest;
    const Node* node = nodes_.data();
    for (std::size_t end = start; end < text.size(); ++end) {
      const auto child = node->children.find(text[end]);
      if (child == node->children.end()) break;
      node = &nodes_[child->second];
      if (node->index) longest = Match{{start, end + 1}, *node->index};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

AddedTokens AddedTokens::parse(const nlohmann::json& json, const Vocabulary& vocabulary,
                               const Normalizer& normalizer) {
  AddedTokens added;
  if (json.is_null()) return added;
  if (!json.is_array() || json.size() > kMaxAddedTokens) {
    throw_error(ErrorKind::kModel, "added_tokens is not an array of at most {} tokens",
                kMaxAddedTokens);
  }
  for (const auto& entry : json) {
    AddedToken token = parse_token(entry);
    if (token.content.empty()) continue;
    if (token.content.size() > kMaxAddedTokenBytes) {
      throw_error(ErrorKind::kModel, "added token {} has {} bytes, the limit is {}", token.id,
                  token.content.size(), kMaxAddedTokenBytes);
    }
    const auto model_id = vocabulary.find(token.content);
    if (model_id ? *model_id != token.id : vocabulary.contains(token.id)) {
      throw_error(ErrorKind::kModel, "added token \"{}\" has id {}, in the model {}",
                  printable(token.content, 40), token.id,
                  model_id ? fmt::format("it has {}", *model_id) : "that is another token");
    }
    const std::size_t index = added.tokens_.size();
    if (!added.by_id_.emplace(token.id, index).second ||
        !added.by_content_.emplace(token.content, index).second) {
      throw_error(ErrorKind::kModel, "added token \"{}\" or its id {} appears twice",
                  printable(token.content, 40), token.id);
    }
    added.size_ = std::max(added.size_, token.id + 1);
    token.searched = token.normalized ? normalizer.apply(token.content) : token.content;
    added.tokens_.push_back(std::move(token));
  }
  // Of two tokens with the same text after normalisation the special one is found.
  for (const bool special : {true, false}) {
    for (std::size_t i = 0; i < added.tokens_.size(); ++i) {
      const AddedToken& token = added.tokens_[i];
      if (token.special != special) continue;
      if (!token.searched.empty()) {
        (token.normalized ? added.normalized_ : added.raw_).add(token.searched, i);
      }
    }
  }
  return added;
}

std::vector<AddedTokens::Segment> AddedTokens::split(std::string_view text, bool normalized) const {
  const TokenFinder& finder = normalized ? normalized_ : raw_;
  std::vector<Segment> segments;
  std::size_t done = 0;    // text before it is in a segment
  std::size_t search = 0;  // stripped white space is still searched, as in the reference
  while (const auto match = finder.find(text, search)) {
    const AddedToken& token = tokens_[match->index];
    TextRange range = match->range;
    search = range.end;
    if (token.single_word && is_inside_word(text, range)) continue;
    if (token.lstrip) range.begin = std::max(white_space_before(text, range.begin), done);
    if (token.rstrip) range.end = white_space_after(text, range.end);
    if (done < range.begin) segments.push_back({{done, range.begin}, std::nullopt});
    segments.push_back({range, token.id});
    done = range.end;
  }
  if (done < text.size()) segments.push_back({{done, text.size()}, std::nullopt});
  return segments;
}

const AddedToken* AddedTokens::find(std::uint32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

std::optional<std::uint32_t> AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  if (found == by_content_.end()) return std::nullopt;
  return tokens_[found->second].id;
}

bool AddedTokens::is_special(std::uint32_t id) const {
  const AddedToken* token = find(id);
  return token != nullptr && token->special;
}

}  // namespace tidemill::engine
