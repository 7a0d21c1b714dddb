// Memory of the CPU device.
#pragma once

#include <cstddef>

#include "kernels/device.h"

namespace tidemill::kernels::cpu {

/// Pages of our own, zeroed by the kernel or poisoned (see Device::allocate). From 2 MiB up they
/// are aligned to 2 MiB and huge pages are asked for. Error(kBudget) if there are none.
Buffer allocate_pages(std::size_t bytes);

}  // namespace tidemill::kernels::cpu
