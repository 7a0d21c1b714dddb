#include "io/json_file.h"

#include <doctest/doctest.h>

#include "scratch.h"

namespace tidemill::io {
namespace {

TEST_CASE("JSON becomes a tree") {
  const auto json =
      parse_json(R"( {"a":[1,-2,3.5,"x",true,null,[],{}],"b":{"c":{"d":[[1],[2]]}}} )", "c.json");
  CHECK(json.dump() == R"({"a":[1,-2,3.5,"x",true,null,[],{}],"b":{"c":{"d":[[1],[2]]}}})");
  CHECK(parse_json("7", "c.json") == 7);
  CHECK(parse_json("\"s\"", "c.json") == "s");
}

TEST_CASE("what is not strict JSON is an error with path and byte") {
  const struct {
    std::string text;
    const char* message;
    std::uint64_t offset;
  } rows[] = {
      {"", "end of input", 0},
      {"{", "end of input", 1},
      {R"({"a":1,"a":2})", "duplicate key \"a\"", 11},
      {R"({"a":{"b":1,"b":1}})", "duplicate key \"b\"", 16},
      {"[1,]", "syntax error", 3},
      {"[NaN]", "syntax error", 2},
      {"[1e999]", "number overflow", 5},
      {"{} {}", "syntax error", 3},
      {"// comment\n1", "syntax error", 1},
      {"\"\xFF\"", "UTF-8", 1},
      {std::string(17, '[') + std::string(17, ']'), "nested too deeply", 17},
      {std::string(1'000'000, '['), "nested too deeply", 17},
  };
  for (const auto& row : rows) {
    CAPTURE(row.message);
    const Error error = error_of([&] { parse_json(row.text, "c.json"); });
    CAPTURE(error.what());
    CHECK(error.kind() == ErrorKind::kModel);
    CHECK(error.path() == "c.json");
    CHECK(mentions(error, row.message));
    REQUIRE(error.offset());
    // The parser may have looked one byte ahead.
    CHECK(*error.offset() >= row.offset - (row.offset > 0 ? 1 : 0));
    CHECK(*error.offset() <= row.offset + 1);
  }
}

TEST_CASE("files are refused by their size before they are read") {
  const ScratchDir dir;
  write_file(dir / "c.json", R"({"a": 1})");
  CHECK(load_json_file(dir / "c.json").at("a") == 1);
  CHECK(
      mentions(error_of([&] { load_json_file(dir / "c.json", {.max_bytes = 7}); }), "at most 7 B"));
  CHECK(error_of([&] { load_json_file(dir / "none.json"); }).kind() == ErrorKind::kModel);
}

}  // namespace
}  // namespace tidemill::io
