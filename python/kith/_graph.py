# SPDX-License-Identifier: Apache-2.0
"""Graphs: files, sparse matrices, lists of edges."""

from __future__ import annotations

import ctypes as c
import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _metrics
from . import _structs as s
from ._context import Context, context, settings
from ._imports import needed
from ._library import lib
from ._options import path as encoded
from ._options import whole
from ._results import Array, Fingerprint, Neighbors, claim, level, narrow
from ._typing import Whole

Path = str | os.PathLike[str]


class Graph:
    """Neighbours of points, with what is known about them.

    Parameters
    ----------
    distances, indices : array of shape (n, k)
        Or `kith.Neighbors` alone, as `kith.knn_graph` and `kith.knn` give them, with all that they
        know: ``kith.Graph(kith.knn_graph(X))``. Of bare arrays it is not known whether they are
        exact, nor of which points.
    metric : str
        Of the distances; must be given with bare arrays.
    n_points : int, optional
        Rows of the corpus; unless given those that the neighbours know, else n, which makes it a graph of
        one set of points.

    Attributes
    ----------
    distances, indices, n_points
    metric : str or None
        None: a file does not say it.
    exact : bool or None
        True: certified. False: approximate. None: it is not known, as of lists that a radius cut.
    fingerprint : kith.Fingerprint or None
        Of the points. A file is certified of stated points alone: where they are not known, it is
        not known whether it is exact.
    """

    def __init__(
        self,
        distances: ArrayLike,
        indices: ArrayLike | None = None,
        *,
        metric: str | None = None,
        n_points: Whole | None = None,
    ) -> None:
        known: Any = None
        if indices is None:
            if not isinstance(distances, Neighbors):
                raise TypeError("a Graph is made of distances and indices, or of kith.Neighbors")
            known = distances
            distances, indices = known
        table, (kept, ids, _) = narrow((distances, indices), "a Graph")
        number = 0 if metric is None else _metrics.code(metric)
        own = 0 if known is None else known._metric
        if number and own and number != own:
            raise ValueError(f"metric is {metric}, the neighbours were found by {known.metric}")
        if not (number or own):
            raise ValueError("metric is needed: arrays do not say by which one they were found")
        exact = None if known is None else known.exact
        if exact and (ids == s.ID_NONE).any():
            exact = None  # a radius cut these lists, and a graph does not know which
        points = None if known is None else known.fingerprint
        rows = int(table.rows) if points is None else points.rows
        rows = rows if n_points is None else whole(n_points, "n_points")
        if points is not None and rows != points.rows:
            raise ValueError(f"n_points is {rows}, the neighbours are rows of {points}")
        _check_ids(ids, rows)
        self._hold(ids, kept, number or own, rows, exact, points)

    def _hold(
        self,
        ids: Array,
        distances: Array,
        metric: int,
        points: int,
        exact: bool | None,
        fingerprint: Fingerprint | None,
        recall: tuple[float, int] = (-1.0, 0),
        owner: Any = None,
    ) -> None:
        self._ids = ids
        self.distances = distances
        self._metric = metric
        self.n_points = int(points)
        self.exact = exact
        self.fingerprint = fingerprint
        self._recall = recall  # of a file that tells it
        self._owner = owner  # of the memory, where that is a mapped file

    def __getattr__(self, name: str) -> Any:
        if name in ("distances", "_ids"):
            raise ValueError("the Graph is closed")
        raise AttributeError(f"a Graph has no attribute {name!r}")

    def close(self) -> None:
        """Lets go of its arrays; of a mapped file when no array that was taken from it is left.
        ``with`` does so at its end. Closing again does nothing."""
        self.__dict__.pop("distances", None)
        self.__dict__.pop("_ids", None)
        self._owner = None

    def __enter__(self) -> Graph:
        self.shape  # noqa: B018, a ValueError where it is closed
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """In memory: a mapped file does not travel."""
        return {**self.__dict__, "_owner": None}

    @property
    def metric(self) -> str | None:
        return _metrics.name(self._metric) if self._metric else None

    @property
    def indices(self) -> Array:
        """Neighbours as int64; -1 where there is none."""
        wide = self._ids.astype(np.int64)
        wide[self._ids == s.ID_NONE] = -1
        return wide

    @property
    def neighbors(self) -> Neighbors:
        found = Neighbors(self.distances, self.indices)
        return claim(found, self._metric, self.exact, self.fingerprint)

    @property
    def shape(self) -> tuple[int, int]:
        """Points, and neighbours of each."""
        rows, k = self._ids.shape
        return rows, k

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        if "_ids" not in self.__dict__:
            return "<kith.Graph: closed>"
        rows, k = self.shape
        how = {True: "exact", False: "approximate", None: "not known whether exact"}[self.exact]
        metric = self.metric or "of an unknown metric"
        return f"<kith.Graph: {rows} x {k} of {self.n_points} points, {metric}, {how}>"

    # ---- Files -----------------------------------------------------------------------------------

    def save(self, path: Path, format: str | None = None) -> None:
        """Writes a file, whole or not at all.

        Parameters
        ----------
        path : path
            The format is that of its extension: .npz, .ivecs, .ibin, .knn, .kith, .csv, .tsv.
        format : {"npz", "csr", "ivecs", "ibin", "knn", "kith", "csv", "tsv", "csv-wide", "tsv-wide"}, \
optional
            Another one; csr is a SciPy sparse matrix in .npz, csv-wide has a line for each point.

        .npz, csr and .kith keep metric, exact and fingerprint; .ivecs, .ibin, .knn and text cannot.
        """
        file = encoded(path)
        number = 0
        if format is not None:
            number = formats().get(format, 0) if isinstance(format, str) else 0
            if number == 0:
                raise ValueError(f"format is {format!r}, must be one of {', '.join(formats())}")
        table, keep = narrow((self.distances, self._ids.astype(np.uint32, copy=False)), "the graph")
        if keep[0].dtype == np.float64:  # files have float32, as the library rounds it
            keep = (self.distances.astype(np.float32), keep[1], keep[2])
            table.distances = keep[0].ctypes.data
        same = self.n_points == self.shape[0]
        points = self.fingerprint
        if points is not None and points.rows != self.n_points:
            points = None  # n_points was set to another number since
        meta = s.sized(
            s.ResultMeta,
            kind=s.KIND_GRAPH if same else s.KIND_RESULT,
            metric=self._metric,
            exact=level(self.exact, points),
            corpus_rows=self.n_points,
            recall=self._recall[0],
            recall_at=self._recall[1],
        )
        if points is not None:
            meta.points = points.as_struct()
        context(settings()).call(lib.kith_result_save, file, number, c.byref(table), c.byref(meta))

    @classmethod
    def load(cls, path: Path) -> Graph:
        """A graph from a file of any of these formats, in memory."""
        graph = cls.map(path)
        ids, distances = graph._ids.copy(), graph.distances.copy()
        known = graph._metric, graph.n_points, graph.exact, graph.fingerprint, graph._recall
        graph._hold(ids, distances, *known)
        return graph

    @classmethod
    def map(cls, path: Path) -> Graph:
        """A graph that stays in its file where the format allows it (.kith): read when needed."""
        owner = _Opened(path)
        table, meta = owner.table, owner.meta
        shape = (table.rows, table.k)
        ids = owner.view(table.ids, shape, np.uint32)
        if table.distances:
            distances = owner.view(table.distances, shape, np.float32)
        else:
            distances = np.full(shape, np.nan, np.float32)
        graph = cls.__new__(cls)
        exact = {s.CERTIFIED: True, s.APPROXIMATE: False}.get(meta.exact)
        graph._hold(
            ids,
            distances,
            meta.metric,
            meta.corpus_rows or table.rows,
            exact,
            Fingerprint.of_struct(meta.points),
            (meta.recall, meta.recall_at),
            owner,
        )
        return graph

    # ---- Other shapes ----------------------------------------------------------------------------

    def to_csr(self, mode: str = "distance", symmetrize: str | None = None) -> Any:
        """The graph as a SciPy CSR matrix of shape (n, n_points).

        Parameters
        ----------
        mode : {"distance", "connectivity"}
            What stands in it: distances, or ones. Distances of 0 are stored like any other.
        symmetrize : {None, "union", "mutual"}
            union: an edge where either point has the other; mutual: where both have.
        """
        csr_matrix = needed("scipy.sparse", "Graph.to_csr").csr_matrix
        if mode not in ("distance", "connectivity"):
            raise ValueError(f"mode is {mode!r}, must be distance or connectivity")
        rows, cols, values = self._edges(symmetrize)
        if mode == "connectivity":
            values = np.ones(len(rows))
        indptr = np.zeros(len(self) + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=len(self)), out=indptr[1:])
        return csr_matrix((values, cols, indptr), shape=(len(self), self.n_points))

    def edges(self, symmetrize: str | None = None) -> tuple[Array, Array, Array]:
        """The graph as a list of edges: from, to, distance (for networkx, igraph, PyG).

        Parameters
        ----------
        symmetrize : {None, "union", "mutual"}
            As in `to_csr`; each edge then stands in the list once, from the lower point.

        Examples
        --------
        ``igraph.Graph(n, edges=zip(i, j))``; ``networkx.Graph(zip(i, j))``.
        """
        rows, cols, values = self._edges(symmetrize)
        if symmetrize is not None:
            once = rows <= cols
            rows, cols, values = rows[once], cols[once], values[once]
        return rows, cols, values

    def _edges(self, symmetrize: str | None) -> tuple[Array, Array, Array]:
        full = self._ids != s.ID_NONE
        rows = np.repeat(np.arange(len(self)), np.count_nonzero(full, axis=1))
        cols = self._ids[full].astype(np.int64)
        values = self.distances[full]
        if symmetrize is None:
            return rows, cols, values
        if symmetrize not in ("union", "mutual"):
            raise ValueError(f"symmetrize is {symmetrize!r}, must be union or mutual")
        if self.n_points != len(self):
            raise ValueError("only a graph of one set of points can be symmetric")
        return _both_ways(rows, cols, values, self.n_points, symmetrize == "mutual")


def formats() -> dict[str, int]:
    """The names of all formats that a graph is saved in, and their numbers."""
    known = ((name.partition("_")[2], number) for name, number in s.ENUMS["kith_format"].items())
    return {
        name.lower().replace("_", "-"): number for name, number in known if number != s.FORMAT_AUTO
    }


def _check_ids(ids: Array, points: int) -> None:
    """Whether all ids are of rows of the corpus, or empty."""
    if not 1 <= points < s.ID_NONE:
        raise ValueError(f"n_points is {points}, must be 1 to {s.ID_NONE - 1}")
    most = int(ids.max(initial=0, where=ids != s.ID_NONE))
    if ids.size and most >= points:
        raise ValueError(
            f"indices hold {most}, must be below {points}, the number of points (n_points says how "
            "many rows the corpus has, where it is another than that of the queries)"
        )


def _both_ways(
    rows: Array, cols: Array, values: Array, points: int, mutual: bool
) -> tuple[Array, Array, Array]:
    """Edges with their reverses, each once, by (from, to); mutual: those that had theirs."""
    there = rows * points + cols
    back = cols * points + rows
    if mutual:
        keys = np.intersect1d(there, back)
    else:
        keys = np.union1d(there, back)
    order = np.argsort(np.concatenate([there, back]), kind="stable")
    at = order[np.searchsorted(np.concatenate([there, back]), keys, sorter=order)]
    return keys // points, keys % points, np.concatenate([values, values])[at]


class _Opened:
    """A kith_result, for as long as an array shows its memory."""

    def __init__(self, path: Path) -> None:
        file = encoded(path)
        if not os.path.exists(file):
            raise FileNotFoundError(f"{os.fsdecode(file)}: no such file")
        owner = Context(settings())
        self._made = owner.make(lib.kith_result_free, None, lib.kith_result_open, file)
        self.table = lib.kith_result_neighbors(self._made).contents
        self.meta = s.ResultMeta.from_address(self.table.meta)

    def view(self, address: int, shape: tuple[int, int], dtype: Any) -> Array:
        """A read-only array of the memory, which keeps it there."""
        size = shape[0] * shape[1] * np.dtype(dtype).itemsize
        block = (c.c_char * size).from_address(address)
        block._owner = self._made
        array: Array = np.frombuffer(block, dtype).reshape(shape)
        array.flags.writeable = False
        return array
