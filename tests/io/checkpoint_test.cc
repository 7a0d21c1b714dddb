// Checkpoint directories as they come: whole, sharded, linked, incomplete, contradictory, hostile.
#include "io/checkpoint.h"

#include <doctest/doctest.h>

#include <map>

#include "io/index_file.h"
#include "scratch.h"

namespace tidemill::io {
namespace {

namespace fs = std::filesystem;

void write_shard(const fs::path& path, const std::vector<TensorSpec>& tensors) {
  SafetensorsWriter writer(path, tensors);
  writer.append(pattern(writer.data_bytes(), path.native().size()));
  writer.finish();
}

void write_index(const fs::path& path, const std::map<std::string, std::string>& map) {
  std::string json = R"({"metadata":{"total_size":123},"weight_map":{)";
  for (const auto& [tensor, shard] : map) json += fmt::format(R"("{}":"{}",)", tensor, shard);
  json.back() = '}';
  write_file(path, json + "}");
}

// a.st: x, y; b.st: z
void write_sharded(const ScratchDir& dir) {
  write_shard(dir / "a.st", {{"x", DType::kF32, {2, 3}}, {"y", DType::kF16, {4}}});
  write_shard(dir / "b.st", {{"z", DType::kBF16, {5}}});
  write_index(dir / "model.safetensors.index.json", {{"x", "a.st"}, {"y", "a.st"}, {"z", "b.st"}});
}

TEST_CASE("one file or a directory that holds it") {
  const ScratchDir dir;
  const auto path = dir / "model.safetensors";
  write_shard(path, {{"w", DType::kF16, {6, 2, 5}}, {"s", DType::kF32, {}}});
  for (const fs::path& model : {path, dir.path()}) {
    const auto checkpoint = Checkpoint::open(model);
    CHECK(checkpoint.path() == model);
    REQUIRE(checkpoint.tensors().size() == 2);
    const TensorInfo* w = checkpoint.find("w");
    REQUIRE(w != nullptr);
    CHECK(w->rows() == 6);
    CHECK(w->row_elements() == 10);
    CHECK(w->row_bytes() == 20);
    CHECK(w->row_range(2, 4) == ByteRange{w->bytes.offset + 40, 40});
    CHECK(w->bytes.length == 120);
    CHECK(shape_to_string(w->shape) == "[6, 2, 5]");
    CHECK(checkpoint.at("s").rows() == 1);
    CHECK(checkpoint.find("v") == nullptr);
    CHECK(mentions(error_of([&] { checkpoint.at("v"); }), "tensor \"v\" is missing"));
  }
}

TEST_CASE("shards are found through the index, in the order of their names") {
  const ScratchDir dir;
  write_sharded(dir);
  write_file(dir / "c.st", "not named by the index, hence not looked at");
  const auto checkpoint = Checkpoint::open(dir.path());
  REQUIRE(checkpoint.files().size() == 2);
  REQUIRE(checkpoint.tensors().size() == 3);
  CHECK(checkpoint.tensors()[0].name == "x");
  CHECK(checkpoint.at("z").file == checkpoint.files()[1]);
  const Checkpoint moved = [&] {
    Checkpoint other = checkpoint;
    return other;
  }();
  CHECK(moved.find("y") != nullptr);
}

TEST_CASE("links are followed: that is how model caches are built") {
  const ScratchDir dir;
  write_shard(dir / "blob", {{"w", DType::kF32, {1}}});
  fs::create_directory(dir / "snapshot");
  fs::create_symlink("../blob", dir / "snapshot" / "model.safetensors");
  CHECK(Checkpoint::open(dir / "snapshot").find("w") != nullptr);
}

TEST_CASE("tensors of an unknown type do no harm until somebody wants one") {
  const ScratchDir dir;
  const std::string header = R"({"q":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  write_file(dir / "model.safetensors", file + header + "ab");
  const auto checkpoint = Checkpoint::open(dir.path());
  CHECK(checkpoint.tensors().empty());
  CHECK(checkpoint.unsupported().size() == 1);
  CHECK(checkpoint.find_unsupported("q") != nullptr);
  CHECK(mentions(error_of([&] { checkpoint.at("q"); }),
                 "tensor \"q\" has type F8_E4M3, which is not supported"));
}

TEST_CASE("F3: missing shards are all named, before anything else is read") {
  const ScratchDir dir;
  write_sharded(dir);
  fs::remove(dir / "a.st");
  write_index(dir / "model.safetensors.index.json",
              {{"x", "a.st"}, {"y", "gone.st"}, {"z", "b.st"}});
  const Error error = error_of([&] { Checkpoint::open(dir.path()); });
  CHECK(error.kind() == ErrorKind::kModel);
  CHECK(mentions(error, "2 of 3 shards are missing: a.st, gone.st"));
}

TEST_CASE("F8: the index and the shards must agree") {
  const ScratchDir dir;
  const auto index = dir / "model.safetensors.index.json";
  const auto error_with = [&](const std::map<std::string, std::string>& map) {
    write_sharded(dir);
    write_index(index, map);
    return error_of([&] { Checkpoint::open(dir.path()); });
  };
  CHECK(mentions(error_with({{"x", "a.st"}, {"z", "b.st"}}),
                 "tensor \"y\" is in a.st, but not in the index"));
  CHECK(mentions(error_with({{"x", "a.st"}, {"y", "a.st"}, {"z", "b.st"}, {"more", "b.st"}}),
                 "1 tensors of the index are not in their shards: more (in b.st)"));
  CHECK(mentions(error_with({{"x", "a.st"}, {"y", "b.st"}, {"z", "b.st"}}),
                 "tensor \"y\" is in a.st, but the index says b.st"));

  write_sharded(dir);
  write_shard(dir / "b.st", {{"z", DType::kBF16, {5}}, {"x", DType::kF32, {2, 3}}});
  const Error twice = error_of([&] { Checkpoint::open(dir.path()); });
  CHECK(mentions(twice, "tensor \"x\" is in b.st, but the index says a.st"));
}

TEST_CASE("a shard that is cut, or no shard at all, is named") {
  const ScratchDir dir;
  write_sharded(dir);
  const auto size = fs::file_size(dir / "b.st");
  for (const std::uint64_t cut : {size - 1, size - 10, std::uint64_t{4096}, std::uint64_t{100},
                                  std::uint64_t{8}, std::uint64_t{3}, std::uint64_t{0}}) {
    fs::resize_file(dir / "b.st", cut);
    const Error error = error_of([&] { Checkpoint::open(dir.path()); });
    CHECK(error.kind() == ErrorKind::kModel);
    CHECK(error.path() == (dir / "b.st").string());
  }
  write_sharded(dir);
  write_file(dir / "b.st", "<!DOCTYPE html><html>Not found</html>");
  CHECK(mentions(error_of([&] { Checkpoint::open(dir.path()); }), "not a safetensors file"));
}

TEST_CASE("directories without weights say what they lack") {
  const ScratchDir dir;
  CHECK(mentions(error_of([&] { Checkpoint::open(dir.path()); }), "no model.safetensors"));
  write_file(dir / "pytorch_model.bin", "x");
  CHECK(mentions(error_of([&] { Checkpoint::open(dir.path()); }), "pytorch_model.bin is not read"));
  CHECK(mentions(error_of([&] { Checkpoint::open(dir / "nowhere"); }), "No such file"));
}

TEST_CASE("F4: only plain file names can be shards") {
  for (const std::string name :
       {"", ".", "..", "/etc/passwd", "../x", "a/b", "a/", "./a", "a\\b", "..\\x", "\\\\host\\x"}) {
    CAPTURE(name);
    CHECK(reject_shard_name(name) != nullptr);
  }
  CHECK(reject_shard_name(std::string("a\0b", 3)) != nullptr);
  CHECK(reject_shard_name(std::string(256, 'a')) != nullptr);
  for (const std::string name :
       {"model-00001-of-00002.safetensors", "...", "..a", "a b", "\xC3\xA9"}) {
    CAPTURE(name);
    CHECK(reject_shard_name(name) == nullptr);
  }
}

TEST_CASE("malformed index files are refused, with a reason") {
  const struct {
    std::string text;
    const char* message;
  } rows[] = {
      {"", "at byte 0"},
      {"[]", "unexpected array"},
      {"1", "no tensors"},
      {"{}", "no tensors"},
      {R"({"weight_map":{}})", "no tensors"},
      {R"({"weight_map":[]})", "unexpected array"},
      {R"({"weight_map":null})", "unexpected null"},
      {R"({"weight_map":{"a":1}})", "unexpected number"},
      {R"({"weight_map":{"a":-1}})", "unexpected number"},
      {R"({"weight_map":{"a":["x"]}})", "unexpected array"},
      {R"({"weight_map":{"a":{"b":"x"}}})", "unexpected object"},
      {R"({"weight_map":"x"})", "unexpected string"},
      {R"({"weight_map":{"a":"x","a":"y"}})", "listed twice"},
      {R"({"weight_map":{"a":"x"},"weight_map":{"b":"x"}})", "duplicate key"},
      {R"({"weight_map":{"a":"../x"}})", "cannot be a shard"},
      {R"({"weight_map":{"a":"x\u0000"}})", "cannot be a shard"},
      {R"({"weight_map":{"a":"x"}} trailing)", "at byte"},
      {R"({"weight_map":{")" + std::string(513, 'n') + R"(":"x"}})", "name is too long"},
      {R"({"other":)" + std::string(1000, '[') + std::string(1000, ']') + "}", "nested too deeply"},
      {std::string(kMaxIndexBytes + 1, ' '), "too large"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.message);
    const Error error = error_of([&] { parse_index(row.text, "index.json"); });
    CAPTURE(error.what());
    CHECK(error.kind() == ErrorKind::kModel);
    CHECK(mentions(error, row.message));
    CHECK(mentions(error, "index.json"));
  }
  const auto good = parse_index(
      R"({"weight_map":{"b":"2","a":"1","c":"1"},"metadata":{"x":[1,-2,{"y":null}],"z":1.5,"t":true}})",
      "index.json");
  CHECK(good.shards == std::vector<std::string>{"1", "2"});
  CHECK(good.tensors ==
        std::vector<std::pair<std::string, std::uint32_t>>{{"a", 0}, {"b", 1}, {"c", 0}});
}

}  // namespace
}  // namespace tidemill::io
