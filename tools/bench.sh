#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make bench: peers by package name into bench/.venv, then kith beside them. Arguments are those of
# bench/whole/bench_graph.py; PYTHON names an interpreter that has the peers, and nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${PYTHON:-}" ]; then
    PYTHON=bench/.venv/bin/python
    [ -x "$PYTHON" ] || python3 -m venv bench/.venv
    for package in numpy faiss-cpu scikit-learn pynndescent usearch hnswlib; do
        "$PYTHON" -m pip show -q "$package" >/dev/null 2>&1 ||
            "$PYTHON" -m pip install -q --disable-pip-version-check "$package" ||
            echo "bench: $package could not be installed; it will be named as absent"
    done
fi
exec "$PYTHON" bench/whole/bench_graph.py "$@"
