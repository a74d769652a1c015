# tessera_module(NAME LINKS ...): the static library of one folder under src/ and its unit tests.
# *_test.cc becomes the test program NAME_test, *_slow_test.cc the program NAME_slow_test (label
# `slow`), *_threads_test.cc NAME_threads_test (label `threads`, also run under the thread sanitizer).

# -Wno-restrict: GCC 12 warns about its own std::string (PR 105651).
add_library(tessera_flags INTERFACE)
target_compile_options(
  tessera_flags
  INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast
            -ffp-contract=off "-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=" -fno-math-errno -Wno-restrict)
target_include_directories(tessera_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(tessera_flags INTERFACE Threads::Threads)
if(TESSERA_WERROR)
  target_compile_options(tessera_flags INTERFACE -Werror)
endif()
# For code that computes nothing: tests and the command line. Instrumented, its optimisation takes
# longer than everything it does.
set(TESSERA_CHEAP_OPTIMISATION -O1)
if(TESSERA_SANITIZE)
  set(TESSERA_CHEAP_OPTIMISATION -O0)
  target_compile_options(tessera_flags INTERFACE -fsanitize=${TESSERA_SANITIZE}
                                                 -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tessera_flags INTERFACE -fsanitize=${TESSERA_SANITIZE})
endif()

# All programs with the label `threads`: what a thread sanitizer build needs.
add_custom_target(threads_tests)

# Registers the tests of one program with ctest, one per gtest case.
function(tessera_test_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} tessera_flags GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE TESSERA_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  # What is tested is optimised; tests themselves are not worth the time.
  target_compile_options(${name} PRIVATE $<$<NOT:$<CONFIG:Debug>>:${TESSERA_CHEAP_OPTIMISATION}>)
  if("threads" IN_LIST ARG_LABELS)
    add_dependencies(threads_tests ${name})
  endif()
  gtest_discover_tests(
    ${name}
    DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 1200)
endfunction()

function(tessera_module name)
  cmake_parse_arguments(ARG "" "" "LINKS;TEST_LINKS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  tessera_set_isa_flags(${sources})
  add_library(tessera_${name} STATIC ${sources})
  set_target_properties(tessera_${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(tessera_${name} PUBLIC ${ARG_LINKS} PRIVATE tessera_flags)
  target_include_directories(tessera_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  if(TESSERA_TESTS)
    foreach(kind slow threads)
      set(of_kind ${tests})
      list(FILTER of_kind INCLUDE REGEX "_${kind}_test\\.cc$")
      list(FILTER tests EXCLUDE REGEX "_${kind}_test\\.cc$")
      if(of_kind)
        tessera_test_program(${name}_${kind}_test SOURCES ${of_kind}
          LINKS tessera_${name} ${ARG_TEST_LINKS} LABELS ${kind})
      endif()
    endforeach()
    if(tests)
      tessera_test_program(${name}_test SOURCES ${tests} LINKS tessera_${name} ${ARG_TEST_LINKS}
        LABELS unit)
    endif()
  endif()
endfunction()

include(GoogleTest)
