// tokenizer.json files that are wrong, unusual or large.
#include <doctest/doctest.h>

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "io/base/error.h"

namespace tidemill::engine {
namespace {

using nlohmann::json;
using Ids = std::vector<std::uint32_t>;

json small_file() {
  return json::parse(R"({
    "added_tokens": [{"id": 4, "content": "<s>", "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "post_processor": null,
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "aba": 3},
              "merges": ["a b", "ab a"]}})");
}

// The message of the Error(kModel) that a file gives, or "".
std::string refusal(const std::string& text) {
  try {
    Tokenizer::parse(text, "x.json");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kModel);
    CHECK(std::string(error.what()).starts_with("x.json: "));
    return error.what();
  }
  return "";
}

std::string refusal_with(const std::string& pointer, json value) {
  json file = small_file();
  file[json::json_pointer(pointer)] = std::move(value);
  return refusal(file.dump());
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a small file works, with merges as strings, as pairs, and in front of the vocabulary") {
  json pairs = small_file();
  pairs["model"]["merges"] = json::parse(R"([["a", "b"], ["ab", "a"]])");
  json untyped = small_file();
  untyped["model"].erase("type");
  std::string merges_first = R"({"model": {"merges": ["#version: 0.2", "a b", "ab a"],
      "vocab": {"a": 0, "b": 1, "ab": 2, "aba": 3}}})";
  for (const std::string& text :
       {small_file().dump(), pairs.dump(), untyped.dump(), merges_first}) {
    CAPTURE(text);
    CHECK(Tokenizer::parse(text, "x").encode("abaab") == Ids{3, 2});
    CHECK(Tokenizer::parse(text, "x").encode("") == Ids{});
  }
  const Tokenizer tokenizer = Tokenizer::parse(small_file().dump(), "x");
  CHECK(tokenizer.vocab_size() == 5);
  CHECK(tokenizer.encode("ab<s>ab") == Ids{2, 4, 2});
  CHECK(tokenizer.is_special(4));
  CHECK(!tokenizer.is_special(3));
  CHECK(!tokenizer.is_special(1000));
  CHECK(tokenizer.token_to_id("<s>") == 4);
  CHECK(tokenizer.token_to_id("aba") == 3);
  CHECK(tokenizer.token_to_id("x") == std::nullopt);
  CHECK(tokenizer.id_to_token(3) == "aba");
  CHECK(tokenizer.id_to_token(1000).empty());
}

TEST_CASE("what is not supported is refused by name, never tokenised in another way") {
  CHECK(contains(refusal_with("/model/type", "WordPiece"), "WordPiece"));
  CHECK(contains(refusal(R"({"model": {"type": "Unigram", "vocab": [["a", 0.5]]}})"), "Unigram"));
  CHECK(contains(refusal(R"({"model": {"vocab": [["a", 0.5]]}})"), "Unigram"));
  for (const char* part : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    const std::string message = refusal_with(std::string("/") + part, {{"type", "Bert\x1b"}});
    CHECK(contains(message, part));
    CHECK(contains(message, "Bert\\x1b"));
    CHECK(contains(refusal_with(std::string("/") + part, 1), part));
    CHECK(contains(refusal_with(std::string("/") + part, {{"type", 1}}), part));
  }
  CHECK(contains(refusal_with("/model/dropout", 0.1), "dropout"));
  CHECK(contains(refusal_with("/model/continuing_subword_prefix", "##"), "continuing"));
  CHECK(contains(refusal_with("/model/end_of_word_suffix", "</w>"), "end_of_word"));
  CHECK(contains(refusal_with("/model/unk_token", "<unk>"), "unk_token"));
  CHECK(refusal_with("/model/dropout", 0.0).empty());
  CHECK(refusal_with("/model/dropout", nullptr).empty());
  CHECK(refusal_with("/model/end_of_word_suffix", "").empty());
  const auto split = [](const char* behavior, json pattern) {
    return json{{"type", "Split"}, {"behavior", behavior}, {"pattern", std::move(pattern)}};
  };
  CHECK(contains(refusal_with("/pre_tokenizer", split("Odd", {{"String", " "}})), "Odd"));
  CHECK(contains(refusal_with("/pre_tokenizer", split("Removed", {{"String", ""}})), "pattern"));
  CHECK(contains(refusal_with("/pre_tokenizer", split("Removed", 3)), "pattern"));
  const auto decoders = [](json list) {
    return json{{"type", "Sequence"}, {"decoders", std::move(list)}};
  };
  const json fuse{{"type", "Fuse"}};
  const json strip{{"type", "Strip"}, {"content", " "}, {"start", 0}, {"stop", 1}};
  CHECK(contains(refusal_with("/decoder", decoders({fuse, strip})), "Strip"));
  CHECK(refusal_with("/decoder", decoders({strip, fuse})).empty());
}

TEST_CASE("templates must name tokens of the vocabulary and keep the text") {
  const auto with = [](json single, json ids) {
    return refusal_with("/post_processor",
                        {{"type", "TemplateProcessing"},
                         {"single", std::move(single)},
                         {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", std::move(ids)}}}}}});
  };
  const json text{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json start{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
  const json other{{"SpecialToken", {{"id", "<t>"}, {"type_id", 0}}}};
  CHECK(with({start, text}, {4}).empty());
  CHECK(contains(with({start, text}, {5}), "outside the vocabulary"));
  CHECK(contains(with({start, text}, {-1}), "outside the vocabulary"));
  CHECK(contains(with({other, text}, {4}), "<t>"));
  CHECK(contains(with(json::array({start}), {4}), "drops the text"));
  CHECK(contains(with({text, text}, {4}), "repeats the text"));
  CHECK(contains(with(3, {4}), "single"));
}

TEST_CASE("tables that contradict themselves are refused") {
  CHECK(contains(refusal_with("/model/vocab/x", 3), "same id 3"));
  CHECK(contains(refusal_with("/model/vocab/x", -1), "\"x\""));
  CHECK(contains(refusal_with("/model/vocab/x", 1.5), "\"x\""));
  CHECK(contains(refusal_with("/model/vocab/x", "7"), "\"x\""));
  CHECK(contains(refusal_with("/model/vocab/x", json::array()), "\"x\""));
  CHECK(contains(refusal_with("/model/vocab/x", json::object()), "\"x\""));
  CHECK(contains(refusal_with("/model/vocab/x", 1U << 22), "limit"));
  CHECK(contains(refusal_with("/model/vocab", json::object()), "vocab"));
  CHECK(contains(refusal_with("/model/vocab", 3), "vocab"));
  CHECK(contains(refusal_with("/model/merges/0", "a"), "merges"));
  CHECK(contains(refusal_with("/model/merges/0", "a b a"), "merges"));
  CHECK(contains(refusal_with("/model/merges/0", "a x"), "\"x\""));
  CHECK(contains(refusal_with("/model/merges/0", "b a"), "\"ba\""));
  CHECK(contains(refusal_with("/model/merges/0", 3), "merges"));
  CHECK(contains(refusal_with("/model/merges/0", {"a"}), "merges"));
  CHECK(contains(refusal_with("/model/merges/0", {"a", "b", "a"}), "merges"));
  CHECK(contains(refusal_with("/model/merges/0", {"a", 1}), "merges"));
  CHECK(contains(refusal_with("/model/merges/0", json::object()), "merges"));
  CHECK(contains(refusal_with("/added_tokens/0/id", 3), "another token"));
  CHECK(contains(refusal_with("/added_tokens/0/content", "ab"), "in the model it has 2"));
  CHECK(contains(refusal_with("/added_tokens/0/id", 1U << 22), "id"));
  CHECK(contains(refusal_with("/added_tokens/0/special", 1), "special"));
  CHECK(contains(refusal_with("/added_tokens/1", small_file()["added_tokens"][0]), "twice"));
  CHECK(contains(refusal_with("/added_tokens/0/content", std::string(2000, 'x')), "2000 bytes"));
  CHECK(contains(refusal_with("/added_tokens", 3), "added_tokens"));
  std::string twice = small_file().dump();
  twice.insert(twice.find("\"vocab\""), "\"vocab\":{\"z\":9},");
  CHECK(contains(refusal(twice), "twice"));
}

TEST_CASE("sizes beyond the limits are refused") {
  json long_token = small_file();
  long_token["model"]["vocab"][std::string(65 * 1024, 'x')] = 4;
  CHECK(contains(refusal(long_token.dump()), "limit"));
  CHECK(contains(refusal(std::string(100000, '[')), "nested"));
  CHECK(contains(refusal(R"({"a":)" + std::string(100, '[')), "nested"));
  std::string many = R"({"version": [)";
  for (int i = 0; i < (1 << 20); ++i) many += "0,";
  CHECK(contains(refusal(many + "0]}"), "values"));
}

TEST_CASE("bytes that are no JSON are refused with their position") {
  for (const char* text : {"", "{", "[1,", "nul", "\"a", "{\"a\" 1}", "{} {}", "\xFF",
                           "{\"\xC3\": 1}", "{\"a\": \"\\ud800\"}"}) {
    CAPTURE(text);
    CHECK(contains(refusal(text), "not valid JSON at byte"));
  }
  CHECK(contains(refusal("[]"), "not an object"));
  CHECK(contains(refusal("3"), "not an object"));
  CHECK(contains(refusal("{}"), "model"));
  CHECK(contains(refusal(R"({"model": 3})"), "model"));
  // Cut short anywhere, a file is refused.
  const std::string whole = small_file().dump();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CHECK(!refusal(whole.substr(0, length)).empty());
  }
}

TEST_CASE("a file that cannot be read is an I/O error with its path") {
  try {
    Tokenizer::load("/nonexistent");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kIo);
    CHECK(error.path() == "/nonexistent/tokenizer.json");
    CHECK(error.error_number() == ENOENT);
  }
  try {
    Tokenizer::load(std::filesystem::path(TIDEMILL_SOURCE_DIR) / "tests");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kModel);
    CHECK(contains(error.what(), "no tokenizer.json"));
  }
}

// Shadow memory and quarantines would be measured, not the loader.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMeasurable = false;
#elif defined(__has_feature)
constexpr bool kMeasurable = !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer);
#else
constexpr bool kMeasurable = true;
#endif

// A line of /proc/self/status in KiB.
long status_kib(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::stol(line.substr(name.size() + 1));
  }
  return 0;
}

// As large as BLOOM's: 250680 tokens, as many merges, about 14 MB.
void write_large_file(const std::filesystem::path& path) {
  std::ofstream out(path);
  out << R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "model": {"type": "BPE",)"
      << R"( "vocab": {)";
  const std::string letters = "abcdefghijklmnopqrstuvwxyz";
  std::vector<std::string> tokens;
  std::string merges;
  for (const char letter : letters) tokens.emplace_back(1, letter);
  for (std::size_t base = 0; tokens.size() < 250680; ++base) {
    for (const char letter : letters) {
      merges += (merges.empty() ? "\"" : ",\n      \"") + tokens[base] + " " + letter + "\"";
      tokens.push_back(tokens[base] + letter);
    }
  }
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    out << (id == 0 ? "\n      \"" : ",\n      \"") << tokens[id] << "\": " << id;
  }
  out << "}, \"merges\": [" << merges << "]}}\n";
}

TEST_CASE("a file of a quarter of a million tokens loads in little memory and time") {
  const auto directory = std::filesystem::path(TIDEMILL_BINARY_DIR) /
                         ("tokenizer_large_" + std::to_string(::getpid()));
  std::filesystem::create_directories(directory);
  write_large_file(directory / "tokenizer.json");
  // A process of its own, since the peak of this one is past.
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::malloc_trim(0);                             // memory that the parent freed must not be
    std::ofstream("/proc/self/clear_refs") << 5;  // reused unseen; the peak starts anew
    const long before_kib = status_kib("VmHWM");
    const auto start = std::chrono::steady_clock::now();
    int verdict = 0;
    try {
      const Tokenizer tokenizer = Tokenizer::load(directory);
      const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start);
      const long grown_kib = status_kib("VmHWM") - before_kib;
      std::fprintf(stderr, "large tokenizer: %.2f s, peak grew by %ld KiB\n", seconds.count(),
                   grown_kib);
      if (tokenizer.encode("abcd").empty() || tokenizer.vocab_size() < 250680) verdict |= 1;
      if (kMeasurable && grown_kib > 50 * 1024) verdict |= 2;
      if (kMeasurable && seconds.count() > 5) verdict |= 4;  // 0.2 s on an idle machine
    } catch (const std::exception&) {
      verdict = 8;
    }
    ::_exit(verdict);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace tidemill::engine
