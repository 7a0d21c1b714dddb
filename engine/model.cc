#include "engine/model.h"

#include <filesystem>

#include "io/base/error.h"

namespace tidemill::engine {

Model Model::open(const std::string& directory, io::DirectIo direct) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) {
    throw Error(ErrorKind::kModel,
                fmt::format("{}: not a directory; give the folder that holds config.json and the "
                            "safetensors files",
                            printable(directory)),
                {.path = directory, .error_number = error.value()});
  }
  Model model;
  model.path = directory;
  model.spec = load_model_spec(directory);
  model.checkpoint = io::Checkpoint::open(directory, direct);
  model.weights = bind_weights(model.spec, model.checkpoint);
  return model;
}

}  // namespace tidemill::engine
