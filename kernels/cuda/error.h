// CUDA status codes become errors here.
#pragma once

#include <cuda_runtime.h>

namespace tidemill::kernels::cuda {

/// Throws Error(kDevice) "cuda: <what>: <CUDA's message>" unless `status` is success. A failed
/// device stays failed: CUDA returns its first error from every later call.
void check(cudaError_t status, const char* what);

}  // namespace tidemill::kernels::cuda
