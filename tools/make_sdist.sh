#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The source for pip, dist/kith_knn-VERSION.tar.gz, and that it builds: make_sdist.sh
#
# A wheel is built from it in a virtual environment that has nothing else, away from the checkout, and computes;
# twine, check-wheel-contents and auditwheel find nothing wrong with either. That wheel is for this machine;
# make_wheel.sh makes those that are published.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
bin=$work/venv/bin
"$bin/python" -m pip -q --disable-pip-version-check install build twine check-wheel-contents auditwheel

"$bin/python" -m build --sdist -o "$work/made" "$root" >"$work/log" || { cat "$work/log"; exit 1; }
sdist=$(echo "$work"/made/kith_knn-*.tar.gz)
cd "$work"
"$bin/python" -m pip -q --disable-pip-version-check wheel --no-deps -w made "$sdist"
wheel=$(echo "$work"/made/kith_knn-*.whl)
"$bin/twine" check --strict "$sdist" "$wheel"
"$bin/check-wheel-contents" "$wheel"
"$bin/auditwheel" show "$wheel" 2>/dev/null | tr '\n' ' ' | grep -oE 'consistent with the following platform tag: *"[^"]*"'
python3 -m venv "$work/empty"
"$work/empty/bin/python" -m pip -q --disable-pip-version-check install "$wheel"
"$work/empty/bin/python" -I -c "import kith, numpy; print('sdist: kith', kith.__version__, kith.knn_graph(numpy.eye(4), 2)[1].tolist())"
mkdir -p "$root/dist"
cp "$sdist" "$root/dist/"
echo "sdist: dist/$(basename "$sdist"), $(stat -c %s "$sdist") bytes"
