// The tensor cores' 16 x 8 x 16 product with 16-bit inputs and fp32 accumulation. All lanes of a
// warp call together. With g = lane / 4 and c = lane % 4 a lane holds
//   A (16 x 16): a[0] = (g, 2c..2c+1)    a[1] = (g+8, 2c..2c+1)
//                a[2] = (g, 2c+8..2c+9)  a[3] = (g+8, 2c+8..2c+9)
//   B (16 x 8):  b[0] = (2c..2c+1, g)    b[1] = (2c+8..2c+9, g)
//   D (16 x 8):  d[0], d[1] = (g, 2c..2c+1)    d[2], d[3] = (g+8, 2c..2c+1)
// where two 16-bit numbers share a register, the lower index in the lower half. An element of D
// depends on its row of A and its column of B only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#ifdef TIDEMILL_CUDA_STANDIN
#include <standin_mma.h>
#endif

namespace tidemill::kernels::cuda {

/// d += a b, fp16
__device__ inline void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                    __half) {
#ifdef TIDEMILL_CUDA_STANDIN
  standin::mma_m16n8k16_f16(d, a, b);
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/// d += a b, bf16
__device__ inline void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                    __nv_bfloat16) {
#ifdef TIDEMILL_CUDA_STANDIN
  standin::mma_m16n8k16_bf16(d, a, b);
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

}  // namespace tidemill::kernels::cuda
