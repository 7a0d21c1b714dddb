// Fault model: any byte of the file may be anything. Rows are the ways in which headers have lied.
#include "io/safetensors.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "scratch.h"

namespace tidemill::io {
namespace {

std::vector<std::byte> file_of(std::string_view header, std::size_t data_bytes) {
  std::vector<std::byte> file(8 + header.size() + data_bytes);
  const std::uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  std::transform(header.begin(), header.end(), file.begin() + 8,
                 [](char c) { return static_cast<std::byte>(c); });
  return file;
}

SafetensorsHeader parse(std::string_view header, std::size_t data_bytes) {
  return parse_safetensors(file_of(header, data_bytes), "a.safetensors");
}

TEST_CASE("tensors come in the order of the file, with their place in it") {
  const auto header = parse(R"({"__metadata__":{"format":"pt"},)"
                            R"("b":{"dtype":"F16","shape":[2,3],"data_offsets":[4,16]},)"
                            R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                            R"("none":{"dtype":"I64","shape":[7,0],"data_offsets":[9,9]}}  )",
                            16);
  REQUIRE(header.tensors.size() == 3);
  CHECK(header.tensors[0].name == "a");
  CHECK(header.tensors[0].shape.empty());
  CHECK(header.tensors[1].name == "b");
  CHECK(header.tensors[1].dtype == DType::kF16);
  CHECK(header.tensors[1].shape == std::vector<std::uint64_t>{2, 3});
  CHECK(header.tensors[1].bytes.length == 12);
  CHECK(header.tensors[1].bytes.offset == header.tensors[0].bytes.offset + 4);
  CHECK(header.tensors[2].name == "none");  // owns no bytes, so it may point anywhere (H9)
  CHECK(header.metadata == std::vector<std::pair<std::string, std::string>>{{"format", "pt"}});
}

TEST_CASE("an empty file of tensors is well-formed") { CHECK(parse("{}", 0).tensors.empty()); }

TEST_CASE("tensors of unknown types are listed, and their bytes are accounted for") {
  const auto header = parse(R"({"q":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]},)"
                            R"("a":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})",
                            6);
  REQUIRE(header.unsupported.size() == 1);
  CHECK(header.unsupported[0].name == "q");
  CHECK(header.unsupported[0].dtype == "F8_E4M3");
  CHECK(header.tensors.size() == 1);
}

struct BadHeader {
  const char* row;
  std::string header;
  std::size_t data_bytes;
  const char* message;  // a part of it
};

std::string tensor(const char* fields) { return std::string(R"({"t":{)") + fields + "}}"; }

TEST_CASE("malformed headers are refused, with a reason") {
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  REQUIRE_NOTHROW(parse(tensor(good.c_str()), 8));
  const std::string deep(100'000, '[');
  const BadHeader rows[] = {
      {"H2 not an object", "[]", 0, "not a JSON object"},
      {"H2 space before", " {}", 0, "not a JSON object"},
      {"H2 byte order mark", "\xEF\xBB\xBF{}", 0, "not a JSON object"},
      {"H2 text after", "{} x", 0, "not a JSON object"},
      {"H2 tab after", "{}\t", 0, "not a JSON object"},
      {"H2 second document", "{}{}", 0, "byte 10"},
      {"H2 only spaces", "   ", 0, "not a JSON object"},
      {"H2 cut", R"({"t":{"dtype":"F32"})", 0, "bad safetensors header at byte"},
      {"H2 zero byte", std::string("{\0}", 3), 0, "at byte 9"},
      {"H2 invalid UTF-8", "{\"\xFF\":{}}", 0, "UTF-8"},
      {"H2 overlong UTF-8", "{\"\xC0\xAF\":{}}", 0, "UTF-8"},
      {"H2 unpaired surrogate", R"({"\uD800":{}})", 0, "surrogate"},
      {"H2 NaN", tensor(R"("dtype":"F32","shape":[NaN],"data_offsets":[0,8])"), 8, "literal"},
      {"H2 1e400", tensor(R"("dtype":"F32","shape":[1e400],"data_offsets":[0,8])"), 8, "number"},
      {"H2 leading zero", tensor(R"("dtype":"F32","shape":[02],"data_offsets":[0,8])"), 8, "byte"},
      {"H2 comment", "{/* */}", 0, "byte"},
      {"H2 trailing comma", tensor((good + ",").c_str()), 8, "byte"},
      {"H2 depth", R"({"t":{"shape":[[)", 0, "not a JSON object"},
      {"H2 depth", R"({"t":{"shape":[[2]]}})", 0, "nested too deeply"},
      {"H2 very deep", R"({"t":{"shape":)" + deep + "}}", 0, "nested too deeply"},
      {"H2 object in object", R"({"t":{"shape":{}}})", 0, "unexpected object"},
      {"H3 same tensor twice", R"({"t":{)" + good + R"(},"t":{)" + good + "}}", 8, "twice"},
      {"H3 same tensor, escaped", R"({"t":{)" + good + R"(},"\u0074":{)" + good + "}}", 8, "twice"},
      {"H3 same field twice", tensor((R"("dtype":"F32",)" + good).c_str()), 8, "duplicate key"},
      {"H3 metadata twice", R"({"__metadata__":{},"__metadata__":{}})", 0, "duplicate key"},
      {"H3 metadata key twice", R"({"__metadata__":{"a":"1","a":"2"}})", 0, "twice"},
      {"H5 negative", tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,8])"), 8, "negative"},
      {"H5 minus zero", tensor(R"("dtype":"F32","shape":[-0],"data_offsets":[0,0])"), 0,
       "negative"},
      {"H5 fraction", tensor(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), 8, "2.0"},
      {"H5 exponent", tensor(R"("dtype":"F32","shape":[2e0],"data_offsets":[0,8])"), 8, "2e0"},
      {"H5 2^64", tensor(R"("dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,8])"), 8,
       "number"},
      {"H5 string", tensor(R"("dtype":"F32","shape":["2"],"data_offsets":[0,8])"), 8, "string"},
      {"H5 boolean", tensor(R"("dtype":"F32","shape":[true],"data_offsets":[0,8])"), 8, "boolean"},
      {"H5 null", tensor(R"("dtype":null,"shape":[2],"data_offsets":[0,8])"), 8, "null"},
      {"H6 product wraps to 0",
       tensor(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0,
       "exceeds 64 bits"},
      {"H6 times the element size wraps",
       tensor(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])"), 0,
       "exceeds 64 bits"},
      {"H6 wraps beside an empty dimension",
       tensor(R"("dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0])"), 0,
       "exceeds 64 bits"},
      {"H6 nine dimensions",
       tensor(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])"), 1,
       "8 dimensions"},
      {"H7 begin after end", tensor(R"("dtype":"U8","shape":[2],"data_offsets":[4,2])"), 4,
       "do not lie in"},
      {"H7 end behind the file", tensor(R"("dtype":"U8","shape":[9],"data_offsets":[0,9])"), 8,
       "truncated"},
      {"H7 end wraps",
       tensor(
           R"("dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,18446744073709551615])"),
       8, "do not lie in"},
      {"H7 three offsets", tensor(R"("dtype":"U8","shape":[8],"data_offsets":[0,8,8])"), 8,
       "[begin, end]"},
      {"H7 one offset", tensor(R"("dtype":"U8","shape":[8],"data_offsets":[0])"), 8,
       "[begin, end]"},
      {"H8 hole in front", tensor(R"("dtype":"U8","shape":[4],"data_offsets":[4,8])"), 8,
       "begins at byte 4"},
      {"H8 hole behind", tensor(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])"), 8,
       "end at byte 4"},
      {"H8 overlap",
       R"({"a":{"dtype":"U8","shape":[6],"data_offsets":[0,6]},)"
       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
       8, "begins at byte 4"},
      {"H8 two tensors in one place",
       R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
       R"("b":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
       8, "begins at byte 0"},
      {"H8 overlap with an unknown type",
       R"({"a":{"dtype":"F8_E5M2","shape":[6],"data_offsets":[0,6]},)"
       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
       8, "begins at byte 4"},
      {"H8 data without tensors", "{}", 1, "1 bytes of data"},
      {"H10 size", tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), 8,
       "8 bytes of data, but its shape and type F32 make 12"},
      {"H10 scalar size", tensor(R"("dtype":"F32","shape":[],"data_offsets":[0,8])"), 8, "make 4"},
      {"H10 empty shape with bytes", tensor(R"("dtype":"F32","shape":[0],"data_offsets":[0,8])"), 8,
       "make 0"},
      {"H11 metadata is a string", R"({"__metadata__":"x"})", 0, "unexpected string"},
      {"H11 metadata holds a number", R"({"__metadata__":{"a":1}})", 0, "unexpected number"},
      {"H11 metadata holds an object", R"({"__metadata__":{"a":{}}})", 0, "unexpected object"},
      {"H11 metadata holds an array", R"({"__metadata__":{"a":[]}})", 0, "unexpected array"},
      {"H11 metadata is huge", R"({"__metadata__":{"a":")" + std::string(17 << 20, 'x') + "\"}}", 0,
       "too large"},
      {"missing field", tensor(R"("dtype":"F32","shape":[2])"), 8, "missing"},
      {"unknown field", tensor((good + R"(,"stride":[1])").c_str()), 8, "unknown key"},
      {"tensor is a number", R"({"t":1})", 0, "unexpected number"},
      {"long name", R"({")" + std::string(513, 'n') + R"(":{)" + good + "}}", 8, "513 bytes"},
      {"control characters stay off the terminal", R"({"\u001b[2J":1})", 0, "unexpected number"},
  };
  for (const BadHeader& row : rows) {
    CAPTURE(row.row);
    const Error error = error_of([&] { parse(row.header, row.data_bytes); });
    CAPTURE(error.what());
    CHECK(error.kind() == ErrorKind::kModel);
    CHECK(mentions(error, row.message));
    CHECK(mentions(error, "a.safetensors"));
    CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
    CHECK(std::string_view(error.what()).size() < 1000);
  }
}

TEST_CASE("H1: the length of the header is checked before anything is allocated for it") {
  const auto with_length = [](std::uint64_t length, std::uint64_t file_bytes) {
    std::byte first[8];
    std::memcpy(first, &length, 8);
    return error_of([&] { safetensors_header_length(first, file_bytes, "a.safetensors"); });
  };
  CHECK(mentions(with_length(0, 100), "a header of 0 bytes"));
  CHECK(mentions(with_length(93, 100), "truncated"));
  CHECK(mentions(with_length(kMaxHeaderBytes + 1, 1ULL << 40), "a header of 100000001 bytes"));
  CHECK(mentions(with_length(~0ULL, 100), "not a safetensors file"));
  CHECK(mentions(with_length(~0ULL - 7, ~0ULL), "not a safetensors file"));
  for (std::size_t size = 0; size < 8; ++size) {
    const std::vector<std::byte> file(size);
    CHECK(mentions(error_of([&] { parse_safetensors(file, "a"); }), "too few"));
  }
  std::byte first[8]{std::byte{92}};
  CHECK(safetensors_header_length(first, 100, "a") == 92);
  CHECK(mentions(error_of([&] { parse_safetensors(as_bytes("version https://git-lfs"), "a"); }),
                 "git lfs pull"));
}

TEST_CASE("H4: a header of nothing but tiny tensors is refused at 2^20") {
  std::string header = "{";
  for (std::size_t i = 0; i <= kMaxTensors; ++i) {
    header += fmt::format(R"("{:x}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}},)", i);
  }
  header.back() = '}';
  CHECK(mentions(error_of([&] { parse(header, 0); }), "more than 1048576 tensors"));
}

TEST_CASE("any one byte of the header may flip: an error or a header, never anything else") {
  const std::string header =
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[8,16]}})";
  const auto good = file_of(header, 16);
  for (std::size_t i = 0; i < 8 + header.size(); ++i) {
    for (unsigned value = 0; value < 256; ++value) {
      auto bad = good;
      bad[i] = static_cast<std::byte>(value);
      try {
        const auto parsed = parse_safetensors(bad, "flipped");
        for (const auto& t : parsed.tensors) REQUIRE(t.bytes.end() <= bad.size());
      } catch (const Error& error) {
        REQUIRE(error.kind() == ErrorKind::kModel);
      }
    }
  }
  for (std::size_t size = 0; size < good.size(); ++size) {  // or be missing
    REQUIRE(error_of([&] { parse_safetensors(std::span(good).first(size), "cut"); }).kind() ==
            ErrorKind::kModel);
  }
}

TEST_CASE("what the writer writes, the parser reads; data begins at a multiple of 4096") {
  const ScratchDir dir;
  const auto path = dir / "w.safetensors";
  const auto content = pattern(4 * 3000 + 2 * 7);
  {
    SafetensorsWriter writer(path,
                             {{"first \"quoted\" \xC3\xA9", DType::kF32, {3000}},
                              {"empty", DType::kF32, {0, 4}},
                              {"second", DType::kBF16, {7, 1}}},
                             {{"format", "pt"}});
    CHECK(writer.data_offset() % 4096 == 0);
    CHECK(writer.data_bytes() == content.size());
    // Pieces need not know where tensors begin.
    writer.append(std::span(content).first(1));
    writer.append(std::span(content).subspan(1));
    CHECK(!std::filesystem::exists(path));  // only when it is complete
    writer.finish();
  }
  const auto bytes = read_file(path);
  const auto header = parse_safetensors(bytes, "w");
  REQUIRE(header.tensors.size() == 3);
  CHECK(header.tensors[0].bytes.offset == 4096);
  CHECK(header.metadata.at(0).second == "pt");
  CHECK(equal(std::span(bytes).subspan(4096), content));
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
}

TEST_CASE(
    "the writer insists on exactly the declared data, and leaves nothing behind if it fails") {
  const ScratchDir dir;
  const auto path = dir / "w.safetensors";
  write_file(path, "old");
  {
    SafetensorsWriter writer(path, {{"a", DType::kU8, {4}}});
    CHECK(error_of([&] { writer.append(pattern(5)); }).kind() == ErrorKind::kBug);
    writer.append(pattern(3));
    CHECK(error_of([&] { writer.finish(); }).kind() == ErrorKind::kBug);
  }
  CHECK(equal(read_file(path), as_bytes("old")));
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
  const auto refused = [&](std::vector<TensorSpec> tensors) {
    return error_of([&] { SafetensorsWriter(path, std::move(tensors)); });
  };
  CHECK(mentions(refused({{"a", DType::kU8, {1}}, {"a", DType::kU8, {1}}}), "twice"));
  CHECK(mentions(refused({{"a", DType::kF32, {1ULL << 62, 8}}}), "exceeds 64 bits"));
  CHECK(mentions(refused({{"a\xFF", DType::kU8, {1}}}), "not UTF-8"));
  CHECK(refused({{"a", DType::kU8, {1ULL << 50}}}).kind() == ErrorKind::kIo);  // no such disk
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
}

}  // namespace
}  // namespace tidemill::io
