#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The wheel is built, is small, and works where there is nothing but NumPy and no compiler.
#
# check_wheel.sh [--built FOLDER] [--pipelines] [--site]
#
# --built FOLDER   with the libraries of a build folder, instead of building them once more
# --pipelines      then UMAP, Scanpy and others are installed beside it and run with its neighbours
#                  (tests/python/check_pipelines.py)
# --site           then the gallery is drawn and the site built with it (tools/site.sh)
#
# Where pip cannot install, that is said and no error.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
options=()
pipelines=no
site=no
while [ $# -gt 0 ]; do
    case $1 in
        --built) options=(--config-settings "cmake.define.KITH_BUILT=$(realpath "$2")" --config-settings cmake.define.KITH_CUDA=OFF) && shift ;;
        --pipelines) pipelines=yes ;;
        --site) site=yes ;;
        *) echo "check_wheel: $1 is no option" >&2 && exit 2 ;;
    esac
    shift
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv" || { echo "wheel: skipped, no venv"; exit 0; }
pip() { "$work/venv/bin/python" -m pip -q --disable-pip-version-check "$@"; }
pip install numpy || { echo "wheel: skipped, pip cannot install NumPy"; exit 0; }

pip wheel --no-deps -w "$work" "$root" --config-settings build-dir="$work/build" "${options[@]}"
wheel=$(echo "$work"/kith_knn-*.whl)
bytes=$(stat -c %s "$wheel")
case $wheel in *-py3-none-linux_*.whl) ;; *) echo "wheel: $wheel is not for every Python"; exit 1 ;; esac
echo "wheel: $(basename "$wheel"), $bytes bytes"
[ "$bytes" -lt 20000000 ]
case $(basename "$wheel") in kith_knn-"$("$root/tools/version.sh")"-*) ;; *) echo "wheel: of another version"; exit 1 ;; esac
listed=$(python3 -m zipfile -l "$wheel")
for name in LICENSE NOTICE; do
    grep -q "dist-info/.*$name" <<<"$listed" || { echo "wheel: has no $name"; exit 1; }
done
pip install --no-index "$wheel"

# The first example of README.md's Python, and that of docs/python.md, in an empty folder without PATH.
example() { awk '/^```python$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$1"; }
example "$root/README.md" >"$work/readme.py"
example "$root/docs/python.md" | grep -v to_csr >"$work/start.py" # SciPy's
mkdir "$work/empty"
for name in readme start; do
    (cd "$work/empty" && env -i KITH_DEVICE=cpu "$work/venv/bin/python" -I "$work/$name.py")
done
echo "wheel: both examples ran with NumPy alone"

if [ $pipelines = yes ]; then
    pip install -r "$root/tests/python/pipelines.txt" ||
        { echo "pipelines: skipped, pip cannot install them"; exit 0; }
    "$work/venv/bin/python" "$root/tests/python/check_pipelines.py"
fi
if [ $site = yes ]; then
    KITH_DEVICE=cpu KITH_PEERS=1 "$work/venv/bin/python" -B "$root/tests/python/test_documents.py"
    env -u KITH_DATA KITH_DEVICE=cpu "$root/tools/site.sh" --python "$work/venv/bin/python"
fi
