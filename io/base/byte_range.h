// A range of bytes of a file or a buffer.
#pragma once

#include <cstdint>
#include <optional>

#include "io/base/checked.h"

namespace tidemill {

/// [offset, offset + length). Untrusted numbers enter through `checked`.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  /// The range begin..end of a container that has `size` bytes; nothing if it is not one.
  static std::optional<ByteRange> checked(std::uint64_t begin, std::uint64_t end,
                                          std::uint64_t size) {
    if (begin > end || end > size) return std::nullopt;
    return ByteRange{begin, end - begin};
  }

  std::uint64_t end() const { return offset + length; }
  bool empty() const { return length == 0; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

}  // namespace tidemill
