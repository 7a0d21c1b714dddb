// The reader that works everywhere: a pool of threads that call pread.
#pragma once

#include <memory>

#include "io/reader.h"

namespace tidemill::io {

/// Error(kIo) if no thread can be started.
std::unique_ptr<Reader> make_thread_reader(const ReaderOptions& options);

}  // namespace tidemill::io
