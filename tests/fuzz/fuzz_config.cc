// Any bytes as a config.json: a specification or an Error, nothing else.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "engine/model_spec.h"
#include "engine/weights.h"
#include "io/base/error.h"
#include "io/json_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const nlohmann::json json =
        tidemill::io::parse_json({reinterpret_cast<const char*>(data), size}, "config.json");
    // A bound on the work of one input, not on what is accepted: a layer costs some names.
    for (const char* key : {"n_layer", "num_hidden_layers"}) {
      if (json.is_object() && json.contains(key) && json[key].is_number() && json[key] > 64) {
        return 0;
      }
    }
    const auto spec =
        tidemill::engine::make_model_spec(tidemill::engine::ConfigReader(json, "config.json"));
    tidemill::engine::expected_tensors(spec);
    if (spec.rotary && spec.rotary->dims < 4096) {
      tidemill::engine::inverse_frequencies(*spec.rotary, 100);
    }
  } catch (const tidemill::Error&) {
  }
  return 0;
}
