#include "tests/offload/support/sim_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "io/base/error.h"
#include "tests/offload/support/sim_reader.h"

namespace tidemill::test {

using offload::Section;

SimModel::SimModel() {
  static std::atomic<unsigned> count{0};
  directory_ = std::filesystem::temp_directory_path() /
               fmt::format("tidemill-offload-{}-{}", getpid(), count++);
  std::filesystem::create_directories(directory_);
}

SimModel::~SimModel() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void SimModel::begin_file(std::uint64_t gap) {
  end_ = gap;
  first_in_file_ = tensors.size();
}

void SimModel::end_file(std::uint64_t gap) {
  const std::filesystem::path path = directory_ / fmt::format("{}.bin", files_++);
  std::ofstream(path).flush();
  std::filesystem::resize_file(path, end_ + gap);
  const auto file = io::File::open(path);
  for (std::size_t i = first_in_file_; i < tensors.size(); ++i) tensors[i].file = file;
}

io::TensorInfo& SimModel::tensor(std::vector<std::uint64_t> shape, DType dtype, std::uint64_t gap) {
  io::TensorInfo tensor;
  tensor.name = fmt::format("t{}", tensors.size());
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.bytes = {end_ + gap, tensor.rows() * tensor.row_bytes()};
  end_ = tensor.bytes.end();
  return tensors.emplace_back(std::move(tensor));
}

std::unique_ptr<SimModel> SimModel::random(std::uint64_t seed) {
  SimWorld dice(seed);
  auto model = std::make_unique<SimModel>();
  const std::uint64_t files = dice.pick(1, 2), body = dice.pick(1, 6), head = dice.pick(0, 2);
  for (std::uint64_t f = 0; f < files; ++f) {
    model->begin_file(dice.pick(0, 5000));
    for (std::uint64_t t = 0; t < body + head; ++t) {
      const std::uint64_t rows = dice.chance(0.1) ? 0 : dice.pick(1, 60);
      const std::uint64_t columns = dice.chance(0.5) ? dice.pick(1, 40) : dice.pick(1, 1500);
      model->tensor({rows, columns}, dice.chance(0.5) ? DType::kF16 : DType::kF32,
                    dice.chance(0.5) ? 0 : dice.pick(0, 9000));
    }
    model->end_file(dice.pick(0, 3000));
  }
  const auto some = [&]() -> const io::TensorInfo& {
    return model->tensors[dice.pick(0, model->tensors.size() - 1)];
  };
  for (std::uint64_t i = 0; i < body; ++i) model->use(some(), Section::kBody);
  for (std::uint64_t i = 0; i < head; ++i) model->use(some(), Section::kHead);
  return model;
}

std::unique_ptr<SimModel> SimModel::transformer(std::uint64_t layers, std::uint64_t width,
                                                std::uint64_t vocabulary) {
  auto model = std::make_unique<SimModel>();
  model->begin_file(1234);
  for (std::uint64_t l = 0; l < layers; ++l) {
    model->tensor({width}, DType::kF16);
    model->tensor({3 * width, width}, DType::kF16);
    model->tensor({3 * width}, DType::kF16);
    model->tensor({width, width}, DType::kF16);
    model->tensor({width}, DType::kF16);
    model->tensor({4 * width, width}, DType::kF16);
    model->tensor({4 * width}, DType::kF16);
    model->tensor({width, 4 * width}, DType::kF16);
  }
  model->tensor({width}, DType::kF16);
  model->tensor({vocabulary, width}, DType::kF16);
  model->end_file();
  for (const io::TensorInfo& tensor : model->tensors) {
    model->use(tensor, &tensor == &model->tensors.back() ? Section::kHead : Section::kBody);
  }
  return model;
}

std::uint64_t row_fingerprint(std::uint64_t row, const std::byte* bytes, std::uint64_t size) {
  std::uint64_t hash = 0xCBF29CE484222325ull ^ (row * 0x9E3779B97F4A7C15ull);
  for (std::uint64_t i = 0; i < size; ++i) {
    hash = (hash ^ static_cast<std::uint64_t>(bytes[i])) * 0x100000001B3ull;
  }
  return hash ^ (hash >> 29);
}

std::uint64_t tensor_fingerprint(const io::TensorInfo& tensor) {
  if (tensor.row_bytes() == 0) return 0;
  std::uint64_t sum = 0;
  std::vector<std::byte> bytes(tensor.row_bytes());
  for (std::uint64_t row = 0; row < tensor.rows(); ++row) {
    file_content(*tensor.file, tensor.row_range(row, row + 1), bytes.data());
    sum += row_fingerprint(row, bytes.data(), bytes.size());
  }
  return sum;
}

}  // namespace tidemill::test
