// Bounds on what input files may ask for. Far above what any published model has, far below what
// would hurt.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tidemill::io {

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  ///< safetensors' own limit
inline constexpr std::size_t kMaxTensors = 1U << 20;
inline constexpr std::size_t kMaxNameBytes = 512;
inline constexpr std::size_t kMaxDims = 8;
inline constexpr std::size_t kMaxMetadataEntries = 1U << 16;
inline constexpr std::size_t kMaxMetadataBytes = 16U << 20;
inline constexpr std::uint64_t kMaxIndexBytes = 64ULL << 20;
inline constexpr std::size_t kMaxShards = 10'000;
inline constexpr std::size_t kMaxShardNameBytes = 255;
inline constexpr std::size_t kMaxJsonDepth = 16;

}  // namespace tidemill::io
