#include "engine/sweep.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "io/base/error.h"
#include "offload/trace.h"

namespace tidemill::engine {

using kernels::ConstRows;
using kernels::Rows;

// What the parts of a sweep need to know about its rows.
struct Sweep::Batch {
  std::span<const SequenceChunk> chunks;
  std::vector<kernels::SequenceRows> sequences;  // caches point at the current layer
  std::vector<std::uint64_t> token_ids;
  std::vector<std::uint64_t> positions;
  std::vector<std::uint64_t> output_rows;  // rows that get logits
  std::uint64_t tokens = 0;

  Batch(const ModelSpec& spec, std::span<const SequenceChunk> all) : chunks(all) {
    for (const SequenceChunk& chunk : chunks) {
      const std::uint64_t count = chunk.tokens.size();
      TM_CHECK(count > 0, "a chunk has no tokens");
      TM_CHECK(chunk.position + count <= chunk.cache.capacity, "position {} + {} exceeds cache {}",
               chunk.position, count, chunk.cache.capacity);
      TM_CHECK(spec.max_positions == 0 || chunk.position + count <= spec.max_positions,
               "position {} + {} exceeds the model's {}", chunk.position, count,
               spec.max_positions);
      sequences.push_back(
          {.first_row = tokens, .count = count, .position = chunk.position, .cache = {}});
      for (std::uint64_t i = 0; i < count; ++i) {
        TM_CHECK(chunk.tokens[i] < spec.vocab, "token {} of {}", chunk.tokens[i], spec.vocab);
        token_ids.push_back(chunk.tokens[i]);
        positions.push_back(chunk.position + i);
        const bool last = i + 1 == count;
        if (chunk.want == WantLogits::kAll || (chunk.want == WantLogits::kLast && last)) {
          output_rows.push_back(tokens + i);
        }
      }
      tokens += count;
    }
  }

  void use_layer(std::size_t layer) {
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      sequences[i].cache = chunks[i].cache.slot(layer);
    }
  }
};

// A timeline entry that owns its name.
struct Sweep::KernelSpan {
  KernelSpan(offload::Trace& trace, std::string text)
      : name(std::move(text)), span(&trace, trace.lane("compute"), "kernels", name) {}
  std::string name;
  offload::TraceSpan span;
};

namespace {

ConstRows as_const(Rows rows) { return {rows.data, rows.stride}; }

bool all_finite(const float* values, std::uint64_t count) {
  // Exponent bits all ones: NaN or infinity. Integer arithmetic vectorises and ignores fast-math.
  std::uint32_t bad = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, values + i, sizeof bits);
    bad |= static_cast<std::uint32_t>((bits & 0x7F800000U) == 0x7F800000U);
  }
  return bad == 0;
}

}  // namespace

Sweep::Sweep(const Model& model, const MemoryPlan& plan, kernels::Device& device,
             offload::WeightStream& weights, offload::RowGather& gather_tokens,
             offload::RowGather* gather_positions, offload::Trace* trace, LayerCallback on_layer)
    : model_(model),
      spec_(model.spec),
      plan_(plan),
      ops_(device.ops()),
      weights_(weights),
      gather_tokens_(gather_tokens),
      gather_positions_(gather_positions),
      trace_(trace),
      on_layer_(std::move(on_layer)),
      rotary_host_(plan.workspace.rotary_host),
      stream_(device.create_stream()),
      rotary_sent_(device.create_event()),
      workspace_(device.allocate(plan.workspace.on_device() * sizeof(float))) {
  const WorkspaceLayout& layout = plan.workspace;
  float* next = workspace_.floats();
  const auto take = [&](std::uint64_t floats) { return std::exchange(next, next + floats); };
  residual_ = {take(layout.residual), spec_.hidden};
  normed_ = {take(layout.normed), spec_.hidden};
  wide_ = take(layout.wide);
  rotary_ = take(layout.rotary);
  constants_ = take(layout.constants);
  alibi_ = take(layout.alibi);
  outputs_normed_ = {take(layout.outputs_normed), spec_.hidden};
  logits_ = {take(layout.logits), spec_.vocab};
  upload(spec_.alibi_slopes, spec_.alibi_slopes.size(), alibi_);
  stream_->synchronize();
}

Rows Sweep::run(std::span<const SequenceChunk> chunks, std::optional<offload::SweepSections> next,
                const HiddenHook& hidden) {
  const Batch batch(spec_, chunks);
  const Rows logits = run_once(batch, next, hidden);
  for (std::size_t i = 0; i < batch.output_rows.size(); ++i) {
    if (!all_finite(logits.data + i * logits.stride, spec_.vocab)) {
      report_nonfinite(batch, batch.output_rows[i]);
    }
  }
  return logits;
}

std::unique_ptr<Sweep::KernelSpan> Sweep::kernel_span(std::string name) const {
  if (trace_ == nullptr) return nullptr;
  return std::make_unique<KernelSpan>(*trace_, std::move(name));
}

// A second sweep over the same chunks computes the same bits and looks at each layer's output, so
// that ordinary sweeps need not.
void Sweep::report_nonfinite(const Batch& batch, std::size_t row) {
  std::optional<std::size_t> first;
  run_once(batch, std::nullopt, [&](std::size_t index, ConstRows rows, std::uint64_t) {
    // The hook's last call has output rows only; the layers before have the row itself.
    if (!first && index <= spec_.layers.size() &&
        !all_finite(rows.data + row * rows.stride, spec_.hidden)) {
      first = index;
    }
  });
  std::string where = "the output matrix";
  if (first) {
    where = *first == 0 ? "the embedding" : fmt::format("layer {}", *first - 1);
  }
  throw_error(ErrorKind::kModel,
              "{}: NaN or infinity in the logits after position {} (token {}), first seen in the "
              "output of {}; the weights are damaged or were narrowed to a type that cannot hold "
              "them",
              model_.path, batch.positions[row], batch.token_ids[row], where);
}

Rows Sweep::run_once(const Batch& fixed, std::optional<offload::SweepSections> next,
                     const HiddenHook& hidden) {
  Batch batch = fixed;
  TM_CHECK(batch.tokens <= plan_.workspace.tokens, "{} rows in a sweep of {}", batch.tokens,
           plan_.workspace.tokens);
  TM_CHECK(batch.output_rows.size() <= plan_.workspace.outputs, "{} output rows of {}",
           batch.output_rows.size(), plan_.workspace.outputs);
  const bool wants_head = !batch.output_rows.empty();
  weights_.begin_sweep({.head = wants_head}, next);
  try {
    embed(batch);
    if (hidden) {
      stream_->synchronize();
      hidden(0, as_const(residual_), batch.tokens);
    }
    for (std::size_t i = 0; i < model_.weights.layers.size(); ++i) {
      const BoundLayer& layer = model_.weights.layers[i];
      batch.use_layer(i);
      load_vectors(layer.vectors);
      {
        const auto span = kernel_span(fmt::format("layer {} attention", i));
        attention(layer, i, batch);
      }
      {
        const auto span = kernel_span(fmt::format("layer {} mlp", i));
        mlp(layer, batch);
      }
      if (hidden) {
        stream_->synchronize();
        hidden(i + 1, as_const(residual_), batch.tokens);
      }
      if (on_layer_) on_layer_(i + 1, model_.weights.layers.size());
    }
    if (wants_head) head(batch, hidden);
    weights_.end_sweep();
  } catch (...) {
    weights_.abandon_sweep();
    throw;
  }
  stream_->synchronize();
  return logits_;
}

void Sweep::embed(const Batch& batch) {
  const auto span = kernel_span("embedding");
  const std::uint64_t h = spec_.hidden;
  gather_tokens_.gather(batch.token_ids, *stream_, residual_);
  if (gather_positions_ != nullptr) {
    gather_positions_->gather(batch.positions, *stream_, normed_);
    ops_.add(*stream_, as_const(normed_), residual_, batch.tokens, h);
  }
  if (model_.weights.embedding_norm) {
    load_vectors(model_.weights.embedding_vectors);
    norm(*model_.weights.embedding_norm, as_const(residual_), residual_, batch.tokens, h);
  }
  if (spec_.rotary) fill_rotary(batch);
}

void Sweep::fill_rotary(const Batch& batch) {
  const RotaryConfig& rotary = *spec_.rotary;
  rotary_sent_->wait_on_host();  // a sweep that failed may have left its rows on their way
  std::vector<float> frequencies = inverse_frequencies(rotary, 0);
  std::uint64_t row = 0;
  for (const SequenceChunk& chunk : batch.chunks) {
    for (std::uint64_t i = 0; i < chunk.tokens.size(); ++i, ++row) {
      const std::uint64_t position = chunk.position + i;
      if (depends_on_length(rotary)) {
        frequencies = inverse_frequencies(rotary, std::max(chunk.prompt_length, position + 1));
      }
      rotary_row(rotary, frequencies, position, rotary_host_.data() + row * rotary.dims);
    }
  }
  upload(rotary_host_, row * rotary.dims, rotary_);
  stream_->record(*rotary_sent_);
}

void Sweep::upload(const std::vector<float>& host, std::uint64_t floats, float* device) {
  stream_->upload(host.data(), reinterpret_cast<std::byte*>(device), floats * sizeof(float));
}

void Sweep::attention(const BoundLayer& layer, std::size_t index, const Batch& batch) {
  const std::uint64_t h = spec_.hidden;
  const std::uint64_t tokens = batch.tokens;
  const LayerSpec& spec = spec_.layers[index];
  const kernels::AttentionShape& shape = spec_.attention;
  norm(layer.attention_norm, as_const(residual_), normed_, tokens, h);
  if (spec_.residual_after_norm) ops_.copy(*stream_, as_const(normed_), residual_, tokens, h);

  const Rows qkv{wide_, spec_.qkv_width};
  std::uint64_t column = 0;
  for (const BoundLinear& projection : layer.qkv) {
    linear(projection, as_const(normed_), {qkv.data + column, qkv.stride}, tokens);
    column += projection.out;
  }
  const kernels::QkvLayout& at = spec_.qkv_layout;
  if (layer.q_norm) {
    ops_.head_rms_norm(*stream_, qkv, at.q_offset, at.q_head_stride, shape.heads, shape.head_dim,
                       constant(layer.q_norm->weight), layer.q_norm->eps, tokens);
  }
  if (layer.k_norm) {
    ops_.head_rms_norm(*stream_, qkv, at.k_offset, at.k_head_stride, shape.kv_heads, shape.head_dim,
                       constant(layer.k_norm->weight), layer.k_norm->eps, tokens);
  }
  if (spec_.rotary) {
    const std::uint32_t dims = spec_.rotary->dims;
    const ConstRows cos_sin{rotary_, dims};
    ops_.rotary(*stream_, qkv, at.q_offset, at.q_head_stride, shape.heads, dims, cos_sin, tokens);
    ops_.rotary(*stream_, qkv, at.k_offset, at.k_head_stride, shape.kv_heads, dims, cos_sin,
                tokens);
  }
  ops_.kv_append(*stream_, as_const(qkv), at, shape, batch.sequences);
  const std::uint64_t attended = std::uint64_t{shape.heads} * shape.head_dim;
  const Rows out{wide_ + tokens * spec_.qkv_width, attended};
  ops_.attention(*stream_, {.qkv = as_const(qkv),
                            .layout = at,
                            .shape = shape,
                            .sequences = batch.sequences,
                            .scale = spec.attention_scale,
                            .alibi_slopes = spec_.alibi_slopes.empty() ? nullptr : alibi_,
                            .window = spec.window,
                            .out = out});
  linear(layer.attention_out, as_const(out), normed_, tokens);
  ops_.add(*stream_, as_const(normed_), residual_, tokens, h);
}

void Sweep::mlp(const BoundLayer& layer, const Batch& batch) {
  const std::uint64_t h = spec_.hidden;
  const std::uint64_t tokens = batch.tokens;
  norm(layer.mlp_norm, as_const(residual_), normed_, tokens, h);
  if (spec_.residual_after_norm) ops_.copy(*stream_, as_const(normed_), residual_, tokens, h);
  const Rows inner{wide_, spec_.ffn};
  if (layer.gate) {
    const Rows up{wide_ + tokens * spec_.ffn, spec_.ffn};
    linear(*layer.gate, as_const(normed_), inner, tokens);
    linear(layer.up, as_const(normed_), up, tokens);
    ops_.activate_gated(*stream_, spec_.activation, as_const(up), inner, tokens, spec_.ffn);
  } else {
    linear(layer.up, as_const(normed_), inner, tokens);
    ops_.activate(*stream_, spec_.activation, inner, tokens, spec_.ffn);
  }
  linear(layer.down, as_const(inner), normed_, tokens);
  ops_.add(*stream_, as_const(normed_), residual_, tokens, h);
}

void Sweep::head(const Batch& batch, const HiddenHook& hidden) {
  const std::uint64_t outputs = batch.output_rows.size();
  const auto span = kernel_span("head");
  load_vectors(model_.weights.final_vectors);
  ops_.select_rows(*stream_, as_const(residual_), batch.output_rows, outputs_normed_, spec_.hidden);
  norm(model_.weights.final_norm, as_const(outputs_normed_), outputs_normed_, outputs,
       spec_.hidden);
  if (hidden) {
    stream_->synchronize();
    hidden(spec_.layers.size() + 1, as_const(outputs_normed_), outputs);
  }
  linear(model_.weights.head, as_const(outputs_normed_), logits_, outputs);
}

void Sweep::load_vectors(const std::vector<BoundVector>& vectors) {
  for (const BoundVector& vector : vectors) {
    weights_.for_each_slice(vector.use, *stream_, [&](const offload::SliceView& view) {
      const kernels::WeightRows rows{.data = view.data,
                                     .dtype = view.tensor->dtype,
                                     .rows = view.row_end - view.row_begin,
                                     .cols = 1};
      ops_.convert(*stream_, rows, constants_ + vector.offset + view.row_begin);
    });
  }
}

void Sweep::linear(const BoundLinear& linear, ConstRows x, Rows y, std::uint64_t tokens) {
  if (linear.transposed) ops_.zero(*stream_, y, tokens, linear.out);
  weights_.for_each_slice(linear.use, *stream_, [&](const offload::SliceView& view) {
    const kernels::WeightRows rows{.data = view.data,
                                   .dtype = view.tensor->dtype,
                                   .rows = view.row_end - view.row_begin,
                                   .cols = linear.transposed ? linear.out : linear.in};
    if (linear.transposed) {
      // Rows of the file are the reduced dimension: each piece adds its share, in order.
      ops_.matmul_transposed_accumulate(*stream_, {x.data + view.row_begin, x.stride}, rows, y,
                                        tokens);
    } else {
      ops_.matmul(*stream_, x, rows, {y.data + view.row_begin, y.stride}, tokens);
    }
  });
  if (linear.bias) ops_.add_bias(*stream_, constant(*linear.bias), y, tokens, linear.out);
}

void Sweep::norm(const BoundNorm& norm, ConstRows x, Rows y, std::uint64_t tokens,
                 std::uint64_t cols) {
  if (norm.kind == NormSpec::Kind::kLayerNorm) {
    ops_.layer_norm(*stream_, x, constant(norm.weight), constant(*norm.bias), norm.eps, y, tokens,
                    cols);
  } else {
    ops_.rms_norm(*stream_, x, constant(norm.weight), norm.eps, y, tokens, cols);
  }
}

}  // namespace tidemill::engine
