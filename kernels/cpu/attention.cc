#include "kernels/cpu/attention.h"

#include "io/base/checked.h"
#include "kernels/cpu/hwy_config.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tidemill::kernels::cpu {
namespace HWY_NAMESPACE {

const AttentionKernels kAttentionKernels = {.attend = attend};

}  // namespace HWY_NAMESPACE
}  // namespace tidemill::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/dispatch-inl.h"
namespace tidemill::kernels::cpu {

KvLayout::KvLayout(const AttentionShape& shape, std::uint64_t capacity)
    : value_row(align_up(shape.head_dim, 16)) {
  constexpr const char* kWhat = "size of the key-value cache";
  const std::uint64_t positions = align_up(checked_add(capacity, 15, kWhat) - 15, 16);
  key_head = checked_mul(positions, shape.head_dim, kWhat);
  value_head = checked_mul(capacity, value_row, kWhat);
  values = checked_mul(key_head, shape.kv_heads, kWhat);
  total = checked_add(values, checked_mul(value_head, shape.kv_heads, kWhat), kWhat);
}

std::uint64_t attention_scratch_floats(std::uint64_t positions) {
  return kQueryTile * align_up(positions, 16);
}

const AttentionKernels& attention_kernels(CpuTarget target) {
  return *TIDEMILL_CPU_DISPATCH(target, kAttentionKernels);
}

}  // namespace tidemill::kernels::cpu
#endif  // HWY_ONCE
