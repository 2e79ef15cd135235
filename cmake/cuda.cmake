# Kernels for NVIDIA GPUs: a library beside thinwire_kernels, its test and its benchmark. Nothing else
# links it; a build without the option needs no CUDA.
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "THINWIRE_CUDA is ON, but CMake finds no nvcc: set CUDACXX to it, or leave the "
                      "option off")
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90)  # warps reduce maxima in one instruction from 80 on
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it from 12.0 on
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()
find_package(CUDAToolkit REQUIRED)

set(cuda_dir ${PROJECT_SOURCE_DIR}/thinwire/kernels/cuda)
add_library(thinwire_kernels_cuda STATIC ${cuda_dir}/quantize.cu)
target_link_libraries(thinwire_kernels_cuda PUBLIC thinwire_kernels CUDA::cudart_static)
# In place of the options of g++: element functions of base/ run on the device as they are, and no
# multiplication fuses with an addition.
set_property(TARGET thinwire_kernels_cuda PROPERTY COMPILE_OPTIONS
  --expt-relaxed-constexpr --fmad=false -Werror=all-warnings)

thinwire_test(kernels_quantize_cuda_test cuda ${cuda_dir}/quantize_cuda_test.cc thinwire_kernels_cuda)
add_executable(kernels_quantize_cuda_bench ${cuda_dir}/quantize_cuda_bench.cc)
target_link_libraries(kernels_quantize_cuda_bench PRIVATE thinwire_kernels_cuda)
