#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make examples/data from what scikit-learn and scikit-image ship. Run once; the files are committed.

    python3 -m venv data-venv && data-venv/bin/pip install scikit-learn==1.9.1 scikit-image==0.26.0
    data-venv/bin/python tools/make_example_data.py examples/data

.u8bin is uint32 rows, uint32 columns, then the rows, a byte a component.
"""
import hashlib
import pathlib
import sys

import numpy
from numpy.lib.stride_tricks import sliding_window_view
from skimage import data
from sklearn.datasets import load_digits

SIDE = 8  # pixels of a patch
STEP = 4  # pixels between patches
PATCHES = 120  # patches a row and a column: 120 * 120 * 192 bytes, below 3 MB


def write_u8bin(path, points):
    points = numpy.ascontiguousarray(points, dtype=numpy.uint8)
    content = numpy.array(points.shape, dtype="<u4").tobytes() + points.tobytes()
    path.write_bytes(content)
    print(f"{hashlib.sha256(content).hexdigest()}  {path.name}  {points.shape[0]} x {points.shape[1]}")


def cut_patches(photograph):
    windows = sliding_window_view(photograph, (SIDE, SIDE, 3))[::STEP, ::STEP, 0]
    chosen = windows[:PATCHES, :PATCHES]
    return chosen.reshape(PATCHES * PATCHES, SIDE * SIDE * 3)


def main():
    folder = pathlib.Path(sys.argv[1])
    digits = load_digits()
    write_u8bin(folder / "digits.u8bin", digits.data.astype(numpy.uint8))
    write_u8bin(folder / "digit_labels.u8bin", digits.target.astype(numpy.uint8).reshape(-1, 1))
    write_u8bin(folder / "patches.u8bin", cut_patches(data.astronaut()))


if __name__ == "__main__":
    main()
