// From tokens back to text, one token at a time.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/pattern.h"
#include "engine/tokenizer/utf8.h"

namespace tidemill::engine {

/// ByteLevel, ByteFallback, Metaspace, Replace, Fuse, Strip, and sequences of them: a chain of
/// steps. Without any, tokens are joined by spaces.
class Decoder {
 public:
  Decoder();
  /// The "decoder" of tokenizer.json, null included. Error(kModel) for other kinds, and for chains
  /// whose result could not be written before the last token is known.
  static Decoder parse(const nlohmann::json& json);

  /// One text in the making. Refers to the Decoder, which must outlive it.
  class Run {
   public:
    explicit Run(const Decoder& decoder);
    /// Appends to `out` what the tokens so far certainly give.
    void feed(std::string_view token, std::string& out);
    /// No more tokens: appends the rest.
    void finish(std::string& out);

   private:
    struct State {
      std::string bytes;          // ByteFallback: byte tokens whose run is not over
      Utf8Repair repair;          // ByteLevel
      std::uint64_t tokens = 0;   // seen by this step
      std::uint32_t removed = 0;  // Strip of the whole text: characters taken so far
      bool text_begun = false;    // Strip of the whole text: nothing more to take
    };
    void step(std::size_t index, std::string_view token, std::string& out);
    void flush_bytes(std::size_t index, std::string& out);
    void strip(std::size_t index, std::string_view token, std::string& out);

    const Decoder* decoder_;
    std::vector<State> states_;
  };

 private:
  enum class Kind { kJoin, kByteLevel, kByteFallback, kMetaspace, kReplace, kFuse, kStrip };
  struct Step {
    Kind kind;
    std::vector<Pattern> pattern{};  // Replace: the one
    std::string content{};           // Replace, Strip: the text; Metaspace: the replacement
    bool prepended = false;          // Metaspace: the first token's are dropped
    std::uint32_t start = 0;         // Strip: characters of `content` to take from the start ...
    std::uint32_t stop = 0;          // ... and from the end
    bool fused = false;              // all tokens have become one text before this step
  };

  void add(const nlohmann::json& json);
  std::vector<Step> steps_;
  bool fused_ = false;
};

}  // namespace tidemill::engine
