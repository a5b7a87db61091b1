# SPDX-License-Identifier: Apache-2.0
"""Exact neighbours in a corpus of several arrays, which may be larger than memory, with ties."""

from __future__ import annotations

import ctypes as c
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from . import _filter, _options
from . import _structs as s
from ._arrays import HostMatrix, address, as_matrix, given_back
from ._context import Settings, context, settings
from ._library import lib
from ._metrics import resolve
from ._places import check_together
from ._progress import Progress
from ._radius import Ranges, ranges_of
from ._typing import Bytes, Floats, Indices, Metric, Points, Whole


class Truth(NamedTuple):
    """The true neighbours of queries.

    Attributes
    ----------
    distances : array of float64, (n_queries, k)
        Infinity in empty slots (of ``inner_product``: its negative).
    indices : array of int64, (n_queries, k)
        Rows of the corpus, all arrays of which are numbered one behind the other; -1 in empty
        slots.
    ties : array of int64, (n_queries,)
        How many rows of the corpus are exactly as near as the k-th, in the list and beyond; 0 where
        the list is not full.
    """

    distances: Floats
    indices: Indices
    ties: Indices


def _arrays(corpus: Any) -> list[Any]:
    several = isinstance(corpus, (list, tuple)) and len(corpus) > 0 and np.ndim(corpus[0]) == 2
    return list(corpus) if several else [corpus]


def _parts(arrays: list[Any], limit: int) -> list[HostMatrix]:
    one = len(arrays) == 1
    return [
        as_matrix(array, "corpus" if one else f"corpus[{i}]", limit)
        for i, array in enumerate(arrays)
    ]


def _job(arrays: list[Any]) -> bytes | None:
    """What an interrupted call is known again by, where arrays are files'."""
    files = [each.filename for each in arrays if getattr(each, "filename", None) is not None]
    told = [(os.fspath(name), os.stat(name)) for name in files]
    lines = [f"file {name!r}, {stat.st_size} bytes, {stat.st_mtime_ns}\n" for name, stat in told]
    return "".join(lines).encode(errors="replace") or None


class _Asked(NamedTuple):
    """What a truth is asked of."""

    parts: list[HostMatrix]
    queries: HostMatrix
    wanted: Settings
    progress: Progress

    def _call(self, params: s.TruthParams) -> None:
        parts = self.parts
        matrices = (s.Matrix * len(parts))(*(part.struct for part in parts))
        context(self.wanted.beside(self.queries, *parts)).call(
            lib.kith_truth,
            c.byref(matrices),
            len(parts),
            c.byref(self.queries.struct),
            c.byref(params),
            c.byref(s.sized(s.TruthReport)),
            progress=self.progress,
        )

    def nearest(self, params: s.TruthParams, k: Any, rows: int) -> Truth:
        width = _options.whole(k, "k")
        shape = (self.queries.rows, max(width, 0) if width <= rows else 0)  # others are refused
        ties = np.empty(self.queries.rows, np.int64)
        found = Truth(np.empty(shape), np.empty(shape, np.int64), ties)
        params.k = width
        params.ids = address(found.indices)
        params.distances = address(found.distances)
        params.ties = address(found.ties)
        self._call(params)
        return found

    def within(self, params: s.TruthParams, radius: float, rows: int) -> Ranges:
        found = c.c_void_p()
        params.flags = s.WITHIN_RADIUS
        params.radius = _options.number(radius, "radius")
        params.ranges = c.addressof(found)
        try:
            self._call(params)
            return ranges_of(found, True, False, rows)
        finally:
            lib.kith_ranges_free(found)


@overload
def truth(
    corpus: Points | Sequence[Points],
    queries: Points,
    k: Whole,
    *,
    radius: None = None,
    metric: Metric = "euclidean",
    p: float = 2,
    algorithm: str = "auto",
    allow: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    query_groups: ArrayLike | None = None,
    rule: str | None = None,
    path: str | os.PathLike[str] | None = None,
    ties_path: str | os.PathLike[str] | None = None,
    restart: bool = False,
    n_jobs: Whole | None = None,
    device: str | None = None,
    memory_limit: Bytes | None = None,
    progress: Progress = None,
) -> Truth: ...
@overload
def truth(
    corpus: Points | Sequence[Points],
    queries: Points,
    k: None = None,
    *,
    radius: float,
    metric: Metric = "euclidean",
    p: float = 2,
    algorithm: str = "auto",
    allow: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    query_groups: ArrayLike | None = None,
    rule: str | None = None,
    path: str | os.PathLike[str] | None = None,
    ties_path: str | os.PathLike[str] | None = None,
    restart: bool = False,
    n_jobs: Whole | None = None,
    device: str | None = None,
    memory_limit: Bytes | None = None,
    progress: Progress = None,
) -> Ranges: ...
def truth(
    corpus: Points | Sequence[Points],
    queries: Points,
    k: Whole | None = None,
    *,
    radius: float | None = None,
    metric: Metric = "euclidean",
    p: float = 2,
    algorithm: str = "auto",
    allow: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    query_groups: ArrayLike | None = None,
    rule: str | None = None,
    path: str | os.PathLike[str] | None = None,
    ties_path: str | os.PathLike[str] | None = None,
    restart: bool = False,
    n_jobs: Whole | None = None,
    device: str | None = None,
    memory_limit: Bytes | None = None,
    progress: Progress = None,
) -> Truth | Ranges:
    """The exact neighbours of queries in a corpus of any size, read once, and how many rows are
    exactly as near as the last of them.

    Parameters
    ----------
    corpus : array of shape (n, d), or a list of such arrays
        ``numpy.memmap`` is read from its file, a part at a time.
    queries : array of shape (n_queries, d)
        Where the corpus lies: arrays on a GPU are copied to the host, and the answer back.
    k : int
        Neighbours of a query, at most as many as the corpus has rows.
    radius : float, instead of k
        All rows at most this far (of ``inner_product``: at least).
    allow, groups, query_groups, rule
        As in `knn`, for all rows of the corpus; rules ``same`` and ``other``.
    path : str, optional
        The truth is written here, too: .knn, .ivecs, .ibin, .npz, .kith, .npy or .hdf5, of a radius
        .range or .kith, with a certificate beside it. A call that was interrupted goes on where the
        state beside it was left.
    ties_path : str, optional
        The ties, with path: .ibin, .npy, .csv or .tsv.
    restart : bool
        With path: begins anew, whatever an interrupted call has left.
    metric, p, algorithm, n_jobs, device, memory_limit, progress
        As in `knn`; no function as metric.

    Returns
    -------
    Truth, or Ranges
        Distances, indices, ties, where the queries live; of a radius `kith.Ranges`, whose
        distances are float64.

    Examples
    --------
    >>> import numpy as np, kith
    >>> corpus = [np.array([[0.0], [2.0]]), np.array([[4.0], [2.0], [0.0]])]
    >>> kith.truth(corpus, np.array([[1.0]]), k=2)
    Truth(distances=array([[1., 1.]]), indices=array([[0, 1]]), ties=array([4]))
    >>> kith.truth(corpus, np.array([[1.0]]), radius=1.0)[0]
    Neighbors(distances=array([1., 1., 1., 1.]), indices=array([0, 1, 3, 4]))
    """
    method = _options.method(algorithm)
    if method == s.METHOD_DESCENT:
        raise ValueError("algorithm is nn_descent, which is not exact (leave it out)")
    wanted = settings(n_jobs, device, memory_limit)
    arrays = _arrays(corpus)
    for i, array in enumerate(arrays):
        check_together(
            "queries", queries, **{"corpus" if len(arrays) == 1 else f"corpus[{i}]": array}
        )
    parts = _parts(arrays, wanted.memory_limit)
    asked = as_matrix(queries, "queries", wanted.memory_limit)
    distance = resolve(metric, p, asked.array.dtype)
    if distance.function:
        raise ValueError("metric is a function, and a truth is of kith's own metrics (name one)")
    rows = sum(part.rows for part in parts)
    filtered = _filter.make(_filter.Asked(allow, groups, query_groups, rule), rows, asked.rows)
    if asked.rows == 0:
        raise ValueError("queries has no rows (give at least one)")
    if (k is None) == (radius is None):
        raise TypeError("k or radius is to be given, one of both")
    job = _Asked(parts, asked, wanted, progress)
    params = s.sized(
        s.TruthParams,
        metric=distance.number,
        method=method,
        restart=int(restart),
        job=_job(arrays),
        path=None if path is None else _options.path(path),
        ties_path=None if ties_path is None else _options.path(ties_path),
    )
    filtered.into(params)
    if radius is not None:
        found = job.within(params, radius, rows)
        known = filtered.struct is None
        return found._claim(distance.number, None, known)._like(queries)
    return Truth(*(given_back(queries, part) for part in job.nearest(params, k, rows)))
