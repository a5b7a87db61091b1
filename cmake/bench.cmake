# SPDX-License-Identifier: Apache-2.0
# Each bench/micro/x.c is one program, built by `cmake --build build --target bench_micro`.

add_custom_target(bench_micro)
file(GLOB MICRO_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/micro/*.c)
foreach(source ${MICRO_SOURCES})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${name} PRIVATE kith_inside)
  target_compile_options(${name} PRIVATE ${KITH_EXACT_FLAGS})
  add_dependencies(bench_micro ${name})
endforeach()
