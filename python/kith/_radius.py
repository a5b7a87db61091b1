# SPDX-License-Identifier: Apache-2.0
"""All neighbours within a radius."""

from __future__ import annotations

import ctypes as c
from collections.abc import Iterator
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from . import _filter, _metrics, _options, _small
from . import _structs as s
from ._arrays import as_matrix, given_back
from ._context import Context, context, settings
from ._handle import Pointer
from ._imports import needed
from ._library import lib
from ._metrics import resolve
from ._places import check_together, must_be_copied, on_host
from ._progress import Progress
from ._results import Fingerprint, Neighbors, claim, copy_of
from ._search import check_shapes, check_types, fingerprint_for
from ._typing import Bytes, Floats, Indices, Metric, Points, Whole


class Ranges:
    """Neighbours within a radius, a row for each query: ``len`` of them, and ``ranges[i]`` is
    ``(distances, indices)`` of query i, the nearest first.

    Parameters
    ----------
    distances, indices, offsets : array
        What the attributes are.
    n_points : int
        Rows of the corpus.

    Attributes
    ----------
    distances : array of offsets[-1] floats
        Of all rows, one behind the other. float64 where points or queries were float64, else
        float32. Not there of `count_only`.
    indices : array of offsets[-1] int64
        Rows of the corpus. Not there of `count_only`.
    offsets : array of m + 1 int64
        Row i is ``offsets[i] : offsets[i + 1]``; ``numpy.diff(offsets)`` is how many each has.
    n_points : int
    metric, exact, fingerprint
        What the call that made it knows, as of `kith.Neighbors`; rows know it, too.
    """

    __slots__ = ("_distances", "_indices", "offsets", "n_points", "_metric", "exact", "fingerprint")

    def __init__(self, distances: Any, indices: Any, offsets: Any, n_points: int) -> None:
        self._distances = distances
        self._indices = indices
        self.offsets: Indices = offsets
        self.n_points = n_points
        self._metric = 0
        self.exact: bool | None = None
        self.fingerprint: Fingerprint | None = None

    def _claim(self, metric: int, made_of: Fingerprint | None, exact: bool = True) -> Ranges:
        """With what the call knows of it. exact False: it is not told."""
        self._metric, self.exact, self.fingerprint = metric, exact or None, made_of
        return self

    def _like(self, x: Any) -> Ranges:
        """The same as arrays of x's library."""
        if isinstance(x, np.ndarray) or not isinstance(self.offsets, np.ndarray):
            return self  # they lie there
        parts = (self._distances, self._indices, self.offsets)
        back = [None if part is None else given_back(x, part) for part in parts]
        made = Ranges(back[0], back[1], back[2], self.n_points)
        made._metric, made.exact, made.fingerprint = self._metric, self.exact, self.fingerprint
        return made

    @property
    def metric(self) -> str | None:
        return _metrics.name(self._metric) if self._metric else None

    @property
    def distances(self) -> Floats:
        found: Floats = _not_none(self._distances)
        return found

    @property
    def indices(self) -> Indices:
        found: Indices = _not_none(self._indices)
        return found

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: SupportsIndex) -> Neighbors:
        at = _options.whole(row, "row")
        if not -len(self) <= at < len(self):
            raise IndexError(f"row is {at}, must be below {len(self)}, the number of queries")
        at %= len(self)
        part = slice(int(self.offsets[at]), int(self.offsets[at + 1]))
        row_of = Neighbors(self.distances[part], self.indices[part])
        return claim(row_of, self._metric, self.exact, self.fingerprint)

    def __iter__(self) -> Iterator[Neighbors]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        return (
            f"<kith.Ranges: {int(self.offsets[-1])} neighbours of {len(self)} queries among "
            f"{self.n_points} points>"
        )

    def to_csr(self, mode: str = "distance") -> Any:
        """A SciPy CSR matrix of shape (m, n_points), each row in the order of distance.

        Parameters
        ----------
        mode : {"distance", "connectivity"}
            What stands in it: distances, or ones. Distances of 0 are stored like any other.
        """
        csr_matrix = needed("scipy.sparse", "Ranges.to_csr").csr_matrix
        if mode not in ("distance", "connectivity"):
            raise ValueError(f"mode is {mode!r}, must be distance or connectivity")
        values = np.ones(len(self.indices)) if mode == "connectivity" else self.distances
        parts = tuple(np.asarray(on_host(each)) for each in (values, self.indices, self.offsets))
        return csr_matrix(parts, shape=(len(self), self.n_points))


def _not_none(part: Any) -> Any:
    if part is None:
        raise ValueError("rows were counted only (leave out count_only)")
    return part


def _has_tree_there(shape: tuple[int, ...]) -> bool:
    """Whether a GPU has a tree of such points; what it lacks is the processor's, by way of the host."""
    return shape[-1] <= 64


def radius_neighbors(
    corpus: Points,
    queries: Points | None = None,
    *,
    radius: ArrayLike,
    metric: Metric = "euclidean",
    p: float = 2,
    algorithm: str = "auto",
    closed: bool = True,
    include_self: bool = False,
    count_only: bool = False,
    allow: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    query_groups: ArrayLike | None = None,
    rule: str | None = None,
    period: ArrayLike | None = None,
    n_jobs: Whole | None = None,
    device: str | None = None,
    memory_limit: Bytes | None = None,
    progress: Progress = None,
) -> Ranges:
    """All rows of corpus within a radius of each query.

    Parameters
    ----------
    corpus, queries : array of shape (n, d), (m, d)
        As in `knn`. Without queries each point is set against all others. Points on a GPU stay
        there, unless the metric is a function, and the answer is arrays beside them.
    radius : float or array of m floats
        A distance is at most this (of ``inner_product``: at least).
    closed : bool
        False: a distance is less than the radius (of ``inner_product``: more).
    include_self : bool
        Without queries: a point is its own neighbour, too.
    count_only : bool
        Only how many there are: ``numpy.diff(ranges.offsets)``.
    allow, groups, query_groups, rule
        As in `knn`, but for the rule each. What they forbid is found, too, and left out.
    metric, p, algorithm, period, n_jobs, device, memory_limit, progress
        As in `knn`.

    Returns
    -------
    Ranges
        Rows of different lengths, each ascending by (distance, index).

    Examples
    --------
    >>> import numpy as np, kith
    >>> kith.radius_neighbors(np.array([[0.0], [1.0], [3.0]]), radius=1.5).indices
    array([1, 0])
    >>> [len(row.indices) for row in kith.radius_neighbors([[0.0], [1.0], [3.0]], radius=1.5)]
    [1, 1, 0]
    """
    method = _options.method(algorithm)
    if method == s.METHOD_DESCENT:
        raise ValueError(
            "algorithm is nn_descent, which finds a number of neighbours and no radius (leave it out)"
        )
    wanted = settings(n_jobs, device, memory_limit)
    asked_for = _filter.Asked(allow, groups, query_groups, rule)
    flags = s.INCLUDE_SELF if include_self else 0
    check_together("corpus", corpus, queries=queries)
    if (
        must_be_copied(corpus)
        and isinstance(metric, str)
        and (method != s.METHOD_TREE or _has_tree_there(corpus.shape))
    ):
        from . import _cuda

        there = _cuda.both(corpus, corpus if queries is None else queries)
        fields = {"flags": flags, "method": method, "metric": _metrics.code(metric, p)}
        within = _options.within(radius, closed, fields["metric"])
        job = radius_job(within, there[1], count_only, asked_for, there[0].struct.rows, **fields)
        _options.periodic(period, there[0].struct.cols, job._params)
        found = job.run_there(_cuda.context_of(wanted, there[0]), *there, progress, queries is None)
        told = not asked_for and period is None
        return found._claim(fields["metric"], None, told)._like(corpus)
    points = as_matrix(corpus, "corpus", wanted.memory_limit)
    asked = points if queries is None else as_matrix(queries, "queries", wanted.memory_limit)
    distance = resolve(metric, p, asked.array.dtype)
    check_types(distance, points, asked)
    fields = {"flags": flags, "method": method, **distance.fields}
    within = _options.within(radius, closed, distance.number)
    job = radius_job(within, asked, count_only, asked_for, points.rows, **fields)
    _options.periodic(period, points.struct.cols, job._params)
    double = points.is_double or asked.is_double
    if asked.rows == 0 and queries is not None:
        check_shapes(points.struct, asked, 1, "corpus")
        ranges = job.nothing(double, points.rows)
    else:
        try:
            ranges = job.run(
                context(wanted.beside(points, asked)),
                lib.kith_radius,
                c.byref(points.struct),
                double,
                points.rows,
                progress,
                queries is None,
            )
        except ValueError as error:
            distance.reraise(error)
        made_of = fingerprint_for(_small.WORTH if queries is None else asked.rows, points, wanted)
        ranges._claim(distance.number, made_of, not asked_for and period is None)
    return ranges._like(corpus)


def radius_job(
    radius: ArrayLike,
    asked: Any,
    count_only: bool,
    asked_for: _filter.Asked,
    rows: int,
    **fields: Any,
) -> RadiusJob:
    """asked: a matrix; rows: of the corpus; fields: of kith_radius_params."""
    params = s.sized(s.RadiusParams, **fields)
    filtered = _filter.make(asked_for, rows, asked.struct.rows)
    filtered.into(params)
    return RadiusJob(radius, asked, count_only, params, filtered)


class RadiusJob:
    """A radius search of queries, of points or of a corpus."""

    def __init__(
        self,
        radius: ArrayLike,
        asked: Any,
        count_only: bool,
        params: s.RadiusParams,
        filtered: _filter.Filter = _filter.NONE,
    ) -> None:
        self._asked = asked  # a matrix, on the host or on a GPU
        self._params = params
        self._filter = filtered  # which params point to
        rows = asked.struct.rows
        self._params.count_only = int(count_only)
        self._radii = _options.radii(radius)
        if self._radii.ndim == 0:
            self._params.radius = float(self._radii)
        elif self._radii.shape == (rows,):
            self._params.radii = self._radii.ctypes.data
        else:
            raise ValueError(f"radius must be one number, or {rows}: one for each query")

    def run(
        self,
        where: Context,
        function: Any,
        corpus: Any,
        double: bool,
        points: int,
        progress: Progress,
        itself: bool = False,
        behind: tuple[Any, ...] = (),
    ) -> Ranges:
        """What the library finds; itself: of each point, not of queries. Lists of queries on a GPU
        stay there."""
        there = getattr(self._asked, "maker", None)
        if there is not None:
            self._params.flags |= s.RANGES_ON_DEVICE
        found = where.make(
            lib.kith_ranges_free,
            None,
            function,
            corpus,
            None if itself else c.byref(self._asked.struct),
            c.byref(self._params),
            behind=behind,
            progress=progress,
        )
        return ranges_of(found, double, bool(self._params.count_only), points, there or _Here)

    def run_there(
        self, where: Context, points: Any, asked: Any, progress: Progress, itself: bool
    ) -> Ranges:
        """Of matrices on a GPU."""
        rows, double = points.struct.rows, s.F64 in (points.struct.dtype, asked.struct.dtype)
        if asked.struct.rows == 0 and not itself:
            check_shapes(points.struct, asked, 1, "corpus")
            return self.nothing(double, rows)
        function, corpus = lib.kith_cuda_radius, c.byref(points.struct)
        stream = (c.c_void_p(points.stream),)
        return self.run(where, function, corpus, double, rows, progress, itself, stream)

    def nothing(self, double: bool, points: int) -> Ranges:
        """Of no query."""
        offsets = np.zeros(1, np.int64)
        if self._params.count_only:
            return Ranges(None, None, offsets, points)
        distances = np.empty(0, np.float64 if double else np.float32)
        return Ranges(distances, np.empty(0, np.int64), offsets, points)


class _Here:
    """Takes lists in host memory, as the makers of `_places` take those on a GPU."""

    @staticmethod
    def take(address: int | None, count: int, name: str) -> Any:
        own = copy_of(address, count, np.dtype(name))
        return own.astype(np.int64) if name == "uint32" else own


def ranges_of(
    found: Pointer | c.c_void_p, double: bool, count_only: bool, points: int, where: Any = _Here
) -> Ranges:
    """Copies of the library's lists, which stay the caller's to free."""
    lists = lib.kith_ranges_lists(found).contents
    offsets = where.take(lists.offsets, lists.rows + 1, "int64")
    if count_only:
        return Ranges(None, None, offsets, points)
    total = int(offsets[-1])
    ids = where.take(lists.ids, total, "uint32")
    if double:
        distances = where.take(lists.distances64, total, "float64")
    else:
        distances = where.take(lists.distances, total, "float32")
    return Ranges(distances, ids, offsets, points)
