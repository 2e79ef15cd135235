# Finds the PyTorch wheel of the private environment by asking its Python, and links its
# libraries directly: find_package(Torch) would bring flags and CUDA probing of its own.
if(THINWIRE_WHEEL)
  set(THINWIRE_PYTHON ${Python_EXECUTABLE})  # the one that builds the wheel says so
else()
  set(THINWIRE_PYTHON "${PROJECT_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH
      "Python whose torch package is linked")
endif()
execute_process(
  COMMAND ${THINWIRE_PYTHON} -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
  OUTPUT_VARIABLE THINWIRE_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE torch_missing)
if(torch_missing)
  message(FATAL_ERROR "no torch in ${THINWIRE_PYTHON}: run `make setup`, or configure with "
                      "-DTHINWIRE_PYTHON=<python with torch> or -DTHINWIRE_TORCH=OFF")
endif()

# ProcessGroupGloo.hpp, which only thinwire/launch includes, wants Gloo's headers, which the wheel does
# not carry: Debian's are used as headers only. The code is the one inside libtorch_cpu; a second Gloo
# is never linked.
if(NOT THINWIRE_WHEEL)
  find_path(THINWIRE_GLOO_HEADERS gloo/context.h)
  if(NOT THINWIRE_GLOO_HEADERS)
    message(FATAL_ERROR "no Gloo headers: install libgloo-dev, or configure with -DTHINWIRE_TORCH=OFF")
  endif()
  add_library(thinwire_gloo_headers INTERFACE)
  target_include_directories(thinwire_gloo_headers SYSTEM INTERFACE ${THINWIRE_GLOO_HEADERS})
  target_compile_definitions(thinwire_gloo_headers INTERFACE USE_C10D_GLOO)
endif()

add_library(thinwire_libtorch INTERFACE)
target_include_directories(thinwire_libtorch SYSTEM INTERFACE
  ${THINWIRE_TORCH_DIR}/include ${THINWIRE_TORCH_DIR}/include/torch/csrc/api/include)
# With per-operator headers a source pays for the operators it names, not for all 3000.
target_compile_definitions(thinwire_libtorch INTERFACE
  USE_DISTRIBUTED AT_PER_OPERATOR_HEADERS)
# at::parallel_for is a header; it must share torch's OpenMP runtime, never load a second one.
target_compile_options(thinwire_libtorch INTERFACE -fopenmp)
target_link_libraries(thinwire_libtorch INTERFACE
  ${THINWIRE_TORCH_DIR}/lib/libtorch_cpu.so ${THINWIRE_TORCH_DIR}/lib/libc10.so
  ${THINWIRE_TORCH_DIR}/lib/libtorch.so ${THINWIRE_TORCH_DIR}/lib/libgomp.so.1)
target_link_options(thinwire_libtorch INTERFACE -Wl,-rpath,${THINWIRE_TORCH_DIR}/lib)

# The headers that nearly every source of the torch layers reads, compiled once. Tests share it: all
# of these targets have the same flags.
add_library(thinwire_torch_pch OBJECT ${PROJECT_SOURCE_DIR}/cmake/torch_pch.cc)
target_include_directories(thinwire_torch_pch PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(thinwire_torch_pch PRIVATE thinwire_libtorch Threads::Threads)
target_precompile_headers(thinwire_torch_pch PRIVATE
  <ATen/Parallel.h> <ATen/core/Tensor.h> <ATen/ops/empty.h> <torch/csrc/autograd/custom_function.h>)
# Lets ccache see through the precompiled header.
target_compile_options(thinwire_torch_pch PRIVATE -fpch-preprocess)

# Whether a source reads torch headers, by itself or through headers of the torch layers. Those that
# do save 2 to 6 CPU-seconds each by the precompiled header, the others would lose 2.
function(thinwire_reads_torch file result)
  file(STRINGS ${file} includes REGEX "^#include")
  set(reads FALSE)
  if(includes MATCHES "<(ATen|c10|torch)/")
    set(reads TRUE)
  endif()
  string(REGEX MATCHALL "thinwire/(torch|launch|train)/[a-z0-9_]+\\.h" headers "${includes}")
  foreach(header ${headers})
    if(NOT reads)
      thinwire_reads_torch(${PROJECT_SOURCE_DIR}/${header} reads)
    endif()
  endforeach()
  set(${result} ${reads} PARENT_SCOPE)
endfunction()

function(thinwire_layer_hook_torch target)
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "INTERFACE_LIBRARY")
    target_precompile_headers(${target} REUSE_FROM thinwire_torch_pch)
    target_compile_options(${target} PRIVATE -fpch-preprocess)
    get_target_property(sources ${target} SOURCES)
    foreach(source ${sources})
      thinwire_reads_torch(${source} reads)
      if(NOT reads)
        set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
      endif()
    endforeach()
  endif()
  if(type STREQUAL "EXECUTABLE")
    # -fPIE, which executables get, is not what the header was compiled with.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()
function(thinwire_layer_hook_launch target)
  thinwire_layer_hook_torch(${target})
endfunction()
function(thinwire_layer_hook_train target)
  thinwire_layer_hook_torch(${target})
  set_source_files_properties(${PROJECT_SOURCE_DIR}/thinwire/train/config_test.cc PROPERTIES
    COMPILE_DEFINITIONS THINWIRE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
endfunction()
