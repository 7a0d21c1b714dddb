// Checkpoint directories for tests: a copy of a fixture that can be damaged in one way at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tidemill::testing {

/// A directory under the system's temporary one that is removed again.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct StoredTensor {
  std::string dtype;  ///< as in safetensors headers
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> data;
};
using StoredTensors = std::map<std::string, StoredTensor>;

std::vector<std::byte> read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::vector<std::byte>& bytes);
void write_text(const std::filesystem::path& path, const std::string& text);

/// Reads and writes one well-formed .safetensors file, whole, independently of the product's code.
StoredTensors read_safetensors(const std::filesystem::path& path);
void write_safetensors(const std::filesystem::path& path, const StoredTensors& tensors);

nlohmann::json read_json(const std::filesystem::path& path);

}  // namespace tidemill::testing
