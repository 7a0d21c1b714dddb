#include "engine/tokenizer/regex_translation.h"

#include <cstdint>
#include <optional>

#include "engine/tokenizer/utf8.h"
#include "io/base/error.h"
#include "io/base/units.h"

namespace tidemill::engine {
namespace {

// Class items, to be put between brackets.
constexpr std::string_view kSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNotSpace =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff})"
    R"(\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
// Alphabetic, marks, decimal digits, connectors ...
constexpr std::string_view kWord = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9})"
                                   R"(\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
// ... and outside of classes the superscripts and fractions of Latin-1 too.
constexpr std::string_view kWholeWord =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be}\x{24b6}-\x{24e9})"
    R"(\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

constexpr int kMaxClassDepth = 8;
constexpr std::size_t kMaxPatternBytes = 64 * kKiB;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string literal(char32_t character) {
  return fmt::format("\\x{{{:x}}}", std::uint32_t{character});
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (!at_end()) translate_one();
    if (depth_ != 0) reject("an unclosed group");
    return std::move(out_);
  }

 private:
  [[noreturn]] void reject(std::string_view what) const {
    throw_error(ErrorKind::kModel, "regular expression \"{}\": {} is not supported",
                printable(pattern_), printable(what, 40));
  }

  bool at_end() const { return position_ >= pattern_.size(); }
  char peek() const { return at_end() ? '\0' : pattern_[position_]; }
  bool skip(std::string_view text) {
    if (pattern_.substr(position_, text.size()) != text) return false;
    position_ += text.size();
    return true;
  }
  char32_t next() {
    if (at_end()) reject("an unfinished construct");
    return next_character(pattern_, position_);
  }

  void translate_one() {
    switch (peek()) {
      case '\\':
        ++position_;
        if (const auto character = escape(false)) out_ += literal(*character);
        break;
      case '[':
        ++position_;
        character_class();
        break;
      case '(':
        ++position_;
        open_group();
        break;
      case ')':
        ++position_;
        if (--depth_ < 0) reject("an unmatched )");
        out_ += ')';
        break;
      case '|':
      case '.':
        out_ += pattern_[position_++];
        break;
      case '*':
      case '+':
      case '?':
        out_ += pattern_[position_++];
        quantifier_suffix(true);
        break;
      case '{':
        interval();
        break;
      case '^':
      case '$':
        reject("an anchor");
      default:
        out_ += literal(next());
    }
  }

  void open_group() {
    ++depth_;
    for (const std::string_view kind : {"?:", "?i:", "?=", "?!", "?<=", "?<!", "?>"}) {
      if (skip(kind)) {
        out_ += '(';
        out_ += kind;
        return;
      }
    }
    if (peek() == '?' || peek() == '*') reject("a group of this kind");
    out_ += "(?:";  // nothing refers back to a group
  }

  // After * + ? or an interval: lazy, possessive, and nothing else. A second quantifier would mean
  // a quantified quantifier to Oniguruma.
  void quantifier_suffix(bool possessive_allowed) {
    if (peek() == '?' || (peek() == '+' && possessive_allowed)) out_ += pattern_[position_++];
    const char c = peek();
    if (!at_end() && (c == '*' || c == '+' || c == '?')) reject("a quantifier of a quantifier");
  }

  void interval() {
    std::size_t end = position_ + 1;
    const auto number = [&] {
      const std::size_t begin = end;
      while (end < pattern_.size() && is_digit(pattern_[end])) ++end;
      return pattern_.substr(begin, end - begin);
    };
    const std::string_view low = number();
    const bool comma = end < pattern_.size() && pattern_[end] == ',';
    if (comma) ++end;
    const std::string_view high = comma ? number() : low;
    const bool closed = end < pattern_.size() && pattern_[end] == '}';
    if (!closed || (low.empty() && high.empty())) {  // no interval at all: a brace
      ++position_;
      out_ += literal('{');
      return;
    }
    position_ = end + 1;
    if (!comma && peek() == '?') reject("{n}?");  // optional to Oniguruma, lazy to PCRE2
    out_ += comma ? fmt::format("{{{},{}}}", low.empty() ? "0" : low, high)
                  : fmt::format("{{{}}}", low);
    quantifier_suffix(false);
  }

  // After a backslash. The character it stands for, or nothing if a set was written to `out_`.
  std::optional<char32_t> escape(bool in_class) {
    if (at_end()) reject("a backslash at the end");
    const char c = peek();
    if (!is_letter(c) && !is_digit(c)) return next();
    ++position_;
    switch (c) {
      case 'r':
        return '\r';
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'a':
        return '\a';
      case 'e':
        return 0x1B;
      case 'x':
      case 'u':
        return code_point(c);
      case 's':
        write_set(kSpace, false, in_class);
        return std::nullopt;
      case 'S':
        write_set(in_class ? kNotSpace : kSpace, !in_class, in_class);
        return std::nullopt;
      case 'w':
        write_set(in_class ? kWord : kWholeWord, false, in_class);
        return std::nullopt;
      case 'W':
        if (in_class) reject("\\W in a class");
        write_set(kWholeWord, true, in_class);
        return std::nullopt;
      case 'd':
        out_ += "\\p{Nd}";
        return std::nullopt;
      case 'D':
        out_ += "\\P{Nd}";
        return std::nullopt;
      case 'p':
      case 'P':
        property(c);
        return std::nullopt;
      default:
        reject(fmt::format("\\{}", c));
    }
  }

  void write_set(std::string_view items, bool negated, bool in_class) {
    if (in_class) {
      out_ += items;
    } else {
      out_ += negated ? "[^" : "[";
      out_ += items;
      out_ += ']';
    }
  }

  // \xHH, \x{H...}, \uHHHH
  char32_t code_point(char kind) {
    const bool braces = kind == 'x' && skip("{");
    const std::size_t most = braces ? 8 : kind == 'x' ? 2 : 4;
    std::uint32_t value = 0;
    std::size_t digits = 0;
    for (; digits < most; ++digits) {
      const char c = peek();
      std::uint32_t digit = 0;
      if (is_digit(c)) {
        digit = static_cast<std::uint32_t>(c - '0');
      } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
        digit = static_cast<std::uint32_t>((c | 0x20) - 'a' + 10);
      } else {
        break;
      }
      value = value * 16 + digit;
      ++position_;
    }
    if (braces ? !skip("}") || digits == 0 : digits != most) reject("a code point of this form");
    if (kind == 'x' && !braces && value >= 0x80) reject("a byte of a character");
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) reject("this code point");
    return value;
  }

  void property(char kind) {
    if (!skip("{")) reject("a property without braces");
    const bool inverted = skip("^");
    const std::size_t begin = position_;
    while (is_letter(peek()) || peek() == '_') ++position_;
    const std::string_view name = pattern_.substr(begin, position_ - begin);
    if (name.empty() || !skip("}")) reject("a property of this form");
    out_ += kind == 'P' ? "\\P{" : "\\p{";
    if (inverted) out_ += '^';
    if (name.size() > 2 && name != "Any") out_ += "sc:";
    out_ += name;
    out_ += '}';
  }

  void character_class() {
    out_ += '[';
    if (skip("^")) out_ += '^';
    class_items(0);
    out_ += ']';
  }

  // Up to and including the closing bracket. A nested class that is not negated is a union, so its
  // items just join those of the outer one.
  void class_items(int depth) {
    if (depth > kMaxClassDepth) reject("such deep nesting");
    if (peek() == ']') reject("an empty class");
    while (true) {
      if (skip("]")) return;
      if (skip("&&")) reject("an intersection of classes");
      if (pattern_.substr(position_, 2) == "[:") reject("a bracket expression");
      if (skip("[")) {
        if (peek() == '^') reject("a negated nested class");
        class_items(depth + 1);
        continue;
      }
      const auto low = class_character();
      if (!low) {
        if (peek() == '-' && pattern_.substr(position_, 2) != "-]") reject("a range from a set");
        continue;
      }
      out_ += literal(*low);
      if (peek() != '-' || pattern_.substr(position_, 2) == "-]") continue;
      ++position_;
      if (peek() == '[') reject("a range to a set");
      const std::size_t before = out_.size();
      const auto high = class_character();
      if (!high || out_.size() != before) reject("a range to a set");
      out_ += '-';
      out_ += literal(*high);
    }
  }

  std::optional<char32_t> class_character() {
    if (skip("\\")) return escape(true);
    return next();
  }

  std::string_view pattern_;
  std::size_t position_ = 0;
  int depth_ = 0;
  std::string out_;
};

}  // namespace

std::string translate_regex(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes || !is_valid_utf8(pattern)) {
    throw_error(ErrorKind::kModel, "a regular expression has {} bytes or is not valid UTF-8",
                pattern.size());
  }
  return Translator(pattern).run();
}

}  // namespace tidemill::engine
