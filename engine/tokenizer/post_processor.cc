#include "engine/tokenizer/post_processor.h"

#include "engine/tokenizer/json_fields.h"
#include "io/base/error.h"

namespace tidemill::engine {
namespace {

constexpr std::string_view kTemplate = "post_processor TemplateProcessing";

}  // namespace

PostProcessor PostProcessor::parse(const nlohmann::json& json, std::uint32_t vocab_size) {
  PostProcessor processor;
  if (!json.is_null()) processor.add(json, vocab_size);
  return processor;
}

void PostProcessor::add(const nlohmann::json& json, std::uint32_t vocab_size) {
  require_object(json, "post_processor");
  const std::string type = string_field(json, "type", "post_processor");
  if (type == "TemplateProcessing") {
    add_template(json, vocab_size);
  } else if (type == "Sequence") {
    for (const auto& step : array_field(json, "processors", "post_processor Sequence")) {
      add(step, vocab_size);
    }
  } else if (type != "ByteLevel") {
    unsupported_type("post_processor", type);
  }
}

void PostProcessor::add_template(const nlohmann::json& json, std::uint32_t vocab_size) {
  Template result;
  const auto* specials = find_field(json, "special_tokens");
  bool sequence_seen = false;
  for (const auto& piece : array_field(json, "single", kTemplate)) {
    require_object(piece, kTemplate);
    if (find_field(piece, "Sequence") != nullptr) {
      if (sequence_seen) throw_error(ErrorKind::kModel, "{} repeats the text", kTemplate);
      sequence_seen = true;
      continue;
    }
    const auto* special = find_field(piece, "SpecialToken");
    if (special == nullptr) throw_error(ErrorKind::kModel, "{}: unknown piece", kTemplate);
    require_object(*special, kTemplate);
    const std::string name = string_field(*special, "id", kTemplate);
    const auto* definition =
        specials != nullptr && specials->is_object() ? find_field(*specials, name) : nullptr;
    if (definition == nullptr) {
      throw_error(ErrorKind::kModel, "{}: \"{}\" is not among its special_tokens", kTemplate,
                  printable(name, 40));
    }
    require_object(*definition, kTemplate);
    for (const auto& id : array_field(*definition, "ids", kTemplate)) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= vocab_size) {
        throw_error(ErrorKind::kModel, "{}: \"{}\" has an id outside the vocabulary of {}",
                    kTemplate, printable(name, 40), vocab_size);
      }
      (sequence_seen ? result.after : result.before).push_back(id.get<std::uint32_t>());
    }
  }
  if (!sequence_seen) throw_error(ErrorKind::kModel, "{} drops the text", kTemplate);
  templates_.push_back(std::move(result));
}

void PostProcessor::apply(std::vector<std::uint32_t>& ids) const {
  for (const Template& around : templates_) {
    ids.insert(ids.begin(), around.before.begin(), around.before.end());
    ids.insert(ids.end(), around.after.begin(), around.after.end());
  }
}

}  // namespace tidemill::engine
