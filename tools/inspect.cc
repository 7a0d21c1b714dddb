// tidemill inspect: what is in a checkpoint.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/model.h"
#include "io/base/units.h"
#include "tools/model_input.h"
#include "tools/options.h"
#include "tools/output.h"
#include "tools/plan_report.h"
#include "tools/verbs.h"

namespace tidemill::tools {
namespace {

using nlohmann::ordered_json;

struct Options {
  std::string model;
  bool tensors = false;
  bool json = false;
};

std::uint64_t bytes_of(const engine::Model& model, offload::UseId use) {
  return model.weights.order.uses().at(static_cast<std::size_t>(use)).tensor->bytes.length;
}

std::uint64_t layer_bytes(const engine::Model& model, const engine::BoundLayer& layer) {
  std::uint64_t bytes = 0;
  for (const engine::BoundVector& vector : layer.vectors) bytes += bytes_of(model, vector.use);
  for (const engine::BoundLinear& linear : layer.qkv) bytes += bytes_of(model, linear.use);
  if (layer.gate) bytes += bytes_of(model, layer.gate->use);
  return bytes + bytes_of(model, layer.attention_out.use) + bytes_of(model, layer.up.use) +
         bytes_of(model, layer.down.use);
}

std::string positions(const engine::ModelSpec& spec) {
  if (!spec.alibi_slopes.empty()) return "ALiBi";
  return spec.rotary ? "rotary" : "learned";
}

ordered_json describe(const engine::Model& model) {
  const engine::ModelSpec& spec = model.spec;
  const WeightTotals totals = count_weights(model);
  std::map<std::string, std::uint64_t> types;
  for (const io::TensorInfo& tensor : model.checkpoint.tensors()) {
    types[std::string(to_string(tensor.dtype))] += tensor.bytes.length;
  }
  ordered_json layers = ordered_json::array();
  for (const auto& layer : model.weights.layers) layers.push_back(layer_bytes(model, layer));
  ordered_json files = ordered_json::array();
  for (const auto& file : model.checkpoint.files()) {
    files.push_back({{"path", file->path()}, {"bytes", file->size()}, {"direct", file->direct()}});
  }
  const std::filesystem::path folder(model.path);
  return {{"path", model.path},
          {"architecture", spec.architecture},
          {"layers", spec.layers.size()},
          {"hidden", spec.hidden},
          {"ffn", spec.ffn},
          {"heads", spec.attention.heads},
          {"kv_heads", spec.attention.kv_heads},
          {"head_dim", spec.attention.head_dim},
          {"vocab", spec.vocab},
          {"positions", positions(spec)},
          {"max_positions",
           spec.max_positions == 0 ? ordered_json() : ordered_json(spec.max_positions)},
          {"head_tied", model.weights.head_tied},
          {"bos", spec.bos ? ordered_json(*spec.bos) : nullptr},
          {"eos", spec.eos},
          {"tokenizer", std::filesystem::exists(folder / "tokenizer.json")},
          {"tensors", totals.tensors},
          {"parameters", totals.parameters},
          {"weight_bytes", totals.bytes},
          {"dtypes", types},
          {"embedding_bytes", model.weights.token_embedding->bytes.length},
          {"layer_bytes", layers},
          {"head_bytes", bytes_of(model, model.weights.head.use)},
          {"files", files},
          {"notices", model.weights.notices}};
}

ordered_json list_tensors(const engine::Model& model) {
  ordered_json list = ordered_json::array();
  for (const io::TensorInfo& tensor : model.checkpoint.tensors()) {
    list.push_back({{"name", tensor.name},
                    {"dtype", to_string(tensor.dtype)},
                    {"shape", tensor.shape},
                    {"bytes", tensor.bytes.length},
                    {"file", tensor.file->path()},
                    {"offset", tensor.bytes.offset}});
  }
  return list;
}

std::string with_separators(std::uint64_t number) {
  std::string digits = fmt::format("{}", number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string join(const ordered_json& list) {
  std::string text;
  for (const ordered_json& item : list) text += (text.empty() ? "" : ", ") + item.dump();
  return text.empty() ? "none" : text;
}

void print_table(const engine::Model& model, const ordered_json& facts) {
  std::string text;
  const auto row = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<16} {}\n", name, value);
  };
  const engine::ModelSpec& spec = model.spec;
  row("model", printable(model.path));
  row("architecture", fmt::format("{}, {} layers, hidden {}, inner {}", spec.architecture,
                                  spec.layers.size(), spec.hidden, spec.ffn));
  row("attention",
      fmt::format("{} heads of {}, {} for keys and values, {} positions", spec.attention.heads,
                  spec.attention.head_dim, spec.attention.kv_heads, positions(spec)));
  row("vocabulary", fmt::format("{}, output matrix {}, bos {}, eos {}", spec.vocab,
                                model.weights.head_tied ? "tied to the embedding" : "of its own",
                                facts["bos"].dump(), join(facts["eos"])));
  row("tokenizer", facts["tokenizer"] ? "tokenizer.json" : "none (prompts as --tokens only)");
  std::string types;
  for (const auto& [name, bytes] : facts["dtypes"].items()) {
    types += fmt::format("{}{} {}", types.empty() ? "" : ", ", name,
                         format_bytes(bytes.get<std::uint64_t>()));
  }
  row("parameters", fmt::format("{} in {} tensors ({})",
                                with_separators(facts["parameters"].get<std::uint64_t>()),
                                facts["tensors"].get<std::uint64_t>(), types));
  const auto layers = facts["layer_bytes"].get<std::vector<std::uint64_t>>();
  const auto [least, most] = std::minmax_element(layers.begin(), layers.end());
  row("bytes",
      fmt::format("embedding {}, layers of {}{}, output matrix {}",
                  format_bytes(facts["embedding_bytes"].get<std::uint64_t>()), format_bytes(*least),
                  *least == *most ? "" : " to " + format_bytes(*most),
                  format_bytes(facts["head_bytes"].get<std::uint64_t>())));
  for (const auto& file : model.checkpoint.files()) {
    row("file", fmt::format("{} ({}, {})", printable(file->path()), format_bytes(file->size()),
                            file->direct() ? "direct I/O" : "page cache"));
  }
  for (const std::string& notice : model.weights.notices) row("note", notice);
  print(text);
}

void run(const Options& options) {
  const engine::Model model = engine::Model::open(options.model);
  ordered_json facts = describe(model);
  if (options.json) {
    if (options.tensors) facts["tensor_list"] = list_tensors(model);
    print(json_text(facts));
    return;
  }
  print_table(model, facts);
  if (!options.tensors) return;
  std::string text = "\n";
  for (const io::TensorInfo& tensor : model.checkpoint.tensors()) {
    text += fmt::format("{:<60} {:<5} {}\n", printable(tensor.name), to_string(tensor.dtype),
                        io::shape_to_string(tensor.shape));
  }
  print(text);
}

}  // namespace

Run add_inspect(CLI::App& program) {
  CLI::App& app = *program.add_subcommand("inspect");
  app.description(
      "Shows what is in a checkpoint: architecture, dimensions, tensors, files. Only headers are "
      "read.");
  app.footer("Example:\n  tidemill inspect models/tidemill-kjv --tensors");
  const auto options = std::make_shared<Options>();
  add_model_argument(app, options->model);
  app.add_flag("--tensors", options->tensors, "List all tensors with type and shape");
  app.add_flag("--json", options->json, "Print one JSON object");
  return [options] { run(*options); };
}

}  // namespace tidemill::tools
