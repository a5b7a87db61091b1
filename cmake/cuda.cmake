# SPDX-License-Identifier: Apache-2.0
# libkith_cuda.so: every .cu file, opened at run time by libkith.so (src/gpu/gpu_open.c). libkith itself
# is linked with nothing of CUDA, and is the same with and without this module.

set(KITH_CUDA AUTO CACHE STRING
    "Build the GPU module: AUTO (where nvcc and a GPU are found, for its chip), ON (for all chips), OFF")
set(KITH_CUDA_ARCHS "" CACHE STRING
    "Chips to compile for (80 86 89 90); the last one also as PTX, for chips that come later")
set(KITH_BUILT_CUDA "" CACHE FILEPATH
    "A libkith_cuda.so that is installed instead of building one")
option(KITH_CUDA_DRAFT "Hardly optimised, and device code not assembled: to see whether it compiles, not for use" OFF)
set(KITH_HAS_CUDA OFF)

# The chips of this machine's GPUs, as its driver names them: 90 for compute capability 9.0. None where
# no driver answers; those before 8.0 have no kernels here.
function(kith_chips_here chips)
  set(${chips} "" PARENT_SCOPE)
  find_program(KITH_NVIDIA_SMI nvidia-smi)
  mark_as_advanced(KITH_NVIDIA_SMI)
  if(NOT KITH_NVIDIA_SMI)
    return()
  endif()
  execute_process(COMMAND ${KITH_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
                  RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_QUIET)
  if(failed)
    return()
  endif()
  string(REGEX MATCHALL "[0-9]+\\.[0-9]" said "${said}")
  list(TRANSFORM said REPLACE "\\." "")
  list(FILTER said EXCLUDE REGEX "^[0-7].$")
  list(REMOVE_DUPLICATES said)
  list(SORT said COMPARE NATURAL)
  set(${chips} ${said} PARENT_SCOPE)
endfunction()

if(NOT KITH_CUDA STREQUAL "OFF")
  find_program(KITH_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_PATH PATH_SUFFIXES bin
               PATHS /usr/local/cuda/bin)
  set(nvcc_answers 1)
  if(KITH_NVCC) # it may be the wrapper of a toolkit that is gone
    execute_process(COMMAND ${KITH_NVCC} --version RESULT_VARIABLE nvcc_answers
                    OUTPUT_QUIET ERROR_QUIET)
  endif()
  if(nvcc_answers EQUAL 0)
    set(KITH_HAS_CUDA ON)
  elseif(KITH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "KITH_CUDA=ON, but there is no nvcc that works (in PATH or in "
                        "/usr/local/cuda/bin; found: ${KITH_NVCC})")
  endif()
endif()

# AUTO is for this machine alone: without a GPU the module's minutes of compiling are for nothing.
set(archs_wanted ${KITH_CUDA_ARCHS})
if(NOT archs_wanted)
  set(archs_wanted 80 86 89 90)
  if(KITH_CUDA STREQUAL "AUTO")
    kith_chips_here(archs_wanted)
  endif()
endif()
if(NOT KITH_HAS_CUDA)
  message(STATUS "GPU module: OFF (KITH_CUDA=${KITH_CUDA}; nvcc: ${KITH_NVCC})")
  return()
elseif(NOT archs_wanted)
  set(KITH_HAS_CUDA OFF)
  message(STATUS "GPU module: OFF, this machine has no GPU that it could use (-DKITH_CUDA=ON builds it "
                 "for all chips)")
  return()
endif()

set(CMAKE_CUDA_COMPILER ${KITH_NVCC})
set(CMAKE_CUDA_ARCHITECTURES OFF) # said for each target below
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
# What NVIDIA's headers throw comes from libstdc++, which the module brings along.
list(TRANSFORM CMAKE_CUDA_IMPLICIT_LINK_LIBRARIES REPLACE "^stdc\\+\\+$" "-l:libstdc++.a")
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
if(KITH_CUDA_DRAFT) # of the host's side
  set(CMAKE_CUDA_FLAGS_RELEASE "-O0")
endif()

# What decides bits: no product and sum that fuse unasked, no denormals that vanish.
set(KITH_CUDA_FLAGS -fmad=false -ftz=false -prec-div=true -prec-sqrt=true
    "SHELL:--compress-mode $<IF:$<BOOL:${KITH_CUDA_DRAFT}>,speed,size>" "SHELL:-Werror all-warnings"
    # -Wextra by its parts: as a whole it forbids a constant of an enum beside a number, which is C.
    "SHELL:-Xcompiler -Wall,-Wunused-parameter,-Wsign-compare,-Wtype-limits,-Wempty-body,-Werror")

# The newest is last, and its PTX there, too: kernels that begin early (gpu_stream.cuh) wait in code for
# sm_90 and later alone, so a later chip must not assemble an older one's.
list(SORT archs_wanted COMPARE NATURAL)
set(archs "")
foreach(arch ${archs_wanted})
  list(APPEND archs ${arch}-real)
endforeach()
list(GET archs_wanted 0 oldest)
list(GET archs_wanted -1 newest)
list(APPEND archs ${newest}-virtual)
# A chip runs what is assembled for an older one of its major, and nothing here is compiled otherwise
# for sm_89 than for sm_86. The queues of the papers, with which kith compares itself, have a kernel
# for each length: they are there once a major, and chips after sm_90 assemble them from PTX.
if(86 IN_LIST archs_wanted)
  list(REMOVE_ITEM archs 89-real)
endif()
set(queue_archs ${archs})
if(80 IN_LIST archs_wanted)
  list(REMOVE_ITEM queue_archs 86-real 89-real)
endif()
if(90 IN_LIST archs_wanted)
  list(FILTER queue_archs INCLUDE REGEX "^[0-9][0-9]-real$")
  list(APPEND queue_archs 90-virtual)
endif()
set(wgmma_archs 90a-real)
if(KITH_CUDA_DRAFT) # PTX alone: what the assembler makes of it takes half of the time
  set(archs ${newest}-virtual)
  set(queue_archs ${archs})
  set(wgmma_archs 90a-virtual)
endif()

# A suffix is a machine here, too: name_wgmma.cu is for sm_90a alone, whose instructions no other chip
# has. No file calls device code of another one, so there is no device linking.
file(GLOB CUDA_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*/*.cu)
set(CUDA_WGMMA_SOURCES ${CUDA_SOURCES})
set(CUDA_QUEUE_SOURCES ${CUDA_SOURCES})
list(FILTER CUDA_SOURCES EXCLUDE REGEX "_wgmma\\.cu$|papers_queue")
list(FILTER CUDA_WGMMA_SOURCES INCLUDE REGEX "_wgmma\\.cu$")
list(FILTER CUDA_QUEUE_SOURCES INCLUDE REGEX "papers_queue")

function(kith_cuda_objects name architectures)
  add_library(${name} OBJECT ${ARGN})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
  target_compile_options(${name} PRIVATE ${KITH_CUDA_FLAGS})
  set_target_properties(${name} PROPERTIES CUDA_ARCHITECTURES "${architectures}"
                        POSITION_INDEPENDENT_CODE ON CUDA_SEPARABLE_COMPILATION OFF)
  if(KITH_CUDA_DRAFT)
    set(old $<VERSION_LESS:${CMAKE_CUDA_COMPILER_VERSION},13>)
    target_compile_options(${name} PRIVATE "SHELL:$<IF:${old},-Xcicc -O1,--Ofast-compile=max>")
  endif()
endfunction()

kith_cuda_objects(kith_cuda_objects "${archs}" ${CUDA_SOURCES})
kith_cuda_objects(kith_cuda_queue_objects "${queue_archs}" ${CUDA_QUEUE_SOURCES})
set(cuda_objects $<TARGET_OBJECTS:kith_cuda_objects> $<TARGET_OBJECTS:kith_cuda_queue_objects>)
if(CUDA_WGMMA_SOURCES)
  kith_cuda_objects(kith_cuda_wgmma_objects ${wgmma_archs} ${CUDA_WGMMA_SOURCES})
  list(APPEND cuda_objects $<TARGET_OBJECTS:kith_cuda_wgmma_objects>)
endif()

# Linked as C, and with what is used alone: the module needs libc and nothing else of the machine.
add_library(kith_cuda MODULE ${cuda_objects})
target_link_libraries(kith_cuda PRIVATE CUDA::cudart_static)
target_link_options(kith_cuda PRIVATE -Wl,--as-needed -Wl,--no-undefined -static-libgcc
                    -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/kith_cuda.map)
set_target_properties(kith_cuda PROPERTIES LINKER_LANGUAGE C LINK_DEPENDS
                      ${CMAKE_SOURCE_DIR}/cmake/kith_cuda.map)
message(STATUS "GPU module: ON (${KITH_NVCC}, sm_${archs_wanted})")
