#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds one target in one line of output, and shows the compiler's words where it fails: build.sh FOLDER TARGET JOBS
set -uo pipefail
folder=$1 target=$2 jobs=$3
log=$folder/build.log
start=$SECONDS

# On a terminal the line counts the files; elsewhere it says when it is done.
counter() {
    if [ -t 1 ]; then
        grep --line-buffered -oE '^\[ *[0-9/%]+\]' | while read -r done; do printf '\rbuild: %s ' "$done"; done
    else
        cat >/dev/null
    fi
}

cmake --build "$folder" --target "$target" -j "$jobs" 2>&1 | tee "$log" | counter
if [ "${PIPESTATUS[0]}" != 0 ]; then
    printf '\n'
    grep -n -m 1 -A 40 -E '^FAILED:|error:|\*\*\*' "$log" || tail -n 40 "$log"
    echo "build: failed; everything that the compilers said is in $log"
    exit 1
fi
[ ! -t 1 ] || printf '\r'
echo "build: done in $((SECONDS - start)) s: $folder/kith, $folder/libkith.so"
