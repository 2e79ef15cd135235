# Finds the PyTorch wheel of the private environment by asking its Python, and links its
# libraries directly: find_package(Torch) would bring flags and CUDA probing of its own.
set(THINWIRE_PYTHON "${PROJECT_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH
    "Python whose torch package is linked")
execute_process(
  COMMAND ${THINWIRE_PYTHON} -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
  OUTPUT_VARIABLE THINWIRE_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE torch_missing)
if(torch_missing)
  message(FATAL_ERROR "no torch in ${THINWIRE_PYTHON}: run `make setup`, or configure with "
                      "-DTHINWIRE_PYTHON=<python with torch> or -DTHINWIRE_TORCH=OFF")
endif()

add_library(thinwire_libtorch INTERFACE)
target_include_directories(thinwire_libtorch SYSTEM INTERFACE
  ${THINWIRE_TORCH_DIR}/include ${THINWIRE_TORCH_DIR}/include/torch/csrc/api/include)
target_compile_definitions(thinwire_libtorch INTERFACE USE_C10D_GLOO USE_DISTRIBUTED)
target_link_libraries(thinwire_libtorch INTERFACE
  ${THINWIRE_TORCH_DIR}/lib/libtorch_cpu.so ${THINWIRE_TORCH_DIR}/lib/libc10.so
  ${THINWIRE_TORCH_DIR}/lib/libtorch.so)
target_link_options(thinwire_libtorch INTERFACE -Wl,-rpath,${THINWIRE_TORCH_DIR}/lib)
