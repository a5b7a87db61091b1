# SPDX-License-Identifier: Apache-2.0
# cmake --install: library, headers, command, pkg-config file, CMake package, man pages, completion,
# licence.

install(TARGETS kith EXPORT kith-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
file(GLOB PUBLIC_HEADERS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/include/kith/*.h)
install(FILES ${PUBLIC_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kith)
# What libkith opens when it is needed (src/host/host_file.c).
set(modules_dir ${CMAKE_INSTALL_LIBDIR}/kith-${KITH_ABI})
if(TARGET kith_hdf5)
  install(TARGETS kith_hdf5 LIBRARY DESTINATION ${modules_dir})
endif()
if(KITH_BUILT_CUDA)
  install(FILES ${KITH_BUILT_CUDA} DESTINATION ${modules_dir})
elseif(TARGET kith_cuda)
  install(TARGETS kith_cuda LIBRARY DESTINATION ${modules_dir})
endif()
if(TARGET kith_cli)
  install(TARGETS kith_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET kith_mpi)
  install(TARGETS kith_mpi RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
# A command finds its library in its own folder, where it was built, and where it is installed, wherever
# either is moved to; that of a system's package leaves it to the loader. Both have one path: CMake ends one
# that is to be replaced by a colon, and the loader takes the empty entry behind it for the folder that the
# command is called in, whoever's that is.
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  foreach(command kith_cli kith_mpi)
    if(TARGET ${command})
      set_target_properties(${command} PROPERTIES BUILD_WITH_INSTALL_RPATH ON
                            INSTALL_RPATH_USE_LINK_PATH ON # an MPI outside of the system
                            INSTALL_RPATH "$ORIGIN;$ORIGIN/${bin_to_lib}")
    endif()
  endforeach()
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kith)
configure_package_config_file(cmake/kith-config.cmake.in ${CMAKE_BINARY_DIR}/kith-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/kith-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(EXPORT kith-targets NAMESPACE kith:: DESTINATION ${package_dir})
install(FILES ${CMAKE_BINARY_DIR}/kith-config.cmake ${CMAKE_BINARY_DIR}/kith-config-version.cmake
        DESTINATION ${package_dir})

# Written at installation, when the prefix is known: cmake --install may be given another one.
foreach(name LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE ${CMAKE_INSTALL_${name}})
    set(KITH_PC_${name} ${CMAKE_INSTALL_${name}})
  else()
    set(KITH_PC_${name} "\\\${prefix}/${CMAKE_INSTALL_${name}}")
  endif()
endforeach()
install(CODE "
  set(PROJECT_DESCRIPTION \"${PROJECT_DESCRIPTION}\")
  set(PROJECT_VERSION \"${PROJECT_VERSION}\")
  set(KITH_PC_LIBDIR \"${KITH_PC_LIBDIR}\")
  set(KITH_PC_INCLUDEDIR \"${KITH_PC_INCLUDEDIR}\")
  configure_file(\"${CMAKE_SOURCE_DIR}/cmake/kith.pc.in\" \"${CMAKE_BINARY_DIR}/kith.pc\" @ONLY)")
install(FILES ${CMAKE_BINARY_DIR}/kith.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
file(GLOB MAN_PAGES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.1)
if(MAN_PAGES)
  install(FILES ${MAN_PAGES} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
if(EXISTS ${CMAKE_SOURCE_DIR}/tools/completion/kith.bash)
  install(FILES tools/completion/kith.bash RENAME kith
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endif()
