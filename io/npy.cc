#include "io/npy.h"

#include <charconv>
#include <string>
#include <string_view>

#include "io/base/checked.h"
#include "io/file.h"
#include "io/limits.h"

namespace tidemill::io {
namespace {

constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);
constexpr std::size_t kPreamble = kMagic.size() + 2;  // a 16-bit header length follows
constexpr std::size_t kDataAlignment = 64;            // as numpy.save writes it

std::string_view npy_type(DType dtype) {
  TM_CHECK(dtype == DType::kF32 || dtype == DType::kI64, "npy of {}", to_string(dtype));
  return dtype == DType::kF32 ? "<f4" : "<i8";
}

std::uint64_t elements(std::span<const std::uint64_t> shape) {
  std::uint64_t product = 1;
  for (const std::uint64_t dim : shape) product = checked_mul(product, dim, "npy shape");
  return product;
}

// The header is a Python dict: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
// Not Python but this one sentence of it is understood.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::string_view path) : text_(text), path_(path) {}

  NpyArray read() {
    NpyArray array;
    expect("{");
    for (int seen = 0; seen < 3; ++seen) {
      const std::string_view key = quoted();
      expect(":");
      if (key == "descr") {
        const std::string_view type = quoted();
        if (type != "<f4" && type != "<i8") fail("the type is neither <f4 nor <i8");
        array.dtype = type == "<f4" ? DType::kF32 : DType::kI64;
      } else if (key == "fortran_order") {
        expect("False");
      } else if (key == "shape") {
        array.shape = tuple();
      } else {
        fail("unexpected key");
      }
      if (keys_.find(key) != std::string::npos) fail("a key is there twice");
      keys_ += key;
      skip_spaces();
      if (text_.starts_with(",")) text_.remove_prefix(1);
    }
    expect("}");
    skip_spaces();
    if (!text_.empty()) fail("text after the header");
    return array;
  }

 private:
  [[noreturn]] void fail(const char* why) const {
    throw Error(ErrorKind::kModel, fmt::format("{}: bad .npy header: {}", printable(path_), why),
                {.path = std::string(path_), .offset = {}, .error_number = 0});
  }
  void skip_spaces() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) {
      text_.remove_prefix(1);
    }
  }
  void expect(std::string_view token) {
    skip_spaces();
    if (!text_.starts_with(token)) fail("it is not {'descr', 'fortran_order': False, 'shape'}");
    text_.remove_prefix(token.size());
  }
  std::string_view quoted() {
    expect("'");
    const std::size_t end = text_.find('\'');
    if (end == std::string_view::npos) fail("an open quote");
    const std::string_view inside = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return inside;
  }
  std::vector<std::uint64_t> tuple() {
    std::vector<std::uint64_t> dims;
    expect("(");
    while (true) {
      skip_spaces();
      if (text_.starts_with(")")) break;
      std::uint64_t value = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
      if (error != std::errc() || dims.size() == kMaxDims) fail("the shape");
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      dims.push_back(value);
      skip_spaces();
      if (text_.starts_with(",")) {
        text_.remove_prefix(1);
      } else if (!text_.starts_with(")")) {
        fail("the shape");
      }
    }
    text_.remove_prefix(1);
    return dims;
  }

  std::string_view text_;
  std::string_view path_;
  std::string keys_;
};

}  // namespace

NpyWriter::NpyWriter(const std::filesystem::path& path, DType dtype,
                     std::span<const std::uint64_t> shape)
    : file_(path), dtype_(dtype) {
  std::string dims;
  for (const std::uint64_t dim : shape) dims += fmt::format("{}, ", dim);
  if (shape.size() > 1) dims.resize(dims.size() - 2);
  if (shape.size() == 1) dims.pop_back();  // (3,) is a tuple, (3) is not
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                   npy_type(dtype), dims);
  header.resize(align_up(kPreamble + header.size() + 1, kDataAlignment) - kPreamble - 1, ' ');
  header += '\n';
  std::string all(kMagic);
  all += static_cast<char>(header.size() & 0xFF);
  all += static_cast<char>(header.size() >> 8);
  all += header;
  file_bytes_ =
      checked_add(all.size(), checked_mul(elements(shape), size_of(dtype), "npy size"), "npy size");
  file_.append(std::as_bytes(std::span(all)));
}

void NpyWriter::append_bytes(DType dtype, std::span<const std::byte> bytes) {
  TM_CHECK(dtype == dtype_, "{} appended to an array of {}", to_string(dtype), to_string(dtype_));
  TM_CHECK(bytes.size() <= file_bytes_ - file_.size(), "more elements than were declared");
  file_.append(bytes);
}

void NpyWriter::append(std::span<const float> values) {
  append_bytes(DType::kF32, std::as_bytes(values));
}

void NpyWriter::append(std::span<const std::int64_t> values) {
  append_bytes(DType::kI64, std::as_bytes(values));
}

void NpyWriter::finish() {
  TM_CHECK(file_.size() == file_bytes_, "{} of {} bytes written", file_.size(), file_bytes_);
  file_.finish();
}

std::span<const float> NpyArray::floats() const {
  TM_CHECK(dtype == DType::kF32, "floats of {}", to_string(dtype));
  return {reinterpret_cast<const float*>(data.data()), data.size() / sizeof(float)};
}

std::span<const std::int64_t> NpyArray::ints() const {
  TM_CHECK(dtype == DType::kI64, "integers of {}", to_string(dtype));
  return {reinterpret_cast<const std::int64_t*>(data.data()), data.size() / sizeof(std::int64_t)};
}

NpyArray read_npy(const std::filesystem::path& path) {
  const auto file = File::open(path, DirectIo::kOff);
  const auto fail = [&](const std::string& why) {
    throw Error(ErrorKind::kModel, fmt::format("{}: {}", printable(file->path()), why),
                {.path = file->path(), .offset = {}, .error_number = 0});
  };
  if (file->size() < kPreamble) fail("too short for a .npy file");
  const auto preamble = file->read({0, kPreamble});
  const std::string_view text(reinterpret_cast<const char*>(preamble.data()), preamble.size());
  if (!text.starts_with(kMagic)) fail("not a .npy file of version 1.0");
  const std::uint64_t length = std::to_integer<std::uint64_t>(preamble[8]) |
                               std::to_integer<std::uint64_t>(preamble[9]) << 8;
  const auto header = file->read({kPreamble, length});
  NpyArray array =
      HeaderReader({reinterpret_cast<const char*>(header.data()), header.size()}, file->path())
          .read();
  const std::uint64_t bytes = checked_mul(elements(array.shape), size_of(array.dtype), "npy shape");
  const std::uint64_t present = file->size() - kPreamble - length;
  if (bytes != present) {
    fail(fmt::format("{} bytes of data, but its shape makes {}", present, bytes));
  }
  array.data = file->read({kPreamble + length, bytes});
  return array;
}

}  // namespace tidemill::io
