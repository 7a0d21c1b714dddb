// How fast a model's own files can be read.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "engine/model.h"
#include "io/reader.h"

namespace tidemill::tools {

struct ReadSpeed {
  double bytes_per_second = 0;
  std::uint64_t bytes = 0;  ///< how much was read to know
  bool direct = false;      ///< past the page cache; otherwise the figure may be the cache's
  std::string engine;
};

/// Reads large pieces of the model's largest file, over and over, for about `duration`.
ReadSpeed measure_read_speed(const engine::Model& model, io::ReaderEngine engine,
                             const io::ReaderOptions& options, std::chrono::milliseconds duration);

}  // namespace tidemill::tools
