#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The demo: exact k-NN graphs of two real data sets of this repository, and pictures of them.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p demo-out
for name in digits patches; do
    echo
    echo "\$ build/kith graph examples/data/$name.u8bin -k 10 -o demo-out/$name.npz"
    build/kith graph "examples/data/$name.u8bin" -k 10 -o "demo-out/$name.npz"
done
echo
if .venv/bin/python -c 'import numpy, matplotlib' 2>/dev/null; then
    .venv/bin/python tools/demo_pictures.py demo-out
    echo
    echo "Look at demo-out/digits_map.png and demo-out/patches.png. The same of your own points, one a row:"
    echo "    build/kith graph POINTS.npy -k 10 -o GRAPH.npz        (.csv, .tsv, .fvecs, .hdf5 and others, too)"
    echo "    KITH_LIBRARY=build/libkith.so PYTHONPATH=python .venv/bin/python -m kith.plot GRAPH.npz POINTS.npy"
else
    echo "demo: no pictures, Matplotlib is missing (tools/setup.sh demo); the graphs are in demo-out/"
fi
