# tessera_embed(TARGET NAMESPACE FILE...): adds to TARGET a source that holds the files' bytes as
# `extern const std::string_view NAMESPACE::page_html` for a file page.html. Made at build time,
# whenever a file changes. Files are text of less than 64 KB (compilers need not take longer
# literals) without `)embed"`.
#
# The same file is the script that the build runs: cmake -D OUTPUT= -D NAMESPACE= -D FILES= -P.
if(CMAKE_SCRIPT_MODE_FILE)
  set(text "#include <string_view>\n\nnamespace ${NAMESPACE} {\n\n")
  string(REPLACE "|" ";" paths "${FILES}")
  foreach(path IN LISTS paths)
    file(SIZE "${path}" bytes)
    if(bytes GREATER 65000)
      message(FATAL_ERROR "${path}: ${bytes} bytes, at most 65000 can be embedded; split it")
    endif()
    file(READ "${path}" content)
    string(FIND "${content}" ")embed\"" clash)
    if(NOT clash EQUAL -1)
      message(FATAL_ERROR "${path}: contains )embed\", the end of the literal it is put into")
    endif()
    get_filename_component(name "${path}" NAME)
    string(MAKE_C_IDENTIFIER "${name}" name)
    string(APPEND text "extern const std::string_view ${name};\n"
                       "const std::string_view ${name} = R\"embed(${content})embed\";\n\n")
  endforeach()
  string(APPEND text "}  // namespace ${NAMESPACE}\n")
  file(WRITE "${OUTPUT}" "${text}")
  return()
endif()

set(TESSERA_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(tessera_embed target namespace)
  set(paths)
  foreach(file IN LISTS ARGN)
    list(APPEND paths ${CMAKE_SOURCE_DIR}/${file})
  endforeach()
  list(JOIN paths "|" joined)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${target}_embedded.cc)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D OUTPUT=${output} -D NAMESPACE=${namespace} -D FILES=${joined} -P
            ${TESSERA_EMBED_SCRIPT}
    DEPENDS ${paths} ${TESSERA_EMBED_SCRIPT}
    COMMENT "Embedding files into ${target}"
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
