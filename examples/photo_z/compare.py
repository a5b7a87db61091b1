#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same models by scikit-learn, and how far kith's predictions are from them.

    compare.py CATALOGUE REDSHIFTS QUERIES TRUE_REDSHIFTS FOLDER [K]

All are .fbin; FOLDER is the one that run.sh wrote to. scikit-learn has no median: NumPy's, of its
neighbours.
"""
import pathlib
import sys
import time

import numpy
from sklearn.neighbors import KNeighborsRegressor


def read_fbin(path):
    rows, columns = numpy.fromfile(path, dtype="<u4", count=2)
    return numpy.fromfile(path, dtype="<f4", offset=8).reshape(rows, columns).astype(float)


def predict(points, labels, queries, k, mode):
    weights = "distance" if mode == "weighted" else "uniform"
    model = KNeighborsRegressor(k, weights=weights, n_jobs=-1).fit(points, labels)
    if mode == "median":
        return numpy.median(labels[model.kneighbors(queries, return_distance=False)], axis=1)
    return model.predict(queries)


def describe(name, predicted, truth):
    error = predicted - truth
    scaled = error / (1 + truth)
    nmad = 1.4826 * numpy.median(numpy.abs(scaled - numpy.median(scaled)))
    print(f"{name:22} MAE {numpy.abs(error).mean():.6g}  RMSE {numpy.sqrt((error ** 2).mean()):.6g}  "
          f"bias {error.mean():.6g}  NMAD {nmad:.6g}  above 0.15: {100 * (abs(scaled) > 0.15).mean():.2f} %")


def main():
    points, labels, queries, truth = (read_fbin(path) for path in sys.argv[1:5])
    folder = pathlib.Path(sys.argv[5])
    k = int(sys.argv[6]) if len(sys.argv) > 6 else 10
    for mode in ("mean", "weighted", "median"):
        start = time.perf_counter()
        theirs = predict(points, labels[:, 0], queries, k, mode)
        seconds = time.perf_counter() - start
        ours = read_fbin(folder / f"{mode}.fbin")[:, 0]
        describe(f"scikit-learn {mode}", theirs, truth[:, 0])
        describe(f"kith {mode}", ours, truth[:, 0])
        print(f"{'':22} largest difference {numpy.abs(ours - theirs).max():.2g} (kith's are rounded to "
              f"float32), {seconds:.2f} s")


if __name__ == "__main__":
    main()
