#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "engine/sampling/stop_strings.h"
#include "io/base/error.h"

namespace tidemill::engine {
namespace {

TEST_CASE("a stop string ends the text in front of it, across pieces") {
  StopMatcher matcher({"\n\n", "END"});
  CHECK(matcher.feed("abc\n") == "abc");
  CHECK(matcher.feed("x E") == "\nx ");
  CHECK(matcher.feed("N") == "");
  CHECK(matcher.feed("ough EN") == "ENough ");
  CHECK(!matcher.matched());
  CHECK(matcher.feed("D more") == "");
  CHECK(matcher.matched() == 1);
  CHECK(matcher.feed("more") == "");
  CHECK(matcher.finish() == "");
}

TEST_CASE("what was held back comes at the end of the text") {
  StopMatcher matcher({"</s>"});
  CHECK(matcher.feed("a </s") == "a ");
  CHECK(matcher.finish() == "</s");
  CHECK(!matcher.matched());
}

TEST_CASE("the first complete stop string counts, the longest of several") {
  StopMatcher inner({"bcd", "c"});
  CHECK(inner.feed("abcd") == "ab");
  CHECK(inner.matched() == 1);
  StopMatcher longest({"c", "abc"});
  CHECK(longest.feed("xabc") == "x");
  CHECK(longest.matched() == 1);
}

TEST_CASE("without stop strings the text passes through; empty and broken ones are refused") {
  StopMatcher matcher({});
  CHECK(matcher.feed("text") == "text");
  CHECK_THROWS_AS(StopMatcher({""}), Error);
  CHECK_THROWS_AS(StopMatcher({"\xE2\x82"}), Error);
}

TEST_CASE("the result does not depend on how the text is cut") {
  std::mt19937 random(5);
  const auto pick = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n)(random);
  };
  const auto word = [&](std::size_t length) {
    std::string text;
    for (std::size_t i = 0; i < length; ++i) text += "ab"[pick(1)];
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    const std::vector<std::string> stops = {word(1 + pick(5)) + "a", word(2 + pick(4)) + "bb"};
    const std::string text = word(pick(40));
    StopMatcher whole(stops);
    std::string expected = whole.feed(text);
    expected += whole.finish();
    StopMatcher cut(stops);
    std::string result;
    for (std::size_t done = 0; done < text.size();) {
      const std::size_t length = 1 + pick(3);
      result += cut.feed(std::string_view(text).substr(done, length));
      done += length;
    }
    result += cut.finish();
    CHECK(result == expected);
    CHECK(cut.matched() == whole.matched());
    // By definition: the shortest prefix of the text that ends with a stop string.
    for (const std::string& stop : stops) CHECK(result.find(stop) == std::string::npos);
  }
}

}  // namespace
}  // namespace tidemill::engine
