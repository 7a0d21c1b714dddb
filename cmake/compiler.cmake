# Language level, warnings and sanitizers that every target of the project shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(tidemill_options INTERFACE)
target_include_directories(tidemill_options INTERFACE ${PROJECT_SOURCE_DIR})
# Bitwise reproducible arithmetic: the compiler may neither fuse nor reorder floating-point
# operations by itself; where a fused multiply-add is meant, the code says so.
target_compile_options(tidemill_options INTERFACE
  -Wall -Wextra -Wconversion -Werror -ffp-contract=off -fno-math-errno)
if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
  # -O2 is CMake's default here; line tables are enough for back traces and keep links short.
  target_compile_options(tidemill_options INTERFACE -g1)
endif()

if(TIDEMILL_SANITIZE)
  target_compile_options(tidemill_options INTERFACE
    -fsanitize=${TIDEMILL_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(tidemill_options INTERFACE -fsanitize=${TIDEMILL_SANITIZE})
  if(TIDEMILL_SANITIZE MATCHES "undefined")
    target_compile_options(tidemill_options INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()
if(TIDEMILL_FUZZ)
  target_compile_options(tidemill_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
