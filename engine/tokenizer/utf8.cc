#include "engine/tokenizer/utf8.h"

#include <utf8proc.h>

namespace tidemill::engine {
namespace {

struct Sequence {
  std::size_t length = 0;  // bytes that belong together
  enum { kValid, kInvalid, kUnfinished } state = kValid;
};

// The sequence at the start of `text` (not empty). An invalid one covers the maximal prefix that a
// valid sequence could have had (Unicode 3.9, table 3-8), at least one byte.
Sequence scan(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = at(0);
  if (lead < 0x80) return {1, Sequence::kValid};
  if (lead < 0xC2 || lead > 0xF4) return {1, Sequence::kInvalid};
  const std::size_t length = utf8_length(text[0]);
  // Only the second byte has bounds that depend on the first.
  unsigned low = 0x80;
  unsigned high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {i, Sequence::kUnfinished};
    if (at(i) < low || at(i) > high) return {i, Sequence::kInvalid};
    low = 0x80;
    high = 0xBF;
  }
  return {length, Sequence::kValid};
}

}  // namespace

std::size_t find_invalid_utf8(std::string_view text) {
  std::size_t position = 0;
  while (position < text.size()) {
    if (static_cast<unsigned char>(text[position]) < 0x80) {
      ++position;
      continue;
    }
    const Sequence sequence = scan(text.substr(position));
    if (sequence.state != Sequence::kValid) return position;
    position += sequence.length;
  }
  return std::string_view::npos;
}

char32_t next_character(std::string_view text, std::size_t& position) {
  const auto at = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[position + i]));
  };
  const std::size_t length = utf8_length(text[position]);
  char32_t character = at(0);
  if (length == 2) character = (at(0) & 0x1F) << 6 | (at(1) & 0x3F);
  if (length == 3) character = (at(0) & 0x0F) << 12 | (at(1) & 0x3F) << 6 | (at(2) & 0x3F);
  if (length == 4) {
    character = (at(0) & 0x07) << 18 | (at(1) & 0x3F) << 12 | (at(2) & 0x3F) << 6 | (at(3) & 0x3F);
  }
  position += length;
  return character;
}

char32_t previous_character(std::string_view text, std::size_t& position) {
  do {
    --position;
  } while ((static_cast<unsigned char>(text[position]) & 0xC0) == 0x80);
  std::size_t start = position;
  return next_character(text, start);
}

void append_utf8(std::string& out, char32_t character) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (character < 0x80) {
    put(character);
  } else if (character < 0x800) {
    put(0xC0 | character >> 6);
    put(0x80 | (character & 0x3F));
  } else if (character < 0x10000) {
    put(0xE0 | character >> 12);
    put(0x80 | (character >> 6 & 0x3F));
    put(0x80 | (character & 0x3F));
  } else {
    put(0xF0 | character >> 18);
    put(0x80 | (character >> 12 & 0x3F));
    put(0x80 | (character >> 6 & 0x3F));
    put(0x80 | (character & 0x3F));
  }
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_word_character(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      break;
  }
  // Join controls, and the circled and squared letters that are Alphabetic though symbols.
  return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
         (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189);
}

void Utf8Repair::feed(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!pending_.empty()) {
    joined = pending_;
    joined += bytes;
    bytes = joined;
    pending_.clear();
  }
  while (!bytes.empty()) {
    const Sequence sequence = scan(bytes);
    if (sequence.state == Sequence::kUnfinished) {
      pending_.assign(bytes);
      return;
    }
    out += sequence.state == Sequence::kValid ? bytes.substr(0, sequence.length)
                                              : kReplacementCharacter;
    bytes.remove_prefix(sequence.length);
  }
}

void Utf8Repair::finish(std::string& out) {
  if (!pending_.empty()) out += kReplacementCharacter;
  pending_.clear();
}

}  // namespace tidemill::engine
