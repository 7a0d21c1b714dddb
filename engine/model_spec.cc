#include "engine/model_spec.h"

#include <array>
#include <filesystem>
#include <utility>

#include "io/base/error.h"
#include "io/json_file.h"

namespace tidemill::engine {
namespace {

using SpecFunction = ModelSpec (*)(const ConfigReader&);
constexpr std::array<std::pair<const char*, SpecFunction>, 6> kArchitectures = {{
    {"gpt2", gpt2_spec},
    {"bloom", bloom_spec},
    {"llama", llama_spec},
    {"mistral", llama_spec},
    {"qwen2", llama_spec},
    {"qwen3", llama_spec},
}};

}  // namespace

kernels::Activation parse_activation(const ConfigReader& config, const std::string& name) {
  using kernels::Activation;
  static constexpr std::array<std::pair<std::string_view, Activation>, 8> kNames = {{
      {"gelu", Activation::kGeluErf},
      {"gelu_new", Activation::kGeluTanh},
      {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluFast},
      {"bloom_gelu", Activation::kGeluTanhBloom},
      {"silu", Activation::kSilu},
      {"swish", Activation::kSilu},
      {"relu", Activation::kRelu},
  }};
  for (const auto& [known, activation] : kNames) {
    if (known == name) return activation;
  }
  config.fail("activation", fmt::format("\"{}\" is not supported", printable(name, 40)));
}

kernels::QkvLayout blocked_qkv(const kernels::AttentionShape& shape) {
  const std::uint64_t d = shape.head_dim;
  return {.q_offset = 0,
          .q_head_stride = d,
          .k_offset = shape.heads * d,
          .k_head_stride = d,
          .v_offset = (shape.heads + shape.kv_heads) * d,
          .v_head_stride = d};
}

namespace {

// Ids beyond the vocabulary can never be produced; transformers accepts such files too.
void set_eos(ModelSpec& spec, std::vector<std::uint32_t> ids) {
  std::erase_if(ids, [&](std::uint32_t id) { return id >= spec.vocab; });
  spec.eos = std::move(ids);
}

}  // namespace

ModelSpec make_model_spec(const ConfigReader& config) {
  const std::string type = config.text_or({"model_type"}, "");
  if (type.empty()) config.fail("model_type", "missing");
  for (const auto& [name, function] : kArchitectures) {
    if (type != name) continue;
    ModelSpec spec = function(config);
    spec.architecture = type;
    if (!spec.alibi_slopes.empty() && spec.rotary) config.fail("model_type", "two position kinds");
    set_eos(spec, config.ids({"eos_token_id"}));
    if (const auto bos = config.ids({"bos_token_id"}); !bos.empty()) spec.bos = bos.front();
    return spec;
  }
  std::string known;
  for (const auto& [name, function] : kArchitectures) {
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  config.fail("model_type",
              fmt::format("\"{}\" is not supported; these are: {}", printable(type, 40), known));
}

ModelSpec load_model_spec(const std::string& directory) {
  const std::filesystem::path folder(directory);
  const std::string path = (folder / "config.json").string();
  const nlohmann::json json = io::load_json_file(path);
  ModelSpec spec = make_model_spec(ConfigReader(json, path));
  const std::filesystem::path generation = folder / "generation_config.json";
  if (std::filesystem::exists(generation)) {
    const nlohmann::json extra = io::load_json_file(generation);
    const ConfigReader reader(extra, generation.string());
    // As in transformers, the generation configuration wins where it says something.
    if (const auto eos = reader.ids({"eos_token_id"}); !eos.empty()) set_eos(spec, eos);
    if (const auto bos = reader.ids({"bos_token_id"}); !bos.empty()) spec.bos = bos.front();
  }
  return spec;
}

}  // namespace tidemill::engine
