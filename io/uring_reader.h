// The fast reader: one thread that owns an io_uring.
#pragma once

#include <memory>

#include "io/reader.h"

namespace tidemill::io {

/// Error(kIo) where the kernel has no io_uring, or does not let this process use it.
std::unique_ptr<Reader> make_uring_reader(const ReaderOptions& options);

}  // namespace tidemill::io
