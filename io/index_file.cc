#include "io/index_file.h"

#include <algorithm>
#include <unordered_map>

#include "io/json_sax.h"
#include "io/limits.h"

namespace tidemill::io {
namespace {

// {"metadata": {...}, "weight_map": {"tensor": "shard", ...}}; other keys are skipped.
class IndexSax final : public JsonSax {
 public:
  explicit IndexSax(std::string_view path) : JsonSax(path, "index", 0, kMaxJsonDepth) {}

  IndexFile index;
  bool has_map = false;

  bool null() override { return skip("null"); }
  bool boolean(bool) override { return skip("boolean"); }
  bool number_integer(number_integer_t) override { return skip("number"); }
  bool number_unsigned(number_unsigned_t) override { return skip("number"); }
  bool number_float(number_float_t, const string_t&) override { return skip("number"); }

  bool key(string_t& name) override {
    if (depth() == 1) {
      in_map_ = name == "weight_map";
      if (in_map_ && std::exchange(has_map, true)) fail("duplicate key \"weight_map\"");
    } else if (in_map_) {
      if (name.size() > kMaxNameBytes) fail("a tensor name is too long");
      if (index.tensors.size() == kMaxTensors) fail("too many tensors");
      index.tensors.emplace_back(std::move(name), 0);
    }
    return true;
  }

  bool string(string_t& shard) override {
    if (!in_map_) return true;
    if (depth() != 2) refuse("string");
    if (const char* why = reject_shard_name(shard)) {
      fail(fmt::format("\"{}\" cannot be a shard: {}", printable(shard), why));
    }
    const auto known = numbers_.find(shard);
    if (known != numbers_.end()) {
      index.tensors.back().second = known->second;
      return true;
    }
    if (index.shards.size() == kMaxShards) fail("too many shards");
    const auto number = static_cast<std::uint32_t>(index.shards.size());
    index.tensors.back().second = number;
    index.shards.push_back(shard);
    numbers_.emplace(std::move(shard), number);
    return true;
  }

 private:
  bool skip(const char* thing) {
    if (in_map_) refuse(thing);
    return true;
  }
  bool begin_object() override {
    if (in_map_ && depth() != 2) refuse("object");
    return true;
  }
  bool finish_object() override {
    if (depth() == 1) in_map_ = false;
    return true;
  }
  bool begin_array() override {
    if (in_map_ || depth() == 1) refuse("array");
    return true;
  }

  bool in_map_ = false;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

}  // namespace

const char* reject_shard_name(std::string_view name) {
  if (name.empty()) return "it is empty";
  if (name.size() > kMaxShardNameBytes) return "it is too long";
  if (name == "." || name == "..") return "it is a folder";
  if (name.find('/') != std::string_view::npos || name.find('\\') != std::string_view::npos) {
    return "only a file name without folders is accepted";
  }
  if (name.find('\0') != std::string_view::npos) return "it contains a zero byte";
  return nullptr;
}

IndexFile parse_index(std::string_view text, std::string_view path) {
  IndexSax sax(path);
  if (text.size() > kMaxIndexBytes) sax.fail("the file is too large");
  sax.parse(text);
  IndexFile index = std::move(sax.index);
  const auto fail = [&](const std::string& why) {
    throw Error(ErrorKind::kModel, fmt::format("{}: {}", printable(path), why),
                {.path = std::string(path), .offset = {}, .error_number = 0});
  };
  if (index.tensors.empty()) fail("no tensors in \"weight_map\"");

  std::sort(index.tensors.begin(), index.tensors.end());
  const auto twice =
      std::adjacent_find(index.tensors.begin(), index.tensors.end(),
                         [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != index.tensors.end()) {
    fail(fmt::format("tensor \"{}\" is listed twice", printable(twice->first)));
  }
  // Shards in the order of their names, whatever the order of the map.
  std::vector<std::string> sorted = index.shards;
  std::sort(sorted.begin(), sorted.end());
  for (auto& [name, shard] : index.tensors) {
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), index.shards[shard]);
    shard = static_cast<std::uint32_t>(at - sorted.begin());
  }
  index.shards = std::move(sorted);
  return index;
}

}  // namespace tidemill::io
