# SPDX-License-Identifier: Apache-2.0
"""Exact neighbours of Dask arrays, which may be larger than a worker's memory.

>>> import dask.array as da, kith.dask
>>> X = da.random.random((10_000, 8), chunks=(2_500, 8))
>>> distances, indices = kith.dask.knn_graph(X, k=15)
>>> distances.compute().shape
(10000, 15)

Nothing is computed before ``compute``, and then the bytes are those of `kith.knn`, `kith.knn_graph`
and `kith.radius_neighbors` of the whole arrays, by any number of workers, whichever of them fail and
however rows are chunked. Needs Dask (``pip install "dask[array]" distributed``).
"""

from __future__ import annotations

import ctypes as c
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from . import _metrics, _options
from . import _search as searches
from . import _structs as s
from ._arrays import as_matrix
from ._context import context, settings
from ._errors import rename
from ._imports import needed
from ._library import lib
from ._radius import RadiusJob, Ranges
from ._results import Array, Neighbors, claim
from ._sparse_product import first_of
from ._typing import Bytes, Metric, Whole

# How it is done. Each block of queries meets each block of the corpus in a task of its own, which
# has nothing else in memory; a block's lists are merged four at a time, in the order of the blocks.
# A block is asked for keys, by which rows are ordered: canonical distances in double precision,
# euclidean ones as squares, since different squares may have one root. A key depends on its two rows
# alone, so it is the key that the whole arrays would give; of equal keys those of the earlier block
# come first, so ids rise. Roots and float32 are made of what is merged.

_da = needed("dask.array", "kith.dask")
_delayed = needed("dask.delayed", "kith.dask")
_graphs = needed("dask.highlevelgraph", "kith.dask")
_base = needed("dask.base", "kith.dask")

_MERGED = 4  # lists of one block of queries, at a time

__all__ = ["knn", "knn_graph", "radius_neighbors"]


class _Blocks(NamedTuple):
    """A matrix in blocks of rows."""

    name: str  # what errors call it
    array: Any
    is_double: bool

    @property
    def rows(self) -> int:
        return int(self.array.shape[0])

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.array.chunks[0])

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Of each block its number, its first row, and how many rows it has."""
        first = 0
        for number, size in enumerate(self.sizes):
            yield number, first, size
            first += size


class _Job(NamedTuple):
    """What all blocks are asked."""

    metric: Metric  # that of keys
    number: int  # that of distances
    words: Mapping[str, Any]  # of the calls of kith
    names: tuple[str, str]  # of the corpus and of the queries, in errors
    is_double: bool
    alone: bool  # the queries are the corpus, and a point is not its own neighbour

    @property
    def root(self) -> bool:
        return self.number == s.EUCLIDEAN

    @property
    def sign(self) -> float:
        return -1.0 if self.number == s.INNER_PRODUCT else 1.0

    def distances(self, keys: Array) -> Array:
        """What is returned of keys in their order."""
        made = np.sqrt(keys) if self.root else keys
        return made if self.is_double else made.astype(np.float32)


class _Place(NamedTuple):
    """Which blocks meet."""

    corpus: int  # its first row
    queries: int
    itself: bool  # the two are one block, in which a point is not its own neighbour


def _blocks(x: Any, name: str) -> _Blocks:
    array = x if isinstance(x, _da.Array) else _da.asarray(x)
    if array.ndim != 2:
        axes = "1 axis" if array.ndim == 1 else f"{array.ndim} axes"
        raise ValueError(f"{name} has {axes}, must have 2: a row for each point")
    if any(np.isnan(size) for sizes in array.chunks for size in sizes):
        raise ValueError(
            f"{name} has chunks of unknown size ({name}.compute_chunk_sizes() makes them known)"
        )
    if not isinstance(array._meta, np.ndarray):
        kind = type(array._meta)
        raise TypeError(
            f"{name} has blocks of type {kind.__module__}.{kind.__qualname__}, must be of NumPy's "
            "(map_blocks makes such)"
        )
    is_double = as_matrix(np.empty((0, array.shape[1]), array.dtype), name).is_double
    return _Blocks(name, array.rechunk({1: -1}), is_double)


def _job(
    points: _Blocks,
    asked: _Blocks,
    metric: Metric,
    p: float,
    words: Mapping[str, Any],
    alone: bool,
) -> _Job:
    """What is wrong with the arguments is said here, before anything is computed."""
    number = _metrics.resolve(metric, p, asked.array.dtype).number
    settings(words["n_jobs"], words["device"], words["memory_limit"])
    if _options.method(words["algorithm"]) == s.METHOD_DESCENT:
        raise ValueError("algorithm is nn_descent, which is not exact (leave it out)")
    if number == s.HAVERSINE:  # two keys may have one angle, and blocks tell angles
        raise NotImplementedError(
            "metric is haversine, whose blocks cannot be merged to the bit (use euclidean of points "
            "on the unit sphere)"
        )
    if points.array.shape[1] != asked.array.shape[1]:
        raise ValueError(
            f"corpus has {points.array.shape[1]} columns and queries has {asked.array.shape[1]} "
            "(both must have the same)"
        )
    return _Job(
        "sqeuclidean" if number == s.EUCLIDEAN else metric,
        number,
        {"p": p, **words},
        (points.name, asked.name),
        points.is_double or asked.is_double,
        alone,
    )


class _Meetings:
    """All blocks of queries with all blocks of the corpus, and what becomes of their lists."""

    def __init__(self, points: _Blocks, asked: _Blocks, job: _Job) -> None:
        self.points, self.asked, self.job = points, asked, job
        self.pieces = [(i, slice(0, size)) for i, size in enumerate(asked.sizes)]
        if asked is not points:
            self._coarsen()

    def _coarsen(self) -> None:
        """Several chunks of queries are one block, where they take no more than a block of the corpus:
        that is then read and prepared fewer times. There are still as many tasks as chunks."""
        values = max(self.points.sizes) * self.points.array.dtype.itemsize
        most = values // self.asked.array.dtype.itemsize
        together, sizes = len(self.points.sizes), [0]
        self.pieces = []
        taken = 0
        for size in self.asked.sizes:
            if taken == together or (taken and sizes[-1] + size > most):
                sizes.append(0)
                taken = 0
            self.pieces.append((len(sizes) - 1, slice(sizes[-1], sizes[-1] + size)))
            sizes[-1] += size
            taken += 1
        if len(sizes) < len(self.asked.sizes):
            coarse = self.asked.array.rechunk({0: tuple(sizes)})
            self.asked = self.asked._replace(array=coarse)

    def lists(
        self,
        name: str,
        meet: Callable[[_Place, slice, int], Callable[..., Any] | None],
        merge: Callable[[list[Any]], Any],
        nothing: Any,
    ) -> Any:
        """The graph in which (name, i) is what block i of the queries finds. meet(place, rows, size):
        the function of two blocks, some rows of queries and some points; None: there is nothing to
        find."""
        tasks: dict[Any, Any] = {}
        for i, first_query, queries in self.asked:
            level: list[Any] = []
            for j, first_point, size in self.points:
                place = _Place(first_point, first_query, self.job.alone and i == j)
                rows = slice(first_query, first_query + queries)
                function = meet(place, rows, size) if queries and size else None
                if function is not None:
                    level.append((name, i, j, 0))
                    blocks = (self.asked.array.name, i, 0), (self.points.array.name, j, 0)
                    tasks[level[-1]] = (function, *blocks)
            depth = 0
            while len(level) > 1:
                depth += 1
                parts = [level[at : at + _MERGED] for at in range(0, len(level), _MERGED)]
                level = [(name, i, at, depth) for at in range(len(parts))]
                tasks.update((key, (merge, list(part))) for key, part in zip(level, parts))
            tasks[name, i] = (_same, level[0]) if level else (functools.partial(_same, nothing),)
        arrays = [self.points.array, self.asked.array]
        return _graphs.HighLevelGraph.from_collections(name, tasks, arrays)

    def chunks(
        self, graph: Any, name: str, own: str, take: Callable[[slice], Any], *rest: int
    ) -> Any:
        """The graph with one more layer, in which (own, i, *rest) is of chunk i of the queries as they
        were given: take(rows) of what their block has found."""
        tasks = {
            (own, i, *rest): (take(rows), (name, block))
            for i, (block, rows) in enumerate(self.pieces)
        }
        layers, needs = {**graph.layers, own: tasks}, {**graph.dependencies, own: {name}}
        return _graphs.HighLevelGraph(layers, needs)


def _same(part: Any) -> Any:
    return part


def _token(what: str, *parts: Any) -> str:
    return f"kith-{what}-{_base.tokenize(*parts)}"


def _told(error: BaseException, job: _Job, place: _Place) -> BaseException:
    """An error of two blocks, with the row that it is in the whole arrays."""
    failure = getattr(error, "_kith_failure", None)
    if failure is not None:
        of_queries = failure.argument == "queries"
        row = place.queries if of_queries else place.corpus
        rename(error, dict.fromkeys(("corpus", "queries", "X"), job.names[of_queries]), row)
    return error


# ---- k nearest -------------------------------------------------------------------------------------


def _near(job: _Job, place: _Place, k: int, queries: Array, corpus: Array) -> Neighbors:
    """Keys and ids of a block's k nearest for each query."""
    out = np.empty((len(queries), k)), np.empty((len(queries), k), np.int64)
    try:
        if place.itself:
            searches.knn_graph(corpus, k, metric=job.metric, out=out, **job.words)
        else:
            searches.knn(corpus, queries, k, metric=job.metric, out=out, **job.words)
    except Exception as error:
        raise _told(error, job, place)
    np.add(out[1], place.corpus, out=out[1])
    return Neighbors(*out)


def _nearest(job: _Job, k: int, parts: list[Neighbors]) -> Neighbors:
    """The k nearest of lists of blocks, which stand in the order of their ids."""
    best: Neighbors | None = None
    for part in parts:
        best = first_of(best, part, k, job.sign)
    assert best is not None
    return best


def _distances_of(job: _Job, rows: slice, found: Neighbors) -> Array:
    return job.distances(found.distances[rows])


def _indices_of(rows: slice, found: Neighbors) -> Array:
    return found.indices[rows]


def _tables(points: _Blocks, asked: _Blocks, k: int, job: _Job) -> Neighbors:
    name = _token("lists", points.array, asked.array, k, job)
    meetings = _Meetings(points, asked, job)

    def meet(place: _Place, rows: slice, size: int) -> Callable[..., Any] | None:
        width = min(k, size - place.itself)
        return functools.partial(_near, job, place, width) if width else None

    merge = functools.partial(_nearest, job, k)
    nothing = Neighbors(np.empty((0, k)), np.empty((0, k), np.int64))
    graph = meetings.lists(name, meet, merge, nothing)
    made = []
    for what, function, dtype in (
        ("distances", functools.partial(_distances_of, job), "f8" if job.is_double else "f4"),
        ("indices", _indices_of, "i8"),
    ):
        own = name.replace("lists", what, 1)
        both = meetings.chunks(graph, name, own, functools.partial(functools.partial, function), 0)
        made.append(_da.Array(both, own, chunks=(asked.sizes, (k,)), dtype=dtype))
    return claim(Neighbors(*made), job.number, True)


def _width(k: Whole, most: int) -> int:
    width = _options.whole(k, "k")
    if not 1 <= width <= most:
        raise ValueError(f"k is {width}, must be 1 to {most}")
    return width


def knn(
    corpus: Any,
    queries: Any,
    k: Whole,
    *,
    metric: Metric = "euclidean",
    p: float = 2,
    algorithm: str = "auto",
    n_jobs: Whole | None = None,
    device: str | None = None,
    memory_limit: Bytes | None = None,
) -> Neighbors:
    """The k nearest rows of corpus for each query, exactly: `kith.knn` of Dask arrays.

    Parameters
    ----------
    corpus, queries : Dask arrays of shape (n, d), (m, d)
        Of the types that `kith.knn` takes, in chunks of known size; columns in several chunks are
        brought together first. What is no Dask array becomes one.
    k : int
        Neighbours of a query, 1 to n; of more than a chunk has, too.
    metric, p, algorithm
        As in `kith.knn`.
    n_jobs, device, memory_limit
        Of a task, which is two blocks, as in `kith.knn`: n_jobs is None for as many threads as
        OMP_NUM_THREADS says on the worker, which is one where Dask starts it, else all.

    Returns
    -------
    Neighbors
        ``(distances, indices)``, two Dask arrays in the chunks of the queries' rows. ``dask.compute
        (*found)`` computes both at once; each by itself takes all of the work again.
    """
    points, asked = _blocks(corpus, "corpus"), _blocks(queries, "queries")
    words = _words(algorithm, n_jobs, device, memory_limit)
    job = _job(points, asked, metric, p, words, False)
    return _tables(points, asked, _width(k, points.rows), job)


def knn_graph(
    X: Any,
    k: Whole = 15,
    *,
    metric: Metric = "euclidean",
    p: float = 2,
    algorithm: str = "auto",
    include_self: bool = False,
    n_jobs: Whole | None = None,
    device: str | None = None,
    memory_limit: Bytes | None = None,
) -> Neighbors:
    """Each point's k nearest among the others, exactly: `kith.knn_graph` of a Dask array.

    Parameters
    ----------
    X : Dask array of shape (n, d)
        As in `knn`.
    k : int
        Neighbours of a point, 1 to n - 1.
    include_self : bool
        A point competes for its own row like any other.
    metric, p, algorithm, n_jobs, device, memory_limit
        As in `knn`.

    Returns
    -------
    Neighbors
        As `knn` does, in the chunks of the points.
    """
    points = _blocks(X, "X")
    words = _words(algorithm, n_jobs, device, memory_limit)
    job = _job(points, points, metric, p, words, not include_self)
    return _tables(points, points, _width(k, points.rows - job.alone), job)


def _words(
    algorithm: str, n_jobs: Whole | None, device: str | None, memory_limit: Bytes | None
) -> dict[str, Any]:
    return {
        "algorithm": algorithm,
        "n_jobs": n_jobs,
        "device": device,
        "memory_limit": memory_limit,
    }


# ---- Within a radius -------------------------------------------------------------------------------


def _of_squares(radius: Array) -> Array:
    """The greatest squares whose roots, as they are rounded, are at most the radius."""
    with np.errstate(over="ignore", under="ignore"):
        most = radius * radius
        while (beyond := np.sqrt(most) > radius).any():
            most = np.where(beyond, np.nextafter(most, 0), most)
        while True:
            above = np.nextafter(most, np.inf)
            within = (np.sqrt(above) <= radius) & (most < np.inf)
            if not within.any():
                return most
            most = np.where(within, above, most)


def _within(
    job: _Job, place: _Place, radius: Array, count_only: bool, queries: Array, corpus: Array
) -> Ranges:
    """Keys and ids of a block's rows within the radius of each query."""
    words = job.words
    try:
        wanted = settings(words["n_jobs"], words["device"], words["memory_limit"])
        points = as_matrix(corpus, "corpus", wanted.memory_limit)
        asked = as_matrix(queries, "queries", wanted.memory_limit)
        distance = _metrics.resolve(job.metric, words["p"], asked.array.dtype)
        searches.check_types(distance, points, asked)
        method = _options.method(words["algorithm"])
        params = s.sized(s.RadiusParams, method=method, **distance.fields)
        where = context(wanted.beside(points, asked))
        at = c.byref(points.struct)
        try:
            found = RadiusJob(radius, asked, count_only, params).run(
                where, lib.kith_radius, at, True, points.rows, None, place.itself
            )
        except ValueError as error:
            distance.reraise(error)
    except Exception as error:
        raise _told(error, job, place)
    if not count_only:
        np.add(found.indices, place.corpus, out=found.indices)
    return found


def _together(job: _Job, parts: list[Ranges]) -> Ranges:
    """Rows of blocks, which stand in the order of their ids, side by side and in order."""
    offsets = np.sum([part.offsets for part in parts], axis=0)
    if parts[0]._distances is None:
        return Ranges(None, None, offsets, 0)
    keys = np.concatenate([part.distances for part in parts])
    ids = np.concatenate([part.indices for part in parts])
    rows = [np.repeat(np.arange(len(part)), np.diff(part.offsets)) for part in parts]
    order = np.lexsort((job.sign * keys, np.concatenate(rows)))  # which is stable
    return Ranges(keys[order], ids[order], offsets, 0)


def _ranges_of(job: _Job, points: int, rows: slice, found: Ranges) -> Ranges:
    """Of some rows, as kith.radius_neighbors gives them."""
    offsets = found.offsets[rows.start : rows.stop + 1]
    entries = slice(int(offsets[0]), int(offsets[-1]))
    offsets = offsets - offsets[0]
    if found._distances is None:
        made = Ranges(None, None, offsets, points)
    else:
        distances = job.distances(found.distances[entries])
        made = Ranges(distances, found.indices[entries], offsets, points)
    return made._claim(job.number, None)


def radius_neighbors(
    corpus: Any,
    queries: Any = None,
    *,
    radius: ArrayLike,
    metric: Metric = "euclidean",
    p: float = 2,
    algorithm: str = "auto",
    include_self: bool = False,
    count_only: bool = False,
    n_jobs: Whole | None = None,
    device: str | None = None,
    memory_limit: Bytes | None = None,
) -> list[Any]:
    """All rows of corpus within a radius of each query: `kith.radius_neighbors` of Dask arrays.

    Parameters
    ----------
    corpus, queries : Dask arrays of shape (n, d), (m, d)
        As in `knn`. Without queries each point is set against all others.
    radius, include_self, count_only
        As in `kith.radius_neighbors`.
    metric, p, algorithm, n_jobs, device, memory_limit
        As in `knn`.

    Returns
    -------
    list of Delayed
        For each chunk of the queries what computes to its `kith.Ranges`, whose indices are rows of
        the whole corpus: ``dask.compute(*found)`` is all of them.
    """
    points = _blocks(corpus, "corpus")
    asked = points if queries is None else _blocks(queries, "queries")
    words = _words(algorithm, n_jobs, device, memory_limit)
    job = _job(points, asked, metric, p, words, queries is None and not include_self)
    if not points.rows:
        raise ValueError(f"{points.name} has no rows (give at least one)")
    limits = _radii(radius, asked.rows, job.number)
    if job.root:
        limits = _of_squares(limits)
    name = _token("ranges", points.array, asked.array, limits, count_only, job)
    meetings = _Meetings(points, asked, job)

    def meet(place: _Place, rows: slice, size: int) -> Callable[..., Any]:
        own = limits if limits.ndim == 0 else limits[rows]
        return functools.partial(_within, job, place, own, count_only)

    no_ids = None if count_only else np.empty(0, np.int64)
    no_keys = None if count_only else np.empty(0)
    nothing = Ranges(no_keys, no_ids, np.zeros(1, np.int64), 0)
    graph = meetings.lists(name, meet, functools.partial(_together, job), nothing)
    own = name.replace("ranges", "chunk", 1)
    take = functools.partial(functools.partial, _ranges_of, job, points.rows)
    both = meetings.chunks(graph, name, own, take)
    return [_delayed.Delayed((own, i), both, layer=own) for i in range(len(asked.sizes))]


def _radii(radius: ArrayLike, rows: int, metric: int) -> Array:
    try:
        radii = np.asarray(radius, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"radius is {radius!r}, must be a number, or one for each query") from None
    if radii.ndim and radii.shape != (rows,):
        raise ValueError(f"radius must be one number, or {rows}: one for each query")
    may_be_negative = metric in (s.INNER_PRODUCT, s.KL, s.CUSTOM)
    wrong = np.isnan(radii) if may_be_negative else ~(radii >= 0)
    for at in np.flatnonzero(wrong)[:1]:
        place = f"radius[{at}]" if radii.ndim else "radius"
        least = "" if may_be_negative else " of at least 0"
        raise ValueError(f"{place} is {radii.flat[at]:g}, must be a number{least}")
    return radii
