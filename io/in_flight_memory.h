// Tells the sanitizers about memory that the kernel writes to.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TIDEMILL_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define TIDEMILL_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TIDEMILL_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define TIDEMILL_TSAN 1
#endif

#if defined(TIDEMILL_ASAN)
#include <sanitizer/asan_interface.h>
#endif
#if defined(TIDEMILL_TSAN)
extern "C" void __tsan_write_range(void* address, unsigned long size);
#endif

namespace tidemill::io {

/// From here on until end_fill(), AddressSanitizer reports whoever touches the memory.
inline void begin_fill([[maybe_unused]] std::byte* memory, [[maybe_unused]] std::uint64_t bytes) {
#if defined(TIDEMILL_ASAN)
  ASAN_POISON_MEMORY_REGION(memory, bytes);
#endif
}

inline void end_fill([[maybe_unused]] std::byte* memory, [[maybe_unused]] std::uint64_t bytes) {
#if defined(TIDEMILL_ASAN)
  ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
#endif
}

/// The kernel has written these bytes. ThreadSanitizer cannot see that by itself; told so, it
/// reports those who read them without having waited for the operation.
inline void note_kernel_write([[maybe_unused]] std::byte* memory,
                              [[maybe_unused]] std::uint64_t bytes) {
#if defined(TIDEMILL_TSAN)
  __tsan_write_range(memory, bytes);
#endif
}

}  // namespace tidemill::io
