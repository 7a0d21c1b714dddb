// Which instruction sets the kernels are compiled for. Include this before any Highway header.
#pragma once

// AVX-512 and AVX2 cover the x86 servers of the last decade; every further target would add its
// share to the compile time. Anything else runs the one-lane fallback, which gives the same bits.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
// One fallback for both compilers (Highway's 128-bit emulation is broken on g++ before 12.3).
#define HWY_BROKEN_EMU128 1
