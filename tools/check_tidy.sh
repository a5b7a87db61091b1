#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy on what ships (src, cli, examples), as the build compiles it; .clang-tidy has the checks.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset clang >/dev/null
cmake --build build-clang --target kith_commit_header >/dev/null
mapfile -t files < <(find src cli examples -name '*.c' ! -name '*_hdf5.c' | sort)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 2 clang-tidy -p build-clang --quiet >"$log" 2>/dev/null; then
    cat "$log"
    echo "tidy: clang-tidy found what is above"
    exit 1
fi
echo "tidy: ${#files[@]} files"
