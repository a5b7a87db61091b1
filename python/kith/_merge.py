# SPDX-License-Identifier: Apache-2.0
"""Two graphs made one."""

from __future__ import annotations

from . import _options
from . import _structs as s
from ._arrays import as_matrix
from ._context import settings
from ._library import lib
from ._metrics import resolve
from ._progress import Progress
from ._results import Neighbors, Table, narrow
from ._search import call, like, search_params
from ._typing import Bytes, Metric, Pair, Points, Seed, Whole


def merge(
    X: Points,
    first: Pair,
    second: Pair,
    k: Whole | None = None,
    *,
    metric: Metric = "euclidean",
    p: float = 2,
    algorithm: str = "auto",
    recall: float | None = None,
    include_self: bool = False,
    random_state: Seed = None,
    n_jobs: Whole | None = None,
    device: str | None = None,
    memory_limit: Bytes | None = None,
    progress: Progress = None,
    out: Pair | None = None,
) -> Neighbors:
    """The graph of two sets of points from a graph of each.

    Exact where both graphs are, and then the bytes are those of ``kith.knn_graph(X, k)``: only
    pairs across the sets are computed.

    Parameters
    ----------
    X : array of shape (n, d)
        The points of both, those of the first graph before the others.
    first, second : (distances, indices)
        A graph of each set, such as `kith.knn_graph` gives it; indices of the second one count
        from its own first point. Distances are not read.
    k : int, optional
        Neighbours of a point; those of the graph that has fewer, unless given.
    algorithm : {"auto", "brute", "nn_descent"}
        ``nn_descent`` is approximate and far sooner done: it goes on from both graphs.
    recall : float, optional
        Below 1: ``nn_descent`` until this share of the true neighbours is found.
    metric, p, include_self, random_state, n_jobs, device, memory_limit, progress, out
        As in `kith.knn_graph`.

    Returns
    -------
    Neighbors
        ``(distances, indices)`` of all n points, where X lives.

    Examples
    --------
    >>> import numpy as np, kith
    >>> X = np.random.default_rng(0).random((300, 4))
    >>> parts = kith.knn_graph(X[:200], 5), kith.knn_graph(X[200:], 5)
    >>> bool((kith.merge(X, *parts).indices == kith.knn_graph(X, 5).indices).all())
    True
    """
    wanted = settings(n_jobs, device, memory_limit)
    points = as_matrix(X, "X", wanted.memory_limit)
    wanted = wanted.beside(points)
    one, keep_one = narrow(first, "first")
    two, keep_two = narrow(second, "second")
    if one.rows + two.rows != points.rows:
        raise ValueError(
            f"the graphs are of {one.rows} and {two.rows} points, X has {points.rows} rows"
        )
    k = int(min(one.k, two.k)) if k is None else _options.whole(k, "k")
    _options.check_recall(recall)
    method = _options.method(algorithm)
    if recall is not None and recall < 1.0:
        method = s.METHOD_DESCENT
    flags = s.INCLUDE_SELF if include_self else 0
    distance = resolve(metric, p, points.array.dtype)
    table = Table(points.rows, k, points.rows, points.is_double, out)
    if method == s.METHOD_DESCENT:
        descent = _options.descent_params(distance.fields, k, flags, recall, random_state)
        call(
            distance,
            wanted,
            progress,
            lib.kith_graph_merge,
            points.struct,
            one.rows,
            one,
            two,
            descent,
            table.struct,
            None,
        )
    else:
        params = search_params(distance, k, flags=flags, method=method)
        call(
            distance,
            wanted,
            progress,
            lib.kith_graph_merge_exact,
            points.struct,
            one.rows,
            one,
            two,
            params,
            table.struct,
        )
    del keep_one, keep_two
    return like(X, table.result(), out)
