#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "engine/tokenizer/regex.h"
#include "engine/tokenizer/regex_translation.h"
#include "io/base/error.h"

namespace tidemill::engine {
namespace {

std::vector<std::string> matches(const char* pattern, const std::string& text) {
  const Regex regex(pattern);
  Regex::Search search(regex);
  std::vector<std::string> result;
  for (const TextRange& range : search.all(text)) {
    result.push_back(text.substr(range.begin, range.end - range.begin));
  }
  return result;
}

using Texts = std::vector<std::string>;

TEST_CASE("a bracket inside a class opens a nested class") {
  CHECK(matches(" ?[^(\\s|[.,!?…。，、।۔،])]+", "a b.c|d(e)f] [g") ==
        Texts{"a", " b", "c", "d", "e", "f]", " [g"});
  CHECK(matches("[a[bc]d]+", "xabcdx[]") == Texts{"abcd"});
}

TEST_CASE("sets have the Unicode meaning of the reference") {
  CHECK(matches("\\s+", "a\u3000b\u0085c\u180Ed\u200Be\u2028f") ==
        Texts{"\u3000", "\u0085", "\u2028"});
  CHECK(matches("[^\\s]+", "a\u3000b\u180E") == Texts{"a", "b\u180E"});
  CHECK(matches("[\\S]+", "a\u3000b\u180E") == Texts{"a", "b\u180E"});
  CHECK(matches("\\S+", "a \u0301") == Texts{"a", "\u0301"});
  CHECK(matches("\\w+", "e\u0301_\u203F x-\u0661 ½ Ⅷ ⑤") ==
        Texts{"e\u0301_\u203F", "x", "\u0661", "½", "Ⅷ"});
  CHECK(matches("[\\w]+", "a½Ⅷ") == Texts{"a", "Ⅷ"});
  CHECK(matches("\\W+", "a -b") == Texts{" -"});
  CHECK(matches("\\d+\\D", "1\u0662x") == Texts{"1\u0662x"});
  CHECK(matches("\\p{Greek}+", "αβ\u0342x") == Texts{"αβ"});
  CHECK(matches("\\p{^L}", "a1") == Texts{"1"});
  CHECK(matches("\\P{L}", "a1") == Texts{"1"});
}

TEST_CASE("groups, quantifiers and escapes") {
  CHECK(matches("(?i:'S|'ll)", "it's IT'LL") == Texts{"'s", "'LL"});
  CHECK(matches("\\s+(?!\\S)|\\s+", "a   b") == Texts{"  ", " "});
  CHECK(matches("(?<=a)b(?=c)(?<!x)", "abc") == Texts{"b"});
  CHECK(matches("a{2}|b{1,}|c{,2}d|e{x", "aa bb ccd e{x") == Texts{"aa", "bb", "ccd", "e{x"});
  CHECK(matches("a+?b*+(c)(?>d)", "aabcd") == Texts{"aabcd"});
  CHECK(matches("\\x41\\x{42}\\u0043\\-\\.", "ABC-.") == Texts{"ABC-."});
  CHECK(matches("[\\x{61}-c\\-\\]+-]+", "abc-]+d") == Texts{"abc-]+"});
  CHECK(matches(".", "\n\r") == Texts{"\r"});
  CHECK(matches("x*", "axb") == Texts{"", "x", ""});
  CHECK(matches("a", "").empty());
}

TEST_CASE("what could mean something else is refused") {
  for (const char* pattern :
       {"^a",          "a$",         "\\bword",  "\\A",     "\\z",    "\\h",
        "\\1",         "(?<name>a)", "(?P<n>a)", "(?i)a",   "(?m:a)", "[a&&b]",
        "[[:alpha:]]", "[a[^b]]",    "[]a]",     "[^]a]",   "[\\W]",  "a**",
        "a+*",         "a{2}?",      "a{2}+",    "\\p{",    "\\pL",   "\\p{NoSuchScript}",
        "\\x{110000}", "\\ud800",    "\\xE9",    "[a",      "(a",     "a)",
        "\\",          "[z-a]",      "[a-\\d]",  "[\\d-a]", "*a",     "(*VERB)a",
        "\\x{}",       "\\p{L&}",    "[a-[b]]"}) {
    CAPTURE(pattern);
    try {
      Regex regex{pattern};
      FAIL_CHECK("accepted");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kModel);
    }
  }
  CHECK_THROWS_AS(translate_regex("\xFF"), Error);
  CHECK_THROWS_AS(translate_regex(std::string(100000, 'a')), Error);
  CHECK_THROWS_AS(translate_regex(std::string(100, '[')), Error);
}

}  // namespace
}  // namespace tidemill::engine
