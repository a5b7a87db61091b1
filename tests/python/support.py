# SPDX-License-Identifier: Apache-2.0
"""Points of the Python tests, and answers that NumPy computes in double."""

import numpy as np


def points(rows=200, cols=8, dtype=np.float32, seed=0):
    """Points without ties."""
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return random.integers(low, high, (rows, cols), dtype)
    return random.standard_normal((rows, cols)).astype(dtype)


def distances_between(queries, corpus):
    """All euclidean distances, in double."""
    difference = queries[:, None, :].astype(np.float64) - corpus[None, :, :].astype(np.float64)
    return np.sqrt((difference**2).sum(axis=2))


def first(distances, k):
    """Indices of the k smallest of each row by (distance, index)."""
    return np.argsort(distances, axis=1, kind="stable")[:, :k]


def graph(x, k):
    """Indices of each point's k nearest among the others."""
    distances = distances_between(x, x)
    np.fill_diagonal(distances, np.inf)
    return first(distances, k)
