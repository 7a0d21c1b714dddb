#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/base/checked.h"
#include "io/output_file.h"
#include "io/safetensors.h"

namespace tidemill::io {
namespace {

// The header is padded with spaces, which the format allows, so that the data begins at a multiple
// of this: direct reads of the first tensor, and of all others as long as sizes are multiples of
// it, then need no aligned superset.
constexpr std::uint64_t kDataAlignment = 4096;

// A JSON string with everything in it escaped that needs it.
std::string quoted(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw_error(ErrorKind::kUsage, "\"{}\" is not UTF-8; safetensors cannot hold it",
                printable(text));
  }
}

std::string make_header(std::span<const TensorSpec> tensors,
                        const std::vector<std::pair<std::string, std::string>>& metadata) {
  std::string json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) json += quoted(key) + ":" + quoted(value) + ",";
    json.back() = '}';
    json += ",";
  }
  std::uint64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    const std::uint64_t end = checked_add(offset, tensor.bytes(), "size of the file");
    json += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}},)",
                        quoted(tensor.name), to_string(tensor.dtype), fmt::join(tensor.shape, ","),
                        offset, end);
    offset = end;
  }
  if (json.size() > 1) json.pop_back();  // the last comma
  json += "}";
  json.resize(align_up(8 + json.size(), kDataAlignment) - 8, ' ');
  return json;
}

}  // namespace

std::uint64_t TensorSpec::bytes() const {
  std::uint64_t product = size_of(dtype);
  for (const std::uint64_t dim : shape) product = checked_mul(product, dim, "tensor size");
  return product;
}

SafetensorsWriter::SafetensorsWriter(
    const std::filesystem::path& path, std::vector<TensorSpec> tensors,
    const std::vector<std::pair<std::string, std::string>>& metadata) {
  const std::string header = make_header(tensors, metadata);
  data_offset_ = 8 + header.size();
  for (const TensorSpec& tensor : tensors) data_bytes_ += tensor.bytes();
  const std::uint64_t file_bytes = checked_add(data_offset_, data_bytes_, "size of the file");
  // What we could not read, we do not write: duplicate or overlong names, too many dimensions.
  (void)parse_safetensors_header(header, file_bytes, path.native());

  file_ = std::make_unique<OutputFile>(path);
  file_->reserve(file_bytes);
  std::array<std::byte, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<std::byte>(header.size() >> (8 * i));
  }
  file_->append(length);
  file_->append(std::as_bytes(std::span(header)));
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  TM_CHECK(file_ != nullptr && bytes.size() <= data_offset_ + data_bytes_ - file_->size(),
           "more data than was declared");
  file_->append(bytes);
}

void SafetensorsWriter::finish() {
  TM_CHECK(file_ != nullptr && file_->size() == data_offset_ + data_bytes_,
           "{} bytes of data were declared, {} written", data_bytes_,
           file_ == nullptr ? 0 : file_->size() - data_offset_);
  file_->finish();
  file_.reset();
}

}  // namespace tidemill::io
