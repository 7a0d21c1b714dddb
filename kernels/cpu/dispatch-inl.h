// Chooses between the copies of a function that foreach_target.h compiled. Unlike Highway's own
// dispatch this takes the target as a value, so that two devices in one process may differ.
// Use it inside `#if HWY_ONCE`, in namespace tidemill::kernels::cpu.

#if (HWY_TARGETS & HWY_AVX3) != 0 && HWY_STATIC_TARGET != HWY_AVX3
#define TIDEMILL_AVX512_COPY(function) N_AVX3::function
#else
#define TIDEMILL_AVX512_COPY(function) HWY_STATIC_DISPATCH(function)
#endif

#if (HWY_TARGETS & HWY_AVX2) != 0 && HWY_STATIC_TARGET != HWY_AVX2
#define TIDEMILL_AVX2_COPY(function) N_AVX2::function
#else
#define TIDEMILL_AVX2_COPY(function) HWY_STATIC_DISPATCH(function)
#endif

/// function is the unqualified name of a function in namespace tidemill::kernels::cpu::N_<TARGET>.
#define TIDEMILL_CPU_DISPATCH(target, function)                     \
  ((target) == CpuTarget::kAvx512 ? &TIDEMILL_AVX512_COPY(function) \
   : (target) == CpuTarget::kAvx2 ? &TIDEMILL_AVX2_COPY(function)   \
                                  : &HWY_STATIC_DISPATCH(function))
