#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kith for 64-bit ARM gives the bytes of this machine: check_aarch64.sh [--keep FOLDER] [--all]
#
# The command is compiled for ARM (tools/old_linux.sh) and run by QEMU, with ARM's C library, zlib and cmocka from
# Debian beside it; nothing is installed. On a processor with i8mm, on one with dot products of bytes, on one with
# neither and in portable code its answers are compared with those of build/kith, file by file; the tests of kernels
# run on the first. --all: every test that computes does, which takes hours. Without QEMU (Debian: qemu-user) or
# Debian's packages that is said, and no error.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
work=""
all=""
while [ $# -gt 0 ]; do
    case $1 in
        --keep) mkdir -p "$2" && work=$(realpath "$2") && shift ;;
        --all) all=yes ;;
        *) echo "aarch64: $1 is no option" >&2 && exit 2 ;;
    esac
    shift
done
if [ -z "$work" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) ||
    { echo "aarch64: skipped, no qemu-aarch64 (Debian: qemu-user)"; exit 0; }
[ -x build/kith ] || { echo "aarch64: build/kith is missing (make)" >&2; exit 1; }

system=$work/system
if [ ! -e "$system/lib" ]; then
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs" "$system"
    apt=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State::lists=$work/lists"
        -o "Dir::Cache=$work/cache" -o Dir::State::status=/dev/null -o APT::Sandbox::User=root)
    "${apt[@]}" update >/dev/null 2>&1 || { echo "aarch64: skipped, no lists of Debian's packages"; exit 0; }
    (cd "$work/debs" && "${apt[@]}" download libc6 zlib1g libcmocka0 libcmocka-dev >/dev/null) ||
        { echo "aarch64: skipped, Debian's packages for arm64 cannot be had"; exit 0; }
    for package in "$work"/debs/*.deb; do dpkg -x "$package" "$system"; done
fi

mapfile -t defines < <(tools/old_linux.sh "$work" aarch64)
[ ${#defines[@]} -gt 0 ] || exit 1
libraries=$system/lib/aarch64-linux-gnu:$system/usr/lib/aarch64-linux-gnu
emulator=("$qemu" -L "$system" -E "LD_LIBRARY_PATH=$libraries")
cmake -S . -B "$work/build" "${defines[@]/#/-D}" -DCMAKE_BUILD_TYPE=Release -DKITH_CUDA=OFF -DKITH_HDF5=OFF \
    -DKITH_MPI=OFF -DKITH_HOUSE_TESTS=OFF -DCMAKE_C_FLAGS="-isystem $system/usr/include" \
    -DCMOCKA_LIBRARY="$system/usr/lib/aarch64-linux-gnu/libcmocka.so" \
    -DCMAKE_CROSSCOMPILING_EMULATOR="$(IFS=';' && echo "${emulator[*]}")" >"$work/log"
kernels=(test_exact_tiles test_metric_bodies test_metric_rows test_select_bodies test_descent_match)
cmake --build "$work/build" --target kith_product "${kernels[@]}" -j "$(nproc)" >"$work/log" 2>&1 ||
    { tail -n 40 "$work/log"; exit 1; }

export KITH_DEVICE=cpu
digits=examples/data/digits.u8bin
here() { build/kith "$@"; }
# Threads of QEMU are threads of this machine; the file that the loader reads first is below $system.
there() { "${emulator[@]}" -cpu "$cpu" "$work/build/kith" "$@"; }
same=0
compare() {
    local name=$1
    shift
    here "$@" -q -o "$work/here.$name"
    there "$@" -q -o "$work/there.$name"
    cmp "$work/here.$name" "$work/there.$name" || { echo "aarch64: other bytes: kith $*" >&2; exit 1; }
    same=$((same + 1))
}
check_answers() {
    for metric in euclidean inner_product cosine correlation manhattan chebyshev chi2 hamming jaccard minkowski:3 \
        minkowski:2.5; do
        compare kith graph "$digits" -k 10 --metric $metric
    done
    for metric in euclidean cosine manhattan; do
        compare npz search "$work/digits.fbin" "$digits" -k 7 --metric $metric
    done
    compare npz graph "$digits" -k 5 --method tree
    compare npz graph "$digits" --radius 20
    compare npz select "$work/digits.fbin" -k 9
    compare npz graph "$digits" -k 10 --method descent --recall 0.95 --tune seed=3
}
here convert "$digits" "$work/digits.fbin" >/dev/null
for machine in "max i8mm" "neoverse-n1 dotprod" "cortex-a72 neon" "max portable"; do
    read -r cpu level <<<"$machine"
    [ "$level" != portable ] || export KITH_ISA=portable # build/kith's answers are the same, too
    there --version >/dev/null
    check_answers
    echo "aarch64: $same answers, the bytes of this machine (QEMU's $cpu: $level)"
done
unset KITH_ISA
for test in "${kernels[@]}"; do
    KITH_CASES=few KITH_SOURCE=$root "${emulator[@]}" -cpu max "$work/build/$test" >"$work/log" 2>&1 ||
        { tail -n 40 "$work/log"; echo "aarch64: $test fails" >&2; exit 1; }
    echo "aarch64: $test passes"
done
if [ -n "$all" ]; then
    cmake --build "$work/build" -j "$(nproc)" >"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }
    KITH_CASES=few ctest --test-dir "$work/build" -L cpu -LE "python|reference" -j "$(nproc)" --output-on-failure
fi
