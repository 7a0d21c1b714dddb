#include "kernels/cpu/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "io/base/checked.h"
#include "io/base/units.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TIDEMILL_POISON_MEMORY 1
#endif
#endif
#if !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TIDEMILL_POISON_MEMORY 1
#endif

namespace tidemill::kernels::cpu {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = 2 * kMiB;

[[noreturn]] void out_of_memory(std::size_t bytes, int error) {
  throw Error(ErrorKind::kBudget,
              fmt::format("cannot allocate {} of memory: {}; use a smaller budget",
                          format_bytes(bytes), std::strerror(error)),
              {.path = {}, .offset = {}, .error_number = error});
}

}  // namespace

Buffer allocate_pages(std::size_t bytes) {
  if (bytes == 0) return {};
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kPage;
  if (bytes > SIZE_MAX / 2) out_of_memory(bytes, ENOMEM);
  const std::size_t size = align_up(bytes, kPage);
  // Take enough to find an aligned start inside and give the rest back.
  const std::size_t mapped = size + (alignment - kPage);
  void* const base =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) out_of_memory(bytes, errno);
  auto* const first = static_cast<std::byte*>(base);
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  const std::size_t before = align_up(address, alignment) - address;
  const std::size_t after = mapped - before - size;
  std::byte* const data = first + before;
  if (before != 0) munmap(first, before);
  if (after != 0) munmap(data + size, after);
  if (alignment == kHugePage) madvise(data, size, MADV_HUGEPAGE);  // advice: may be refused
#ifdef TIDEMILL_POISON_MEMORY
  std::memset(data, 0xFF, size);
#endif
  return {data, bytes, [size](std::byte* pages) { munmap(pages, size); }};
}

}  // namespace tidemill::kernels::cpu
