#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Small cases of every way through the engine under NVIDIA's compute-sanitizer: reads and writes out
# of bounds and blocks that are never freed (memcheck), hazards in shared memory (racecheck), memory
# that was never written (initcheck), barriers that not all threads reach (synccheck). For both units.
#   sanitize_gpu.sh [BUILD_FOLDER [TOOL...]]     SANITIZER names the program; TESTS other tests
set -uo pipefail
cd "$(dirname "$0")/.." || exit
build=${1:-build}
shift || true
small="test_gpu_paths test_tree_build_gpu test_graph_near_gpu test_graph_groups_gpu test_graph_fill_gpu test_graph_links_gpu test_graph_lists_gpu test_graph_samples_gpu"
tools=("$@")
[ ${#tools[@]} = 0 ] && tools=(memcheck racecheck initcheck synccheck)
sanitizer=${SANITIZER:-$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)}
if [ ! -x "$sanitizer" ]; then
    echo "sanitize-gpu: no compute-sanitizer: it comes with the CUDA toolkit, or with the Python package"
    echo "  nvidia-cuda-sanitizer-api; SANITIZER=PATH names it"
    exit 77
fi
export KITH_CUDA_MODULE=${KITH_CUDA_MODULE:-$PWD/$build/libkith_cuda.so}
"$build/tests-gpu/test_gpu_paths" >/dev/null
if [ $? = 77 ]; then
    echo "sanitize-gpu: skipped, there is no GPU"
    exit 77
fi
failed=()
for unit in best mma; do
    if [ $unit = mma ]; then export KITH_GPU_UNIT=mma; else unset KITH_GPU_UNIT; fi
    for tool in "${tools[@]}"; do
        options=(--tool "$tool" --error-exitcode 99 --print-limit 10)
        [ "$tool" = memcheck ] && options+=(--leak-check full)
        # racecheck knows barriers alone: the rings of the Hopper screen, one writer and one reader that
        # fence, are hazards to it (screen_wgmma_test.cuh). Its products are checked with the mma unit.
        [ "$tool" = racecheck ] && [ $unit = best ] && options+=(--kernel-name-exclude kns=wgmma_screen_kernel)
        # synccheck wants all warps of a block at one instruction; those of a crew meet at a named barrier from
        # several, as PTX allows: it counts who arrives (graph_walk.cuh).
        [ "$tool" = synccheck ] && options+=(--kernel-name-exclude kns=crew_kernel)
        for name in ${TESTS:-$small}; do
            echo "== $tool, $unit unit: $name"
            "$sanitizer" "${options[@]}" "$build/tests-gpu/$name"
            code=$?
            [ $code = 0 ] || failed+=("$tool/$unit/$name($code)")
        done
    done
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "sanitize-gpu: failed: ${failed[*]}"
    exit 1
fi
echo "sanitize-gpu: ${tools[*]}: nothing found"
