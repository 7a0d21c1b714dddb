// Binds the names of a model specification to the tensors of a checkpoint, strictly: nothing is
// missing, nothing is left over, every shape is what the configuration says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/model_spec.h"
#include "io/checkpoint.h"
#include "offload/tape.h"

namespace tidemill::engine {

/// A small vector (bias, norm weight) that is converted to fp32 when its turn on the tape comes;
/// `offset` is its place in the constants area, in floats.
struct BoundVector {
  offload::UseId use{};
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

struct BoundNorm {
  NormSpec::Kind kind = NormSpec::Kind::kLayerNorm;
  float eps = 0.0f;
  BoundVector weight;
  std::optional<BoundVector> bias;
};

struct BoundLinear {
  offload::UseId use{};
  std::uint64_t out = 0, in = 0;
  bool transposed = false;
  std::optional<BoundVector> bias;
};

struct BoundLayer {
  BoundNorm attention_norm;
  std::vector<BoundLinear> qkv;
  std::optional<BoundNorm> q_norm, k_norm;
  BoundLinear attention_out;
  BoundNorm mlp_norm;
  std::optional<BoundLinear> gate;
  BoundLinear up, down;
  std::vector<BoundVector> vectors;  ///< all of the layer's, in the order of the tape
};

/// The tape order of a model and where each part of the sweep finds its weights on it.
struct BoundModel {
  offload::TapeOrder order;
  const io::TensorInfo* token_embedding = nullptr;
  const io::TensorInfo* position_embedding = nullptr;  ///< or null
  std::optional<BoundNorm> embedding_norm;
  std::vector<BoundVector> embedding_vectors;
  std::vector<BoundLayer> layers;
  BoundNorm final_norm;
  std::vector<BoundVector> final_vectors;
  BoundLinear head;
  bool head_tied = false;              ///< the head is the token embedding
  std::uint64_t constants_floats = 0;  ///< size of the constants area
  std::vector<std::string> notices;    ///< one line each, worth telling the user once
};

/// Error(kModel) that names the first missing, unexpected or misshapen tensor. The result points
/// into `checkpoint`.
BoundModel bind_weights(const ModelSpec& spec, const io::Checkpoint& checkpoint);

/// Every tensor that the model needs, with its shape as it is stored (for `synth`).
struct NamedShape {
  std::string name;
  std::vector<std::uint64_t> shape;
  enum class Role { kEmbedding, kMatrix, kNormWeight, kBias } role = Role::kMatrix;
};
std::vector<NamedShape> expected_tensors(const ModelSpec& spec);

}  // namespace tidemill::engine
