// The instruction sets that the kernels are compiled for, and which of them a device uses.
#pragma once

#include <string_view>

#include "kernels/device.h"

namespace tidemill::kernels::cpu {

/// The best target that this processor has, at most `limit`.
CpuTarget supported_target(CpuTarget limit);

/// The limit that the environment variable TIDEMILL_CPU_TARGET (baseline, avx2, avx512) sets, or
/// `limit` if that is lower or the variable is unset. Error(kUsage) for any other value.
CpuTarget limit_from_environment(CpuTarget limit);

/// "AVX-512", "AVX2", "baseline".
std::string_view to_string(CpuTarget target);

}  // namespace tidemill::kernels::cpu
