# SPDX-License-Identifier: Apache-2.0
# kith-mpi, where an MPI is found (Open MPI, MPICH). The library does not know of it.

# Not under a sanitizer, which would complain of MPI's own: there the team is tested by threads
# (tests/unit/test_shard_team.c).

option(KITH_MPI "Build kith-mpi where MPI is found" ON)
if(KITH_MPI AND TARGET kith_cli AND NOT CMAKE_C_FLAGS MATCHES "-fsanitize")
  find_package(MPI COMPONENTS C QUIET)
endif()
if(MPI_C_FOUND)
  file(GLOB MPI_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cli_mpi/*.c)
  add_executable(kith_mpi ${MPI_SOURCES}
                 $<FILTER:$<TARGET_OBJECTS:kith_cli>,EXCLUDE,cli_main>) # compiled once
  set_target_properties(kith_mpi PROPERTIES OUTPUT_NAME kith-mpi)
  target_include_directories(kith_mpi PRIVATE ${CMAKE_SOURCE_DIR}/cli)
  target_link_libraries(kith_mpi PRIVATE kith MPI::MPI_C Threads::Threads m)
endif()
if(TARGET kith_mpi)
  message(STATUS "kith-mpi: ON")
else()
  message(STATUS "kith-mpi: OFF, no MPI was found, or it was not wanted")
endif()
