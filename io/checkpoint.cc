#include "io/checkpoint.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <numeric>

#include "io/base/checked.h"
#include "io/index_file.h"

namespace tidemill::io {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNamesInMessage = 10;

[[noreturn]] void fail(const fs::path& path, const std::string& why) {
  throw Error(ErrorKind::kModel, fmt::format("{}: {}", printable(path.native()), why),
              {.path = path.native(), .offset = {}, .error_number = 0});
}

// "a, b, c and 12 more"
std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kNamesInMessage; ++i) {
    text += (i > 0 ? ", " : "") + printable(names[i]);
  }
  if (names.size() > kNamesInMessage)
    text += fmt::format(" and {} more", names.size() - kNamesInMessage);
  return text;
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::status(path, error));
}

SafetensorsHeader read_header(const File& file) {
  const auto first = file.read({0, std::min<std::uint64_t>(8, file.size())});
  const std::uint64_t length = safetensors_header_length(first, file.size(), file.path());
  const auto json = file.read({8, length});
  return parse_safetensors_header({reinterpret_cast<const char*>(json.data()), json.size()},
                                  file.size(), file.path());
}

[[noreturn]] void fail_without_weights(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".gguf") {
      fail(folder, fmt::format("no model.safetensors here, and {} is not read; convert the model "
                               "to safetensors",
                               printable(entry.path().filename().native())));
    }
  }
  fail(folder, "no model.safetensors and no model.safetensors.index.json here");
}

}  // namespace

std::uint64_t TensorInfo::row_elements() const {
  std::uint64_t product = 1;
  // Cannot overflow: the header was checked for it.
  for (std::size_t i = 1; i < shape.size(); ++i) product *= shape[i];
  return product;
}

std::string shape_to_string(std::span<const std::uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

void Checkpoint::add_shard(std::shared_ptr<const File> file) {
  SafetensorsHeader header = read_header(*file);
  for (SafetensorsEntry& entry : header.tensors) {
    tensors_.push_back({.name = std::move(entry.name),
                        .dtype = entry.dtype,
                        .shape = std::move(entry.shape),
                        .file = file,
                        .bytes = entry.bytes});
  }
  for (UnsupportedTensor& tensor : header.unsupported) unsupported_.push_back(std::move(tensor));
  shard_tensors_ = {.known = header.tensors.size(), .unsupported = header.unsupported.size()};
  metadata_.insert(metadata_.end(), header.metadata.begin(), header.metadata.end());
  files_.push_back(std::move(file));
}

// The index and the shards must tell the same story: a tensor in another shard, or in two, means
// that files of different models or versions lie side by side.
void Checkpoint::open_index(const fs::path& index_path, DirectIo direct) {
  const auto index_file = File::open(index_path, DirectIo::kOff);
  if (index_file->size() > kMaxIndexBytes) fail(index_path, "the file is too large for an index");
  const auto text = index_file->read({0, index_file->size()});
  const IndexFile index =
      parse_index({reinterpret_cast<const char*>(text.data()), text.size()}, index_path.native());
  std::vector<std::string> missing;
  for (const std::string& shard : index.shards) {
    if (!is_there(path_ / shard)) missing.push_back(shard);
  }
  if (!missing.empty()) {
    fail(index_path, fmt::format("{} of {} shards are missing: {}", missing.size(),
                                 index.shards.size(), list(missing)));
  }

  std::vector<bool> found(index.tensors.size(), false);
  const auto account_for = [&](const std::string& name, std::uint32_t shard) {
    const auto at = std::lower_bound(
        index.tensors.begin(), index.tensors.end(), name,
        [](const auto& entry, const std::string& wanted) { return entry.first < wanted; });
    if (at == index.tensors.end() || at->first != name) {
      fail(index_path, fmt::format("tensor \"{}\" is in {}, but not in the index", printable(name),
                                   printable(index.shards[shard])));
    }
    if (at->second != shard) {
      fail(index_path,
           fmt::format("tensor \"{}\" is in {}, but the index says {}", printable(name),
                       printable(index.shards[shard]), printable(index.shards[at->second])));
    }
    found[static_cast<std::size_t>(at - index.tensors.begin())] = true;
  };
  for (std::uint32_t shard = 0; shard < index.shards.size(); ++shard) {
    add_shard(File::open(path_ / index.shards[shard], direct));
    for (std::size_t i = tensors_.size() - shard_tensors_.known; i < tensors_.size(); ++i) {
      account_for(tensors_[i].name, shard);
    }
    for (std::size_t i = unsupported_.size() - shard_tensors_.unsupported; i < unsupported_.size();
         ++i) {
      account_for(unsupported_[i].name, shard);
    }
  }
  std::vector<std::string> absent;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) {
      absent.push_back(
          fmt::format("{} (in {})", index.tensors[i].first, index.shards[index.tensors[i].second]));
    }
  }
  if (!absent.empty()) {
    fail(index_path, fmt::format("{} tensors of the index are not in their shards: {}",
                                 absent.size(), list(absent)));
  }
}

Checkpoint Checkpoint::open(const fs::path& path, DirectIo direct) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    checkpoint.add_shard(File::open(path, direct));
  } else if (const fs::path single = path / "model.safetensors"; is_there(single)) {
    checkpoint.add_shard(File::open(single, direct));
  } else if (const fs::path index = path / "model.safetensors.index.json"; is_there(index)) {
    checkpoint.open_index(index, direct);
  } else {
    fail_without_weights(path);
  }
  const auto& tensors = checkpoint.tensors_;
  checkpoint.by_name_.resize(tensors.size());
  std::iota(checkpoint.by_name_.begin(), checkpoint.by_name_.end(), std::size_t{0});
  std::sort(checkpoint.by_name_.begin(), checkpoint.by_name_.end(),
            [&](std::size_t a, std::size_t b) { return tensors[a].name < tensors[b].name; });
  if (checkpoint.files_.front()->fuse()) {
    spdlog::warn(
        "{} is on a FUSE mount: some of them deliver wrong bytes without an error; verify "
        "the model if in doubt",
        printable(path.native()));
  }
  return checkpoint;
}

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto at = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [&](std::size_t i, std::string_view wanted) { return tensors_[i].name < wanted; });
  return at != by_name_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
}

const UnsupportedTensor* Checkpoint::find_unsupported(std::string_view name) const {
  for (const UnsupportedTensor& tensor : unsupported_) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

const TensorInfo& Checkpoint::at(std::string_view name) const {
  if (const TensorInfo* tensor = find(name)) return *tensor;
  if (const UnsupportedTensor* tensor = find_unsupported(name)) {
    fail(path_, fmt::format("tensor \"{}\" has type {}, which is not supported", printable(name),
                            printable(tensor->dtype)));
  }
  fail(path_, fmt::format("tensor \"{}\" is missing", printable(name)));
}

}  // namespace tidemill::io
