#include "engine/weights.h"

#include <algorithm>
#include <unordered_set>

#include "io/base/error.h"

namespace tidemill::engine {
namespace {

using offload::Section;

// Finds tensors with or without the base-model prefix and keeps account of what was used.
class Binder {
 public:
  Binder(const ModelSpec& spec, const io::Checkpoint& checkpoint)
      : spec_(spec), checkpoint_(checkpoint) {}

  const io::TensorInfo* find(const std::string& name) {
    const io::TensorInfo* plain = checkpoint_.find(name);
    const io::TensorInfo* prefixed = checkpoint_.find(spec_.prefix + name);
    if (plain != nullptr && prefixed != nullptr) {
      throw_error(ErrorKind::kModel, "{}: both \"{}\" and \"{}\" are present; keep one of them",
                  checkpoint_.path().string(), name, spec_.prefix + name);
    }
    const io::TensorInfo* found = plain != nullptr ? plain : prefixed;
    if (found != nullptr) used_.insert(found->name);
    return found;
  }

  const io::TensorInfo& require(const std::string& name, const std::vector<std::uint64_t>& shape) {
    const io::TensorInfo* tensor = find(name);
    if (tensor == nullptr) {
      throw_error(ErrorKind::kModel,
                  "{}: tensor \"{}\" is missing (also looked for \"{}\"); the checkpoint is "
                  "incomplete or config.json belongs to another model",
                  checkpoint_.path().string(), name, spec_.prefix + name);
    }
    check(*tensor, shape);
    return *tensor;
  }

  void check(const io::TensorInfo& tensor, const std::vector<std::uint64_t>& shape) const {
    if (tensor.shape != shape) {
      throw Error(ErrorKind::kModel,
                  fmt::format("{}: tensor \"{}\" has shape {}, config.json asks for {}",
                              tensor.file->path(), printable(tensor.name),
                              io::shape_to_string(tensor.shape), io::shape_to_string(shape)),
                  {.path = tensor.file->path(), .offset = tensor.bytes.offset});
    }
    if (!is_weight_type(tensor.dtype)) {
      throw Error(ErrorKind::kModel,
                  fmt::format("{}: tensor \"{}\" has type {}; F32, F16 and BF16 are supported",
                              tensor.file->path(), printable(tensor.name), to_string(tensor.dtype)),
                  {.path = tensor.file->path(), .offset = tensor.bytes.offset});
    }
  }

  void refuse_leftovers() const {
    for (const io::TensorInfo& tensor : checkpoint_.tensors()) {
      if (used_.contains(tensor.name)) continue;
      std::string_view name = tensor.name;
      if (name.starts_with(spec_.prefix)) name.remove_prefix(spec_.prefix.size());
      if (spec_.ignorable != nullptr && spec_.ignorable(name)) continue;
      throw_error(ErrorKind::kModel,
                  "{}: unexpected tensor \"{}\" {}; the {} architecture described by config.json "
                  "has no use for it",
                  tensor.file->path(), printable(tensor.name), io::shape_to_string(tensor.shape),
                  spec_.architecture);
    }
  }

 private:
  const ModelSpec& spec_;
  const io::Checkpoint& checkpoint_;
  std::unordered_set<std::string> used_;
};

// Puts small vectors on the tape, ahead of the matrices of their layer. Their places in the
// constants area are reused from layer to layer.
class VectorPlacer {
 public:
  VectorPlacer(Binder& binder, offload::TapeOrder& order, Section section, std::uint64_t base)
      : binder_(binder), order_(order), section_(section), next_(base) {}

  BoundVector add(const std::string& name, std::uint64_t size) {
    const io::TensorInfo& tensor = binder_.require(name, {size});
    const BoundVector vector{order_.add(tensor, section_), next_, size};
    next_ += size;
    vectors_.push_back(vector);
    return vector;
  }

  BoundNorm norm(const NormSpec& spec) {
    BoundNorm norm{.kind = spec.kind,
                   .eps = spec.eps,
                   .weight = add(spec.weight, spec.size),
                   .bias = std::nullopt};
    if (!spec.bias.empty()) norm.bias = add(spec.bias, spec.size);
    return norm;
  }

  std::optional<BoundVector> bias(const LinearSpec& spec) {
    if (spec.bias.empty()) return std::nullopt;
    return add(spec.bias, spec.out);
  }

  std::uint64_t end() const { return next_; }
  std::vector<BoundVector> take() { return std::move(vectors_); }

 private:
  Binder& binder_;
  offload::TapeOrder& order_;
  Section section_;
  std::uint64_t next_;
  std::vector<BoundVector> vectors_;
};

std::vector<std::uint64_t> stored_shape(const LinearSpec& spec) {
  if (spec.transposed) return {spec.in, spec.out};
  return {spec.out, spec.in};
}

BoundLinear bind_linear(const LinearSpec& spec, Binder& binder, offload::TapeOrder& order,
                        Section section) {
  const io::TensorInfo& tensor = binder.require(spec.weight, stored_shape(spec));
  return {.use = order.add(tensor, section),
          .out = spec.out,
          .in = spec.in,
          .transposed = spec.transposed,
          .bias = std::nullopt};
}

BoundLayer bind_layer(const LayerSpec& spec, Binder& binder, BoundModel& model) {
  BoundLayer layer;
  VectorPlacer vectors(binder, model.order, Section::kBody, 0);
  layer.attention_norm = vectors.norm(spec.attention_norm);
  std::vector<std::optional<BoundVector>> qkv_bias;
  for (const LinearSpec& linear : spec.qkv) qkv_bias.push_back(vectors.bias(linear));
  if (spec.q_norm) layer.q_norm = vectors.norm(*spec.q_norm);
  if (spec.k_norm) layer.k_norm = vectors.norm(*spec.k_norm);
  const auto out_bias = vectors.bias(spec.attention_out);
  layer.mlp_norm = vectors.norm(spec.mlp_norm);
  const auto gate_bias = spec.gate ? vectors.bias(*spec.gate) : std::nullopt;
  const auto up_bias = vectors.bias(spec.up);
  const auto down_bias = vectors.bias(spec.down);
  model.constants_floats = std::max(model.constants_floats, vectors.end());
  layer.vectors = vectors.take();

  const auto linear = [&](const LinearSpec& s, std::optional<BoundVector> bias) {
    BoundLinear bound = bind_linear(s, binder, model.order, Section::kBody);
    bound.bias = bias;
    return bound;
  };
  for (std::size_t i = 0; i < spec.qkv.size(); ++i) {
    layer.qkv.push_back(linear(spec.qkv[i], qkv_bias[i]));
  }
  layer.attention_out = linear(spec.attention_out, out_bias);
  if (spec.gate) layer.gate = linear(*spec.gate, gate_bias);
  layer.up = linear(spec.up, up_bias);
  layer.down = linear(spec.down, down_bias);
  return layer;
}

void bind_head(const ModelSpec& spec, const io::Checkpoint& checkpoint, Binder& binder,
               BoundModel& model) {
  VectorPlacer vectors(binder, model.order, Section::kHead, 0);
  model.final_norm = vectors.norm(spec.final_norm);
  model.constants_floats = std::max(model.constants_floats, vectors.end());
  model.final_vectors = vectors.take();
  const io::TensorInfo* head = binder.find(spec.head);
  if (head != nullptr) {
    binder.check(*head, {spec.vocab, spec.hidden});
    if (spec.tie_head) {
      model.notices.push_back(fmt::format(
          "{}: config.json ties the output matrix to the embedding, yet \"{}\" is stored; the "
          "stored one is used",
          checkpoint.path().string(), printable(head->name)));
    }
  } else if (spec.tie_head) {
    head = model.token_embedding;
    model.head_tied = true;
  } else {
    throw_error(ErrorKind::kModel,
                "{}: tensor \"{}\" is missing and config.json says that it is not tied to the "
                "embedding (tie_word_embeddings false)",
                checkpoint.path().string(), spec.head);
  }
  model.head = {.use = model.order.add(*head, Section::kHead),
                .out = spec.vocab,
                .in = spec.hidden,
                .transposed = false,
                .bias = std::nullopt};
}

}  // namespace

BoundModel bind_weights(const ModelSpec& spec, const io::Checkpoint& checkpoint) {
  BoundModel model;
  Binder binder(spec, checkpoint);
  model.token_embedding = &binder.require(spec.token_embedding, {spec.vocab, spec.hidden});
  if (!spec.position_embedding.empty()) {
    model.position_embedding =
        &binder.require(spec.position_embedding, {spec.max_positions, spec.hidden});
  }
  if (spec.embedding_norm) {
    VectorPlacer vectors(binder, model.order, Section::kBody, 0);
    model.embedding_norm = vectors.norm(*spec.embedding_norm);
    model.constants_floats = vectors.end();
    model.embedding_vectors = vectors.take();
  }
  for (const LayerSpec& layer : spec.layers) {
    model.layers.push_back(bind_layer(layer, binder, model));
  }
  bind_head(spec, checkpoint, binder, model);
  binder.refuse_leftovers();
  return model;
}

std::vector<NamedShape> expected_tensors(const ModelSpec& spec) {
  using Role = NamedShape::Role;
  std::vector<NamedShape> out;
  const auto add = [&](const std::string& name, std::vector<std::uint64_t> shape, Role role) {
    out.push_back({spec.prefix + name, std::move(shape), role});
  };
  const auto norm = [&](const NormSpec& s) {
    add(s.weight, {s.size}, Role::kNormWeight);
    if (!s.bias.empty()) add(s.bias, {s.size}, Role::kBias);
  };
  const auto linear = [&](const LinearSpec& s) {
    add(s.weight, stored_shape(s), Role::kMatrix);
    if (!s.bias.empty()) add(s.bias, {s.out}, Role::kBias);
  };
  add(spec.token_embedding, {spec.vocab, spec.hidden}, Role::kEmbedding);
  if (!spec.position_embedding.empty()) {
    add(spec.position_embedding, {spec.max_positions, spec.hidden}, Role::kEmbedding);
  }
  if (spec.embedding_norm) norm(*spec.embedding_norm);
  for (const LayerSpec& layer : spec.layers) {
    norm(layer.attention_norm);
    for (const LinearSpec& s : layer.qkv) linear(s);
    if (layer.q_norm) norm(*layer.q_norm);
    if (layer.k_norm) norm(*layer.k_norm);
    linear(layer.attention_out);
    norm(layer.mlp_norm);
    if (layer.gate) linear(*layer.gate);
    linear(layer.up);
    linear(layer.down);
  }
  norm(spec.final_norm);
  // The output matrix stands outside of the base model and carries no prefix.
  if (!spec.tie_head) out.push_back({spec.head, {spec.vocab, spec.hidden}, Role::kMatrix});
  return out;
}

}  // namespace tidemill::engine
