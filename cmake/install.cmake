# What is installed where: the program in bin, its data in share/tessera (src/base/data_folder.h says
# how it finds them), manual pages, completions, documents. Packages: cmake/package.cmake.

# Installs a folder of the source tree as share/tessera/NAME, and links it into the same place of the
# build tree, so that the program of a build tree finds its data as an installed one does.
function(tessera_install_data source name)
  set(link ${CMAKE_BINARY_DIR}/share/tessera/${name})
  get_filename_component(folder ${link} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${source} ${link} SYMBOLIC)
  install(DIRECTORY ${source}/ DESTINATION share/tessera/${name})
endfunction()

install(TARGETS tessera RUNTIME DESTINATION bin)
tessera_install_data(models/demo models/demo)
tessera_install_data(bench/shapes shapes)
file(GLOB shared_data CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/share share/*)
foreach(name IN LISTS shared_data)
  tessera_install_data(share/${name} ${name})
endforeach()

install(FILES README.md CHANGELOG.md THIRD_PARTY.md NOTICE LICENSE DESTINATION share/doc/tessera)
install(DIRECTORY docs DESTINATION share/doc/tessera)

# tessera_generated(NAME SCRIPT FOLDER ARGUMENTS...): a target of `all` that runs
# SCRIPT PROGRAM -o FOLDER ARGUMENTS whenever the program or a script has changed.
function(tessera_generated name script folder)
  set(stamp ${CMAKE_BINARY_DIR}/${name}.stamp)
  add_custom_command(
    OUTPUT ${stamp}
    COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/scripts/${script} $<TARGET_FILE:tessera> -o
            ${folder} ${ARGN}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS tessera ${CMAKE_SOURCE_DIR}/scripts/${script} ${CMAKE_SOURCE_DIR}/scripts/cli_help.py
    COMMENT "Making ${name} from what the program says with --help"
    VERBATIM)
  add_custom_target(${name} ALL DEPENDS ${stamp})
  # `cmake --install` builds nothing itself.
  install(CODE "if(NOT EXISTS \"${stamp}\")
    message(FATAL_ERROR \"${name}: not built yet; run cmake --build ${CMAKE_BINARY_DIR} first\")
  endif()")
endfunction()

find_package(Python3 COMPONENTS Interpreter QUIET)
find_program(TESSERA_HELP2MAN help2man)
mark_as_advanced(TESSERA_HELP2MAN)
if(TESSERA_SANITIZE OR CMAKE_CROSSCOMPILING OR NOT Python3_Interpreter_FOUND)
  message(STATUS "No completions and no manual pages: they need Python 3 and a build to install")
else()
  set(completions ${CMAKE_BINARY_DIR}/completions)
  tessera_generated(completions make_completions.py ${completions})
  install(FILES ${completions}/tessera DESTINATION share/bash-completion/completions)
  install(FILES ${completions}/_tessera DESTINATION share/zsh/site-functions)
  if(TESSERA_HELP2MAN)
    tessera_generated(manual make_man.py ${CMAKE_BINARY_DIR}/manual --help2man ${TESSERA_HELP2MAN}
                      --release ${PROJECT_VERSION})
    install(DIRECTORY ${CMAKE_BINARY_DIR}/manual/ DESTINATION share/man/man1)
  else()
    message(STATUS "No manual pages: help2man was not found")
  endif()
endif()

include(cmake/package.cmake)
