// Arbitrary bytes as tokenizer.json and, behind the first NUL byte, as prompt and token ids.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "io/base/error.h"

namespace {

using tidemill::Error;
using tidemill::ErrorKind;
using tidemill::engine::StreamDecoder;
using tidemill::engine::Tokenizer;

void require(bool condition) {
  if (!condition) std::abort();
}

void check_text(const Tokenizer& tokenizer, std::string_view text) {
  for (const std::uint32_t id : tokenizer.encode(text)) require(id < tokenizer.vocab_size());
  std::vector<std::uint32_t> ids;
  for (const char byte : text) {
    ids.push_back(static_cast<unsigned char>(byte) % tokenizer.vocab_size());
  }
  for (const bool skip : {false, true}) {
    StreamDecoder decoder(tokenizer, skip);
    std::string streamed;
    for (const std::uint32_t id : ids) streamed += decoder.push(id);
    streamed += decoder.finish();
    require(streamed == tokenizer.decode(ids, skip));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = input.find('\0');
  try {
    const Tokenizer tokenizer = Tokenizer::parse(input.substr(0, end), "fuzz");
    if (end != std::string_view::npos) check_text(tokenizer, input.substr(end + 1));
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kModel || error.kind() == ErrorKind::kUsage);
  }
  return 0;
}
