// Work in a child process: for what cannot be undone, such as limits, filters and crashes.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace tidemill::io {

/// Exit status of `work` in a forked child: 0 if it returned true, 1 if false, 2 if it threw, -1 if
/// a signal ended it. Call it while there is only one thread.
template <typename Work>
int status_of_child(Work&& work) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGABRT, SIG_DFL);  // the test framework would report it as its own
    int status = 2;
    try {
      status = work() ? 0 : 1;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    std::fflush(nullptr);
    std::_Exit(status);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return -2;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace tidemill::io
