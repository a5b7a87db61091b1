# SPDX-License-Identifier: Apache-2.0
# Each tests/unit/test_x.c, tests/backends/test_x.c and tests/fault/test_x.c is one program, run by
# ctest. It prints what it proves. Labels: cpu (programs that compute), threads (also run under the thread sanitizer),
# house (the source itself), example, cli, fuzz, python.

enable_testing()

# Python of the tests: the environment that tools/setup.sh made, else the system's.
find_package(Python3 COMPONENTS Interpreter QUIET)
set(KITH_PYTHON ${Python3_EXECUTABLE})
if(EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  set(KITH_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python)
endif()

add_custom_target(kith_threads) # programs with that label: all that the thread sanitizer has to compile

find_library(CMOCKA_LIBRARY cmocka)
file(GLOB UNIT_TESTS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/test_*.c
     ${CMAKE_SOURCE_DIR}/tests/backends/test_*.c ${CMAKE_SOURCE_DIR}/tests/fault/test_*.c)
file(GLOB TEST_SUPPORT CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/support/*.c
     ${CMAKE_SOURCE_DIR}/tests/oracle/*.c)
list(FILTER TEST_SUPPORT EXCLUDE REGEX "fail_always\\.c$")

if(NOT CMOCKA_LIBRARY)
  message(STATUS "Unit tests: off, libcmocka is missing (tools/setup.sh check installs it)")
else()
  add_library(kith_test_support INTERFACE)
  target_include_directories(kith_test_support INTERFACE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(kith_test_support INTERFACE ${CMOCKA_LIBRARY})
  if(TEST_SUPPORT)
    add_library(kith_test_helpers STATIC ${TEST_SUPPORT})
    target_include_directories(kith_test_helpers PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    target_compile_options(kith_test_helpers PRIVATE ${KITH_EXACT_FLAGS})
    target_compile_definitions(kith_test_helpers PRIVATE KITH_REFERENCE="$<TARGET_FILE:kith_reference>")
    target_link_libraries(kith_test_helpers PUBLIC kith_inside)
    add_dependencies(kith_test_helpers kith_reference)
    target_link_libraries(kith_test_support INTERFACE kith_test_helpers)
  endif()

  foreach(test ${UNIT_TESTS})
    get_filename_component(name ${test} NAME_WE)
    add_executable(${name} ${test})
    target_compile_options(${name} PRIVATE ${KITH_EXACT_FLAGS})
    target_link_libraries(${name} PRIVATE kith_test_support kith_inside)
    add_test(NAME ${name} COMMAND ${name})
    set(labels cpu)
    file(STRINGS ${test} mentions_threads REGEX "threads" LIMIT_COUNT 1)
    if(mentions_threads)
      list(APPEND labels threads)
      add_dependencies(kith_threads ${name})
    endif()
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 900
                         ENVIRONMENT "KITH_SOURCE=${CMAKE_SOURCE_DIR};KITH_DEVICE=cpu")
  endforeach()

  # GPU modules of which little is asked: one has memory, one is of another version, one has
  # kernels, too.
  set(stubs ${CMAKE_BINARY_DIR}/stubs)
  foreach(stub module version kernels)
    add_library(stub_${stub} MODULE ${CMAKE_SOURCE_DIR}/tests/modules/stub_module.c)
    target_include_directories(stub_${stub} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
    set_target_properties(stub_${stub} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${stubs}
                          C_VISIBILITY_PRESET default)
    add_dependencies(test_gpu_module stub_${stub})
  endforeach()
  target_sources(stub_kernels PRIVATE ${CMAKE_SOURCE_DIR}/tests/modules/stub_kernels.c
                 ${CMAKE_SOURCE_DIR}/tests/modules/stub_buffers.c
                 ${CMAKE_SOURCE_DIR}/tests/modules/stub_tree.c
                 ${CMAKE_SOURCE_DIR}/tests/modules/stub_graph.c)
  target_compile_definitions(stub_kernels PRIVATE STUB_KERNELS)
  target_sources(test_mpi_device PRIVATE ${CMAKE_SOURCE_DIR}/cli_mpi/mpi_device.c)
  foreach(test test_gpu_budgets test_graph_budgets_gpu)
    add_dependencies(${test} stub_kernels)
    target_compile_definitions(${test} PRIVATE KITH_STUBS="${stubs}")
  endforeach()
  target_compile_definitions(stub_version PRIVATE STUB_VERSION=9999)
  target_compile_definitions(test_gpu_module PRIVATE KITH_STUBS="${stubs}")

  # The reference device: all that a GPU does, in plain C on host memory.
  file(GLOB REFERENCE_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/reference/*.c)
  add_library(kith_reference MODULE ${REFERENCE_SOURCES})
  target_include_directories(kith_reference PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_options(kith_reference PRIVATE ${KITH_EXACT_FLAGS})
  target_link_libraries(kith_reference PRIVATE kith_inside)
  set_target_properties(kith_reference PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${stubs})

  # Tests that need a GPU are built everywhere and run by tools/check_gpu.sh, on a machine that has one
  # and perhaps no compiler: what they load stands beside them. Nothing runs them under a sanitizer of
  # the processor: there they are built when asked for by name.
  file(GLOB GPU_TESTS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/gpu/test_*.c)
  foreach(test ${GPU_TESTS})
    get_filename_component(name ${test} NAME_WE)
    add_executable(${name} ${test})
    target_compile_options(${name} PRIVATE ${KITH_EXACT_FLAGS})
    target_link_libraries(${name} PRIVATE kith_test_support kith_inside)
    set_target_properties(${name} PROPERTIES BUILD_RPATH "$ORIGIN"
                          RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests-gpu)
    if(CMAKE_C_FLAGS MATCHES "-fsanitize")
      set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
    endif()
  endforeach()
  # Those that end within seconds run on the reference device, too, in smaller sizes.
  if(NOT CMAKE_C_FLAGS MATCHES "-fsanitize")
    foreach(name test_buffer_tree_gpu test_gpu_both test_gpu_enqueue test_gpu_index test_gpu_graph_index test_gpu_seats
            test_gpu_tree_index test_screen_aim test_screen_lists test_screen_plans test_screen_prepare test_screen_round
            test_screen_bodies test_gpu_arrays test_gpu_faults test_gpu_filters test_gpu_limits test_gpu_paths
            test_gpu_pool test_gpu_shadow test_gpu_spaces test_gpu_team test_graph_fill_gpu test_graph_groups_gpu
            test_graph_links_gpu
            test_graph_lists_gpu test_graph_near_gpu test_graph_samples_gpu test_select_paths
            test_tree_build_gpu test_tree_radius_gpu)
      add_test(NAME reference_${name} COMMAND ${name})
      set_tests_properties(reference_${name} PROPERTIES LABELS reference TIMEOUT 900
                           SKIP_RETURN_CODE 77 ENVIRONMENT
                           "KITH_SOURCE=${CMAKE_SOURCE_DIR};KITH_CASES=few;KITH_CUDA_MODULE=$<TARGET_FILE:kith_reference>")
    endforeach()
    set_tests_properties(reference_test_gpu_team reference_test_gpu_filters PROPERTIES ENVIRONMENT
                         "KITH_SOURCE=${CMAKE_SOURCE_DIR};KITH_CASES=few;KITH_CUDA_MODULE=$<TARGET_FILE:kith_reference>;KITH_REFERENCE_DEVICES=2")
  endif()
  # The longest begin first, so that no core waits for one of them at the end: by the seconds of a processor that
  # they take in the build that is slowest with them.
  foreach(long test_exact_oracle:70 test_exact_shadow:45 test_exact_strips:45 test_gpu_budgets:80 test_graph_driver_gpu:80
          test_fault_memory:75 test_descent_api:65 test_tree_search:60 test_exact_same_bytes:55
          test_descent:55 test_exact_numerics:55 test_tree_radius:50 test_select_scan:50 test_exact_far:50
          test_graph_relatives_gpu:45 test_select_bodies:45 test_exact_tiles:40 test_radius:35
          test_pipeline:30 test_descent_recall:30 test_plan:25 test_progress:25
          test_metric_bodies:25 test_tree_build:25 test_exact_bounds:25 test_pairs:25 test_period:20
          test_select_upload:20 test_upload_ahead:20 test_papers_buffer_tree:20 test_graph_search:20
          test_team_driver:20 test_pipeline_costs:20 test_filter:20 test_choice:15 test_team_trees:40 test_team_index:35 test_team_starts:30 test_tree_places:25
          test_index_change:15 test_graph_ggm:15 test_merge:10 test_upload_drivers:10
          reference_test_gpu_team:60 reference_test_gpu_both:45 reference_test_gpu_index:25
          reference_test_buffer_tree_gpu:20 reference_test_gpu_spaces:20 reference_test_tree_radius_gpu:20
          reference_test_gpu_graph_index:20 reference_test_gpu_seats:20 reference_test_gpu_limits:10
          reference_test_gpu_arrays:10 reference_test_screen_lists:10
          reference_test_screen_bodies:10 reference_test_gpu_tree_index:10 reference_test_tree_build_gpu:10)
    string(REPLACE ":" ";" long ${long})
    list(GET long 0 name)
    list(GET long 1 seconds)
    if(TEST ${name})
      set_tests_properties(${name} PROPERTIES COST ${seconds})
    endif()
  endforeach()

  if(GPU_TESTS)
    get_filename_component(cmocka_file ${CMOCKA_LIBRARY} REALPATH)
    file(COPY_FILE ${cmocka_file} ${CMAKE_BINARY_DIR}/libcmocka.copy)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/tests-gpu)
    file(RENAME ${CMAKE_BINARY_DIR}/libcmocka.copy ${CMAKE_BINARY_DIR}/tests-gpu/libcmocka.so.0)
  endif()

  # The tester is tested: a program that fails must be seen to fail.
  if(EXISTS ${CMAKE_SOURCE_DIR}/tests/support/fail_always.c)
    add_executable(fail_always ${CMAKE_SOURCE_DIR}/tests/support/fail_always.c)
    target_link_libraries(fail_always PRIVATE ${CMOCKA_LIBRARY})
    add_test(NAME tester_notices_a_failure COMMAND fail_always)
    set_tests_properties(tester_notices_a_failure PROPERTIES WILL_FAIL TRUE LABELS house)
  endif()
endif()

foreach(folder tests/cli tests/fuzz tests/soak tests/files tests/python examples)
  if(EXISTS ${CMAKE_SOURCE_DIR}/${folder}/CMakeLists.txt)
    add_subdirectory(${folder})
  endif()
endforeach()

# The fuzz target of the argument parser for libFuzzer; tests/fuzz has those of the file readers.
if(KITH_FUZZER AND TARGET kith_cli)
  set(cli_inside ${CLI_SOURCES})
  list(FILTER cli_inside EXCLUDE REGEX "cli_main\\.c$")
  add_executable(fuzz_arguments_libfuzzer ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_arguments.c ${cli_inside})
  target_compile_definitions(fuzz_arguments_libfuzzer PRIVATE KITH_LIBFUZZER)
  target_link_libraries(fuzz_arguments_libfuzzer PRIVATE kith_inside)
  target_link_options(fuzz_arguments_libfuzzer PRIVATE -fsanitize=fuzzer)
endif()

# A house test is a script that gets the source and the build folder. It exits with 77 when a tool
# that it needs is missing.
function(kith_house_test name)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS house SKIP_RETURN_CODE 77 TIMEOUT 300)
endfunction()

if(KITH_HOUSE_TESTS)
  set(tools ${CMAKE_SOURCE_DIR}/tools)
  if(Python3_EXECUTABLE)
    kith_house_test(house_law ${Python3_EXECUTABLE} -B ${tools}/check_house.py ${CMAKE_SOURCE_DIR})
    kith_house_test(house_law_notices ${Python3_EXECUTABLE} -B ${tools}/check_house_test.py)
    kith_house_test(house_figures ${Python3_EXECUTABLE} -B ${tools}/check_figures.py ${CMAKE_SOURCE_DIR})
    kith_house_test(house_figures_notices ${Python3_EXECUTABLE} -B ${tools}/check_figures_test.py)
    kith_house_test(house_papers ${Python3_EXECUTABLE} -B ${tools}/check_papers.py ${CMAKE_SOURCE_DIR})
    kith_house_test(house_python_header ${Python3_EXECUTABLE} -B ${tools}/python_header.py --check
                    ${CMAKE_C_COMPILER})
    kith_house_test(house_snippets ${Python3_EXECUTABLE} -B ${tools}/check_snippets.py ${CMAKE_C_COMPILER}
                    $<TARGET_FILE:kith>)
    kith_house_test(house_rows ${Python3_EXECUTABLE} -B ${tools}/write_rows.py --check)
    kith_house_test(house_report ${Python3_EXECUTABLE} -B -m unittest discover -s tests/report)
  endif()
  kith_house_test(house_format ${tools}/check_format.sh)
  kith_house_test(house_symbols ${tools}/check_symbols.sh $<TARGET_FILE:kith>)
  kith_house_test(house_header ${tools}/check_header.sh ${CMAKE_C_COMPILER} $<TARGET_FILE:kith>)
  if(TARGET kith_cuda)
    kith_house_test(house_module ${tools}/check_module.sh $<TARGET_FILE:kith_cuda>)
  endif()
  set(built_files $<TARGET_FILE:kith> $<TARGET_FILE:kith_cli>)
  foreach(target kith_hdf5 kith_cuda kith_mpi)
    if(TARGET ${target})
      list(APPEND built_files $<TARGET_FILE:${target}>)
    endif()
  endforeach()
  kith_house_test(house_notice ${tools}/check_notice.sh ${built_files})
  kith_house_test(house_version ${tools}/version.sh --check $<TARGET_FILE:kith_cli>
                  ${CMAKE_BINARY_DIR}/kith-config-version.cmake)
  kith_house_test(house_install ${tools}/check_install.sh ${CMAKE_BINARY_DIR} ${CMAKE_C_COMPILER})
endif()
