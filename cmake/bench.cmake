# SPDX-License-Identifier: Apache-2.0
# Each bench/micro/x.c is one program, build/bench_x; what else it is made of stands in bench/micro/x.
# All are built with everything else, so that they keep up with what they measure; nothing runs them
# but a person, or `make bench`.

file(GLOB MICRO_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/micro/*.c)
foreach(source ${MICRO_SOURCES})
  get_filename_component(idea ${source} NAME_WE)
  file(GLOB parts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/micro/${idea}/*.c)
  add_executable(bench_${idea} ${source} ${parts})
  target_link_libraries(bench_${idea} PRIVATE kith_inside)
  target_compile_options(bench_${idea} PRIVATE ${KITH_EXACT_FLAGS})
endforeach()

# bench/micro/x.cu likewise, where the GPU module is built. Each speaks to the CUDA runtime itself; they
# are compiled for the newest chip, and as PTX for all others.
file(GLOB MICRO_CUDA_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/micro/*.cu)
if(KITH_HAS_CUDA)
  foreach(source ${MICRO_CUDA_SOURCES})
    get_filename_component(idea ${source} NAME_WE)
    set(chips ${newest}-real ${oldest}-virtual)
    if(KITH_CUDA_DRAFT)
      set(chips ${archs})
    endif()
    if(idea STREQUAL units) # wgmma, too
      set(chips ${wgmma_archs} ${oldest}-virtual)
    endif()
    kith_cuda_objects(bench_${idea}_objects "${chips}" ${source})
    add_executable(bench_${idea} $<TARGET_OBJECTS:bench_${idea}_objects>)
    target_link_libraries(bench_${idea} PRIVATE kith_inside CUDA::cudart_static)
    set_target_properties(bench_${idea} PROPERTIES LINKER_LANGUAGE C)
  endforeach()
endif()
