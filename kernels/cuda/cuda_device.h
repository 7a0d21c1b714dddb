// The CUDA device, and what this machine and this build have of CUDA. Free of CUDA's headers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/device.h"

namespace tidemill::kernels {

/// A GPU as the driver describes it.
struct CudaDeviceInfo {
  int ordinal = 0;
  std::string name;       ///< "NVIDIA H100 80GB HBM3"
  int compute_major = 0;  ///< compute capability
  int compute_minor = 0;
  std::uint64_t memory_bytes = 0;  ///< in all
  std::uint64_t free_bytes = 0;    ///< at the moment
  int multiprocessors = 0;
  std::string pci_address;  ///< "0000:3b:00.0"
  /// Why this build cannot use it (too old for its kernels), or empty.
  std::string unusable;
};

struct CudaOptions {
  int ordinal = 0;  ///< as in list_cuda_devices()
};

class CudaDevice : public Device {
 public:
  virtual const CudaDeviceInfo& info() const = 0;
  /// How often the host has blocked on this device so far: waits on an event that was not
  /// complete, and Stream::synchronize().
  virtual std::uint64_t host_syncs() const = 0;
  /// False once allocate_host() had to fall back to memory that is not page-locked.
  virtual bool host_memory_is_pinned() const = 0;
};

/// Its memory is apart from the host's: shares_host_memory() is false. What Ops::gather() reads
/// may lie in device memory or in memory of allocate_host(). Operations may be submitted from any
/// thread. Error(kDevice) if there is no such device or it cannot be used.
std::unique_ptr<CudaDevice> make_cuda_device(const CudaOptions& options);

/// All GPUs that the driver shows; none if why_no_cuda() has a reason.
std::vector<CudaDeviceInfo> list_cuda_devices();

/// One line on why make_cuda_device() cannot succeed ("built without CUDA", "no NVIDIA driver",
/// ...), or nothing if there is a usable GPU.
std::optional<std::string> why_no_cuda();

/// "CUDA 13.0, kernels for sm_80, sm_90 and newer", or "built without CUDA".
std::string cuda_build_description();

}  // namespace tidemill::kernels
