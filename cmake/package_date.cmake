# Read by cpack before it does anything: files in a package get the time of the last commit, unless
# SOURCE_DATE_EPOCH says otherwise; without git, that of the changelog.
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
  execute_process(
    COMMAND git -C ${CPACK_TESSERA_SOURCE_DIR} log -1 --format=%ct
    OUTPUT_VARIABLE seconds OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT seconds)
    file(TIMESTAMP ${CPACK_TESSERA_SOURCE_DIR}/CHANGELOG.md seconds "%s" UTC)
  endif()
  set(ENV{SOURCE_DATE_EPOCH} ${seconds})
endif()
