# PCRE2, 8 bit with Unicode: the static library where there is one, so that the command needs no more
# than libc and libstdc++ at run time. Cross-compiling finds the machine's own only, which is no use.
if(NOT CMAKE_CROSSCOMPILING)
  find_path(THINWIRE_PCRE2_HEADERS pcre2.h)
  find_library(THINWIRE_PCRE2 NAMES libpcre2-8.a pcre2-8)
  if(NOT THINWIRE_PCRE2_HEADERS OR NOT THINWIRE_PCRE2)
    message(FATAL_ERROR "no pcre2.h or libpcre2-8: install libpcre2-dev")
  endif()
  add_library(thinwire_pcre2 INTERFACE)
  target_include_directories(thinwire_pcre2 SYSTEM INTERFACE ${THINWIRE_PCRE2_HEADERS})
  target_link_libraries(thinwire_pcre2 INTERFACE ${THINWIRE_PCRE2})
endif()

# The tests of text read what other tokenizers made of many strings.
function(thinwire_layer_hook_text target)
  if(target MATCHES "_test$")
    target_compile_definitions(
      ${target} PRIVATE THINWIRE_TEXT_TESTDATA="${PROJECT_SOURCE_DIR}/thinwire/text/testdata")
  endif()
endfunction()
