# SPDX-License-Identifier: Apache-2.0
"""CuPy as a peer on a GPU: brute force and selection on PyTorch's arrays, which it shares."""

import functools
import importlib


@functools.cache
def module():
    try:
        return importlib.import_module("cupy")
    except ImportError:
        return None


def is_present():
    return module() is not None


def version():
    return module().__version__


def select(matrix, k):
    """Values and ids of the k smallest of each row, in order."""
    cupy = module()
    values = cupy.from_dlpack(matrix)
    ids = cupy.argpartition(values, k - 1, axis=1)[:, :k]
    found = cupy.take_along_axis(values, ids, axis=1)
    order = cupy.argsort(found, axis=1)
    return cupy.take_along_axis(found, order, axis=1), cupy.take_along_axis(ids, order, axis=1)


def graph(points, k):
    """Ids of the k + 1 nearest, the row itself among them, by |c|^2 - 2qc."""
    cupy = module()
    rows = cupy.from_dlpack(points).astype(cupy.float32)
    squares = (rows * rows).sum(axis=1)
    batch = max(1, (1 << 29) // (4 * len(rows)))
    found = [
        select(squares - 2.0 * (rows[first : first + batch] @ rows.T), k + 1)[1]
        for first in range(0, len(rows), batch)
    ]
    return cupy.concatenate(found)
