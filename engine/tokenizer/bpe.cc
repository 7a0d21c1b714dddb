#include "engine/tokenizer/bpe.h"

#include <queue>
#include <utility>

#include "engine/tokenizer/utf8.h"
#include "io/base/checked.h"
#include "io/base/error.h"

namespace tidemill::engine {
namespace {

constexpr std::uint32_t kNone = ~0U;

struct Candidate {
  std::uint32_t rank;
  std::uint32_t position;  // index of the left symbol
  std::uint32_t id;        // what the pair becomes

  // std::priority_queue yields the largest: the lowest rank, then the leftmost.
  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};

}  // namespace

// A node of a doubly linked list inside a vector; merging unlinks the right one.
struct Bpe::Symbol {
  std::uint32_t id;
  std::uint32_t previous = kNone;
  std::uint32_t next = kNone;
  bool merged_away = false;
};

Bpe::Bpe(Vocabulary vocabulary, MergeTable merges, const BpeOptions& options)
    : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)), options_(options) {
  if (options_.unk_token) {
    unk_id_ = vocabulary_.find(*options_.unk_token);
    if (!unk_id_) {
      throw_error(ErrorKind::kModel, "unk_token \"{}\" is not in the vocabulary",
                  printable(*options_.unk_token, 40));
    }
  }
  if (options_.byte_fallback) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      byte_ids_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte));
    }
  }
}

void Bpe::encode(std::string_view word, std::vector<std::uint32_t>& ids) const {
  if (word.empty()) return;
  if (options_.ignore_merges) {
    if (const auto id = vocabulary_.find(word)) {
      ids.push_back(*id);
      return;
    }
  }
  std::vector<Symbol> symbols = symbols_of(word);
  merge(symbols);
  for (const Symbol& symbol : symbols) {
    if (!symbol.merged_away) ids.push_back(symbol.id);
  }
}

std::vector<Bpe::Symbol> Bpe::symbols_of(std::string_view word) const {
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  bool unknown_waits = false;  // one unk_token to be written, or fused with the next
  for (std::size_t position = 0; position < word.size();) {
    const std::string_view character = word.substr(position, utf8_length(word[position]));
    position += character.size();
    if (const auto id = vocabulary_.find(character)) {
      if (unknown_waits) symbols.push_back({*unk_id_});
      unknown_waits = false;
      symbols.push_back({*id});
    } else if (!append_bytes(character, symbols) && unk_id_) {
      // As in the reference, byte tokens do not end a run of unknown characters.
      if (unknown_waits && !options_.fuse_unk) symbols.push_back({*unk_id_});
      unknown_waits = true;
    }
  }
  if (unknown_waits) symbols.push_back({*unk_id_});
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
    symbols[i].next = narrow<std::uint32_t>(i + 1);
    symbols[i + 1].previous = narrow<std::uint32_t>(i);
  }
  return symbols;
}

bool Bpe::append_bytes(std::string_view character, std::vector<Symbol>& symbols) const {
  if (!options_.byte_fallback) return false;
  for (const char byte : character) {
    if (!byte_ids_[static_cast<unsigned char>(byte)]) return false;
  }
  for (const char byte : character)
    symbols.push_back({*byte_ids_[static_cast<unsigned char>(byte)]});
  return true;
}

void Bpe::merge(std::vector<Symbol>& symbols) const {
  std::priority_queue<Candidate> queue;
  const auto consider = [&](std::uint32_t left) {
    const std::uint32_t right = symbols[left].next;
    if (right == kNone) return;
    if (const auto* merge = merges_.find(symbols[left].id, symbols[right].id)) {
      queue.push({merge->rank, left, merge->id});
    }
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) consider(narrow<std::uint32_t>(i));

  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[best.position];
    if (left.merged_away || left.next == kNone) continue;
    Symbol& right = symbols[left.next];
    // The neighbourhood may have changed since the candidate was queued.
    const auto* merge = merges_.find(left.id, right.id);
    if (merge == nullptr || merge->id != best.id) continue;
    left.id = best.id;
    left.next = right.next;
    right.merged_away = true;
    if (left.next != kNone) symbols[left.next].previous = best.position;
    if (left.previous != kNone) consider(left.previous);
    consider(best.position);
  }
}

}  // namespace tidemill::engine
