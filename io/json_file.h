// Small JSON documents (config.json and its like) as a tree, within bounds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "io/limits.h"

namespace tidemill::io {

struct JsonLimits {
  std::uint64_t max_bytes = 16ULL << 20;
  std::size_t max_depth = kMaxJsonDepth;
};

/// Strict JSON: no comments, no duplicate keys, nothing after the document, no NaN. Error(kModel)
/// with path and byte offset; `path` is only for the messages.
nlohmann::json parse_json(std::string_view text, std::string_view path,
                          const JsonLimits& limits = {});

/// Reads the whole file; refuses it before reading if it is larger than max_bytes.
nlohmann::json load_json_file(const std::filesystem::path& path, const JsonLimits& limits = {});

}  // namespace tidemill::io
