# SPDX-License-Identifier: Apache-2.0
"""A graph that new points are searched on again and again."""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from . import _metrics, _options
from . import _structs as s
from ._arrays import HostMatrix, as_matrix
from ._context import Context, Settings, context, settings
from ._graph import Graph
from ._handle import Handle, Lock, Pointer
from ._library import lib
from ._progress import Progress
from ._recall import Recall
from ._recall import recall as measure
from ._results import Fingerprint, Neighbors, Table, claim, narrow
from ._search import check_shapes, fingerprint, like, search
from ._small import MOST_STEPS
from ._typing import Bytes, Pair, Points, Seed, Whole

_DEVICE = "cpu"
_BYTES = s.U8, s.I8
_FLOAT = s.F32
_preparing = Lock()
_DENSELY = 16_384  # met where `meets` is 0
_MET = 64  # points at most that a walk meets for each that it keeps, as a rule far fewer


def is_small(points: int, cols: int, queries: int, k: int, width: int | None, meets: int) -> bool:
    """Whether a search ends before anybody would press Ctrl-C."""
    met = min(points, (meets or _DENSELY) + _MET * max(width or 0, 2 * k, 64))
    return queries * met * (cols + 16) <= MOST_STEPS


class _Known(NamedTuple):
    """What an index holds."""

    points: HostMatrix
    graph: tuple[s.Neighbors, Any] | None  # kept of bytes alone
    metric: int
    wanted: Settings
    made: dict[int, Pointer]  # by the type of queries
    fingerprint: Fingerprint | None

    def prepare(self, queries: int, graph: tuple[s.Neighbors, Any]) -> None:
        """What walks need for queries of a type."""
        params = s.sized(s.WalksParams, metric=self.metric, queries=queries)
        self.made[queries] = Context(self.wanted).make(
            lib.kith_walks_free,
            self.points.array,
            lib.kith_walks_create,
            c.byref(self.points.struct),
            c.byref(graph[0]),
            c.byref(params),
        )

    def made_for(self, queries: HostMatrix) -> Pointer:
        """Bytes are compared as whole numbers with queries of their own type, and with others as
        floats: for these all is prepared when the first of them come."""
        own = self.points.struct.dtype
        kind = own if own not in _BYTES or queries.struct.dtype == own else _FLOAT
        if kind not in self.made and self.graph is not None:
            with _preparing:
                if kind not in self.made:
                    self.prepare(kind, self.graph)
        return self.made[kind]


_NO_HANDLE: Handle[_Known] = Handle("GraphIndex", None)  # until there is one


class GraphIndex:
    """An approximate index: a k-NN graph of points, on which walks find neighbours of new ones.

    Everything but the walks is prepared once, so that one query takes some tenths of a
    millisecond. Several threads may query at once. It works on the processor.

    Parameters
    ----------
    X : array of shape (n, d)
        As in `kith.knn`. Not copied: it must stay as it is.
    graph : Neighbors or Graph
        Neighbours of the rows of X, exact or not, as `kith.knn_graph` gives them; some 16 to 32
        each do well. A graph that is known to be of other points, or of another metric, is
        refused.
    metric : str, optional
        Its name; unless given, that of the graph, where it is known, else ``euclidean``.
    width : int, optional
        Nearest points that a walk keeps: more take longer and find more. What other libraries call
        ef. 64, or 2 k, unless given.
    meets : int
        Points that a query is compared with densely before it walks (metrics with matrix products).
        The default serves one query at a time; 16,384 is better for thousands at once.
    p, n_jobs, memory_limit
        As in `kith.knn`; n_jobs and the memory limit are those of preparing.

    Attributes
    ----------
    width : int or None
        It may be set, here and by `tune`.
    meets : int
        It may be set.
    metric : str
    shape : (n, d)
    nbytes : int
        Memory that it holds beside X.

    Examples
    --------
    >>> import numpy as np, kith
    >>> X = np.random.default_rng(0).random((2000, 8), dtype=np.float32)
    >>> index = kith.GraphIndex(X, kith.knn_graph(X, 16))
    >>> int(index.query(X[7:8], k=3).indices[0, 0])
    7
    """

    _handle = _NO_HANDLE

    def __init__(
        self,
        X: Points,
        graph: Graph | Pair,
        metric: str | None = None,
        *,
        p: float = 2,
        width: Whole | None = None,
        meets: Whole = 2048,
        n_jobs: Whole | None = None,
        memory_limit: Bytes | None = None,
    ) -> None:
        if isinstance(graph, (Graph, Neighbors)) and metric is None:
            metric = graph.metric
        self.width = width
        self.meets = meets
        wanted = settings(n_jobs, _DEVICE, memory_limit)
        points = as_matrix(X, "X", wanted.memory_limit)
        number = _metrics.code("euclidean" if metric is None else metric, p)
        given, kind = narrow(graph, "graph"), points.struct.dtype
        kept = given if kind in _BYTES else None
        wanted = wanted.beside(points)
        known = _Known(points, kept, number, wanted, {}, fingerprint(points.struct, wanted))
        known.prepare(kind, given)
        self._handle = Handle("GraphIndex", known)

    def close(self) -> None:
        """Gives its memory back, when searches by other threads are done, and lets go of X.
        ``with`` does so at its end. Closing again does nothing, all else is then a ValueError."""
        self._handle.close()

    def __enter__(self) -> GraphIndex:
        with self._handle:
            return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a GraphIndex cannot be pickled or copied (keep the points and the graph, a kith.Graph, "
            "and make it anew)"
        )

    @property
    def shape(self) -> tuple[int, int]:
        with self._handle as known:
            return known.points.struct.rows, known.points.struct.cols

    @property
    def metric(self) -> str:
        with self._handle as known:
            return _metrics.name(known.metric)

    @property
    def nbytes(self) -> int:
        with self._handle as known:
            return sum(int(lib.kith_walks_bytes(each)) for each in list(known.made.values()))

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        try:
            with self._handle as known:
                rows, cols = self.shape
                return (
                    f"<kith.GraphIndex: {rows} x {cols} {known.points.array.dtype}, {self.metric}>"
                )
        except ValueError:
            return "<kith.GraphIndex: closed>"

    def query(
        self,
        queries: Points,
        k: Whole = 1,
        *,
        width: Whole | None = None,
        random_state: Seed = None,
        n_jobs: Whole | None = None,
        memory_limit: Bytes | None = None,
        progress: Progress = None,
        out: Pair | None = None,
    ) -> Neighbors:
        """The k nearest points of each query that a walk finds.

        What is found of a query depends on it, on k, width and random_state, and on nothing else
        that is asked.

        Parameters
        ----------
        queries : array of shape (m, d)
        k : int
        width : int, optional
            For this call; at least k.
        random_state : int, Generator, RandomState, optional
            Of the places where walks begin, for metrics that have no matrix products.
        n_jobs, memory_limit, progress, out
            As in `kith.knn`.

        Returns
        -------
        Neighbors
            No slot is empty; distances are those of `kith.knn`.
        """
        wanted = settings(n_jobs, _DEVICE, memory_limit)
        asked = as_matrix(queries, "queries", wanted.memory_limit)
        k = _options.whole(k, "k")
        width = _options.optional(self.width if width is None else width, "width")
        seed = _options.seed(random_state)
        wanted = wanted.beside(asked)
        found = self._search(asked, k, width, seed=seed, wanted=wanted, progress=progress, out=out)
        return like(queries, found, out)

    def _search(
        self,
        asked: HostMatrix,
        k: int,
        width: int | None = None,
        *,
        seed: int = 0,
        recall: float | None = None,
        wanted: Settings = Settings(),
        progress: Progress = None,
        out: Sequence[Any] | None = None,
    ) -> Neighbors:
        """query of a matrix, with settings. recall: measured by these queries, it chooses the width."""
        meets = _options.whole(self.meets, "meets")
        params = s.sized(
            s.GraphSearchParams,
            k=k,
            width=width or 0,
            recall=recall or 0.0,
            sample=-1 if recall is None else 0,
            seed=seed,
            meets=meets,
        )
        with self._handle as known:
            points = known.points
            table = Table(asked.rows, k, points.rows, asked.is_double or points.is_double, out)
            if asked.rows == 0:
                check_shapes(points.struct, asked, k, "the index")
                return table.result()
            cols = points.struct.cols
            small = recall is None and is_small(points.rows, cols, asked.rows, k, width, meets)
            context(wanted._replace(device=_DEVICE), watched=bool(progress) or not small).call(
                lib.kith_walks_search,
                known.made_for(asked),
                c.byref(asked.struct),
                c.byref(params),
                c.byref(table.struct),
                None,
                progress=progress,
            )
            return claim(table.result(), known.metric, False, known.fingerprint)

    def tune(
        self,
        queries: Points,
        k: Whole = 10,
        recall: float = 0.95,
        *,
        n_jobs: Whole | None = None,
        memory_limit: Bytes | None = None,
    ) -> Recall:
        """Sets `width` to the first of k, 1.5 k, ... that has a recall for these queries.

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
        wanted = settings(n_jobs, _DEVICE, memory_limit)
        asked = as_matrix(queries, "queries", wanted.memory_limit)
        wanted = wanted.beside(asked)
        k = _options.whole(k, "k")
        if asked.rows == 0:
            raise ValueError("queries are none (give some hundred like those to come)")
        with self._handle as known:
            truth = search(known.points, asked, k, metric=self.metric, wanted=wanted)
        width, judged = k, None
        while judged is None or (judged.recall < recall and width < len(self)):
            width = k if judged is None else min(width + max(width // 2, 1), len(self))
            found = self._search(asked, k, width, wanted=wanted)
            judged = measure(found, truth, metric=self.metric, at=k)
        self.width = width
        return judged
