// Element types of checkpoint tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tidemill {

enum class DType : std::uint8_t { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool };

/// Bytes of one element.
std::size_t size_of(DType dtype);

/// The spelling of safetensors headers: "F32", "BF16", "I64", "BOOL", ...
std::string_view to_string(DType dtype);

/// Inverse of to_string(DType); nothing for a name that Tidemill does not know.
std::optional<DType> parse_dtype(std::string_view name);

/// True for the types that weights may have: F32, F16, BF16.
bool is_weight_type(DType dtype);

}  // namespace tidemill
