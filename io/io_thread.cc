#include "io/io_thread.h"

#include <csignal>
#include <system_error>
#include <utility>

#include "io/base/error.h"

namespace tidemill::io {

std::thread start_io_thread(std::function<void()> work) {
  // The new thread inherits the mask; blocking first leaves no moment in which it takes a signal.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  std::optional<Error> failure;
  try {
    thread = std::thread(std::move(work));
  } catch (const std::system_error& error) {
    failure.emplace(ErrorKind::kIo, fmt::format("cannot start a thread: {}", error.what()),
                    ErrorContext{{}, {}, error.code().value()});
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failure) throw Error(*failure);
  return thread;
}

}  // namespace tidemill::io
