#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All tests that need a GPU, one after another, on a build that is there already (it may have been
# made on another machine): check_gpu.sh [BUILD_FOLDER [TEST...]]. Needs neither CMake nor nvcc.
# KITH_SANITIZER="compute-sanitizer --tool memcheck" runs each program under it.
set -uo pipefail
cd "$(dirname "$0")/.."
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
fi
if [ ${#programs[@]} = 0 ]; then
    echo "check-gpu: no tests in $build/tests-gpu (tools/setup.sh check installs libcmocka)"
    exit 1
fi
"$build/kith" devices
failed=()
lines=()
for name in "${programs[@]}"; do
    start=$(date +%s%N)
    echo "== $name"
    ${KITH_SANITIZER:-} "$build/tests-gpu/$name"
    code=$?
    [ $code = 0 ] || failed+=("$name")
    took=$((($(date +%s%N) - start) / 1000000))
    lines+=("$(printf '%-32s %s %6d.%03d s' "$name" "$([ $code = 0 ] && echo ok || echo "FAILED ($code)")" \
        $((took / 1000)) $((took % 1000)))")
done
echo
printf '%s\n' "${lines[@]}"
if [ ${#failed[@]} -gt 0 ]; then
    echo "check-gpu: failed: ${failed[*]}"
    exit 1
fi
echo "check-gpu: ${#programs[@]} programs, no failure"
