// Models by hand: tensors in sparse files, and what a sweep over them must find.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint.h"
#include "offload/tape.h"
#include "tests/offload/support/sim_world.h"

namespace tidemill::test {

/// Tensors one behind the other in files of `directory`, which is removed in the end.
class SimModel {
 public:
  SimModel();
  ~SimModel();
  SimModel(const SimModel&) = delete;
  SimModel& operator=(const SimModel&) = delete;

  /// Starts a new file; tensors that follow lie in it, the first `gap` bytes from its beginning.
  void begin_file(std::uint64_t gap = 0);
  /// Creates the file of what was added to it; its tensors are complete then.
  void end_file(std::uint64_t gap = 0);
  /// A tensor of the open file, `gap` bytes behind the one before it.
  io::TensorInfo& tensor(std::vector<std::uint64_t> shape, DType dtype = DType::kF32,
                         std::uint64_t gap = 0);

  offload::UseId use(const io::TensorInfo& tensor,
                     offload::Section section = offload::Section::kBody) {
    return order.add(tensor, section);
  }

  /// A few tensors of odd sizes in one or two files, some empty, some used twice.
  static std::unique_ptr<SimModel> random(std::uint64_t seed);
  /// `layers` of 4 matrices and 4 vectors in fp16, a final vector, and a head of `vocabulary` rows.
  static std::unique_ptr<SimModel> transformer(std::uint64_t layers, std::uint64_t width,
                                               std::uint64_t vocabulary);

  std::deque<io::TensorInfo> tensors;
  offload::TapeOrder order;

 private:
  std::filesystem::path directory_;
  std::size_t files_ = 0;
  std::uint64_t end_ = 0;  ///< of the open file
  std::size_t first_in_file_ = 0;
};

/// A fingerprint of rows that does not depend on how they are grouped: of one row, to be summed.
std::uint64_t row_fingerprint(std::uint64_t row, const std::byte* bytes, std::uint64_t size);
/// The fingerprint of all rows of a tensor, from file_content().
std::uint64_t tensor_fingerprint(const io::TensorInfo& tensor);

}  // namespace tidemill::test
