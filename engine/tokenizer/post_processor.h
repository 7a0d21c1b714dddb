// The tokens that a model wants around every prompt.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace tidemill::engine {

/// TemplateProcessing (for one sequence), ByteLevel (which only concerns offsets), and sequences.
class PostProcessor {
 public:
  PostProcessor() = default;  ///< adds nothing
  /// The "post_processor" of tokenizer.json, null included; ids must be below `vocab_size`.
  /// Error(kModel) for other kinds.
  static PostProcessor parse(const nlohmann::json& json, std::uint32_t vocab_size);

  void apply(std::vector<std::uint32_t>& ids) const;

 private:
  struct Template {
    std::vector<std::uint32_t> before;
    std::vector<std::uint32_t> after;
  };
  void add(const nlohmann::json& json, std::uint32_t vocab_size);
  void add_template(const nlohmann::json& json, std::uint32_t vocab_size);

  std::vector<Template> templates_;
};

}  // namespace tidemill::engine
