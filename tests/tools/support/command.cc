#include "tests/tools/support/command.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "tests/support/checkpoint_dir.h"

extern char** environ;

namespace tidemill::tools::testing {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

Outcome run(const std::vector<std::string>& command) {
  const tidemill::testing::TemporaryDirectory directory;
  const std::string out = directory.path() / "out";
  const std::string err = directory.path() / "err";
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t child = 0;
  const int error = posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot run " + command[0]);
  int status = 0;
  if (waitpid(child, &status, 0) != child) throw std::runtime_error("waitpid");
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text_of(out),
          text_of(err)};
}

Outcome tidemill(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program());
  return run(arguments);
}

std::string program() { return std::string(TIDEMILL_BINARY_DIR) + "/tidemill"; }

std::string bundled_model() { return std::string(TIDEMILL_SOURCE_DIR) + "/models/tidemill-kjv"; }

std::string fixture(const std::string& name) {
  return std::string(TIDEMILL_SOURCE_DIR) + "/tests/fixtures/models/" + name;
}

}  // namespace tidemill::tools::testing
