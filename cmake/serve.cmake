# The HTTP server: a program of its own, thinwire-serve, since Debian's cpp-httplib is a shared library
# that needs OpenSSL and brotli; `thinwire` itself needs libc and libstdc++ only, and starts at once.
find_path(THINWIRE_HTTPLIB_HEADERS httplib.h)
find_library(THINWIRE_HTTPLIB NAMES cpp-httplib)
if(NOT THINWIRE_HTTPLIB_HEADERS OR NOT THINWIRE_HTTPLIB)
  message(FATAL_ERROR "no httplib.h or libcpp-httplib: install libcpp-httplib-dev, or set "
                      "-DTHINWIRE_SERVER=OFF to do without `thinwire serve`")
endif()
add_library(thinwire_httplib INTERFACE)
target_include_directories(thinwire_httplib SYSTEM INTERFACE ${THINWIRE_HTTPLIB_HEADERS})
target_link_libraries(thinwire_httplib INTERFACE ${THINWIRE_HTTPLIB})
# As the library was compiled: they change what its classes look like.
target_compile_definitions(thinwire_httplib INTERFACE
  CPPHTTPLIB_OPENSSL_SUPPORT CPPHTTPLIB_ZLIB_SUPPORT CPPHTTPLIB_BROTLI_SUPPORT)

# The chat page, inside the library.
function(thinwire_layer_hook_serve target)
  if(target STREQUAL "thinwire_serve")
    set(source ${PROJECT_SOURCE_DIR}/thinwire/serve/page.html)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(READ ${source} page)
    configure_file(${PROJECT_SOURCE_DIR}/thinwire/serve/page.cc.in ${PROJECT_BINARY_DIR}/page.cc @ONLY)
    target_sources(${target} PRIVATE ${PROJECT_BINARY_DIR}/page.cc)
  endif()
endfunction()
