# Packages of an installation: `cpack -G DEB` for Debian 12, `cpack -G TGZ` for an archive that runs
# where it is unpacked. Run cpack in a build folder in which everything is built.
set(CPACK_PACKAGE_NAME tessera)
set(CPACK_PACKAGE_VENDOR Tessera)
set(CPACK_PACKAGE_CONTACT "Tessera maintainers <maintainers@tessera.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "inference engine for DeepSeek-V4.1-Flash, text and pictures")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
# One source gives one package: times come from the commit. Read when cpack starts.
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/cmake/package_date.cmake)
set(CPACK_TESSERA_SOURCE_DIR ${CMAKE_SOURCE_DIR})

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "Tessera answers questions about text and pictures with DeepSeek-V4.1-Flash
checkpoints in their original format, on x86-64 processors. It keeps every
rounding point of the reference implementation and can write any run tensor
by tensor to compare the two.
.
A demo model of ten megabytes is part of the package: it describes, counts
and locates drawn vegetables in English and Chinese.")
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/package_debian.cmake)

# cpack would otherwise build every test first.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
include(CPack)
