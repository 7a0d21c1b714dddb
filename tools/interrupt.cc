#include "tools/interrupt.h"

#include <unistd.h>
#include <csignal>

namespace tidemill::tools {
namespace {

constexpr unsigned kPatienceSeconds = 3;

// A signal handler has nothing but globals.
volatile std::sig_atomic_t asked = 0;

extern "C" void end_at_once(int) { _exit(kInterruptedStatus); }

extern "C" void ask_for_end(int) {
  if (asked != 0) _exit(kInterruptedStatus);
  asked = 1;
  // A sweep over a large model takes minutes, and nothing that it does needs to be undone.
  alarm(kPatienceSeconds);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void catch_interrupts() {
  handle(SIGALRM, end_at_once);
  handle(SIGINT, ask_for_end);
  handle(SIGTERM, ask_for_end);
}

void check_interrupt() {
  if (asked == 0) return;
  alarm(0);
  throw Interrupted{};
}

}  // namespace tidemill::tools
