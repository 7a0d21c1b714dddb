// Checkpoints with random weights, from a configuration alone: for benchmarks at any size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "io/base/dtype.h"

namespace tidemill::engine {

struct SynthOptions {
  std::optional<std::uint32_t> layers = {};  ///< instead of the configuration's
  std::optional<DType> dtype = {};           ///< F32, F16, BF16; else the configuration's, else F16
  std::uint64_t seed = 0;
  std::uint64_t max_shard_bytes = 5'000'000'000;  ///< a larger tensor has a shard of its own
  unsigned threads = 0;                           ///< 0: one per core
};

struct SynthReport {
  std::uint64_t tensors = 0;
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;  ///< of weights
  std::uint64_t files = 0;  ///< that hold them
  DType dtype = DType::kF16;
};

/// Called after each block that was written. What it throws ends the work.
using SynthProgress = std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>;

/// Writes config.json and safetensors files that Hugging Face transformers loads, in the usual
/// initialisation: matrices and embeddings from a normal distribution with the configuration's
/// initializer_range (0.02), those that write to the residual stream narrower by 1/sqrt(2 layers);
/// norms 1, biases 0.
///
/// Values are drawn from a table of 65536 quantiles, rounded to the type beforehand, by a hash of
/// seed, tensor and place. So they are the same whatever the number of threads, and are made faster
/// than a drive takes them.
///
/// Error(kUsage) if `out` exists and is not an empty directory. Nothing is left behind by a call
/// that fails. Memory: about 70 MB.
SynthReport synthesize(const std::filesystem::path& config, const std::filesystem::path& out,
                       const SynthOptions& options, const SynthProgress& progress = {});

}  // namespace tidemill::engine
