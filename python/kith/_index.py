# SPDX-License-Identifier: Apache-2.0
"""Points that are prepared once, searched many times, and changed."""

from __future__ import annotations

import ctypes as c
import os
from collections.abc import Sequence
from typing import Any, NoReturn

from numpy.typing import ArrayLike

from . import _filter, _metrics, _options
from . import _structs as s
from ._arrays import HostMatrix, as_matrix
from ._context import Settings, settings
from ._graph import Graph
from ._handle import Handle
from ._kept import ALL, NAMES, Kept, Limits, method_of, only
from ._mixed import dtype_of
from ._places import must_be_copied, on_device
from ._progress import Progress
from ._radius import Ranges, radius_job
from ._recall import Recall
from ._recall import recall as measure
from ._results import Neighbors, narrow
from ._search import like
from ._typing import Bytes, Pair, Points, Seed, Whole

_MEETS = 512
_NO_HANDLE: Handle[Kept] = Handle("Index", None)  # until there is one


class Index:
    """Points that are prepared once, searched many times, and changed.

    An exact index and a tree give the bytes of `kith.knn`; a graph is approximate, and takes some
    tenths of a millisecond for a query. Several threads may search at once; who changes the index
    waits for them. X is not copied: it must stay as it is until the index is changed or closed.

    Parameters
    ----------
    X : array of shape (n, d)
        As in `kith.knn`. Where it lies on a GPU the index is there, too, and queries that lie there
        find their answers there.
    metric : str, optional
        Its name; unless given, that of the graph, where it is known, else ``euclidean``.
    method : {"auto", "exact", "tree", "graph"}
        ``exact``: all pairs, on the device that will search them. ``tree``: a buffer k-d tree, for
        few columns and the metrics euclidean, sqeuclidean, manhattan, chebyshev and haversine; on
        the processor unless X lies on a GPU or a device is named. ``graph``: walks on a k-NN graph,
        approximate; where it lives as of a tree. ``auto``: exact, or a graph where `graph` is given.
    p : float
        Of ``minkowski``: 1 to 3355.4431 in steps of 0.0001, or infinity.
    height : int
        Of a tree: 2**height leaves; 0: what is fastest for so many columns.
    graph : Neighbors or Graph, optional
        Of a graph: neighbours of the rows of X, exact or not, as `kith.knn_graph` gives them; some
        16 to 32 each do well. It is copied, to the host. A graph that is known to be of other points,
        or of another metric, is refused. Unless given one is made.
    k : int, optional
        Neighbours of a graph that is made; 24, or all there are, unless given.
    recall : float, optional
        Of a graph that is made, and of one that `add` changes: 0.95 unless given, 1 is exact.
    random_state : int, Generator, RandomState, optional
        Of a graph that is made or changed.
    width : int, optional
        Of a graph: nearest points that a walk keeps: more take longer and find more. What other
        libraries call ef. 64, or 2 k, unless given.
    meets : int
        Of a graph on the processor: points that a query is compared with densely before it walks
        (metrics with matrix products). The default serves one query at a time; 16,384 is better for
        thousands at once.
    period : float or array of d floats, optional
        As in `kith.knn`; not of a graph. Files keep it.
    n_jobs, memory_limit
        As in `kith.knn`; those of making and changing the index.
    device : str, optional
        As in `kith.knn`; unless it is given trees and graphs are the processor's. A tree on a GPU
        finds up to 65536 neighbours in up to 64 columns.

    Attributes
    ----------
    metric, method : str
    shape : (n, d)
    dtype : numpy.dtype
        Of the points (of bfloat16: uint16).
    nbytes : int
        Memory that it holds, points apart.
    period : array of d floats, or None
    width : int or None
        Of a graph. It may be set, here and by `tune`.
    meets : int
        Of a graph. It may be set.

    Examples
    --------
    >>> import numpy as np, kith
    >>> index = kith.Index(np.array([[0.0, 0.0], [2.0, 0.0]]))
    >>> index.add(np.array([[5.0, 0.0]]))
    >>> index.search(np.array([[4.0, 0.0]])).indices
    array([[2]])
    """

    _handle = _NO_HANDLE
    width: Whole | None
    meets: Whole

    def __init__(
        self,
        X: Points,
        metric: str | None = None,
        *,
        method: str = "auto",
        p: float = 2,
        height: Whole = 0,
        graph: Graph | Pair | None = None,
        k: Whole | None = None,
        recall: float | None = None,
        random_state: Seed = None,
        width: Whole | None = None,
        meets: Whole = _MEETS,
        period: ArrayLike | None = None,
        n_jobs: Whole | None = None,
        device: str | None = None,
        memory_limit: Bytes | None = None,
    ) -> None:
        how = method_of(method, graph is not None)
        height = _options.whole(height, "height")
        only(how, s.METHOD_TREE, height=height or None)
        only(how, s.METHOD_GRAPH, graph=graph, k=k, recall=recall, random_state=random_state)
        only(how, s.METHOD_GRAPH, width=width, meets=None if meets == _MEETS else meets)
        only(how, s.METHOD_EXACT, s.METHOD_TREE, period=period)
        if graph is not None and k is not None:
            raise ValueError("k is of a graph that is made, and graph is given (leave one out)")
        _options.check_recall(recall)
        if metric is None:
            metric = getattr(graph, "metric", None) or "euclidean"
        wanted = settings(n_jobs, device, memory_limit)
        fields = {
            "tree_height": height,
            "k": 0 if k is None else _positive(k),
            "recall": recall or 0.0,
            "seed": _options.seed(random_state),
        }
        number = _metrics.code(metric, p)
        keep: Any = None
        if graph is not None:
            table, keep = narrow(graph, "graph")
            fields["graph"] = c.addressof(table)
        if on_device(X):
            self._make_on_gpu(X, number, how, wanted, {**fields, "period": period})
        else:
            points = as_matrix(X, "X", wanted.memory_limit)
            self._make(points, number, how, wanted, period=period, **fields)
        del keep
        self.width = width
        self.meets = meets

    @classmethod
    def _of_matrix(
        cls,
        points: HostMatrix,
        metric: int,
        method: int,
        wanted: Settings,
        graph: Any = None,
        period: Any = None,
    ) -> Index:
        """An index of a matrix, with settings."""
        self = cls.__new__(cls)
        table, keep = (None, None) if graph is None else narrow(graph, "graph")
        fields = {} if table is None else {"graph": c.addressof(table)}
        self._make(points, metric, method, wanted, period=period, **fields)
        self.meets = 0  # for many queries
        del keep
        return self

    def _make(
        self,
        points: HostMatrix,
        metric: int,
        method: int,
        wanted: Settings,
        **fields: Any,
    ) -> None:
        if method != s.METHOD_EXACT and wanted.device is None:
            wanted = wanted._replace(device="cpu")
        self._hold(Kept.create(points, wanted, metric=metric, method=method, **fields))

    def _make_on_gpu(
        self, X: Any, metric: int, how: int, wanted: Settings, fields: dict[str, Any]
    ) -> None:
        from . import _cuda

        points = _cuda.as_device_matrix(X, "X")
        made = _cuda.make_index(points, wanted, metric=metric, method=how, **fields)
        self._hold(Kept(made, wanted, fields["tree_height"], on_gpu=True))

    def _hold(self, kept: Kept) -> None:
        self._handle = Handle("Index", kept)
        self.width, self.meets = None, _MEETS

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an Index cannot be pickled or copied (save it, and open its file where it is needed)"
        )

    # ---- Files, and the end ----------------------------------------------------------------------

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, device: str | None = None) -> Index:
        """One from its file, which is mapped: no row is read before it is needed, but for a GPU,
        where `device` or the variable KITH_DEVICE names one. `width` and `meets` are not in it."""
        self = cls.__new__(cls)
        self._hold(Kept.open(_options.path(path), device))
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes points and preparation to a .kith file, whole or not at all."""
        file = _options.path(path)
        with self._handle as kept:
            kept.save(file)

    def close(self) -> None:
        """Gives its memory back, when searches by other threads are done, and lets go of X and of a
        mapped file. ``with`` does so at its end. Closing again does nothing, all else is then a
        ValueError."""
        self._handle.close()

    def __enter__(self) -> Index:
        with self._handle:
            return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    # ---- What it is ------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        with self._handle as kept:
            return kept.points.rows, kept.points.cols

    @property
    def dtype(self) -> Any:
        with self._handle as kept:
            return dtype_of(kept.points.dtype)

    @property
    def metric(self) -> str:
        with self._handle as kept:
            return _metrics.name(kept.metric)

    @property
    def method(self) -> str:
        with self._handle as kept:
            return NAMES[kept.method]

    @property
    def nbytes(self) -> int:
        with self._handle as kept:
            return int(kept.inspect().bytes)

    @property
    def period(self) -> Any:
        with self._handle as kept:
            return None if kept.period is None else kept.period.copy()

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        try:
            with self._handle:
                rows, cols = self.shape
                return f"<kith.Index: {rows} x {cols} {self.dtype}, {self.metric}, {self.method}>"
        except ValueError:
            return "<kith.Index: closed>"

    # ---- Searches --------------------------------------------------------------------------------

    def search(
        self,
        queries: Points,
        k: Whole = 1,
        *,
        radius: float | None = None,
        exclude: ArrayLike | None = None,
        allow: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        query_groups: ArrayLike | None = None,
        rule: str | None = None,
        width: Whole | None = None,
        random_state: Seed = None,
        n_jobs: Whole | None = None,
        memory_limit: Bytes | None = None,
        progress: Progress = None,
        out: Pair | None = None,
        wait: bool = True,
    ) -> Neighbors:
        """The k nearest points of each query: `kith.knn` without its preparations; of a graph those
        that a walk finds.

        What a walk finds of a query depends on it, on k, width and random_state, and on nothing
        else that is asked, but where queries may find different rows. Under a filter a walk leads
        over all rows and tells of those that are allowed; where it would take longer than comparing
        these, by the rule each, and on a GPU, the answer is exact.

        Parameters
        ----------
        queries : array of shape (m, d)
            On a GPU they stay where an index that is there is asked; by the processor's index, and
            under a filter that is neither a bitmap for all queries nor of small groups, they are
            copied to the host, and the answer back to them.
        k : int
        radius, exclude, allow, groups, query_groups, rule
            As in `kith.knn`; no radius of a graph.
        width : int, optional
            Of a graph, for this call; at least k. Under a filter of rows that are allowed.
        random_state : int, Generator, RandomState, optional
            Of a graph: of the places where walks begin, for metrics that have no matrix products.
        n_jobs, memory_limit, progress, out
            As in `kith.knn`.
        wait : bool
            False, for queries on the GPU where an exact index is: return before the work is done.
            Whatever is given to the stream that is the current one (of PyTorch, or CuPy) finds the
            same answers complete; nobody else may read them, or write the queries, before. A query
            with NaN is then no error of this call: its row has ids of -1 and distances NaN, and
            `Index.wait` raises. Up to 1,024 queries of points that all differ return at once
            (kith_cuda.h says which; more than 64 take longer in all); all else waits, as if this
            was True.

        Returns
        -------
        Neighbors
        """
        k = _options.whole(k, "k")
        asked_for = _filter.Asked(allow, groups, query_groups, rule)
        plain = radius is None and exclude is None and out is None and not (progress or asked_for)
        with self._handle as kept:
            walks = kept.method == s.METHOD_GRAPH
            if plain and random_state is None and (walks or width is None):
                asks = n_jobs, kept.device, memory_limit
                way = self._way(width) if walks else None
                small = kept.search_small(queries, k, asks, bool(wait), way)
                if small is not None:
                    return small
            only(kept.method, s.METHOD_EXACT, s.METHOD_TREE, radius=radius)
            only(kept.method, s.METHOD_GRAPH, width=width, random_state=random_state)
            there = kept.takes(queries)
            wanted = settings(n_jobs, kept.made_for if there else kept.device, memory_limit)
            if there:
                params = kept.params(k, radius)
                if walks:
                    self._set_walk(params, width, _options.seed(random_state))
                return _search_on_gpu(
                    kept, queries, params, exclude, asked_for, progress, wanted, out, bool(wait)
                )
            asked = as_matrix(queries, "queries", wanted.memory_limit)
            wanted = wanted.beside(asked)
            params = kept.params(k, radius)
            keep = _options.excluded(exclude, asked.rows, params)
            filtered = _filter.make(asked_for, kept.points.rows, asked.rows)
            if walks:
                seed, limits = _options.seed(random_state), (filtered, params.exclude)
                found = self._walk(
                    asked,
                    k,
                    width,
                    seed=seed,
                    limits=limits,
                    wanted=wanted,
                    progress=progress,
                    out=out,
                )
            else:
                found = kept.search(asked, params, wanted, filtered, progress=progress, out=out)
            del keep
        return like(queries, found, out)

    def wait(self) -> None:
        """Until all searches with ``wait=False`` are done.

        Raises
        ------
        ValueError
            A query of one of them, since the last call of this, had a value that is not allowed.
        """
        from . import _cuda

        with self._handle as kept:
            _cuda.index_wait(kept, settings(device=kept.made_for))

    def _search(self, asked: HostMatrix, k: int, wanted: Settings) -> Neighbors:
        """search of a matrix, with settings; not of a graph."""
        with self._handle as kept:
            limits = wanted.threads or None, kept.device, wanted.memory_limit or None
            small = kept.search_small(asked.array, k, limits)
            if small is not None:
                return small
            return kept.search(asked, kept.params(k), wanted._replace(device=kept.device))

    def _way(self, width: Whole | None) -> tuple[int, int]:
        width = _options.optional(self.width if width is None else width, "width")
        return width or 0, _options.whole(self.meets, "meets")

    def _set_walk(
        self, params: s.SearchParams, width: Whole | None, seed: int, recall: float | None = None
    ) -> tuple[int, int]:
        way = self._way(width)
        _options.walk(params, *way, recall, seed)
        return way

    def _walk(
        self,
        asked: HostMatrix,
        k: int,
        width: Whole | None = None,
        *,
        seed: int = 0,
        recall: float | None = None,
        limits: Limits = ALL,
        wanted: Settings = Settings(),
        progress: Progress = None,
        out: Sequence[Any] | None = None,
    ) -> Neighbors:
        """search of a matrix on a graph. recall: measured by these queries, it chooses the width."""
        with self._handle as kept:
            params = kept.params(k)
            way = self._set_walk(params, width, seed, recall)
            small = recall is None and kept.is_small(asked.rows, k, *way)
            return kept.walk(asked, params, limits, wanted, progress, out, small)

    def radius(
        self,
        queries: Points,
        radius: ArrayLike,
        *,
        closed: bool = True,
        count_only: bool = False,
        allow: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        query_groups: ArrayLike | None = None,
        rule: str | None = None,
        n_jobs: Whole | None = None,
        memory_limit: Bytes | None = None,
        progress: Progress = None,
    ) -> Ranges:
        """All points within a radius of each query: `kith.radius_neighbors` without its
        preparations. Not of a graph.

        Parameters
        ----------
        queries : array of shape (m, d)
            Those on a GPU stay where the index is there, else they are copied to the host; the
            answer is made in host memory and copied to them.
        radius : float or array of m floats
        closed, count_only, allow, groups, query_groups, rule, n_jobs, memory_limit, progress
            As in `kith.radius_neighbors`.

        Returns
        -------
        Ranges
        """
        with self._handle as kept:
            only(kept.method, s.METHOD_EXACT, s.METHOD_TREE, radius=radius)
            wanted = settings(n_jobs, kept.device, memory_limit)
            asked: Any
            if must_be_copied(queries) and kept.takes(queries):
                from . import _cuda

                asked = _cuda.as_device_matrix(queries, "queries")
                wanted = _cuda.settings_for(wanted._replace(device=kept.made_for), asked)
            else:
                asked = as_matrix(queries, "queries", wanted.memory_limit)
                wanted = wanted.beside(asked)
            asked_for = _filter.Asked(allow, groups, query_groups, rule)
            within = _options.within(radius, closed, kept.metric)
            job = radius_job(within, asked, count_only, asked_for, kept.points.rows)
            found = kept.ranges(job, asked, wanted, progress, not asked_for)
        return found._like(queries)

    def tune(
        self,
        queries: Points,
        k: Whole = 10,
        recall: float = 0.95,
        *,
        n_jobs: Whole | None = None,
        memory_limit: Bytes | None = None,
    ) -> Recall:
        """Sets the `width` of a graph to the first of k, 1.5 k, ... that has a recall for these
        queries.

        Some hundred queries like those to come do; they are solved exactly, once.

        Parameters
        ----------
        queries : array of shape (m, d)
        k : int
            Neighbours that will be asked for.
        recall : float
            What is wanted, 0 to 1.
        n_jobs, memory_limit
            As in `kith.knn`.

        Returns
        -------
        Recall
            Of these queries, at this width. It says a little too much of others, since it was
            looked at until it was good.
        """
        if not 0.0 <= _options.number(recall, "recall") <= 1.0:
            raise ValueError(f"recall is {recall}, must be 0 to 1")
        k = _options.whole(k, "k")
        with self._handle as kept:
            only(kept.method, s.METHOD_GRAPH, tune=True)
            wanted = settings(n_jobs, kept.device, memory_limit)
            asked = as_matrix(queries, "queries", wanted.memory_limit)
            wanted = wanted.beside(asked)
            if asked.rows == 0:
                raise ValueError("queries are none (give some hundred like those to come)")
            truth = self._walk(asked, k, len(self), wanted=wanted)  # so wide that it is exact
            width, judged = k, None
            while judged is None or (judged.recall < recall and width < len(self)):
                width = k if judged is None else min(width + max(width // 2, 1), len(self))
                found = self._walk(asked, k, width, wanted=wanted)
                judged = measure(found, truth, metric=self.metric, at=k)
        self.width = width
        return judged

    # ---- Changes ---------------------------------------------------------------------------------

    def add(self, Y: Points) -> None:
        """Adds rows behind the last one; waits for those who search meanwhile.

        Afterwards an exact index and a tree answer as a new one of all these rows; a graph gets the
        neighbours of the new rows, and keeps its recall. Rows of another type keep their values:
        where the index' type does not hold them, it is made anew in the smallest one that holds
        all, but for a graph and rows on a GPU, which refuse them. X is let go: the index has its points for itself,
        in host memory and on its device; an exact index of rows on a GPU has them there alone, and
        takes rows of its type from there. To others Y on a GPU comes by way of the host.
        """
        with self._handle.alone() as kept:
            kept.add(Y)

    def remove(self, ids: ArrayLike) -> None:
        """Removes rows; later ones move up, as in numpy.delete. Waits for those who search.

        At least one row must be left, in a graph two. Ids on a GPU are copied to the host.
        """
        with self._handle.alone() as kept:
            kept.remove(ids)


def _search_on_gpu(
    kept: Kept,
    queries: Any,
    params: s.SearchParams,
    exclude: Any,
    asked_for: _filter.Asked,
    progress: Progress,
    wanted: Settings,
    out: Sequence[Any] | None,
    wait: bool,
) -> Neighbors:
    from . import _cuda

    return _cuda.index_search(
        kept, queries, params, exclude, wanted, progress, out, asked_for, wait
    )


def _positive(k: Any) -> int:
    if _options.whole(k, "k") < 1:
        raise ValueError(f"k is {k}, must be at least 1")
    return int(k)
