# Run by cpack on the files of a Debian package before they are packed: what Debian's policy wants, in
# its form and places.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
set(share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share)
set(doc ${share}/doc/tessera)

function(tessera_gzip file)
  execute_process(COMMAND gzip -9n ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Debian's zsh reads site-functions below /usr/local only.
if(EXISTS ${share}/zsh/site-functions)
  file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
endif()

# The text of the licence is part of every Debian system.
file(REMOVE ${doc}/LICENSE)
file(COPY_FILE ${CPACK_TESSERA_SOURCE_DIR}/cmake/debian_copyright ${doc}/copyright)

file(RENAME ${doc}/CHANGELOG.md ${doc}/changelog)
tessera_gzip(${doc}/changelog)

if(DEFINED ENV{SOURCE_DATE_EPOCH})
  set(when -d @$ENV{SOURCE_DATE_EPOCH})
endif()
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C date -u -R ${when}
  OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${doc}/changelog.Debian
     "tessera (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium\n\n"
     "  * Package made by the project itself; see changelog.gz for what changed.\n\n"
     " -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
tessera_gzip(${doc}/changelog.Debian)

# The package is not meant for Debian's own archive.
file(WRITE ${share}/lintian/overrides/tessera "tessera: initial-upload-closes-no-bugs\n")
