// The byte-level alphabet: 256 printable characters that stand for the 256 bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tidemill::engine {

/// The bytes of `text`, each as its character: " a" -> "\u0120a".
std::string bytes_to_alphabet(std::string_view text);

/// Inverse of bytes_to_alphabet; nothing if a character of `text` (valid UTF-8) is not in the
/// alphabet.
std::optional<std::string> alphabet_to_bytes(std::string_view text);

}  // namespace tidemill::engine
