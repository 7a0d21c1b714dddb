#include "engine/tokenizer/tokenizer_file.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "io/base/error.h"

namespace tidemill::engine {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 16;
constexpr std::size_t kMaxConfigValues = 1U << 20;  // 65536 added tokens with 7 fields each fit

// Merges, resolved to ids. Those that come before the vocabulary wait as text.
class MergeReader {
 public:
  // `merge` is "left right".
  void add(const std::string& merge, const Vocabulary& vocabulary, bool vocabulary_done) {
    if (merge.starts_with("#version")) return;  // the first line of merges.txt
    const std::size_t space = merge.find(' ');
    if (space == std::string::npos || merge.find(' ', space + 1) != std::string::npos) {
      throw_error(ErrorKind::kModel, "model.merges[{}]: \"{}\" is not two tokens", count_,
                  printable(merge, 40));
    }
    add(std::string_view(merge).substr(0, space), std::string_view(merge).substr(space + 1),
        vocabulary, vocabulary_done);
  }

  void add(std::string_view left, std::string_view right, const Vocabulary& vocabulary,
           bool vocabulary_done) {
    if (count_ >= kMaxMerges) throw_error(ErrorKind::kModel, "more than {} merges", kMaxMerges);
    if (left.size() > kMaxTokenBytes || right.size() > kMaxTokenBytes) {
      throw_error(ErrorKind::kModel, "model.merges[{}]: a token exceeds {} bytes", count_,
                  kMaxTokenBytes);
    }
    if (vocabulary_done) {
      resolve(left, right, vocabulary, count_);
    } else {
      waiting_.emplace_back(left.size(), right.size());
      waiting_text_ += left;
      waiting_text_ += right;
    }
    ++count_;
  }

  MergeTable finish(const Vocabulary& vocabulary) {
    std::string_view text = waiting_text_;
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      const auto [left, right] = waiting_[i];
      resolve(text.substr(0, left), text.substr(left, right), vocabulary,
              static_cast<std::uint32_t>(i));
      text.remove_prefix(left + right);
    }
    waiting_.clear();
    return std::move(table_);
  }

 private:
  void resolve(std::string_view left, std::string_view right, const Vocabulary& vocabulary,
               std::uint32_t rank) {
    const auto id_of = [&](std::string_view token) {
      const auto id = vocabulary.find(token);
      if (!id) {
        throw_error(ErrorKind::kModel, "model.merges[{}]: \"{}\" is not in the vocabulary", rank,
                    printable(token, 40));
      }
      return *id;
    };
    joined_.assign(left);
    joined_ += right;
    const std::uint32_t left_id = id_of(left);
    const std::uint32_t right_id = id_of(right);
    table_.add(left_id, right_id, {rank, id_of(joined_)});
  }

  MergeTable table_;
  std::uint32_t count_ = 0;
  std::vector<std::pair<std::size_t, std::size_t>> waiting_;  // lengths of left and right
  std::string waiting_text_;
  std::string joined_;
};

// The receiver of the parser's events.
class Sax final : public nlohmann::json_sax<json> {
 public:
  Sax() = default;  // NOLINT(bugprone-exception-escape): as for TokenizerFile
  Sax(const Sax&) = delete;
  Sax& operator=(const Sax&) = delete;

  TokenizerFile finish() {
    file_.merges = merges_.finish(file_.vocabulary);
    return std::move(file_);
  }

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(number_integer_t value) override { return scalar(value); }
  bool number_float(number_float_t value, const string_t&) override { return scalar(value); }
  bool binary(binary_t&) override { return false; }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kVocabulary) return scalar(value);
    file_.vocabulary.add(key_, value);
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMerges) {
      merges_.add(value, file_.vocabulary, vocabulary_done_);
    } else if (place_ == Place::kPair) {
      if (pair_size_ == 2) bad_merge();
      pair_[pair_size_++] = std::move(value);
    } else {
      scalar(std::move(value));
    }
    return true;
  }

  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }

  bool start_object(std::size_t) override {
    enter();
    if (place_ == Place::kConfig && in_model() && key_ == "vocab") {
      if (vocabulary_done_) throw_error(ErrorKind::kModel, "model.vocab appears twice");
      place_ = Place::kVocabulary;
    } else {
      open(json::object());
    }
    return true;
  }

  bool end_object() override {
    --depth_;
    if (place_ == Place::kVocabulary) {
      place_ = Place::kConfig;
      vocabulary_done_ = true;
    } else {
      open_.pop_back();
    }
    return true;
  }

  bool start_array(std::size_t) override {
    enter();
    if (place_ == Place::kMerges) {
      place_ = Place::kPair;
      pair_size_ = 0;
    } else if (place_ == Place::kConfig && in_model() && key_ == "merges") {
      if (merges_seen_) throw_error(ErrorKind::kModel, "model.merges appears twice");
      merges_seen_ = true;
      place_ = Place::kMerges;
    } else if (place_ == Place::kConfig && in_model() && key_ == "vocab") {
      const json& type = (*open_.back())["type"];
      throw_error(ErrorKind::kModel, "model of type \"{}\" is not supported",
                  type.is_string() ? printable(type.get<std::string>(), 40) : "Unigram");
    } else {
      open(json::array());
    }
    return true;
  }

  bool end_array() override {
    --depth_;
    if (place_ == Place::kPair) {
      if (pair_size_ != 2) bad_merge();
      merges_.add(pair_[0], pair_[1], file_.vocabulary, vocabulary_done_);
      place_ = Place::kMerges;
    } else if (place_ == Place::kMerges) {
      place_ = Place::kConfig;
    } else {
      open_.pop_back();
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::detail::exception&) override {
    throw_error(ErrorKind::kModel, "not valid JSON at byte {}, near \"{}\"", position,
                printable(last_token, 40));
  }

 private:
  enum class Place { kConfig, kVocabulary, kMerges, kPair };

  [[noreturn]] static void bad_merge() {
    throw_error(ErrorKind::kModel, "model.merges: an entry is not two tokens");
  }

  void enter() {
    if (++depth_ > kMaxDepth) {
      throw_error(ErrorKind::kModel, "JSON nested deeper than {} levels", kMaxDepth);
    }
  }

  // The innermost open value is the root's "model".
  bool in_model() const { return open_.size() == 2 && model_open_; }

  bool scalar(json value) {
    if (place_ == Place::kVocabulary) {
      throw_error(ErrorKind::kModel, "model.vocab: the id of \"{}\" is not a whole number",
                  printable(key_, 40));
    }
    if (place_ != Place::kConfig) bad_merge();
    put(std::move(value));
    return true;
  }

  void open(json value) {
    if (place_ == Place::kVocabulary) {
      throw_error(ErrorKind::kModel, "model.vocab: the id of \"{}\" is not a number",
                  printable(key_, 40));
    }
    if (place_ != Place::kConfig) bad_merge();
    if (open_.size() == 1) model_open_ = key_ == "model" && value.is_object();
    json* place = put(std::move(value));
    open_.push_back(place);
  }

  json* put(json value) {
    if (++values_ > kMaxConfigValues) {
      throw_error(ErrorKind::kModel, "more than {} values beside the tables", kMaxConfigValues);
    }
    if (open_.empty()) {
      file_.config = std::move(value);
      return &file_.config;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }

  TokenizerFile file_;
  MergeReader merges_;
  Place place_ = Place::kConfig;
  int depth_ = 0;
  bool vocabulary_done_ = false;
  bool merges_seen_ = false;
  bool model_open_ = false;
  std::size_t values_ = 0;
  std::string key_;
  std::array<std::string, 2> pair_;
  std::size_t pair_size_ = 0;
  std::vector<json*> open_;  // the path from the root to the value being read
};

}  // namespace

TokenizerFile read_tokenizer_file(std::istream& stream) {
  Sax sax;
  const bool complete = json::sax_parse(stream, &sax);
  TM_CHECK(complete, "the JSON parser stopped without an error");
  return sax.finish();
}

}  // namespace tidemill::engine
