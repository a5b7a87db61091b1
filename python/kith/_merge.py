# SPDX-License-Identifier: Apache-2.0
"""Two graphs made one."""

from __future__ import annotations

import ctypes as c
import warnings
from typing import Any

from . import _options, _tune
from . import _structs as s
from ._arrays import HostMatrix, as_matrix
from ._context import Settings, settings
from ._graph import Graph
from ._library import lib
from ._metrics import Distance, name, resolve
from ._places import on_device
from ._progress import Progress
from ._results import Neighbors, Table, claim, narrow, pair_of
from ._search import call, fingerprint, like, may_descend, search_params
from ._tune import Tune
from ._typing import Bytes, Metric, Pair, Points, Seed, Whole


def merge(
    X: Points,
    first: Pair,
    second: Pair,
    k: Whole | None = None,
    *,
    metric: Metric | None = None,
    p: float = 2,
    algorithm: str = "auto",
    recall: float | None = None,
    include_self: bool = False,
    verify: bool = False,
    random_state: Seed = None,
    rounds: Whole | None = None,
    candidates: Whole | None = None,
    delta: float | None = None,
    tune: Tune | None = None,
    n_jobs: Whole | None = None,
    device: str | None = None,
    memory_limit: Bytes | None = None,
    progress: Progress = None,
    out: Pair | None = None,
) -> Neighbors:
    """The graph of two sets of points from a graph of each.

    Exact where both graphs are (they know it, see `kith.Neighbors`), and then the bytes are those
    of ``kith.knn_graph(X, k)``: only pairs across the sets are computed. Of arrays on a GPU, X and
    both graphs, it is by ``nn_descent`` and stays there, unless ``brute`` or `verify` ask for an exact
    one: for that they are copied to the host, and the answer back.

    Parameters
    ----------
    X : array of shape (n, d)
        The points of both, those of the first graph before the others.
    first, second : (distances, indices)
        A graph of each set, such as `kith.knn_graph` gives it; indices of the second one count
        from its own first point. Distances are not read. Where X lies on a GPU they lie there, too.
    k : int, optional
        Neighbours of a point; those of the graph that has fewer, unless given.
    algorithm : {"auto", "brute", "nn_descent"}
        ``nn_descent`` is approximate: it goes on from both graphs. ``auto`` takes it where one of them
        is not certified, and it will be sooner.
    recall : float, optional
        Below 1: ``nn_descent`` until this share of the true neighbours is found.
    metric : str or callable, optional
        Unless given that of the graphs, where it is known, else ``euclidean``. A graph of another
        metric, or of other points, is refused.
    verify : bool
        Solve what is not certified anew: if its lists are the exact ones, it then is. A warning says
        how many are not.
    rounds, candidates, delta, tune
        Of ``nn_descent``, as in `kith.knn_graph`; ``start="random"`` draws what is near across,
        ``start="ggm"`` is the published merge, for comparison.
    p, include_self, random_state, n_jobs, device, memory_limit, progress, out
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
    method = _options.method(algorithm)
    on_gpu = _lie_on_gpu(X, first, second) and not (verify or method == s.METHOD_EXACT)
    on_gpu = on_gpu and (metric is None or isinstance(metric, str))
    points: Any
    keep_one: tuple[Any, ...]
    keep_two: tuple[Any, ...]
    if on_gpu:
        from . import _cuda

        points = _cuda.as_device_matrix(X, "X")
        one, keep_one = _cuda.narrow(first, "first", points)
        two, keep_two = _cuda.narrow(second, "second", points)
    else:
        points = as_matrix(X, "X", wanted.memory_limit)
        wanted = wanted.beside(points)
        one, keep_one = narrow(first, "first")
        two, keep_two = narrow(second, "second")
    known = keep_one[-1], keep_two[-1]
    if metric is None:
        metric = name(known[0].metric or known[1].metric or s.EUCLIDEAN)
    rows = points.struct.rows
    if one.rows + two.rows != rows:
        raise ValueError(f"the graphs are of {one.rows} and {two.rows} points, X has {rows} rows")
    k = int(min(one.k, two.k)) if k is None else _options.whole(k, "k")
    _options.check_recall(recall)
    (tuned,) = _tune.fields(tune, _tune.DESCENT)
    own = _options.Descent(None, rounds, candidates, delta, None, tuned)
    method = own.method(method)
    flags = s.INCLUDE_SELF if include_self else 0
    sets = s.MergeSets(c.addressof(points.struct), one.rows, c.addressof(one), c.addressof(two))
    report = s.sized(s.Report)
    if on_gpu:
        assert isinstance(metric, str)
        params = _cuda.search_params(metric, p, k, method, flags, {})
        may_descend(params, recall, random_state, own)
        found = _cuda.merge(points, sets, params, report, wanted, progress, out)
        return claim(found, params.metric, _exactness(report))
    distance = resolve(metric, p, points.array.dtype)
    table = Table(points.rows, k, points.rows, points.is_double, out)
    if verify:
        _verify(points, (one, two), known, distance, flags, wanted, progress)
    params = search_params(distance, k, flags=flags, method=method)
    may_descend(params, recall, random_state, own)
    call(distance, wanted, progress, lib.kith_graph_merge, sets, params, table.struct, report)
    del keep_one, keep_two
    made = fingerprint(points.struct, wanted)
    found = claim(table.result(), distance.number, _exactness(report), made)
    return like(X, found, out)


def _lie_on_gpu(X: Any, first: Any, second: Any) -> bool:
    """Whether all arrays of a merge lie on a GPU; they lie on one side. A kith.Graph is the host's."""
    there = on_device(X)
    for name_of, graph in (("first", first), ("second", second)):
        parts = (None,) if isinstance(graph, Graph) else pair_of(graph, name_of)
        if any(on_device(part) != there for part in parts):
            side = "on the GPU" if there else "in host memory"
            raise ValueError(
                f"{name_of} must lie where X does, {side} (copy one to the other's side)"
            )
    return there


def _exactness(report: s.Report) -> bool | None:
    """What a report says of the graph; None: it does not know."""
    return {s.CERTIFIED: True, s.APPROXIMATE: False}.get(report.exact)


def _verify(
    points: HostMatrix,
    graphs: tuple[s.Neighbors, s.Neighbors],
    known: tuple[s.ResultMeta, s.ResultMeta],
    distance: Distance,
    flags: int,
    wanted: Settings,
    progress: Progress,
) -> None:
    """Certifies graphs that are exact; warns of others."""
    at = points.struct.data
    for name_of, graph, meta in zip(("first", "second"), graphs, known):
        part = s.Matrix(
            at, graph.rows, points.array.strides[0], points.struct.cols, points.struct.dtype
        )
        at += graph.rows * points.array.strides[0]
        most = graph.rows - (not flags & s.INCLUDE_SELF)
        if meta.exact == s.CERTIFIED or most < 1:
            continue
        wrong, row = c.c_int64(), c.c_int64()
        params = search_params(distance, min(graph.k, most), flags=flags)
        call(
            distance,
            wanted,
            progress,
            lib.kith_graph_verify,
            part,
            graph,
            params,
            c.byref(wrong),
            c.byref(row),
        )
        meta.exact = s.APPROXIMATE if wrong.value else s.CERTIFIED
        if wrong.value:
            warnings.warn(
                f"{name_of}: {wrong.value} of {graph.rows} lists are not the exact ones, the first of "
                f"row {row.value}",
                stacklevel=3,
            )
