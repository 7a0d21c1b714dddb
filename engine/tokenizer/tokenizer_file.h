// Reading tokenizer.json: the two big tables straight into their compact form, the rest as JSON.
#pragma once

#include <istream>
#include <nlohmann/json.hpp>

#include "engine/tokenizer/merge_table.h"
#include "engine/tokenizer/vocabulary.h"

namespace tidemill::engine {

// The move of nlohmann::json does not throw, though clang-tidy cannot see it.
// NOLINTNEXTLINE(bugprone-exception-escape)
struct TokenizerFile {
  nlohmann::json config;  ///< everything but model.vocab and model.merges
  Vocabulary vocabulary;
  MergeTable merges;
};

/// One pass, nothing of the text is kept: 14 MB of JSON need about 24 MiB. Error(kModel) for
/// malformed JSON, nesting beyond 16 levels, and everything in the tables that is not right.
TokenizerFile read_tokenizer_file(std::istream& stream);

}  // namespace tidemill::engine
