// Threads that only move bytes.
#pragma once

#include <functional>
#include <thread>

namespace tidemill::io {

/// Starts a thread that takes no signals, so that Ctrl-C interrupts the program and not a read.
/// Error(kIo) if the system has no thread to give.
std::thread start_io_thread(std::function<void()> work);

}  // namespace tidemill::io
