// The list of operations that a device offers. Activations are fp32, row-major, one row per token;
// `stride` is the distance between rows in floats. Weights are in the checkpoint's type and may
// lie at any address (they are used where the file put them).
//
// Every reduction has one order that depends on its length only. An output element therefore has
// the same bits whatever the number of tokens, threads and pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "io/base/dtype.h"
#include "kernels/device.h"

namespace tidemill::kernels {

/// Contiguous rows of a weight tensor. No alignment is promised.
struct WeightRows {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;  ///< kF32, kF16 or kBF16
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
};

struct ConstRows {
  const float* data = nullptr;
  std::uint64_t stride = 0;
};
struct Rows {
  float* data = nullptr;
  std::uint64_t stride = 0;
};

enum class Activation {
  kGeluErf,        ///< x/2 (1 + erf(x/sqrt 2))
  kGeluTanh,       ///< x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  kGeluTanhBloom,  ///< x/2 (1 + tanh(0.79788456 x (1 + 0.044715 x^2)))
  kGeluFast,       ///< x/2 (1 + tanh(0.7978845608 x (1 + 0.044715 x^2)))
  kSilu,           ///< x / (1 + exp(-x))
  kRelu,
};

/// How one token's query, key and value vectors lie in the output row of the projection(s):
/// head a of the query begins at q_offset + a * q_head_stride, and so on.
struct QkvLayout {
  std::uint64_t q_offset = 0, q_head_stride = 0;
  std::uint64_t k_offset = 0, k_head_stride = 0;
  std::uint64_t v_offset = 0, v_head_stride = 0;
};

struct AttentionShape {
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;  ///< divides heads; query head a reads kv head a / (heads / kv_heads)
  std::uint32_t head_dim = 0;
};

/// Keys and values of one sequence in one layer, in a layout that the device chooses.
/// kv_cache_floats() tells its size; capacity is in positions.
struct KvSlot {
  float* data = nullptr;
  std::uint64_t capacity = 0;
};

/// The rows of a ragged batch that belong to one sequence.
struct SequenceRows {
  std::uint64_t first_row = 0;  ///< row of its first token in this batch
  std::uint64_t count = 0;      ///< tokens in this batch
  std::uint64_t position = 0;   ///< absolute position of its first token in this batch
  KvSlot cache;                 ///< holds positions [0, position) before, [0, position+count) after
};

struct AttentionArgs {
  ConstRows qkv;  ///< [tokens, ...], read through `layout` (queries only)
  QkvLayout layout;
  AttentionShape shape;
  std::span<const SequenceRows> sequences;
  float scale = 1.0f;                   ///< multiplies q.k before anything is added
  const float* alibi_slopes = nullptr;  ///< [heads]; score += slope * key position
  std::uint64_t window = 0;             ///< key j visible from t iff j <= t and (0 or j > t-window)
  Rows out;                             ///< [tokens, heads * head_dim]
};

/// All pointers are memory of this device. Operations are queued on `stream`; they may return
/// before they have executed.
class Ops {
 public:
  virtual ~Ops() = default;

  /// y[t, n] = sum_k x[t, k] * w[n, k], t < tokens, n < w.rows. The weights are [out, in]
  /// (torch Linear), so a piece is a range of outputs: y points at the first of them.
  virtual void matmul(Stream& stream, ConstRows x, const WeightRows& w, Rows y,
                      std::uint64_t tokens) = 0;

  /// y[t, n] += sum_k x[t, k] * w[k, n] with k ascending, t < tokens, n < w.cols. The weights are
  /// [in, out] (GPT-2's Conv1D), so a piece is a range of the reduced dimension: x points at its
  /// first column, and pieces are given in order, starting from a y that is zero.
  virtual void matmul_transposed_accumulate(Stream& stream, ConstRows x, const WeightRows& w,
                                            Rows y, std::uint64_t tokens) = 0;

  /// dst[i] = float(w[i]) for all elements of w (biases, norm weights, ...).
  virtual void convert(Stream& stream, const WeightRows& w, float* dst) = 0;

  /// y[t, :] = float(rows[t][:]): rows given by address (embedding lookup). `rows` may be freed
  /// after the call.
  virtual void gather(Stream& stream, std::span<const std::byte* const> rows, DType dtype,
                      std::uint64_t cols, Rows y) = 0;

  virtual void zero(Stream& stream, Rows y, std::uint64_t tokens, std::uint64_t cols) = 0;
  virtual void copy(Stream& stream, ConstRows x, Rows y, std::uint64_t tokens,
                    std::uint64_t cols) = 0;
  /// y[t, :] = x[index[t], :]; `index` is host memory and may be freed after the call.
  virtual void select_rows(Stream& stream, ConstRows x, std::span<const std::uint64_t> index,
                           Rows y, std::uint64_t cols) = 0;

  /// y[t, c] += x[t, c]
  virtual void add(Stream& stream, ConstRows x, Rows y, std::uint64_t tokens,
                   std::uint64_t cols) = 0;
  /// y[t, c] += bias[c]
  virtual void add_bias(Stream& stream, const float* bias, Rows y, std::uint64_t tokens,
                        std::uint64_t cols) = 0;

  /// (x - mean) / sqrt(var + eps) * weight + bias, biased variance. x and y may be the same.
  virtual void layer_norm(Stream& stream, ConstRows x, const float* weight, const float* bias,
                          float eps, Rows y, std::uint64_t tokens, std::uint64_t cols) = 0;
  /// x / sqrt(mean(x^2) + eps) * weight. x and y may be the same.
  virtual void rms_norm(Stream& stream, ConstRows x, const float* weight, float eps, Rows y,
                        std::uint64_t tokens, std::uint64_t cols) = 0;
  /// RMS norm over each head of a projection, in place: heads at offset + a * head_stride.
  virtual void head_rms_norm(Stream& stream, Rows x, std::uint64_t offset,
                             std::uint64_t head_stride, std::uint32_t heads, std::uint32_t head_dim,
                             const float* weight, float eps, std::uint64_t tokens) = 0;

  /// y = f(y)
  virtual void activate(Stream& stream, Activation f, Rows y, std::uint64_t tokens,
                        std::uint64_t cols) = 0;
  /// y = f(y) * up
  virtual void activate_gated(Stream& stream, Activation f, ConstRows up, Rows y,
                              std::uint64_t tokens, std::uint64_t cols) = 0;

  /// Rotates the first rotary_dims of each head in place ("half" pairing: j with j + r/2):
  /// cos_sin is [tokens, rotary_dims]: rotary_dims/2 cosines, then as many sines, per token.
  virtual void rotary(Stream& stream, Rows x, std::uint64_t offset, std::uint64_t head_stride,
                      std::uint32_t heads, std::uint32_t rotary_dims, ConstRows cos_sin,
                      std::uint64_t tokens) = 0;

  /// Floats that KvSlot::data needs for `capacity` positions of one sequence in one layer.
  virtual std::uint64_t kv_cache_floats(const AttentionShape& shape,
                                        std::uint64_t capacity) const = 0;
  /// Writes the keys and values of the batch's tokens into the sequences' caches.
  virtual void kv_append(Stream& stream, ConstRows qkv, const QkvLayout& layout,
                         const AttentionShape& shape, std::span<const SequenceRows> sequences) = 0;
  /// Causal attention of the batch's tokens over their sequences' caches (kv_append first).
  virtual void attention(Stream& stream, const AttentionArgs& args) = 0;

  /// Bytes of scratch memory that the device keeps for the largest of these: counted against the
  /// budget by the planner, and allocated by reserve().
  virtual std::uint64_t scratch_bytes(std::uint64_t max_tokens, std::uint64_t max_cols,
                                      std::uint64_t max_positions) const = 0;
  /// Allocates that scratch once; afterwards operations within these limits allocate nothing.
  virtual void reserve(std::uint64_t max_tokens, std::uint64_t max_cols,
                       std::uint64_t max_positions) = 0;
};

}  // namespace tidemill::kernels
