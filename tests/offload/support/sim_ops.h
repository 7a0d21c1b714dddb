// Of all operations, the simulated device has the one that offload/ itself uses: gather, of fp32.
#pragma once

#include <cstring>
#include <vector>

#include "io/base/error.h"
#include "kernels/ops.h"
#include "tests/offload/support/sim_device.h"

namespace tidemill::test {

class SimOps : public kernels::Ops {
  using Stream = kernels::Stream;
  using ConstRows = kernels::ConstRows;
  using Rows = kernels::Rows;
  using WeightRows = kernels::WeightRows;
  using Size = std::uint64_t;

 public:
  void gather(Stream& stream, std::span<const std::byte* const> rows, DType dtype, Size cols,
              Rows y) override {
    TM_CHECK(dtype == DType::kF32, "simulated for fp32 only");
    const std::vector<const std::byte*> copied(rows.begin(), rows.end());
    static_cast<SimStream&>(stream).launch([copied, cols, y] {
      for (std::size_t i = 0; i < copied.size(); ++i) {
        std::memcpy(y.data + i * y.stride, copied[i], cols * sizeof(float));
      }
    });
  }

  void matmul(Stream&, ConstRows, const WeightRows&, Rows, Size) override { refuse(); }
  void matmul_transposed_accumulate(Stream&, ConstRows, const WeightRows&, Rows, Size) override {
    refuse();
  }
  void convert(Stream&, const WeightRows&, float*) override { refuse(); }
  void zero(Stream&, Rows, Size, Size) override { refuse(); }
  void copy(Stream&, ConstRows, Rows, Size, Size) override { refuse(); }
  void select_rows(Stream&, ConstRows, std::span<const Size>, Rows, Size) override { refuse(); }
  void add(Stream&, ConstRows, Rows, Size, Size) override { refuse(); }
  void add_bias(Stream&, const float*, Rows, Size, Size) override { refuse(); }
  void layer_norm(Stream&, ConstRows, const float*, const float*, float, Rows, Size,
                  Size) override {
    refuse();
  }
  void rms_norm(Stream&, ConstRows, const float*, float, Rows, Size, Size) override { refuse(); }
  void head_rms_norm(Stream&, Rows, Size, Size, std::uint32_t, std::uint32_t, const float*, float,
                     Size) override {
    refuse();
  }
  void activate(Stream&, kernels::Activation, Rows, Size, Size) override { refuse(); }
  void activate_gated(Stream&, kernels::Activation, ConstRows, Rows, Size, Size) override {
    refuse();
  }
  void rotary(Stream&, Rows, Size, Size, std::uint32_t, std::uint32_t, ConstRows, Size) override {
    refuse();
  }
  Size kv_cache_floats(const kernels::AttentionShape&, Size) const override { refuse(); }
  void kv_append(Stream&, ConstRows, const kernels::QkvLayout&, const kernels::AttentionShape&,
                 std::span<const kernels::SequenceRows>) override {
    refuse();
  }
  void attention(Stream&, const kernels::AttentionArgs&) override { refuse(); }
  Size scratch_bytes(Size, Size, Size) const override { refuse(); }
  void reserve(Size, Size, Size) override { refuse(); }

 private:
  [[noreturn]] static void refuse() { throw_error(ErrorKind::kBug, "not simulated"); }
};

}  // namespace tidemill::test
