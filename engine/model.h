// A checkpoint directory that has been opened and understood; nothing of its weights is loaded.
#pragma once

#include <string>

#include "engine/model_spec.h"
#include "engine/weights.h"
#include "io/checkpoint.h"

namespace tidemill::engine {

/// Immutable. Sessions keep references to it.
struct Model {
  std::string path;
  ModelSpec spec;
  io::Checkpoint checkpoint;
  BoundModel weights;

  /// Error(kModel) for anything that is not a complete, consistent checkpoint.
  static Model open(const std::string& directory, io::DirectIo direct = io::DirectIo::kAuto);

  Model(Model&&) = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

 private:
  Model() = default;
};

}  // namespace tidemill::engine
