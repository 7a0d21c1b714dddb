// Any bytes as a shard index: plain file names and sorted tensors, or Error(kModel).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "io/base/error.h"
#include "io/index_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tidemill;
  try {
    const auto index = io::parse_index({reinterpret_cast<const char*>(data), size}, "fuzz");
    for (const auto& shard : index.shards) {
      if (shard.find('/') != std::string::npos || shard == "..") std::abort();
    }
    for (const auto& [name, shard] : index.tensors) {
      if (shard >= index.shards.size()) std::abort();
    }
    if (!std::is_sorted(index.tensors.begin(), index.tensors.end())) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kModel) std::abort();
  }
  return 0;
}
