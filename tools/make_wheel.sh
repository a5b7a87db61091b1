#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Wheels that package indexes take, into dist/: make_wheel.sh [--machine x86_64|aarch64] [--cuda] [--keep FOLDER]
#
# The compiler is zig's (from the package index), which links for an old C library: the wheel runs on every
# Linux since glibc 2.28, and auditwheel says so in its name. Without files of HDF5, which is no library that every
# Linux has: `pip install .` builds them.
# --cuda: with the GPU module, for every chip that nvcc 12.8 and later know and, as PTX, for later ones; a quarter
# of an hour of one core. --keep FOLDER: build there, and leave it.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
machine=$(uname -m)
work=""
cuda=""
while [ $# -gt 0 ]; do
    case $1 in
        --machine) machine=$2 && shift ;;
        --cuda) cuda=yes ;;
        --keep) mkdir -p "$2" && work=$(realpath "$2") && shift ;;
        *) echo "wheel: $1 is no option" >&2 && exit 2 ;;
    esac
    shift
done
case $machine in x86_64 | aarch64) ;; *) echo "wheel: no wheel is made for $machine" >&2 && exit 2 ;; esac
if [ -n "$cuda" ] && [ "$machine" != "$(uname -m)" ]; then
    echo "wheel: the GPU module is for the machine that builds it, not for $machine" >&2 && exit 2
fi
if [ -z "$work" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi

mapfile -t defines < <("$root/tools/old_linux.sh" "$work" "$machine")
[ ${#defines[@]} -gt 0 ] || exit 1
"$work/venv/bin/python" -m pip -q --disable-pip-version-check install auditwheel wheel 'scikit-build-core>=0.10'

# nvcc compiles with the compiler of this system; what it leaves is linked for the old one. Of C++ it wants no
# more than an error to throw, which zig's library has by the same names, and that <iostream> begins and ends
# with the program: there is no stream in the module, and nothing to begin.
link_module() {
    local at=$work/cuda runtime
    cmake -S "$root" -B "$at" -DCMAKE_BUILD_TYPE=Release -DKITH_CUDA=ON -DBUILD_TESTING=OFF -DKITH_HDF5=OFF \
        -DKITH_MPI=OFF "-DKITH_CUDA_ARCHS=80;86;90;100;120" >"$work/log" || { cat "$work/log"; return 1; }
    cmake --build "$at" -j "$(nproc)" \
        --target kith_cuda_objects kith_cuda_queue_objects kith_cuda_wgmma_objects >"$work/log" ||
        { tail -n 40 "$work/log"; return 1; }
    printf 'void %s(void *s) { (void)s; }\n' _ZNSt8ios_base4InitC1Ev _ZNSt8ios_base4InitD1Ev >"$work/streams.c"
    runtime=$(sed -n 's/^CUDA_cudart_static_LIBRARY:.*=//p' "$at/CMakeCache.txt")
    find "$at/CMakeFiles" -name "*.cu.o" | sort >"$work/objects"
    "$work/cc" -shared -fPIC -s -w -o "$work/libkith_cuda.so" "$work/streams.c" "@$work/objects" "$runtime" \
        -lc++ -lpthread -ldl -lrt -lm -Wl,--version-script="$root/cmake/kith_cuda.map" &&
        "$root/tools/check_module.sh" "$work/libkith_cuda.so"
}
options=()
if [ -n "$cuda" ]; then
    link_module || exit 1
    defines+=("KITH_BUILT_CUDA=$work/libkith_cuda.so")
fi
for define in "${defines[@]}" KITH_HDF5=OFF KITH_CUDA=OFF; do options+=(--config-settings "cmake.define.$define"); done
rm -rf "$work/made"
PATH="$work/venv/bin:$PATH" "$work/venv/bin/python" -m pip -q --disable-pip-version-check wheel \
    --no-deps --no-build-isolation -w "$work/made" "$root" --config-settings build-dir="$work/build" "${options[@]}"
# auditwheel looks at what the libraries want of a system; there is nothing to bring along.
tag() { "$work/venv/bin/wheel" tags --remove --platform-tag "$1" "$work"/made/*.whl >/dev/null; }
tag "linux_$machine"
"$work/venv/bin/auditwheel" show --json "$work"/made/*.whl 2>/dev/null >"$work/said"
"$work/venv/bin/python" - "$work/said" "$machine" <<'PYTHON'
import json
import re
import sys

said = json.load(open(sys.argv[1]))
tag = said["overall_tag"]
runs = re.fullmatch(rf"manylinux_2_(\d+)_{sys.argv[2]}", tag)
print(f"wheel: auditwheel says {tag}")
sys.exit(not (runs and int(runs[1]) <= 28))
PYTHON
tag "manylinux_2_28_$machine"
mkdir -p "$root/dist"
for wheel in "$work"/made/*.whl; do
    bytes=$(stat -c %s "$wheel")
    [ "$bytes" -lt 20000000 ] || { echo "wheel: $wheel has $bytes bytes, more than 20 MB" >&2; exit 1; }
    cp "$wheel" "$root/dist/"
    echo "wheel: dist/$(basename "$wheel"), $bytes bytes"
done
