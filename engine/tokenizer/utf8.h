// UTF-8 as the tokenizer needs it: checking, walking over checked text, repairing model output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tidemill::engine {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

/// Byte offset of the first byte that is not part of a valid UTF-8 sequence (no surrogates, no
/// overlong forms, nothing above U+10FFFF); npos if all of `text` is valid.
std::size_t find_invalid_utf8(std::string_view text);

inline bool is_valid_utf8(std::string_view text) {
  return find_invalid_utf8(text) == std::string_view::npos;
}

/// Bytes of the character whose first byte is `lead`, in text that is known to be valid.
constexpr std::size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// The character at `position` of valid text; moves `position` past it.
char32_t next_character(std::string_view text, std::size_t& position);

/// The character that ends before `position` > 0 of valid text; moves `position` to its start.
char32_t previous_character(std::string_view text, std::size_t& position);

/// Appends the UTF-8 form of a scalar value.
void append_utf8(std::string& out, char32_t character);

/// Unicode White_Space: what `\s` means to the tokenizers' regular expressions.
bool is_white_space(char32_t character);

/// Unicode `\w`: letters, marks, decimal digits, connectors and what else is Alphabetic.
bool is_word_character(char32_t character);

/// Bytes arrive in pieces, valid UTF-8 comes out: each maximal part of a sequence that cannot
/// become valid turns into one U+FFFD, exactly as if all bytes had been repaired at once.
class Utf8Repair {
 public:
  /// Appends to `out` what is certain by now; an unfinished last character is held back.
  void feed(std::string_view bytes, std::string& out);
  /// No more bytes: an unfinished character becomes U+FFFD.
  void finish(std::string& out);

 private:
  std::string pending_;  // a proper prefix of a valid sequence, at most 3 bytes
};

}  // namespace tidemill::engine
