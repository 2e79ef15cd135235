# libthinwire.so for programs in other languages: of all there is, it shows include/thinwire.h alone.
# `cmake --install build/engine --component engine --prefix DIR` puts it, the header, a file for
# pkg-config and the program `thinwire` below DIR.
target_compile_definitions(thinwire_c_api PRIVATE THINWIRE_VERSION="${PROJECT_VERSION}")

add_library(thinwire_shared SHARED ${PROJECT_SOURCE_DIR}/thinwire/c_api/c_api.cc)
target_compile_definitions(thinwire_shared PRIVATE THINWIRE_VERSION="${PROJECT_VERSION}")
target_link_libraries(thinwire_shared PRIVATE thinwire_infer)
target_link_options(thinwire_shared PRIVATE -Wl,--exclude-libs,ALL)
set_target_properties(thinwire_shared PROPERTIES
  OUTPUT_NAME thinwire VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)

file(CONFIGURE OUTPUT thinwire.pc @ONLY CONTENT [=[
prefix=${pcfiledir}/../..
Name: thinwire
Description: language models on ordinary processors
Version: @PROJECT_VERSION@
Cflags: -I${prefix}/include
Libs: -L${prefix}/lib -Wl,-rpath,${prefix}/lib -lthinwire
]=])
install(TARGETS thinwire_shared LIBRARY DESTINATION lib COMPONENT engine)
install(FILES ${PROJECT_SOURCE_DIR}/include/thinwire.h DESTINATION include COMPONENT engine)
install(FILES ${PROJECT_BINARY_DIR}/thinwire.pc DESTINATION lib/pkgconfig COMPONENT engine)
