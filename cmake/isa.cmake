# The one table that maps a kernel level to compiler flags. A file whose name contains `avx2` or
# `avx512` belongs to that level; every other file is compiled for any x86-64.
set(TESSERA_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(TESSERA_ISA_FLAGS_avx512
    -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16)
# -O3 also in debug builds: intrinsics without optimisation are unusable. -Wno-uninitialized: GCC 12
# warns inside its own intrinsics headers.
set(TESSERA_ISA_COMMON_FLAGS -O3 -fno-exceptions -Wno-uninitialized -Wno-maybe-uninitialized)

function(tessera_set_isa_flags)
  foreach(file IN LISTS ARGN)
    get_filename_component(name ${file} NAME)
    foreach(isa avx512 avx2)
      if(name MATCHES "${isa}")
        set_source_files_properties(
          ${file} PROPERTIES COMPILE_OPTIONS "${TESSERA_ISA_FLAGS_${isa}};${TESSERA_ISA_COMMON_FLAGS}")
        break()
      endif()
    endforeach()
  endforeach()
endfunction()
