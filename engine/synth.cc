#include "engine/synth.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <future>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/model_spec.h"
#include "engine/random_weights.h"
#include "engine/weights.h"
#include "io/base/checked.h"
#include "io/base/units.h"
#include "io/json_file.h"
#include "io/output_file.h"
#include "io/safetensors.h"

namespace tidemill::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kBlockBytes = 16 * kMiB;  // two of them; a multiple of 4 elements
constexpr std::array<const char*, 3> kLayerKeys = {"num_hidden_layers", "n_layer", "num_layers"};
constexpr std::array<const char*, 2> kDTypeKeys = {"dtype", "torch_dtype"};
constexpr std::array<std::pair<const char*, DType>, 3> kDTypeNames = {
    {{"float32", DType::kF32}, {"float16", DType::kF16}, {"bfloat16", DType::kBF16}}};

DType configured_dtype(const nlohmann::json& config) {
  for (const char* key : kDTypeKeys) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_string()) continue;
    for (const auto& [name, dtype] : kDTypeNames) {
      if (*found == name) return dtype;
    }
  }
  return DType::kF16;
}

void set_dtype(nlohmann::json& config, DType dtype) {
  const auto name = std::find_if(kDTypeNames.begin(), kDTypeNames.end(),
                                 [&](const auto& entry) { return entry.second == dtype; });
  TM_CHECK(name != kDTypeNames.end(), "{} is not a weight type", to_string(dtype));
  bool present = false;
  for (const char* key : kDTypeKeys) {
    if (!config.contains(key)) continue;
    config[key] = name->first;
    present = true;
  }
  if (!present) config["torch_dtype"] = name->first;
}

void set_layers(nlohmann::json& config, std::uint32_t layers) {
  bool present = false;
  for (const char* key : kLayerKeys) {
    if (!config.contains(key)) continue;
    config[key] = layers;
    present = true;
  }
  if (!present) config[kLayerKeys.front()] = layers;
  // One entry per layer, or transformers refuses the configuration.
  const auto types = config.find("layer_types");
  if (types != config.end() && types->is_array() && !types->empty()) {
    nlohmann::json resized = nlohmann::json::array();
    for (std::size_t i = 0; i < layers; ++i) resized.push_back((*types)[i % types->size()]);
    *types = std::move(resized);
  }
}

/// Removes what was written unless commit() says that all of it is there.
class OutputDirectory {
 public:
  explicit OutputDirectory(fs::path path) : path_(std::move(path)) {
    std::error_code error;
    const bool exists = fs::exists(path_, error);
    if (exists && (!fs::is_directory(path_, error) || !fs::is_empty(path_, error))) {
      throw_error(ErrorKind::kUsage, "{}: exists and is not an empty directory; give another name",
                  printable(path_.string()));
    }
    if (!exists && !fs::create_directories(path_, error) && error) {
      throw Error(ErrorKind::kIo,
                  fmt::format("{}: cannot create directory: {}", printable(path_.string()),
                              error.message()),
                  {.path = path_.string(), .error_number = error.value()});
    }
    created_ = !exists;
  }

  ~OutputDirectory() {
    if (committed_) return;
    std::error_code ignored;
    for (const fs::path& file : files_) fs::remove(file, ignored);
    if (created_) fs::remove(path_, ignored);
  }

  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  fs::path add(const std::string& name) { return files_.emplace_back(path_ / name); }
  void commit() { committed_ = true; }

 private:
  fs::path path_;
  std::vector<fs::path> files_;
  bool created_ = false;
  bool committed_ = false;
};

struct Tensor {
  io::TensorSpec spec;
  const NormalTable* table = nullptr;  ///< nullptr: all elements are `constant`
  float constant = 0.0F;
  std::uint64_t key = 0;
};

/// Elements [first, first + count) of a tensor.
struct Block {
  const Tensor* tensor = nullptr;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

void fill_part(const Block& block, std::span<std::byte> out) {
  const Tensor& tensor = *block.tensor;
  if (tensor.table != nullptr) {
    tensor.table->fill(tensor.key, block.first, out);
    return;
  }
  const std::size_t width = size_of(tensor.spec.dtype);
  const std::uint32_t bits = round_to_bits(tensor.constant, tensor.spec.dtype);
  for (std::size_t i = 0; i < out.size(); i += width) {
    std::memcpy(out.data() + i, &bits, width);  // little-endian
  }
}

/// Fills a block with all threads.
void fill(const Block& block, std::span<std::byte> out, unsigned threads) {
  constexpr std::uint64_t kWorthAThread = 1 << 16;
  const std::size_t width = size_of(block.tensor->spec.dtype);
  const std::uint64_t share =
      align_up(std::max(kWorthAThread, (block.count + threads - 1) / threads), 4);
  std::vector<std::jthread> others;
  for (std::uint64_t begin = 0; begin < block.count; begin += share) {
    const std::uint64_t count = std::min(share, block.count - begin);
    const Block part{block.tensor, block.first + begin, count};
    const auto memory = out.subspan(begin * width, count * width);
    if (begin + count == block.count) {
      fill_part(part, memory);
    } else {
      others.emplace_back([part, memory] { fill_part(part, memory); });
    }
  }
}

std::vector<Block> cut(std::span<const Tensor> tensors) {
  std::vector<Block> blocks;
  for (const Tensor& tensor : tensors) {
    const std::uint64_t width = size_of(tensor.spec.dtype);
    const std::uint64_t elements = tensor.spec.bytes() / width;
    const std::uint64_t most = kBlockBytes / width;
    for (std::uint64_t first = 0; first < elements; first += most) {
      blocks.push_back({&tensor, first, std::min(most, elements - first)});
    }
  }
  return blocks;
}

std::uint64_t block_bytes(const Block& block) {
  return block.count * size_of(block.tensor->spec.dtype);
}

/// Writes one file; the next block is made while the last one is written.
void write_shard(const fs::path& path, std::span<const Tensor> tensors, unsigned threads,
                 const std::function<void(std::uint64_t)>& written) {
  std::vector<io::TensorSpec> specs;
  for (const Tensor& tensor : tensors) specs.push_back(tensor.spec);
  io::SafetensorsWriter writer(path, std::move(specs), {{"format", "pt"}});
  const std::vector<Block> blocks = cut(tensors);
  std::array<std::vector<std::byte>, 2> memory;
  // Declared after what its threads use: its destructor waits for them.
  std::array<std::future<void>, 2> filled;
  const auto start = [&](std::size_t i) {
    memory[i % 2].resize(block_bytes(blocks[i]));
    filled[i % 2] =
        std::async(std::launch::async, [&, i] { fill(blocks[i], memory[i % 2], threads); });
  };
  if (!blocks.empty()) start(0);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    filled[i % 2].get();
    if (i + 1 < blocks.size()) start(i + 1);
    writer.append(memory[i % 2]);
    written(block_bytes(blocks[i]));
  }
  writer.finish();
}

/// How many tensors each shard takes, in order.
std::vector<std::size_t> divide(std::span<const Tensor> tensors, std::uint64_t max_bytes) {
  std::vector<std::size_t> counts;
  std::uint64_t bytes = 0;
  for (const Tensor& tensor : tensors) {
    if (counts.empty() || bytes > max_bytes || tensor.spec.bytes() > max_bytes - bytes) {
      counts.push_back(0);
      bytes = 0;
    }
    ++counts.back();
    bytes += tensor.spec.bytes();
  }
  return counts;
}

void write_json(const fs::path& path, const nlohmann::json& json) {
  const std::string text = json.dump(2) + "\n";
  io::OutputFile file(path);
  file.append(std::as_bytes(std::span(text)));
  file.finish();
}

}  // namespace

SynthReport synthesize(const fs::path& config_path, const fs::path& out,
                       const SynthOptions& options, const SynthProgress& progress) {
  nlohmann::json config = io::load_json_file(config_path);
  const DType dtype = options.dtype.value_or(configured_dtype(config));
  const ConfigReader reader(config, config_path.string());
  const float range = reader.real_or({"initializer_range"}, 0.0, 100.0, 0.02F);
  if (options.layers) set_layers(config, *options.layers);
  set_dtype(config, dtype);
  const ModelSpec spec = make_model_spec(reader);

  const NormalTable normal(range, dtype);
  const NormalTable residual(range / std::sqrt(2.0 * static_cast<double>(spec.layers.size())),
                             dtype);
  std::set<std::string> to_residual;
  for (const LayerSpec& layer : spec.layers) {
    to_residual.insert(spec.prefix + layer.attention_out.weight);
    to_residual.insert(spec.prefix + layer.down.weight);
  }
  SynthReport report{.dtype = dtype};
  std::vector<Tensor> tensors;
  for (NamedShape& shape : expected_tensors(spec)) {
    using Role = NamedShape::Role;
    Tensor tensor{.spec = {.name = shape.name, .dtype = dtype, .shape = std::move(shape.shape)},
                  .table = nullptr,
                  .constant = shape.role == Role::kNormWeight ? 1.0F : 0.0F,
                  .key = tensor_key(options.seed, shape.name)};
    if (shape.role == Role::kMatrix || shape.role == Role::kEmbedding) {
      tensor.table = to_residual.contains(tensor.spec.name) ? &residual : &normal;
    }
    report.bytes = checked_add(report.bytes, tensor.spec.bytes(), "bytes of the model");
    tensors.push_back(std::move(tensor));
  }
  report.tensors = tensors.size();
  report.parameters = report.bytes / size_of(dtype);

  const unsigned threads =
      options.threads != 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
  const std::vector<std::size_t> shards = divide(tensors, options.max_shard_bytes);
  report.files = shards.size();
  OutputDirectory directory(out);
  nlohmann::json weight_map = nlohmann::json::object();
  std::uint64_t done = 0;
  std::span<const Tensor> rest(tensors);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name =
        shards.size() == 1 ? "model.safetensors"
                           : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    const auto mine = rest.first(shards[i]);
    rest = rest.subspan(shards[i]);
    write_shard(directory.add(name), mine, threads, [&](std::uint64_t bytes) {
      done += bytes;
      if (progress) progress(done, report.bytes);
    });
    for (const Tensor& tensor : mine) weight_map[tensor.spec.name] = name;
  }
  if (shards.size() > 1) {
    write_json(directory.add("model.safetensors.index.json"),
               {{"metadata", {{"total_size", report.bytes}}}, {"weight_map", weight_map}});
  }
  // Last, so that a directory that looks like a model is one.
  write_json(directory.add("config.json"), config);
  directory.commit();
  return report;
}

}  // namespace tidemill::engine
