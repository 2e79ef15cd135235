# The Python package in the build tree, build/<preset>/python/thinwire: the extension module beside
# links to the sources in python/thinwire/, so that PYTHONPATH=build/<preset>/python runs it.
# Without the headers of THINWIRE_PYTHON there is no package; nothing else needs it.
execute_process(
  COMMAND ${THINWIRE_PYTHON} -c "import sysconfig as s; print(s.get_path('include'), s.get_config_var('EXT_SUFFIX'), sep=';')"
  OUTPUT_VARIABLE python_facts OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
list(GET python_facts 0 python_include)
list(GET python_facts 1 python_suffix)
if(NOT EXISTS ${python_include}/Python.h AND THINWIRE_WHEEL)
  message(FATAL_ERROR "no Python.h in ${python_include}: install the headers of this Python (Debian: "
                      "python3-dev)")
elseif(NOT EXISTS ${python_include}/Python.h)
  message(STATUS "no Python.h in ${python_include} (Debian: python3-dev): the Python package is left out")
  return()
endif()

set(package ${PROJECT_BINARY_DIR}/python/thinwire)
add_library(thinwire_native MODULE
  ${PROJECT_SOURCE_DIR}/thinwire/torch/python_module.cc
  ${PROJECT_SOURCE_DIR}/thinwire/torch/operators_module.cc)
target_include_directories(thinwire_native SYSTEM PRIVATE ${python_include})
# The module's own symbols stay its own, and pybind11's types are shared with torch's through it.
target_link_libraries(thinwire_native PRIVATE thinwire_torch ${THINWIRE_TORCH_DIR}/lib/libtorch_python.so)
set_target_properties(thinwire_native PROPERTIES
  PREFIX "" SUFFIX ${python_suffix} OUTPUT_NAME _native LIBRARY_OUTPUT_DIRECTORY ${package})

# The inference engine needs no torch at run time; of torch it takes pybind11's headers.
if(TARGET thinwire_python)
  add_library(thinwire_infer_module MODULE ${PROJECT_SOURCE_DIR}/thinwire/python/infer_module.cc)
  target_include_directories(thinwire_infer_module SYSTEM PRIVATE ${python_include}
                             ${THINWIRE_TORCH_DIR}/include)
  target_link_libraries(thinwire_infer_module PRIVATE thinwire_python)
  target_link_options(thinwire_infer_module PRIVATE -Wl,--exclude-libs,ALL)
  set_target_properties(thinwire_infer_module PROPERTIES
    PREFIX "" SUFFIX ${python_suffix} OUTPUT_NAME _infer LIBRARY_OUTPUT_DIRECTORY ${package})
  install(TARGETS thinwire_infer_module LIBRARY DESTINATION thinwire COMPONENT python)
endif()

file(GLOB python_sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/python/thinwire
     ${PROJECT_SOURCE_DIR}/python/thinwire/*)
list(REMOVE_ITEM python_sources __pycache__)
file(MAKE_DIRECTORY ${package})
if(THINWIRE_WHEEL)
  set(python_sources)  # the wheel has the sources themselves
endif()
foreach(source ${python_sources})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/python/thinwire/${source} ${package}/${source} SYMBOLIC)
endforeach()

execute_process(
  COMMAND ${THINWIRE_PYTHON} -c "import re; from importlib.metadata import version; print(re.match(r'\\d+\\.\\d+', version('torch')).group())"
  OUTPUT_VARIABLE THINWIRE_TORCH_VERSION OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
configure_file(${PROJECT_SOURCE_DIR}/python/build.py.in ${package}/build.py @ONLY)

# In the wheel the package lies beside torch's.
install(TARGETS thinwire_native LIBRARY DESTINATION thinwire COMPONENT python)
install(FILES ${package}/build.py DESTINATION thinwire COMPONENT python)
set_target_properties(thinwire_native PROPERTIES
  INSTALL_RPATH "$ORIGIN/../torch/lib" INSTALL_REMOVE_ENVIRONMENT_RPATH ON)
