// Runs the built `tidemill` as a user would.
#pragma once

#include <string>
#include <vector>

namespace tidemill::tools::testing {

struct Outcome {
  int status = -1;  ///< exit code, or 128 + signal
  std::string out, err;
};

/// `program` and its arguments; standard input is empty.
Outcome run(const std::vector<std::string>& command);

/// Path of the built `tidemill`.
std::string program();

/// The same with `tidemill` in front.
Outcome tidemill(std::vector<std::string> arguments);

std::string bundled_model();
std::string fixture(const std::string& name);

}  // namespace tidemill::tools::testing
