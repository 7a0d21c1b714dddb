// Copies from global to shared memory that go on while the thread computes (cp.async). A thread
// may read what it copied itself after async_wait(); other threads' copies need __syncthreads()
// behind that.
#pragma once

#ifdef TIDEMILL_CUDA_STANDIN
#include <standin.h>
#endif

namespace tidemill::kernels::cuda {

/// Starts to copy 16 bytes; both addresses are multiples of 16.
__device__ inline void async_copy_16(void* shared, const void* global) {
#ifdef TIDEMILL_CUDA_STANDIN
  standin::async_copy(shared, global, 16);
#else
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
#endif
}

/// Closes a group: the copies that this thread started since the last one.
__device__ inline void async_commit() {
#ifdef TIDEMILL_CUDA_STANDIN
  standin::async_commit();
#else
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until at most kPending of this thread's latest groups are still on their way.
template <int kPending>
__device__ inline void async_wait() {
#ifdef TIDEMILL_CUDA_STANDIN
  standin::async_wait(kPending);
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace tidemill::kernels::cuda
