#include "io/safetensors.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "io/base/checked.h"
#include "io/json_sax.h"

namespace tidemill::io {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::size_t kHeaderDepth = 3;  // {"tensor": {"shape": [

[[noreturn]] void fail(std::string_view path, const std::string& why) {
  throw Error(ErrorKind::kModel, fmt::format("{}: {}", printable(path), why),
              {.path = std::string(path), .offset = {}, .error_number = 0});
}

struct RawEntry {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::array<std::uint64_t, 2> offsets{};
};

// {"name": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}, "__metadata__": {"a": "b"}}
class HeaderSax final : public JsonSax {
 public:
  explicit HeaderSax(std::string_view path)
      : JsonSax(path, "safetensors header", kLengthBytes, kHeaderDepth) {}

  std::vector<RawEntry> entries;
  std::vector<std::pair<std::string, std::string>> metadata;
  bool has_metadata = false;

  bool key(string_t& name) override {
    if (depth() == 1) {
      in_metadata_ = name == "__metadata__";
      if (!in_metadata_) {
        if (name.size() > kMaxNameBytes) fail("a tensor name of " + count(name.size(), "bytes"));
        if (entries.size() == kMaxTensors) fail("more than " + count(kMaxTensors, "tensors"));
        entries.push_back({.name = std::move(name), .dtype = {}, .shape = {}, .offsets = {}});
        seen_ = {};
      } else if (std::exchange(has_metadata, true)) {
        fail("duplicate key \"__metadata__\"");
      }
    } else if (in_metadata_) {
      metadata_bytes_ += name.size();
      if (metadata.size() == kMaxMetadataEntries) fail("__metadata__ has too many entries");
      metadata.emplace_back(std::move(name), std::string());
    } else {
      if (name == "dtype") {
        field_ = Field::kDtype;
      } else if (name == "shape") {
        field_ = Field::kShape;
      } else if (name == "data_offsets") {
        field_ = Field::kOffsets;
      } else {
        fail(of_tensor("unknown key \"" + printable(name, 40) + "\""));
      }
      if (std::exchange(seen_[static_cast<std::size_t>(field_)], true)) {
        fail(of_tensor("duplicate key \"" + name + "\""));
      }
    }
    return true;
  }

  bool string(string_t& value) override {
    if (depth() == 2 && in_metadata_) {
      metadata_bytes_ += value.size();
      if (metadata_bytes_ > kMaxMetadataBytes) fail("__metadata__ is too large");
      metadata.back().second = std::move(value);
    } else if (depth() == 2 && field_ == Field::kDtype) {
      if (value.size() > kMaxNameBytes) fail(of_tensor("the dtype is too long"));
      entries.back().dtype = std::move(value);
    } else {
      refuse("string");
    }
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (depth() != 3) refuse("number");
    RawEntry& entry = entries.back();
    if (field_ == Field::kShape) {
      if (entry.shape.size() == kMaxDims) {
        fail(of_tensor("more than " + count(kMaxDims, "dimensions")));
      }
      entry.shape.push_back(value);
    } else {
      if (offsets_ == 2) fail(of_tensor("data_offsets must be [begin, end]"));
      entry.offsets[offsets_++] = value;
    }
    return true;
  }

 private:
  enum class Field : std::size_t { kDtype, kShape, kOffsets };

  static std::string count(std::size_t n, const char* what) {
    return fmt::format("{} {}", n, what);
  }
  std::string of_tensor(const std::string& what) const {
    return fmt::format("tensor \"{}\": {}", printable(entries.back().name), what);
  }

  bool begin_object() override {
    if (depth() > 2) refuse("object");
    return true;
  }
  bool finish_object() override {
    if (depth() == 1 && !in_metadata_ && !(seen_[0] && seen_[1] && seen_[2])) {
      fail(of_tensor("dtype, shape or data_offsets is missing"));
    }
    return true;
  }
  bool begin_array() override {
    if (depth() != 3 || in_metadata_ || field_ == Field::kDtype) refuse("array");
    offsets_ = 0;
    return true;
  }
  bool finish_array() override {
    if (field_ == Field::kOffsets && offsets_ != 2) {
      fail(of_tensor("data_offsets must be [begin, end]"));
    }
    return true;
  }

  bool in_metadata_ = false;
  Field field_ = Field::kDtype;
  std::array<bool, 3> seen_{};
  std::size_t offsets_ = 0;
  std::size_t metadata_bytes_ = 0;
};

// The shape's element count, with empty dimensions counted as 1: so that no product of any of the
// dimensions can overflow later, even in a tensor without elements.
std::uint64_t padded_elements(std::span<const std::uint64_t> shape) {
  std::uint64_t product = 1;
  for (const std::uint64_t dim : shape) {
    product = checked_mul(product, std::max<std::uint64_t>(dim, 1), "shape");
  }
  return product;
}

bool has_elements(std::span<const std::uint64_t> shape) {
  return std::find(shape.begin(), shape.end(), 0U) == shape.end();
}

// Sorts the names on the way.
void refuse_duplicates(std::vector<std::string_view>& names, std::string_view path,
                       const char* what) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    fail(path, fmt::format("{} \"{}\" is there twice", what, printable(*twice)));
  }
}

void check_entry(const RawEntry& entry, std::uint64_t data_bytes, std::string_view path) {
  const auto fail_tensor = [&](const std::string& why) {
    fail(path, fmt::format("tensor \"{}\": {}", printable(entry.name), why));
  };
  const auto [begin, end] = entry.offsets;
  if (!ByteRange::checked(begin, end, data_bytes)) {
    fail_tensor(
        fmt::format("data_offsets [{}, {}] do not lie in the {} bytes of data "
                    "(truncated file?)",
                    begin, end, data_bytes));
  }
  try {
    const std::uint64_t padded = padded_elements(entry.shape);
    const auto dtype = parse_dtype(entry.dtype);
    if (!dtype) return;
    const std::uint64_t most = checked_mul(padded, size_of(*dtype), "shape");
    const std::uint64_t bytes = has_elements(entry.shape) ? most : 0;
    if (bytes != end - begin) {
      fail_tensor(fmt::format("{} bytes of data, but its shape and type {} make {}", end - begin,
                              entry.dtype, bytes));
    }
  } catch (const Error& error) {
    if (!error.path().empty()) throw;
    fail_tensor(error.what());
  }
}

// Every byte of the data belongs to one tensor: no room to hide anything, no two tensors that
// share memory, no file that was cut or glued.
void check_tiling(std::span<const RawEntry> entries, std::span<const std::uint32_t> order,
                  std::uint64_t data_bytes, std::string_view path) {
  std::uint64_t covered = 0;
  for (const std::uint32_t i : order) {
    const RawEntry& entry = entries[i];
    const auto [begin, end] = entry.offsets;
    if (begin == end) continue;
    if (begin != covered) {
      fail(path, fmt::format("tensor \"{}\" begins at byte {} of the data, but the one before it "
                             "ends at byte {}",
                             printable(entry.name), begin, covered));
    }
    covered = end;
  }
  if (covered != data_bytes) {
    fail(path,
         fmt::format("{} bytes of data, but the tensors end at byte {}", data_bytes, covered));
  }
}

}  // namespace

std::uint64_t safetensors_header_length(std::span<const std::byte> first, std::uint64_t file_bytes,
                                        std::string_view path) {
  constexpr std::string_view kPointer = "version ";
  const std::string_view text(reinterpret_cast<const char*>(first.data()), first.size());
  if (text.starts_with(kPointer)) {
    fail(path, "this is a git-lfs pointer, not the weights; fetch them with \"git lfs pull\"");
  }
  if (file_bytes < kLengthBytes || first.size() < kLengthBytes) {
    fail(path, fmt::format("{} bytes are too few for a safetensors file", file_bytes));
  }
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i > 0; --i) {
    length = length << 8 | std::to_integer<std::uint64_t>(first[i - 1]);
  }
  if (length == 0 || length > kMaxHeaderBytes) {
    fail(path, fmt::format("not a safetensors file: a header of {} bytes", length));
  }
  if (length > file_bytes - kLengthBytes) {
    fail(path, fmt::format("truncated file: a header of {} bytes in a file of {} bytes", length,
                           file_bytes));
  }
  return length;
}

SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t file_bytes,
                                           std::string_view path) {
  const std::uint64_t data_offset = kLengthBytes + json.size();
  TM_CHECK(data_offset <= file_bytes, "header of {} bytes, file of {}", json.size(), file_bytes);
  const std::uint64_t data_bytes = file_bytes - data_offset;
  // The format's rules for what surrounds the object: nothing before, spaces after.
  const std::size_t last = json.find_last_not_of(' ');
  if (json.empty() || json.front() != '{' || json[last] != '}') {
    fail(path, "not a safetensors file: the header is not a JSON object");
  }
  HeaderSax sax(path);
  sax.parse(json.substr(0, last + 1));

  std::vector<RawEntry>& raw = sax.entries;
  std::vector<std::string_view> names;
  names.reserve(std::max(raw.size(), sax.metadata.size()));
  for (const RawEntry& entry : raw) names.push_back(entry.name);
  refuse_duplicates(names, path, "tensor");
  names.clear();
  for (const auto& [key, value] : sax.metadata) names.push_back(key);
  refuse_duplicates(names, path, "__metadata__ key");

  for (const RawEntry& entry : raw) check_entry(entry, data_bytes, path);
  std::vector<std::uint32_t> order(raw.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(raw[a].offsets, a) < std::pair(raw[b].offsets, b);
  });
  check_tiling(raw, order, data_bytes, path);

  SafetensorsHeader header;
  header.metadata = std::move(sax.metadata);
  header.tensors.reserve(raw.size());
  for (const std::uint32_t i : order) {
    RawEntry& entry = raw[i];
    if (const auto dtype = parse_dtype(entry.dtype)) {
      header.tensors.push_back(
          {.name = std::move(entry.name),
           .dtype = *dtype,
           .shape = std::move(entry.shape),
           .bytes = {data_offset + entry.offsets[0], entry.offsets[1] - entry.offsets[0]}});
    } else {
      header.unsupported.push_back({std::move(entry.name), std::move(entry.dtype)});
    }
  }
  return header;
}

SafetensorsHeader parse_safetensors(std::span<const std::byte> file, std::string_view path) {
  const std::uint64_t length = safetensors_header_length(file, file.size(), path);
  const std::string_view json(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  return parse_safetensors_header(json, file.size(), path);
}

}  // namespace tidemill::io
