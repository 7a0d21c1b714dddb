// Properties of encoding and decoding beyond the reference cases.
#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/byte_alphabet.h"
#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/utf8.h"
#include "io/base/error.h"

namespace tidemill::engine {
namespace {

using Ids = std::vector<std::uint32_t>;

Tokenizer family(const char* name) {
  return Tokenizer::load(std::filesystem::path(TIDEMILL_SOURCE_DIR) / "tests/fixtures/tokenizers" /
                         name);
}

TEST_CASE("a prompt that is not UTF-8 is an error of the request, with the position") {
  const Tokenizer tokenizer = family("gpt2");
  for (const std::string bad : {"ab\xFF", "ab\xC3", "ab\xC0\x80", "ab\xED\xA0\x80",
                                "ab\xF4\x90\x80\x80", "ab\xE2\x28\xA1", "ab\x80"}) {
    try {
      tokenizer.encode(bad);
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kUsage);
      CHECK(std::string(error.what()).find("byte 2") != std::string::npos);
    }
  }
  CHECK(tokenizer.decode(tokenizer.encode("fine"), true) == "fine");
}

TEST_CASE("ids outside the vocabulary are errors of the request") {
  const Tokenizer tokenizer = family("llama3");
  const Ids bad = {1, tokenizer.vocab_size()};
  CHECK_THROWS_AS(tokenizer.decode(bad, true), Error);
  StreamDecoder decoder(tokenizer, true);
  CHECK_THROWS_AS(decoder.push(~0U), Error);
}

TEST_CASE("a hole in the vocabulary has no text") {
  const Tokenizer tokenizer = Tokenizer::parse(
      R"({"decoder": {"type": "ByteLevel"},
          "model": {"type": "BPE", "vocab": {"a": 0, "b": 5}, "merges": []}})",
      "x");
  CHECK(tokenizer.vocab_size() == 6);
  CHECK(tokenizer.decode(Ids{0, 3, 5}, false) == "ab");
}

TEST_CASE("byte-level tokenizers give back any text") {
  for (const char* name : {"gpt2", "bloom", "llama3", "opt", "o200k"}) {
    const Tokenizer tokenizer = family(name);
    for (const std::string text :
         {"日本語 and e\u0301 \U0001F468\u200D\U0001F469", "\x01\x02\n\r\t  x"}) {
      CHECK(tokenizer.decode(tokenizer.encode(text, false), false) == text);
    }
  }
}

TEST_CASE("a stream shows whole characters only") {
  const Tokenizer tokenizer = family("gpt2");
  const std::string text = "日本語 \U0001F468\u200D\U0001F469\u200D\U0001F467 é";
  StreamDecoder decoder(tokenizer, false);
  std::string shown;
  for (const std::uint32_t id : tokenizer.encode(text, false)) {
    const std::string part = decoder.push(id);
    CHECK(is_valid_utf8(part));
    CHECK(part.find(kReplacementCharacter) == std::string::npos);
    shown += part;
  }
  CHECK(decoder.finish().empty());
  CHECK(shown == text);
}

TEST_CASE("a character that is cut off becomes one replacement character at the end") {
  const Tokenizer tokenizer = family("gpt2");
  Ids ids;
  for (const char* byte : {"\u00F0", "\u0141", "\u013A"}) {  // the bytes F0 9F 98
    ids.push_back(*tokenizer.token_to_id(byte));
  }
  StreamDecoder decoder(tokenizer, false);
  for (const std::uint32_t id : ids) CHECK(decoder.push(id).empty());
  CHECK(decoder.finish() == kReplacementCharacter);
  CHECK(tokenizer.decode(ids, false) == kReplacementCharacter);
}

TEST_CASE("repairing bytes does not depend on how they are cut") {
  const std::string bytes =
      "a\xE2\x82\xAC\xE2\x82\xF0\x9F\x98\xED\xA0\x80\xC0\xAF\xF4\x90z\xF0\x9F\x98\x80\xE2";
  std::string whole;
  Utf8Repair at_once;
  at_once.feed(bytes, whole);
  at_once.finish(whole);
  std::string pieces;
  Utf8Repair one_by_one;
  for (const char byte : bytes) one_by_one.feed({&byte, 1}, pieces);
  one_by_one.finish(pieces);
  CHECK(whole == pieces);
  const std::string r(kReplacementCharacter);
  CHECK(whole == "a\u20AC" + r + r + r + r + r + r + r + r + r + "z\U0001F600" + r);
}

TEST_CASE("the byte alphabet is a bijection") {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  const std::string characters = bytes_to_alphabet(all);
  CHECK(is_valid_utf8(characters));
  CHECK(alphabet_to_bytes(characters) == all);
  CHECK(bytes_to_alphabet(" \n") == "\u0120\u010A");
  CHECK(alphabet_to_bytes("a b") == std::nullopt);
  CHECK(alphabet_to_bytes("\u4E00") == std::nullopt);
}

TEST_CASE("NFC composes, reorders and respects exclusions") {
  CHECK(to_nfc("e\u0301") == "\u00E9");
  CHECK(to_nfc("q\u0307\u0323") == "q\u0323\u0307");
  CHECK(to_nfc("\u1100\u1161\u11A8") == "\uAC01");
  CHECK(to_nfc("\u0958") == "\u0915\u093C");
  CHECK(to_nfc("\u212B") == "\u00C5");
  CHECK(to_nfc("a\u0300\u0300") == "\u00E0\u0300");
  CHECK(to_nfc("plain") == "plain");
}

TEST_CASE("the longest added token at the leftmost position is found") {
  TokenFinder finder;
  finder.add("abc", 0);
  finder.add("ab", 1);
  finder.add("bcd", 2);
  finder.add("ab", 3);
  const auto match = finder.find("xabcd", 0);
  REQUIRE(match);
  CHECK(match->range.begin == 1);
  CHECK(match->range.end == 4);
  CHECK(match->index == 0);
  CHECK(finder.find("xabx", 0)->index == 1);
  CHECK(finder.find("xabcd", 2)->index == 2);
  CHECK(!finder.find("xabcd", 3));
}

// Seconds for one encode of `text`.
double seconds(const Tokenizer& tokenizer, const std::string& text) {
  const auto start = std::chrono::steady_clock::now();
  CHECK(!tokenizer.encode(text).empty());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST_CASE("long words, runs of spaces and of combining marks are not quadratic") {
  std::string marks = "a";
  for (int i = 0; i < 100000; ++i) marks += i % 2 == 0 ? "\u0301" : "\u0323";
  for (const char* name : {"gpt2", "neox", "llama3", "qwen2", "llama2_legacy", "bloom"}) {
    CAPTURE(name);
    const Tokenizer tokenizer = family(name);
    for (const std::string& text : {std::string(200000, 'a'), std::string(200000, ' ') + "x",
                                    std::string(200000, '\n'), marks}) {
      CHECK(seconds(tokenizer, text) < 5);  // quadratic: minutes
    }
  }
}

TEST_CASE("a regular expression that explodes ends in an error") {
  const Tokenizer tokenizer = Tokenizer::parse(
      R"({"pre_tokenizer": {"type": "Split", "behavior": "Isolated",
                            "pattern": {"Regex": "(?:a|a|aa)+[bc]"}},
          "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})",
      "x");
  try {
    tokenizer.encode(std::string(60, 'a'));
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kModel);
  }
}

}  // namespace
}  // namespace tidemill::engine
