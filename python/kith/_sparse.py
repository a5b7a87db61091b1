# SPDX-License-Identifier: Apache-2.0
"""SciPy's sparse matrices, searched block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ._arrays import as_matrix, is_sparse, sparse_blocks, sparse_rows
from ._context import Settings
from ._metrics import EUCLIDEAN, INNER_PRODUCT, SQEUCLIDEAN, code, name
from ._progress import Progress
from ._results import Array, Neighbors
from ._typing import Metric


def _dense_blocks(x: Any) -> Iterator[tuple[int, Array]]:
    if not is_sparse(x):
        yield 0, as_matrix(x, "X").array
        return
    for start, block in sparse_blocks(sparse_rows(x)):
        yield start, block.toarray()


def _merge(first: Neighbors | None, second: Neighbors, k: int, sign: float) -> Neighbors:
    """The k best of two answers; those of the first one have the lower indices."""
    if first is None:
        return second
    distances = np.concatenate([first.distances, second.distances], axis=1)
    indices = np.concatenate([first.indices, second.indices], axis=1)
    best = np.argsort(sign * distances, axis=1, kind="stable")[:, :k]
    return Neighbors(
        np.take_along_axis(distances, best, axis=1), np.take_along_axis(indices, best, axis=1)
    )


def refuse(**options: Any) -> None:
    """What does not go with sparse matrices, by its name."""
    for option, value in options.items():
        if value is not None:
            raise ValueError(f"{option} does not go with sparse matrices (use X.toarray())")


def blockwise(
    search: Callable[..., Neighbors],
    corpus: Any,
    queries: Any,
    k: int,
    metric: Metric,
    p: float,
    method: int,
    wanted: Settings,
    progress: Progress,
    without_self: bool = False,
) -> Neighbors:
    """knn where corpus or queries are sparse: blocks against blocks, in double, each by search.

    without_self: the queries are the corpus, and none of them is its own neighbour.
    """
    if not isinstance(metric, str):
        raise ValueError("a function as metric does not go with sparse matrices (use X.toarray())")
    most = corpus.shape[0] - without_self
    if not 1 <= k <= most:
        raise ValueError(f"k is {k}, must be 1 to {most}")
    number = code(metric, p)
    # Blocks are merged by what rows are ordered by, which is the square.
    root = number == EUCLIDEAN
    sign = -1.0 if number == INNER_PRODUCT else 1.0
    rows = queries.shape[0]
    result = Neighbors(np.empty((rows, k)), np.empty((rows, k), np.int64))
    for first_query, query_block in _dense_blocks(queries):
        asked = as_matrix(query_block, "queries")
        best: Neighbors | None = None
        for first_point, point_block in _dense_blocks(corpus):
            points = as_matrix(point_block, "corpus")
            own = None
            if without_self:
                own = np.arange(first_query, first_query + asked.rows) - first_point
                own[(own < 0) | (own >= points.rows)] = -1
            # Queries that meet themselves have one row less to find.
            size = min(k, points.rows - bool(own is not None and (own >= 0).any()))
            if size == 0:
                continue
            found = search(
                points,
                asked,
                size,
                metric=name(SQEUCLIDEAN if root else number),
                method=method,
                exclude=own,
                wanted=wanted,
                progress=progress,
                out=(np.empty((asked.rows, size)), np.empty((asked.rows, size), np.int64)),
            )
            found.indices[...] += first_point
            best = _merge(best, found, k, sign)
        assert best is not None
        block = slice(first_query, first_query + asked.rows)
        result.distances[block] = np.sqrt(best.distances) if root else best.distances
        result.indices[block] = best.indices
    double = np.float64 in (corpus.dtype, queries.dtype)
    return result if double else Neighbors(result.distances.astype(np.float32), result.indices)
