// Ctrl-C.
#pragma once

namespace tidemill::tools {

/// The exit status of a program that SIGINT ended.
inline constexpr int kInterruptedStatus = 130;

/// Thrown by check_interrupt(). Not a std::exception: it is nobody's error.
struct Interrupted {};

/// From here on SIGINT and SIGTERM ask for an orderly end. A second signal, or 3 seconds in which
/// nobody called check_interrupt(), end the process at once.
void catch_interrupts();

/// Throws Interrupted if an end was asked for.
void check_interrupt();

}  // namespace tidemill::tools
