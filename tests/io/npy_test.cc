#include "io/npy.h"

#include <doctest/doctest.h>

#include "scratch.h"

namespace tidemill::io {
namespace {

TEST_CASE("rows are appended and read back; the header is as numpy writes it") {
  const ScratchDir dir;
  const std::vector<float> values = {0.F, 1.5F, -2.F, 3.F, 4.F, 5.F};
  const std::uint64_t shape[] = {2, 3};
  NpyWriter writer(dir / "a.npy", DType::kF32, shape);
  writer.append(std::span(values).first(3));
  writer.append(std::span(values).subspan(3));
  writer.finish();
  const NpyArray array = read_npy(dir / "a.npy");
  CHECK(array.shape == std::vector<std::uint64_t>{2, 3});
  CHECK(std::equal(values.begin(), values.end(), array.floats().begin(), array.floats().end()));
  CHECK(error_of([&] { (void)array.ints(); }).kind() == ErrorKind::kBug);
  const auto bytes = read_file(dir / "a.npy");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  CHECK(text.substr(10).starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"));
  CHECK(text[127] == '\n');
  CHECK(bytes.size() == 128 + 24);
}

TEST_CASE("integers, vectors, scalars and empty arrays") {
  const ScratchDir dir;
  const std::vector<std::int64_t> values = {-1, 1LL << 40, 7};
  for (const std::vector<std::uint64_t>& shape :
       {std::vector<std::uint64_t>{3}, {3, 1, 1}, {}, {0, 5}}) {
    std::uint64_t count = 1;
    for (const std::uint64_t dim : shape) count *= dim;
    NpyWriter writer(dir / "a.npy", DType::kI64, shape);
    writer.append(std::span(values).first(count));
    writer.finish();
    const NpyArray array = read_npy(dir / "a.npy");
    CHECK(array.shape == shape);
    CHECK(array.dtype == DType::kI64);
    CHECK(array.ints().size() == count);
  }
}

TEST_CASE("the writer insists on the declared shape and type") {
  const ScratchDir dir;
  const std::uint64_t shape[] = {2};
  NpyWriter writer(dir / "a.npy", DType::kF32, shape);
  const float three[] = {1, 2, 3};
  const std::int64_t one[] = {1};
  CHECK(error_of([&] { writer.append(three); }).kind() == ErrorKind::kBug);
  CHECK(error_of([&] { writer.append(one); }).kind() == ErrorKind::kBug);
  CHECK(error_of([&] { writer.finish(); }).kind() == ErrorKind::kBug);
}

TEST_CASE("other people's files: the one layout, or a clear error") {
  const ScratchDir dir;
  const auto file = [](const std::string& header, std::size_t data) {
    std::string text("\x93NUMPY\x01\x00", 8);
    text += static_cast<char>(header.size());
    text += '\0';
    return text + header + std::string(data, 'x');
  };
  write_file(dir / "ok.npy",
             file("{ 'shape': (1, 2,), 'fortran_order': False, 'descr': '<f4' }  \n", 8));
  CHECK(read_npy(dir / "ok.npy").shape == std::vector<std::uint64_t>{1, 2});
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  const std::string rows[] = {
      "",
      "\x93NUMPY",
      std::string("\x93NUMPX\x01\x00\x10\x00                ", 26),
      file(good, 7),
      file(good, 9),
      file(good, 8).substr(0, 30),
      file("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 8),
      file("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", 8),
      file("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", 8),
      file("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", 8),
      file("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", 8),
      file("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296,2), }", 8),
      file("{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616,), }", 8),
      file("{'descr': '<f4', 'fortran_order': False, 'shape': (2 2), }", 8),
      file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", 8),
      file("{'descr': '<f4', 'descr': '<f4', 'shape': (2,), }", 8),
      file("{'descr': '<f4", 8),
      file("{'descr': '<f4', 'fortran_order': False, 'shape': (2", 8),
      file(good + " import os", 8),
  };
  for (const std::string& row : rows) {
    CAPTURE(row);
    write_file(dir / "bad.npy", row);
    CHECK(error_of([&] { read_npy(dir / "bad.npy"); }).kind() == ErrorKind::kModel);
  }
}

}  // namespace
}  // namespace tidemill::io
