#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The long fuzz: each target fuzz_x_libfuzzer for FUZZ_SECONDS (60). What it finds stays in
# build-fuzz/NAME.found/; an input that broke something goes to tests/fuzz/corpus/NAME/ with the fix.
set -uo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-60}
cmake --preset fuzz >/dev/null || exit 1
mapfile -t names < <(cmake --build build-fuzz --target help | grep -oE '\bfuzz_[a-z_]+_libfuzzer\b' | sort -u)
cmake --build build-fuzz -j "$(nproc)" --target "${names[@]}" | tail -n 3
[ "${PIPESTATUS[0]}" = 0 ] || exit 1
failed=0
for name in "${names[@]}"; do
    program=$(find build-fuzz -type f -name "$name" -perm -u+x)
    seeds=build-fuzz/$name.corpus
    found=build-fuzz/$name.found
    mkdir -p "$seeds" "$found"
    cp tests/fuzz/corpus/"${name%_libfuzzer}"/* "$seeds"/ 2>/dev/null
    if ! "$program" -max_total_time="$seconds" -max_len=8192 -timeout=20 -rss_limit_mb=4096 \
        -artifact_prefix="$found/" "$seeds" >"build-fuzz/$name.log" 2>&1; then
        tail -n 40 "build-fuzz/$name.log"
        echo "fuzz: $name broke something; the input is in $found"
        failed=1
    fi
    echo "fuzz: $name: $(grep -oE '^#[0-9]+' "build-fuzz/$name.log" | tail -n 1 | tr -d '#') inputs in $seconds s"
done
exit $failed
