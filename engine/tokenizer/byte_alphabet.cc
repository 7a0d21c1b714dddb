#include "engine/tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "engine/tokenizer/utf8.h"

namespace tidemill::engine {
namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

struct Alphabet {
  std::array<char16_t, 256> character_of{};
  std::array<std::int16_t, 324> byte_of{};  // -1: not in the alphabet

  constexpr Alphabet() {
    for (auto& byte : byte_of) byte = -1;
    unsigned next = 256;  // the 68 others take U+0100 onwards, in the order of their bytes
    for (unsigned byte = 0; byte < 256; ++byte) {
      const unsigned character = stands_for_itself(byte) ? byte : next++;
      character_of[byte] = static_cast<char16_t>(character);
      byte_of[character] = static_cast<std::int16_t>(byte);
    }
  }
};

constexpr Alphabet kAlphabet;

}  // namespace

std::string bytes_to_alphabet(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  for (const char c : text) append_utf8(out, kAlphabet.character_of[static_cast<unsigned char>(c)]);
  return out;
}

std::optional<std::string> alphabet_to_bytes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t position = 0; position < text.size();) {
    const char32_t character = next_character(text, position);
    if (character >= kAlphabet.byte_of.size() || kAlphabet.byte_of[character] < 0) {
      return std::nullopt;
    }
    out.push_back(static_cast<char>(kAlphabet.byte_of[character]));
  }
  return out;
}

}  // namespace tidemill::engine
