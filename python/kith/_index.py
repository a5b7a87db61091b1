# SPDX-License-Identifier: Apache-2.0
"""A graph that new points are searched on again and again."""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from . import _metrics, _options
from . import _structs as s
from ._arrays import CODES, HostMatrix, as_matrix
from ._context import Context, Settings, context, settings
from ._graph import Graph
from ._library import lib
from ._progress import Progress
from ._recall import Recall
from ._recall import recall as measure
from ._results import Neighbors, Table, narrow
from ._search import like, search
from ._small import MOST_STEPS

_DEVICE = "cpu"
_DENSELY = 16_384  # met where `meets` is 0
_MET = 64  # points at most that a walk meets for each that it keeps, as a rule far fewer


def _code(dtype: Any) -> int:
    if dtype is None:
        return 0
    try:
        named = np.dtype(dtype)
    except TypeError:
        named = dtype
    if named not in CODES:
        known = ", ".join(str(each) for each in CODES)
        raise ValueError(f"query_dtype is {named}, must be one of {known}")
    return CODES[named]


def is_small(points: int, cols: int, queries: int, k: int, width: int | None, meets: int) -> bool:
    """Whether a search ends before anybody would press Ctrl-C."""
    met = min(points, (meets or _DENSELY) + _MET * max(width or 0, 2 * k, 64))
    return queries * met * (cols + 16) <= MOST_STEPS


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
        each do well. It is not needed any more afterwards.
    metric : str, optional
        Its name; unless given, that of a `kith.Graph`, else ``euclidean``.
    width : int, optional
        Nearest points that a walk keeps: more take longer and find more. What other libraries call
        ef. 64, or 2 k, unless given.
    meets : int
        Points that a query is compared with densely before it walks (metrics with matrix products).
        The default serves one query at a time; 16,384 is better for thousands at once.
    query_dtype : dtype, optional
        Of the queries to come; that of X unless given. It matters for X of uint8 and int8.
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

    def __init__(
        self,
        X: Any,
        graph: Neighbors | Graph | Sequence[Any],
        metric: str | None = None,
        *,
        p: float = 2,
        width: int | None = None,
        meets: int = 2048,
        query_dtype: Any = None,
        n_jobs: int | None = None,
        memory_limit: int | None = None,
    ) -> None:
        if isinstance(graph, Graph) and metric is None:
            metric = graph.metric
        self.width = width
        self.meets = meets
        self._handle = c.c_void_p()
        self._points = as_matrix(X, "X")
        self._context = Context(settings(n_jobs, _DEVICE, memory_limit))  # the library keeps it
        self._number = _metrics.code("euclidean" if metric is None else metric, p)
        table, keep = narrow(graph, "graph")
        params = s.sized(
            s.WalksParams,
            metric=self._number,
            queries=_code(query_dtype),
        )
        self._context.call(
            lib.kith_walks_create,
            c.byref(self._points.struct),
            c.byref(table),
            c.byref(params),
            c.byref(self._handle),
        )
        del keep

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle:
            lib.kith_walks_free(handle)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a GraphIndex cannot be pickled or copied (keep the points and the graph, a kith.Graph, "
            "and make it anew)"
        )

    @property
    def shape(self) -> tuple[int, int]:
        return self._points.struct.rows, self._points.struct.cols

    @property
    def metric(self) -> str:
        return _metrics.name(self._number)

    @property
    def nbytes(self) -> int:
        return int(lib.kith_walks_bytes(self._handle))

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        rows, cols = self.shape
        return f"<kith.GraphIndex: {rows} x {cols} {self._points.array.dtype}, {self.metric}>"

    def query(
        self,
        queries: Any,
        k: int = 1,
        *,
        width: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        memory_limit: int | None = None,
        progress: Progress = None,
        out: Sequence[Any] | None = None,
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
        asked = as_matrix(queries, "queries")
        k = _options.whole(k, "k")
        width = _options.optional(width or self.width, "width")
        seed = _options.seed(random_state)
        wanted = settings(n_jobs, _DEVICE, memory_limit)
        found = self.search(asked, k, width, seed=seed, wanted=wanted, progress=progress, out=out)
        return like(queries, found, out)

    def search(
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
        double = asked.is_double or self._points.is_double
        table = Table(asked.rows, k, self._points.rows, double, out)
        params = s.sized(
            s.GraphSearchParams,
            k=k,
            width=width or 0,
            recall=recall or 0.0,
            sample=-1 if recall is None else 0,
            seed=seed,
            meets=meets,
        )
        small = recall is None and is_small(*self.shape, asked.rows, k, width, meets)
        context(wanted._replace(device=_DEVICE), watched=bool(progress) or not small).call(
            lib.kith_walks_search,
            self._handle,
            c.byref(asked.struct),
            c.byref(params),
            c.byref(table.struct),
            None,
            progress=progress,
        )
        return table.result()

    def tune(
        self,
        queries: Any,
        k: int = 10,
        recall: float = 0.95,
        *,
        n_jobs: int | None = None,
        memory_limit: int | None = None,
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
        asked = as_matrix(queries, "queries")
        k = _options.whole(k, "k")
        wanted = settings(n_jobs, _DEVICE, memory_limit)
        truth = search(self._points, asked, k, metric=self.metric, wanted=wanted)
        width, judged = k, None
        while judged is None or (judged.recall < recall and width < len(self)):
            width = k if judged is None else min(width + max(width // 2, 1), len(self))
            found = self.search(asked, k, width, wanted=wanted)
            judged = measure(found, truth, metric=self.metric, at=k)
        self.width = width
        return judged
