#include "kernels/cpu/matmul.h"

#include "kernels/cpu/hwy_config.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/matmul-inl.h"
#include "kernels/cpu/matmul_transposed-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidemill::kernels::cpu {
namespace HWY_NAMESPACE {

const MatmulKernels kMatmulKernels = {.token_tile = kTokenTile,
                                      .row_tile = kRowTile,
                                      .pack = pack_tokens,
                                      .multiply = multiply,
                                      .accumulate_transposed = accumulate_transposed};

}  // namespace HWY_NAMESPACE
}  // namespace tidemill::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/dispatch-inl.h"
namespace tidemill::kernels::cpu {

const MatmulKernels& matmul_kernels(CpuTarget target) {
  return *TIDEMILL_CPU_DISPATCH(target, kMatmulKernels);
}

}  // namespace tidemill::kernels::cpu
#endif  // HWY_ONCE
