#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The long fuzz: each target of tests/fuzz, or those that are named, for FUZZ_SECONDS (60). It begins
# with the valid files that the target makes itself and with what is in tests/fuzz/corpus. What breaks
# something stays in build-fuzz/TARGET.found/; an input that broke something goes to tests/fuzz/corpus/TARGET/
# with the fix, and is replayed by ctest from then on.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
seconds=${FUZZ_SECONDS:-60}
cmake --preset fuzz >/dev/null || exit 1
if [ $# = 0 ]; then
    mapfile -t targets < <(cmake --build build-fuzz --target help | grep -oE '\bfuzz_[a-z_]+_libfuzzer\b' | sort -u)
    set -- "${targets[@]%_libfuzzer}"
fi
wanted=()
for target in "$@"; do
    wanted+=("${target}_libfuzzer")
    [ "$target" = fuzz_arguments ] || wanted+=("${target}_replay")
done
cmake --build build-fuzz -j "$(nproc)" --target "${wanted[@]}" | tail -n 3
[ "${PIPESTATUS[0]}" = 0 ] || exit 1
failed=0
for target in "$@"; do
    program=$(find build-fuzz -type f -name "${target}_libfuzzer" -perm -u+x)
    replay=$(find build-fuzz -type f -name "${target}_replay" -perm -u+x)
    seeds=build-fuzz/$target.corpus
    found=build-fuzz/$target.found
    mkdir -p "$seeds" "$found"
    [ -z "$replay" ] || "$replay" --seeds "$seeds" || exit 1
    kept=tests/fuzz/corpus/$target
    [ ! -f "$kept.tar.gz" ] || tar -xzf "$kept.tar.gz" -C "$seeds" --strip-components=1
    cp "$kept"/* "$seeds"/ 2>/dev/null
    if ! "$program" -max_total_time="$seconds" -max_len=16384 -timeout=20 -rss_limit_mb=4096 \
        -artifact_prefix="$found/" "$seeds" >"build-fuzz/$target.log" 2>&1; then
        tail -n 40 "build-fuzz/$target.log"
        echo "fuzz: $target broke something; the input is in $found"
        failed=1
    fi
    echo "fuzz: $target: $(grep -oE '^#[0-9]+' "build-fuzz/$target.log" | tail -n 1 | tr -d '#') inputs in $seconds s"
done
exit $failed
