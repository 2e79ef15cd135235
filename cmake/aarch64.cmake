# Toolchain of the preset `neon`: cross-compiles for 64-bit Arm with Debian's g++-aarch64-linux-gnu and
# runs tests under qemu-user, so that kernels for NEON are tested on other machines.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)  # GoogleTest's project asks for C
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
# The linker and the libraries are those of the cross compiler; packages that are headers alone are
# the machine's.
set(THINWIRE_MOLD OFF CACHE BOOL "no mold for this target")
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
