// How kernels are launched and how they get shared memory. Kernel sources use nothing else for
// this, so that a host build can execute them (TIDEMILL_CUDA_STANDIN: blocks of fibers).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/cuda/error.h"

#ifdef TIDEMILL_CUDA_STANDIN
#include <standin.h>

#include <tuple>
#endif

namespace tidemill::kernels::cuda {

/// Shared memory that a kernel has without asking for more.
inline constexpr std::size_t kPlainSharedBytes = 48 * 1024;

/// Queues `kernel` on `stream`. The arguments are copied now. Throws Error(kDevice) if CUDA
/// refuses the launch; what happens while it runs is reported by a later call.
template <typename... Parameters, typename... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            std::size_t shared_bytes, cudaStream_t stream, const Arguments&... arguments) {
#ifdef TIDEMILL_CUDA_STANDIN
  const std::tuple<Parameters...> copied(static_cast<Parameters>(arguments)...);
  standin::launch(name, grid, block, shared_bytes, stream,
                  [kernel, copied] { std::apply(kernel, copied); });
#else
  if (shared_bytes > kPlainSharedBytes) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          name);
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), name);
#endif
}

}  // namespace tidemill::kernels::cuda

/// TM_LAUNCH(kernel, grid, block, shared_bytes, stream, arguments...). A kernel with several
/// template arguments stands in parentheses.
#define TM_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                 \
  ::tidemill::kernels::cuda::launch(#kernel, (kernel), (grid), (block), (shared_bytes), (stream), \
                                    __VA_ARGS__)

#ifdef TIDEMILL_CUDA_STANDIN

/// TM_SHARED(float, tile, [32][33]): an array that the threads of a block share, undefined at
/// first.
#define TM_SHARED(type, name, dimensions)           \
  typedef type name##_array dimensions;             \
  static const char name##_site = 0;                \
  name##_array& name = *static_cast<name##_array*>( \
      standin::static_shared(&name##_site, sizeof(name##_array), alignof(name##_array)))

/// TM_DYNAMIC_SHARED(float, name): pointer to the `shared_bytes` of the launch, aligned to 16.
#define TM_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(standin::dynamic_shared())

/// Type qualifiers of a parameter that is indexed in place instead of being copied per thread.
#define TM_IN_PLACE const

#else

#define TM_SHARED(type, name, dimensions) __shared__ type name dimensions
#define TM_DYNAMIC_SHARED(type, name)                                      \
  extern __shared__ __align__(16) unsigned char tidemill_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(tidemill_dynamic_shared)
#define TM_IN_PLACE const __grid_constant__

#endif
