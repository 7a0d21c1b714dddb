#include "io/base/dtype.h"

#include <array>
#include <cstdlib>

#include "io/base/error.h"

namespace tidemill {
namespace {

struct Entry {
  DType dtype;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<Entry, 10> kTypes = {{
    {DType::kF64, "F64", 8},
    {DType::kF32, "F32", 4},
    {DType::kF16, "F16", 2},
    {DType::kBF16, "BF16", 2},
    {DType::kI64, "I64", 8},
    {DType::kI32, "I32", 4},
    {DType::kI16, "I16", 2},
    {DType::kI8, "I8", 1},
    {DType::kU8, "U8", 1},
    {DType::kBool, "BOOL", 1},
}};

const Entry& entry(DType dtype) {
  for (const Entry& e : kTypes) {
    if (e.dtype == dtype) return e;
  }
  TM_CHECK(false, "dtype {}", static_cast<int>(dtype));
  std::abort();
}

}  // namespace

std::size_t size_of(DType dtype) { return entry(dtype).bytes; }

std::string_view to_string(DType dtype) { return entry(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Entry& e : kTypes) {
    if (e.name == name) return e.dtype;
  }
  return std::nullopt;
}

bool is_weight_type(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

}  // namespace tidemill
