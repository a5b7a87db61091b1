# SPDX-License-Identifier: Apache-2.0
"""Points leave a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _options
from . import _structs as s
from ._arrays import as_matrix
from ._context import settings
from ._library import lib
from ._metrics import name, resolve
from ._places import check_together, on_host
from ._progress import Progress
from ._results import Neighbors, Table, claim, narrow, pair_of
from ._search import call, fingerprint, like
from ._typing import Bytes, Metric, Pair, Points, Whole


def remove(
    X: Points,
    graph: Pair,
    removed: ArrayLike,
    k: Whole | None = None,
    *,
    metric: Metric | None = None,
    p: float = 2,
    include_self: bool = False,
    n_jobs: Whole | None = None,
    device: str | None = None,
    memory_limit: Bytes | None = None,
    progress: Progress = None,
    out: Pair | None = None,
) -> Neighbors:
    """The graph of what is left when some of its points leave.

    Rows that lost neighbours are searched for again, the others only move up. An exact graph stays
    exact: the bytes are those of ``kith.knn_graph(X[left], k)``. Where more than half of the rows
    lost neighbours the graph is made anew: an approximate one by a descent, any other exactly.

    Parameters
    ----------
    X : array of shape (n, d)
        The points of the graph, those that leave among them. On a GPU, with the graph: both are
        copied to the host, and the answer back.
    graph : (distances, indices)
        Their graph, as `kith.knn_graph` gives it. Distances are not read.
    removed : array of n bools, or of integers
        Which rows leave: True for these, or their numbers.
    k : int, optional
        Neighbours of a point; the graph's, unless given, and at most these.
    metric : str or callable, optional
        Unless given that of the graph, where it is known, else ``euclidean``.
    p, include_self, n_jobs, device, memory_limit, progress, out
        As in `kith.knn_graph`.

    Returns
    -------
    Neighbors
        ``(distances, indices)`` of the points that are left, in their order, where X lives; indices
        count them from 0.

    Examples
    --------
    >>> import numpy as np, kith
    >>> X = np.random.default_rng(0).random((300, 4))
    >>> rest = kith.remove(X, kith.knn_graph(X, 5), [0, 7])
    >>> left = np.delete(X, [0, 7], axis=0)
    >>> bool((rest.indices == kith.knn_graph(left, 5).indices).all())
    True
    """
    wanted = settings(n_jobs, device, memory_limit)
    parts = pair_of(graph, "graph")
    check_together("X", X, graph=parts[0])
    check_together("X", X, graph=parts[1])
    points = as_matrix(X, "X", wanted.memory_limit)
    wanted = wanted.beside(points)
    table, keep = narrow(graph, "graph")
    known = keep[2]
    if metric is None:
        metric = name(known.metric or s.EUCLIDEAN)
    if table.rows != points.rows:
        raise ValueError(f"the graph is of {table.rows} points, X has {points.rows} rows")
    gone = _mask(removed, points.rows)
    k = int(table.k) if k is None else _options.whole(k, "k")
    left = points.rows - int(gone.sum())
    distance = resolve(metric, p, points.array.dtype)
    params = s.sized(
        s.RemoveParams,
        k=k,
        flags=s.INCLUDE_SELF if include_self else 0,
        approximate=int(known.exact == s.APPROXIMATE),
        removed=gone.ctypes.data,
        **distance.fields,
    )
    answer = Table(left, k, left, points.is_double, out)
    report = s.sized(s.RemoveReport)
    call(
        distance,
        wanted,
        progress,
        lib.kith_graph_remove,
        points.struct,
        table,
        params,
        answer.struct,
        report,
    )
    exact = {s.CERTIFIED: True, s.APPROXIMATE: False}.get(known.exact)
    if report.anew and not params.approximate:
        exact = True
    rest = np.ascontiguousarray(points.array[gone == 0])
    struct = s.Matrix(rest.ctypes.data, left, 0, points.struct.cols, points.struct.dtype)
    return like(X, claim(answer.result(), distance.number, exact, fingerprint(struct, wanted)), out)


def _mask(removed: ArrayLike, rows: int) -> Any:
    """A byte a row, 1 where it leaves."""
    given = np.asarray(on_host(removed))
    if given.dtype == bool and given.shape == (rows,):
        return given.astype(np.uint8)
    if given.size == 0:
        return np.zeros(rows, np.uint8)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ValueError(f"removed must be {rows} bools, or numbers of rows")
    if given.min() < 0 or given.max() >= rows:
        raise ValueError(
            f"removed has row {given.min() if given.min() < 0 else given.max()}, X has {rows} rows"
        )
    mask = np.zeros(rows, np.uint8)
    mask[given] = 1
    return mask
