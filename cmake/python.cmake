# SPDX-License-Identifier: Apache-2.0
# The Python package's part of the build, when scikit-build-core asks for it (pyproject.toml): the
# libraries alone, into the folder of the package, without versions in their names.

set(KITH_BUILT "" CACHE PATH "A build folder whose libraries are taken instead of building them")
set_property(TARGET kith PROPERTY VERSION)
set_property(TARGET kith PROPERTY SOVERSION)
add_custom_target(kith_modules)
foreach(module kith kith_hdf5 kith_cuda)
  if(KITH_BUILT)
    file(REAL_PATH ${KITH_BUILT}/lib${module}.so built)
    if(EXISTS ${built})
      install(PROGRAMS ${built} DESTINATION kith RENAME lib${module}.so)
      install(CODE "execute_process(COMMAND ${CMAKE_STRIP}
              \"\${CMAKE_INSTALL_PREFIX}/kith/lib${module}.so\" COMMAND_ERROR_IS_FATAL ANY)")
    endif()
  elseif(module STREQUAL kith_cuda AND KITH_BUILT_CUDA)
    install(PROGRAMS ${KITH_BUILT_CUDA} DESTINATION kith RENAME libkith_cuda.so)
  elseif(TARGET ${module})
    add_dependencies(kith_modules ${module})
    install(TARGETS ${module} LIBRARY DESTINATION kith)
  endif()
endforeach()
