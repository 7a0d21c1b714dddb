// Any bytes as a safetensors file: a header whose tensors lie inside the file, or Error(kModel).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "io/base/error.h"
#include "io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tidemill;
  try {
    const auto header = io::parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz");
    std::uint64_t total = 0;
    for (const auto& tensor : header.tensors) {
      if (tensor.bytes.offset > size || tensor.bytes.length > size - tensor.bytes.offset) {
        std::abort();
      }
      std::uint64_t elements = 1;  // cannot wrap, or the parser has missed it
      for (const std::uint64_t dim : tensor.shape) {
        if (__builtin_mul_overflow(elements, dim, &elements)) std::abort();
      }
      if (elements * size_of(tensor.dtype) != tensor.bytes.length) std::abort();
      total += tensor.bytes.length;
    }
    if (total > size) std::abort();  // two tensors share bytes
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kModel) std::abort();
  }
  return 0;
}
