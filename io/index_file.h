// model.safetensors.index.json: which shard holds which tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tidemill::io {

struct IndexFile {
  std::vector<std::string> shards;                             ///< distinct names, sorted
  std::vector<std::pair<std::string, std::uint32_t>> tensors;  ///< (name, shard), sorted by name
};

/// `text` is the whole file. Only "weight_map" is interpreted. Error(kModel) for malformed JSON, a
/// tensor that is listed twice, an empty map, or a shard name that is not a plain file name: names
/// with folders would let an index open files outside of the model's. `path` is for the messages.
IndexFile parse_index(std::string_view text, std::string_view path);

/// Nothing if `name` may be a shard; otherwise why not.
const char* reject_shard_name(std::string_view name);

}  // namespace tidemill::io
