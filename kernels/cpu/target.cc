#include "kernels/cpu/target.h"

#include "kernels/cpu/hwy_config.h"

#include <hwy/highway.h>

#include <algorithm>
#include <cstdlib>

#include "io/base/error.h"

namespace tidemill::kernels::cpu {

CpuTarget supported_target(CpuTarget limit) {
  const auto supported = hwy::SupportedTargets();
  CpuTarget best = CpuTarget::kBaseline;
  if ((supported & HWY_AVX2) != 0) best = CpuTarget::kAvx2;
  if ((supported & HWY_AVX3) != 0) best = CpuTarget::kAvx512;
  return std::min(best, limit);
}

CpuTarget limit_from_environment(CpuTarget limit) {
  const char* value = std::getenv("TIDEMILL_CPU_TARGET");
  if (value == nullptr || *value == '\0') return limit;
  const std::string_view name = value;
  if (name == "baseline") return CpuTarget::kBaseline;
  if (name == "avx2") return std::min(limit, CpuTarget::kAvx2);
  if (name == "avx512") return limit;
  throw_error(ErrorKind::kUsage, "TIDEMILL_CPU_TARGET is '{}': use baseline, avx2 or avx512",
              printable(name));
}

std::string_view to_string(CpuTarget target) {
  switch (target) {
    case CpuTarget::kBaseline:
      return "baseline";
    case CpuTarget::kAvx2:
      return "AVX2";
    case CpuTarget::kAvx512:
      return "AVX-512";
  }
  return "?";
}

}  // namespace tidemill::kernels::cpu
