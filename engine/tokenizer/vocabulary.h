// The tokens of a model: text to id and back, in a few bytes per token beside the text itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/units.h"

namespace tidemill::engine {

inline constexpr std::uint32_t kMaxTokens = 1U << 22;     ///< ids are below this
inline constexpr std::size_t kMaxTokenBytes = 64 * kKiB;  ///< of one token

/// All text lies in one arena; an id is a span of it, a hash slot is an id. A quarter of a million
/// tokens take about 8 MiB, so that a tokenizer can be loaded beside a tight memory budget.
class Vocabulary {
 public:
  /// Error(kModel) if the id or the length is beyond the limits, or id or token exist already.
  void add(std::string_view token, std::uint64_t id);

  std::optional<std::uint32_t> find(std::string_view token) const;

  /// Text of `id`, empty if there is none. Valid until the next add().
  std::string_view token(std::uint32_t id) const;
  bool contains(std::uint32_t id) const;

  /// Largest id + 1.
  std::uint32_t size() const { return static_cast<std::uint32_t>(spans_.size()); }
  bool empty() const { return count_ == 0; }

 private:
  struct Span {
    std::uint32_t offset = kHole;
    std::uint32_t length = 0;
  };
  static constexpr std::uint32_t kHole = ~0U;

  std::size_t slot_of(std::string_view token) const;
  void grow();

  std::string arena_;
  std::vector<Span> spans_;           // by id
  std::vector<std::uint32_t> slots_;  // id + 1, 0 = free; a power of two, at most 3/4 full
  std::size_t count_ = 0;
};

}  // namespace tidemill::engine
