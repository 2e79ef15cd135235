include(GoogleTest)
if(THINWIRE_WHEEL)
  # neither tests nor benchmarks
elseif(CMAKE_CROSSCOMPILING)  # only the machine's own is there as a library; Debian also has its sources
  set(BUILD_GMOCK OFF)
  add_subdirectory(/usr/src/googletest ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
  target_compile_options(gtest PRIVATE -w)
else()
  find_package(GTest REQUIRED)
endif()

# thinwire_layer(<name> DEPS <layer or target>...)
# Declares the library thinwire_<name> from the sources in thinwire/<name>/:
#   x.cc        the library
#   x_isa.cc    compiled once per instruction set, -DTHINWIRE_ISA=scalar|avx2|avx512|neon
#   x_test.cc   an executable and its ctest entries, labelled with the layer; all: <name>_tests
#   x_bench.cc  an executable
#   x_main.cc   not part of the library (tests may build it); the same: x_module.cc
# thinwire_layer_hook_<name>(<target>), where it exists, is called for the library and each executable.
function(thinwire_layer name)
  cmake_parse_arguments(LAYER "" "" "DEPS" ${ARGN})
  set(dir ${PROJECT_SOURCE_DIR}/thinwire/${name})
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cc)
  set(tests ${sources})
  set(benches ${sources})
  set(per_isa ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER per_isa INCLUDE REGEX "_isa\\.cc$")
  if(THINWIRE_WHEEL)
    set(tests)
    set(benches)
  endif()
  list(FILTER sources EXCLUDE REGEX "_(test|bench|isa|main|module)\\.cc$")

  set(deps)
  foreach(dep ${LAYER_DEPS})
    if(TARGET thinwire_${dep})
      list(APPEND deps thinwire_${dep})
    else()
      list(APPEND deps ${dep})
    endif()
  endforeach()

  set(lib thinwire_${name})
  if(sources)
    add_library(${lib} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(${lib} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${lib} ${scope} ${PROJECT_SOURCE_DIR})
  target_link_libraries(${lib} ${scope} ${deps} Threads::Threads)
  thinwire_per_isa(${lib} ${per_isa})
  if(COMMAND thinwire_layer_hook_${name})
    cmake_language(CALL thinwire_layer_hook_${name} ${lib})
  endif()

  add_custom_target(${name}_tests)
  foreach(test ${tests})
    get_filename_component(stem ${test} NAME_WE)
    add_dependencies(${name}_tests ${name}_${stem})
    thinwire_test(${name}_${stem} ${name} ${test} ${lib})
    if(COMMAND thinwire_layer_hook_${name})
      cmake_language(CALL thinwire_layer_hook_${name} ${name}_${stem})
    endif()
    get_target_property(precompiled ${name}_${stem} PRECOMPILE_HEADERS_REUSE_FROM)
    if(TARGET thinwire_test_pch AND NOT precompiled)
      thinwire_quick_to_compile(${name}_${stem})
    endif()
  endforeach()
  if(benches AND CMAKE_CROSSCOMPILING)  # an emulator's speed says nothing
    set(benches)
  elseif(benches)
    find_package(benchmark REQUIRED)
  endif()
  foreach(bench ${benches})
    get_filename_component(stem ${bench} NAME_WE)
    add_executable(${name}_${stem} ${bench})
    target_link_libraries(${name}_${stem} PRIVATE ${lib} benchmark::benchmark)
    if(COMMAND thinwire_layer_hook_${name})
      cmake_language(CALL thinwire_layer_hook_${name} ${name}_${stem})
    endif()
  endforeach()
endfunction()

# A GoogleTest executable; discovery happens at test time so that a build never runs it. Sanitizers
# take long to start a process: one for all its tests there.
function(thinwire_test target label source)
  add_executable(${target} ${source})
  target_link_libraries(${target} PRIVATE ${ARGN} GTest::gtest_main)
  if(THINWIRE_SANITIZE)
    add_test(NAME ${label}.${target} COMMAND ${target} ${thinwire_sanitized_tests})
    set_tests_properties(${label}.${target} PROPERTIES LABELS ${label} TIMEOUT 300)
  else()
    gtest_discover_tests(${target} TEST_PREFIX "${label}." DISCOVERY_MODE PRE_TEST
                         PROPERTIES LABELS ${label} TIMEOUT 60)
  endif()
endfunction()
set(thinwire_sanitized_tests)
if(THINWIRE_SANITIZE STREQUAL "thread")
  # These compute the same on the same threads in many more topologies and formats: minutes here.
  string(JOIN ":" skipped "*EngineTraffic.*" "*EngineCoded.*" "Plan.*" "*.EveryCombination*"
         "*.TwoThousandTinyParameters*" "*.ChunksAndPrefetchChangeNoBit" "*.ChangesNoBitWith*"
         "*AKeptSliceIsAsFresh*")
  set(thinwire_sanitized_tests --gtest_filter=-${skipped})
endif()

# What nearly every test reads, compiled once; and fewer optimizations, since a test runs for
# milliseconds and is compiled for seconds. Together they halve what tests take to build.
function(thinwire_quick_to_compile target)
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  if(NOT THINWIRE_SANITIZE)  # has less already
    target_compile_options(${target} PRIVATE -O1)
  endif()
  if(NOT target STREQUAL thinwire_test_pch)
    target_precompile_headers(${target} REUSE_FROM thinwire_test_pch)
  endif()
endfunction()
if(TARGET GTest::gtest_main AND NOT CMAKE_CROSSCOMPILING)
  # An executable as the tests are, so that it has their flags.
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/test_pch.cc CONTENT "")
  add_executable(thinwire_test_pch EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/test_pch.cc)
  target_include_directories(thinwire_test_pch PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(thinwire_test_pch PRIVATE Threads::Threads GTest::gtest_main)
  thinwire_quick_to_compile(thinwire_test_pch)
  target_precompile_headers(thinwire_test_pch PRIVATE
    <gtest/gtest.h> <algorithm> <array> <chrono> <cmath> <cstring> <filesystem> <fstream> <functional>
    <memory> <numeric> <random> <span> <sstream> <string> <thread> <vector>)
endif()

# Compiles each source once per instruction set that this processor family has.
function(thinwire_per_isa lib)
  if(NOT ARGN)
    return()
  endif()
  set(isas scalar)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND isas avx2 avx512)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    list(APPEND isas neon)
  endif()
  # Kernels read no errno and no exception flags; promising that lets sqrt and selects vectorize.
  # Neither changes a result.
  set(flags_all -fno-math-errno -fno-trapping-math)
  set(flags_scalar -fno-tree-vectorize)
  set(fast -O3)
  if(THINWIRE_SANITIZE)  # checks between all operations leave little to optimize
    set(fast -O1)
  endif()
  set(flags_avx2 -mavx2 -mfma -mf16c ${fast})
  set(flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512bf16 -mfma
                   -mf16c -mprefer-vector-width=512 ${fast})
  set(flags_neon ${fast})
  foreach(isa ${isas})
    add_library(${lib}_${isa} OBJECT ${ARGN})
    target_include_directories(${lib}_${isa} PRIVATE ${PROJECT_SOURCE_DIR})
    target_compile_definitions(${lib}_${isa} PRIVATE THINWIRE_ISA=${isa})
    target_compile_options(${lib}_${isa} PRIVATE ${flags_all} ${flags_${isa}})
    target_sources(${lib} PRIVATE $<TARGET_OBJECTS:${lib}_${isa}>)
  endforeach()
endfunction()
