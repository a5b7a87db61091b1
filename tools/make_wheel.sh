#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Wheels that package indexes take, into dist/: make_wheel.sh [--machine x86_64|aarch64] [--keep FOLDER]
#
# The compiler is zig's (from the package index), which links for an old C library: the wheel runs on every
# Linux since glibc 2.28, and auditwheel says so in its name. Without the GPU module, whose C++ is that of a newer
# system, and without files of HDF5, which is no library that every Linux has: `pip install .` builds both.
# --keep FOLDER: build there, and leave it.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
machine=$(uname -m)
work=""
while [ $# -gt 0 ]; do
    case $1 in
        --machine) machine=$2 && shift ;;
        --keep) mkdir -p "$2" && work=$(realpath "$2") && shift ;;
        *) echo "wheel: $1 is no option" >&2 && exit 2 ;;
    esac
    shift
done
case $machine in x86_64 | aarch64) ;; *) echo "wheel: no wheel is made for $machine" >&2 && exit 2 ;; esac
if [ -z "$work" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi

mapfile -t defines < <("$root/tools/old_linux.sh" "$work" "$machine")
[ ${#defines[@]} -gt 0 ] || exit 1
"$work/venv/bin/python" -m pip -q --disable-pip-version-check install auditwheel wheel 'scikit-build-core>=0.10'
options=()
for define in "${defines[@]}" KITH_HDF5=OFF KITH_CUDA=OFF; do options+=(-C "cmake.define.$define"); done
rm -rf "$work/made"
PATH="$work/venv/bin:$PATH" "$work/venv/bin/python" -m pip -q --disable-pip-version-check wheel \
    --no-deps --no-build-isolation -w "$work/made" "$root" -C build-dir="$work/build" "${options[@]}"
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
