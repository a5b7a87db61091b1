#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make check-full` adds to `make check`; every step runs, failures are counted at the end.
#
# It has what .ci/run leaves out: the GPU module for every chip, assembled and optimised, the analyser's long paths,
# the wheel beside UMAP and Scanpy, gallery and site, every test with the sanitizers and with clang, and every case of
# them but with the thread sanitizer.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
jobs=$(nproc)
failed=()
step() {
    local name=$1
    shift
    echo "== $name: $*"
    "$@" || failed+=("$name")
}
build() {
    cmake --preset "$1" >/dev/null && cmake --build --preset "$1" -j "$jobs" | tail -n 3
    return "${PIPESTATUS[0]}"
}

# The GPU module for every chip, where nvcc is.
chips() {
    PATH=$PATH:/usr/local/cuda/bin command -v nvcc >/dev/null || { echo "chips: skipped, no nvcc"; return 0; }
    cmake -S . -B build-chips -DKITH_CUDA=ON -DBUILD_TESTING=OFF >/dev/null &&
        cmake --build build-chips -j "$jobs" --target kith_cuda | tail -n 3 &&
        tools/check_module.sh build-chips/libkith_cuda.so
}

step chips chips
# Cases that differ little from others, too: what asks tests/support for KITH_CASES=all.
step all-cases env KITH_CASES=all ctest --test-dir build -j "$jobs" --output-on-failure \
    -R "^(test_(exact_(oracle|same_bytes|shadow)|filter|period|team_trees|gpu_budgets|tree_(places|radius|search))|python_package)$"
# The reference device has few cases by itself.
for name in graph_index both team; do
    step "all-cases-$name" env KITH_CASES=all KITH_REFERENCE_DEVICES=2 KITH_SOURCE="$PWD" \
        KITH_CUDA_MODULE="$PWD/build/stubs/libkith_reference.so" "build/tests-gpu/test_gpu_$name"
done
step asan-build build asan-ubsan
step asan env KITH_CASES=all ctest --preset asan-ubsan -j "$jobs"
step tsan-build build tsan
step tsan ctest --preset tsan -j "$jobs"
step valgrind tools/check_memory.sh
step tidy tools/check_tidy.sh
step fuzz tools/fuzz.sh
step clang-build build clang
step clang env KITH_CASES=all ctest --preset clang -j "$jobs"
step aarch64 tools/check_aarch64.sh
step pipelines-site tools/check_wheel.sh --built build --pipelines --site
if [ ${#failed[@]} -gt 0 ]; then
    echo "check-full: failed: ${failed[*]}" >&2
    exit 1
fi
