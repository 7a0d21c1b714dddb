#include "tests/support/checkpoint_dir.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace tidemill::testing {

namespace fs = std::filesystem;

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (fs::temp_directory_path() / "tidemill-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp " + pattern);
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::byte> read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  std::vector<std::byte> bytes(fs::file_size(path));
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

void write_file(const fs::path& path, const std::vector<std::byte>& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (!(out << text).flush()) throw std::runtime_error("cannot write " + path.string());
}

nlohmann::json read_json(const fs::path& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in);
}

StoredTensors read_safetensors(const fs::path& path) {
  const std::vector<std::byte> bytes = read_file(path);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  const char* header = reinterpret_cast<const char*>(bytes.data()) + 8;
  const auto json = nlohmann::json::parse(header, header + header_bytes);
  StoredTensors out;
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") continue;
    const auto offsets = entry["data_offsets"].get<std::vector<std::ptrdiff_t>>();
    const auto data = bytes.begin() + 8 + static_cast<std::ptrdiff_t>(header_bytes);
    out[name] = {entry["dtype"], entry["shape"], {data + offsets[0], data + offsets[1]}};
  }
  return out;
}

void write_safetensors(const fs::path& path, const StoredTensors& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::vector<std::byte> data;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t begin = data.size();
    data.insert(data.end(), tensor.data.begin(), tensor.data.end());
    header[name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const std::uint64_t size = text.size();
  std::vector<std::byte> bytes(8 + text.size());
  std::memcpy(bytes.data(), &size, 8);
  std::memcpy(bytes.data() + 8, text.data(), text.size());
  bytes.insert(bytes.end(), data.begin(), data.end());
  write_file(path, bytes);
}

}  // namespace tidemill::testing
