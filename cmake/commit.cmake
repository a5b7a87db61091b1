# SPDX-License-Identifier: Apache-2.0
# Run at build time: writes ${OUTPUT} with the commit of ${SOURCE}, only when it changed. In a
# source tarball git has written it into commit.txt (.gitattributes).
set(commit "unknown")
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(
    COMMAND ${GIT} -C ${SOURCE} rev-parse --short HEAD
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(commit ${found})
  endif()
else()
  file(STRINGS ${SOURCE}/cmake/commit.txt found LIMIT_COUNT 1)
  if(found MATCHES "^([0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f])[0-9a-f]+$")
    set(commit ${CMAKE_MATCH_1})
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define KITH_COMMIT \"${commit}\"\n")
