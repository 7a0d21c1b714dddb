// Giving memory up on purpose: a read that the kernel neither completes nor cancels may still
// write to it, so it must never be used again.
#pragma once

#include <memory>

#if defined(__SANITIZE_ADDRESS__)
#define TIDEMILL_LEAK_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TIDEMILL_LEAK_SANITIZER 1
#endif
#endif
#if defined(TIDEMILL_LEAK_SANITIZER)
#include <sanitizer/lsan_interface.h>
#endif

namespace tidemill::offload {

/// Never frees `object`, nor what it owns, and tells LeakSanitizer that this is meant.
template <typename T>
void leak_on_purpose(std::unique_ptr<T> object) {
  [[maybe_unused]] const T* leaked = object.release();
#if defined(TIDEMILL_LEAK_SANITIZER)
  __lsan_ignore_object(leaked);
#endif
}

}  // namespace tidemill::offload
