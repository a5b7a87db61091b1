# SPDX-License-Identifier: Apache-2.0
"""Nearest neighbours of queries, and graphs."""

from __future__ import annotations

import ctypes as c
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _filter, _options, _small, _sparse, _tune
from . import _structs as s
from ._arrays import HostMatrix, as_matrix, given_back, is_sparse
from ._context import Settings, context, settings
from ._library import lib
from ._metrics import Distance, resolve
from ._places import check_together, on_device
from ._progress import Progress
from ._results import Fingerprint, Neighbors, Table, claim
from ._tune import Tune
from ._typing import Bytes, Metric, Pair, Points, Seed, Whole

_PARAMS_SIZE = c.sizeof(s.SearchParams)


def knn(
    corpus: Points,
    queries: Points,
    k: Whole,
    *,
    metric: Metric = "euclidean",
    p: float = 2,
    algorithm: str = "auto",
    radius: float | None = None,
    exclude: ArrayLike | None = None,
    allow: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    query_groups: ArrayLike | None = None,
    rule: str | None = None,
    period: ArrayLike | None = None,
    tune: Tune | None = None,
    n_jobs: Whole | None = None,
    device: str | None = None,
    memory_limit: Bytes | None = None,
    progress: Progress = None,
    out: Pair | None = None,
) -> Neighbors:
    """The k nearest rows of corpus for each query, exactly.

    Rows are ordered by (distance in double precision, row of the corpus): ties go to the lower
    row. The answer is the same, bit for bit, on every processor and GPU.

    Parameters
    ----------
    corpus, queries : array of shape (n, d), (m, d)
        NumPy arrays and memory-mapped files of float16, float32, float64, uint8 or int8 are read
        where they lie. Other arrays are taken by DLPack, ``__array_interface__`` or
        ``__cuda_array_interface__``; SciPy's sparse matrices stay
        sparse for euclidean, inner_product and cosine, else they are made dense block by block.
        Where the corpus lies on a GPU the queries do, too, and stay there. For a filter that is not
        sooner compared pair by pair (small groups, few rows), and a function as metric, both are
        copied to the host, and the answer back.
    k : int
        Neighbours of a query, 1 to n.
    metric : str or callable
        ``euclidean``, ``sqeuclidean``, ``inner_product``, ``cosine``, ``correlation``,
        ``manhattan``, ``chebyshev``, ``chi2``, ``hamming``, ``jaccard``, ``kl``, ``bit_hamming``,
        ``bit_jaccard``, ``haversine``,
        ``minkowski`` with `p`, their usual other names, or a function of two rows (slow: Python
        is called for every pair). ``inner_product`` is largest first.
    p : float
        Of ``minkowski``: 1 to 3355.4431 in steps of 0.0001, or infinity.
    algorithm : {"auto", "brute", "kd_tree"}
        How. The answers are the same bytes; ``auto`` takes the faster one. scikit-learn's
        ``ball_tree`` is taken for ``auto``.
    radius : float, optional
        No neighbour is farther away; slots that stay empty have index -1 and distance inf
        (inner_product: -inf).
    exclude : array of m integers, optional
        One row of the corpus that each query may not get; -1: none.
    allow : array of bool, optional
        Which rows of the corpus may be found: n for all queries, or (m, n), a row for each query.
    groups, query_groups : arrays of n and m integers, optional
        Groups of rows and of queries, at least 0; which of them go together `rule` says. Rows with
        fewer than k that are allowed end in empty slots: index -1 and distance inf
        (inner_product: -inf). Numbers that lie on the corpus' GPU stay there, but for ``each``.
    rule : {"same", "other", "each"}, optional
        ``same`` (default): a query finds rows of its own group. ``other``: of all groups but its
        own. ``each``: k rows of every group, by rising number, side by side: (m, G * k) entries,
        or ``indices.reshape(m, G, k)``; there are no `query_groups` then.
    period : float or array of d floats, optional
        A periodic box, SciPy's ``boxsize``: points lie in [0, period), and each column's difference
        is the shorter way round; 0: not this column. Of euclidean, sqeuclidean, manhattan,
        chebyshev and minkowski.
    tune : dict, optional
        The same answer in another way, to compare: ``tree_height``; ``pipeline`` ("fused",
        "matrix", "hybrid", "buffer_tree"), ``select`` (a method of `select_k`, of "matrix"),
        ``heap_sample`` (of "hybrid", in k), ``batch`` (of "hybrid", queries) and ``leaf_buffer`` (of
        "buffer_tree").
    n_jobs : int, optional
        Threads. -1: all processors. None: as many as the variable KITH_THREADS says, else as
        OMP_NUM_THREADS does, which joblib sets for its workers, else all.
    device : str, optional
        ``"auto"`` (default), ``"cpu"``, ``"cuda"``, ``"cuda:1"``.
    memory_limit : int, optional
        Bytes that the call may take beside its input; MemoryError where it needs more.
    progress : bool or callable
        True shows tqdm's bar. A function is called as ``f(phase, done, total)`` some ten times a
        second; an exception that it raises ends the call.
    out : (distances, indices), optional
        Arrays to write to: float32 or float64, and int64 or uint32, of shape (m, k).

    Returns
    -------
    Neighbors
        ``(distances, indices)``, where the corpus lives: PyTorch tensors for tensors, JAX arrays
        for those, arrays on the GPU for arrays there, else NumPy arrays.

    Examples
    --------
    >>> import numpy as np, kith
    >>> kith.knn(np.array([[0.0], [1.0], [3.0]]), np.array([[1.2]]), k=2).indices
    array([[1, 0]])
    """
    method = _options.method(algorithm)
    k = _options.whole(k, "k")
    asked_for = _filter.Asked(allow, groups, query_groups, rule)
    if (
        radius is None
        and exclude is None
        and out is None
        and period is None
        and not (progress or tune or asked_for)
        and method <= s.METHOD_TREE
    ):
        limits = n_jobs, device, memory_limit
        small = _small.search(corpus, queries, k, metric, p, method, limits)
        if small is not None:
            return small
    wanted = settings(n_jobs, device, memory_limit)
    (tuned,) = _tune.fields(tune, _tune.EXACT)
    if method == s.METHOD_DESCENT:
        raise ValueError(
            "algorithm is nn_descent, which makes graphs (use knn_graph, or NearestNeighbors)"
        )
    there = on_device(corpus) or on_device(queries)
    if there and isinstance(metric, str):
        from . import _cuda

        params = _cuda.search_params(metric, p, k, method, 0, tuned, radius)
        return _cuda.knn(corpus, queries, params, exclude, wanted, progress, out, asked_for, period)
    check_together("corpus", corpus, queries=queries)
    if is_sparse(corpus) or is_sparse(queries):
        _sparse.refuse(radius=radius, exclude=exclude, period=period, tune=tune, out=out)
        _sparse.refuse(**asked_for.given)
        return _sparse.blockwise(search, corpus, queries, k, metric, p, method, wanted, progress)
    points = as_matrix(corpus, "corpus", wanted.memory_limit)
    asked = as_matrix(queries, "queries", wanted.memory_limit)
    found = search(
        points,
        asked,
        k,
        metric=metric,
        p=p,
        method=method,
        radius=radius,
        exclude=exclude,
        asked_for=asked_for,
        period=period,
        tuned=tuned,
        wanted=wanted.beside(points, asked),
        progress=progress,
        out=out,
    )
    return like(corpus, found, out)


def search(
    corpus: HostMatrix,
    queries: HostMatrix,
    k: int,
    *,
    metric: Metric = "euclidean",
    p: float = 2,
    method: int = s.METHOD_AUTO,
    radius: float | None = None,
    exclude: Any = None,
    asked_for: _filter.Asked = _filter.NOTHING,
    period: Any = None,
    tuned: Mapping[str, Any] = {},
    wanted: Settings = Settings(),
    progress: Progress = None,
    out: Sequence[Any] | None = None,
) -> Neighbors:
    """knn of matrices in host memory."""
    distance = resolve(metric, p, queries.array.dtype)
    check_types(distance, corpus, queries)
    filtered = _filter.make(asked_for, corpus.rows, queries.rows)
    table = table_for(corpus, queries, k, out, radius, filtered)
    params = search_params(distance, k, method=method, radius=radius, tuned=tuned)
    _options.periodic(period, corpus.struct.cols, params)
    keep = _options.excluded(exclude, queries.rows, params)
    filtered.into(params)
    if queries.rows == 0:
        check_shapes(corpus.struct, queries, k, "corpus")
        return table.result()
    call(
        distance,
        wanted,
        progress,
        lib.kith_search,
        corpus.struct,
        queries.struct,
        params,
        table.struct,
        None,
    )
    del keep
    return claim(
        table.result(),
        distance.number,
        # files and graphs do not tell a filter, or a period
        None if asked_for or period is not None else True,
        fingerprint_for(queries.rows, corpus, wanted),
    )


def knn_graph(
    X: Points,
    k: Whole = 15,
    *,
    metric: Metric = "euclidean",
    p: float = 2,
    algorithm: str = "auto",
    recall: float | None = None,
    include_self: bool = False,
    radius: float | None = None,
    allow: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    rule: str | None = None,
    period: ArrayLike | None = None,
    recall_at: Whole | None = None,
    random_state: Seed = None,
    init: Any = None,
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
    """Each point's k nearest among the others.

    Exact, unless `recall`, ``algorithm="nn_descent"`` or one of nn_descent's own arguments (`init`,
    `rounds`, `candidates`, `delta`, `tune`) says otherwise. A point is left out of its own row by its
    number: points that are equal to it stay.

    Parameters
    ----------
    X : array of shape (n, d)
        The points, as in `knn`; on a GPU they are copied to the host for `init`, too.
    k : int
        Neighbours of a point, 1 to n - 1.
    algorithm : {"auto", "brute", "kd_tree", "nn_descent"}
        ``nn_descent`` is approximate: rounds end when they change little, or when a sample has the
        wanted recall.
    recall : float, optional
        Below 1: this share of the true neighbours is enough (estimated from rows that are solved
        exactly). With ``auto`` the graph is exact all the same where that is as fast.
    recall_at : int, optional
        The recall is of so many first neighbours; unless given, of min(10, k).
    include_self : bool
        A point competes for its own row like any other.
    allow, groups, rule : optional
        As in `knn`, of the points; the graph is exact.
    period : float or array of d floats, optional
        As in `knn`; the graph is exact.
    random_state : int, Generator, RandomState, optional
        Seed of ``nn_descent``; the same seed gives the same bytes with any number of threads.
    init : Graph, Neighbors, or array of n rows of indices, optional
        ``nn_descent`` begins with this graph, of these points or of similar ones; -1: no neighbour.
        Distances are computed anew.
    rounds : int, optional
        Of ``nn_descent`` at most; 0: only what it begins with.
    candidates : int, optional
        Neighbours of a point, old and new ones, that meet others in a round.
    delta : float, optional
        Rounds end when less than this share of the neighbours changes.
    tune : dict, optional
        Of ``nn_descent``: ``start`` ("auto", "random", "screen"), ``start_share`` (of all pairs that
        a screen may look at), ``updates`` ("auto", "all", "nearest"), ``list`` (entries of a list
        while it descends), ``sample`` (rows to solve exactly, by which recall is told). Of exact
        graphs: as in `knn`.
    metric, p, radius, n_jobs, device, memory_limit, progress, out
        As in `knn`.

    Returns
    -------
    Neighbors
        ``(distances, indices)``, where X lives.

    Examples
    --------
    >>> import numpy as np, kith
    >>> kith.knn_graph(np.array([[0.0], [1.0], [3.0]]), k=1).indices.ravel()
    array([1, 0, 1])
    """
    method = _options.method(algorithm)
    k = _options.whole(k, "k")
    flags = s.INCLUDE_SELF if include_self else 0
    asked_for = _filter.Asked(allow, groups, None, rule)
    if (
        (radius is None and recall is None and recall_at is None and init is None)
        and (rounds is None and candidates is None and delta is None and out is None)
        and period is None
        and (not (progress or tune or asked_for) and method <= s.METHOD_TREE)
    ):
        limits = n_jobs, device, memory_limit
        small = _small.search(X, _small.ITSELF, k, metric, p, method, limits, flags)
        if small is not None:
            return small
    wanted = settings(n_jobs, device, memory_limit)
    exact, tuned = _tune.fields(tune, _tune.EXACT, _tune.DESCENT)
    own = _options.Descent(init, rounds, candidates, delta, recall_at, tuned)
    method = own.method(method)
    if exact and method == s.METHOD_DESCENT:
        raise ValueError("tune has what is of exact graphs, not of nn_descent (leave one out)")
    _options.check_recall(recall)
    if method == s.METHOD_DESCENT and radius is not None:
        raise ValueError("radius goes with exact graphs, not with nn_descent (leave one out)")
    stays = on_device(X) and init is None
    if stays and isinstance(metric, str):
        from . import _cuda

        params = _cuda.search_params(metric, p, k, method, flags, exact, radius)
        if method == s.METHOD_DESCENT or recall is not None:
            may_descend(params, recall, random_state, own)
        return _cuda.graph(X, params, wanted, progress, out, asked_for, period)
    if is_sparse(X) and method != s.METHOD_DESCENT:
        _sparse.refuse(radius=radius, recall=recall, period=period, tune=tune, out=out)
        _sparse.refuse(**asked_for.given)
        return _sparse.blockwise(
            search, X, X, k, metric, p, method, wanted, progress, not include_self
        )
    check_together("X", X, init=init[1] if isinstance(init, tuple) else init)
    points = as_matrix(X, "X", wanted.memory_limit)
    wanted = wanted.beside(points)
    distance = resolve(metric, p, points.array.dtype)
    filtered = _filter.make(asked_for, points.rows, points.rows)
    most = (points.rows - (not include_self)) * filtered.wide
    empty = radius is not None or bool(asked_for)
    table = Table(points.rows, k * filtered.wide, most, points.is_double, out, empty)
    params = search_params(distance, k, flags=flags, method=method, radius=radius, tuned=exact)
    filtered.into(params)
    _options.periodic(period, points.struct.cols, params)
    if method == s.METHOD_DESCENT or recall is not None:
        may_descend(params, recall, random_state, own)
    report = s.sized(s.Report)
    call(distance, wanted, progress, lib.kith_graph, points.struct, params, table.struct, report)
    found = claim(
        table.result(),
        distance.number,
        None if asked_for or period is not None else report.exact == s.CERTIFIED,
        fingerprint(points.struct, wanted),
    )
    return like(X, found, out)


def may_descend(
    params: s.SearchParams, recall: float | None, random_state: Any, own: _options.Descent
) -> None:
    """What a graph is told of a descent, which it may be."""
    descent = _options.descent_params({}, params.k, 0, recall, random_state, own)
    params.recall, params.recall_at = descent.recall, descent.recall_at
    params.seed, params.descent = descent.seed, c.addressof(descent)
    params.keep = descent  # for as long as the parameters live


def fingerprint(points: s.Matrix, wanted: Settings) -> Fingerprint | None:
    """Of points in host memory, as they are now."""
    made = s.Fingerprint()
    context(wanted).call(lib.kith_fingerprint_make, c.byref(points), c.byref(made))
    return Fingerprint.of_struct(made)


def fingerprint_for(queries: int, points: HostMatrix, wanted: Settings) -> Fingerprint | None:
    """Of the corpus of one search; not of one that would take longer for it."""
    return fingerprint(points.struct, wanted) if queries >= _small.WORTH else None


def search_params(
    distance: Distance,
    k: int,
    *,
    flags: int = 0,
    method: int = s.METHOD_AUTO,
    radius: float | None = None,
    tuned: Mapping[str, Any] = {},
) -> s.SearchParams:
    """kith_search_params of a metric."""
    params = s.SearchParams(_PARAMS_SIZE, distance.number, k, flags)
    if distance.function:
        params.custom = distance.function
    if method != s.METHOD_AUTO:
        params.method = method
    if radius is not None:
        params.radius = _options.number(radius, "radius")
        params.flags = flags | s.WITHIN_RADIUS
    for field, value in tuned.items():
        s.put(params, field, value)
    return params


def check_shapes(points: s.Matrix, asked: HostMatrix, k: int, name: str) -> None:
    """What the library says of a search, where it is not asked: there is no query."""
    if asked.struct.cols != points.cols:
        raise ValueError(
            f"{name} has {points.cols} columns and queries has {asked.struct.cols} (both must have "
            "the same)"
        )
    if not 1 <= k <= points.rows:
        raise ValueError(f"k is {k}, must be 1 to {points.rows}")


def check_types(distance: Distance, corpus: HostMatrix, queries: HostMatrix) -> None:
    """A Python function gets two rows of one type."""
    if distance.function and corpus.array.dtype != queries.array.dtype:
        raise ValueError(
            f"with a function as metric corpus and queries must be of one type, not "
            f"{corpus.array.dtype} and {queries.array.dtype}"
        )


def table_for(
    corpus: HostMatrix,
    queries: HostMatrix,
    k: int,
    out: Sequence[Any] | None,
    radius: float | None,
    filtered: _filter.Filter = _filter.NONE,
) -> Table:
    """Room for the neighbours of queries in corpus."""
    double = corpus.is_double or queries.is_double
    empty = radius is not None or filtered.struct is not None
    wide = filtered.wide
    return Table(queries.rows, k * wide, corpus.rows * wide, double, out, empty)


def call(
    distance: Distance, wanted: Settings, progress: Progress, function: Any, *arguments: Any
) -> None:
    """A call of the library; structs are passed by their address, None is NULL."""
    try:
        context(wanted).call(
            function,
            *(c.byref(each) if isinstance(each, c.Structure) else each for each in arguments),
            progress=progress,
        )
    except ValueError as error:
        distance.reraise(error)


def like(given: Any, found: Neighbors, out: Sequence[Any] | None = None) -> Neighbors:
    """Neighbours as arrays of the kind that was given, unless they stand in the caller's own."""
    if out is not None or isinstance(given, np.ndarray):
        return found
    other = Neighbors(*(given_back(given, part) for part in found))
    return claim(other, found._metric, found.exact, found.fingerprint)
