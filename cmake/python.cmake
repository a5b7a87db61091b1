# SPDX-License-Identifier: Apache-2.0
# The Python package's part of the build, when scikit-build-core asks for it (pyproject.toml): the
# libraries alone, into the folder of the package, without versions in their names.

set_property(TARGET kith PROPERTY VERSION)
set_property(TARGET kith PROPERTY SOVERSION)
add_custom_target(kith_modules)
foreach(module kith kith_hdf5 kith_cuda)
  if(TARGET ${module})
    add_dependencies(kith_modules ${module})
    install(TARGETS ${module} LIBRARY DESTINATION kith)
  endif()
endforeach()
