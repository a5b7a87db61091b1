#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All tests that need a GPU, one after another, on a build that is there already (it may have been
# made on another machine): check_gpu.sh [BUILD_FOLDER [TEST...]]. Needs neither CMake nor nvcc.
# Without names, what compares answers runs twice: with the chip's best tensor instructions, then with
# those that every chip has (KITH_GPU_UNIT=mma). Programs exit with 77 where there is no GPU.
# KITH_SANITIZER="compute-sanitizer --tool memcheck" runs each program under it (tools/sanitize_gpu.sh).
# KITH_DATA=FOLDER: real data, too. KITH_LONG=1: sizes beyond 2^32, too.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
build=${1:-build}
shift || true
export KITH_CUDA_MODULE=${KITH_CUDA_MODULE:-$PWD/$build/libkith_cuda.so}
export KITH_SOURCE=$PWD
if [ ! -e "$KITH_CUDA_MODULE" ]; then
    echo "check-gpu: there is no $KITH_CUDA_MODULE (build with nvcc in PATH, or -DKITH_CUDA=ON)"
    exit 1
fi
programs=("$@")
if [ ${#programs[@]} = 0 ]; then
    for program in "$build"/tests-gpu/test_*; do
        [ -x "$program" ] && programs+=("$(basename "$program")")
    done
    for name in test_gpu_paths test_gpu_suite test_gpu_same_bytes; do
        [ -x "$build/tests-gpu/$name" ] && programs+=("$name:mma")
    done
fi
if [ ${#programs[@]} = 0 ]; then
    echo "check-gpu: no tests in $build/tests-gpu (tools/setup.sh check installs libcmocka)"
    exit 1
fi
[ -x "$build/kith" ] && "$build/kith" devices
failed=()
skipped=()
lines=()
for name in "${programs[@]}"; do
    unit=
    [[ $name == *:* ]] && unit=${name#*:}
    start=$(date +%s%N)
    echo "== $name"
    if [ -n "$unit" ]; then
        KITH_GPU_UNIT=$unit ${KITH_SANITIZER:-} "$build/tests-gpu/${name%:*}"
    else
        ${KITH_SANITIZER:-} "$build/tests-gpu/$name"
    fi
    code=$?
    took=$((($(date +%s%N) - start) / 1000000))
    said=ok
    if [ $code = 77 ]; then
        said=skipped
        skipped+=("$name")
    elif [ $code != 0 ]; then
        said="FAILED ($code)"
        failed+=("$name")
    fi
    lines+=("$(printf '%-32s %s %6d.%03d s' "$name" "$said" $((took / 1000)) $((took % 1000)))")
done
echo
printf '%s\n' "${lines[@]}"
if [ ${#failed[@]} -gt 0 ]; then
    echo "check-gpu: failed: ${failed[*]}"
    exit 1
fi
if [ ${#skipped[@]} = ${#programs[@]} ]; then
    echo "check-gpu: nothing was tested, there is no GPU"
    exit 77
fi
echo "check-gpu: ${#programs[@]} programs, no failure"
