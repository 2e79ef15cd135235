# Language level, warnings, sanitizers, compiler cache and linker: everything
# that every target of the project shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# Contraction would give a rank with FMA other bits than a rank without.
add_compile_options(-ffp-contract=off)
add_compile_options(-Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wvla
                    -Wnon-virtual-dtor -Wcast-align)
if(THINWIRE_WERROR)
  add_compile_options(-Werror)
endif()
if(THINWIRE_SANITIZE)
  # With -O2 GCC takes more than twice as long for what its checks add.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-Og -g1")
  add_compile_options(-fsanitize=${THINWIRE_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${THINWIRE_SANITIZE})
endif()

find_program(THINWIRE_CCACHE ccache)
if(THINWIRE_CCACHE)
  # Sloppiness: GCC's precompiled headers are cacheable only with it. Base directory: paths inside the
  # checkout count relative to it, so that another checkout of the same sources compiles nothing.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      /usr/bin/env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${THINWIRE_CCACHE})
  add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
endif()
find_program(THINWIRE_MOLD mold)
if(THINWIRE_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

find_package(Threads REQUIRED)
enable_testing()

# Without this a build ends minutes later, in the middle of a compiler's error.
find_path(THINWIRE_JSON_HEADERS nlohmann/json.hpp)
if(NOT THINWIRE_JSON_HEADERS)
  message(FATAL_ERROR "no nlohmann/json.hpp: install nlohmann-json3-dev")
endif()
