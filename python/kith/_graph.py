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
from ._results import Array, Neighbors, narrow
from ._typing import Whole

Path = str | os.PathLike[str]


class Graph:
    """Neighbours of points, with what is known about them.

    Parameters
    ----------
    distances, indices : array of shape (n, k)
        As `kith.knn_graph` and `kith.knn` give them: ``kith.Graph(*kith.knn_graph(X))``.
    metric : str
        Of the distances.
    n_points : int, optional
        Rows of the corpus; n unless given, which makes it a graph of one set of points.
    exact : bool
        Whether the neighbours are the true ones.

    Attributes
    ----------
    distances, indices, metric, n_points, exact
    """

    def __init__(
        self,
        distances: ArrayLike,
        indices: ArrayLike,
        *,
        metric: str = "euclidean",
        n_points: Whole | None = None,
        exact: bool = True,
    ) -> None:
        table, (kept, ids) = narrow((distances, indices), "a Graph")
        points = int(table.rows) if n_points is None else whole(n_points, "n_points")
        _check_ids(ids, points)
        self._hold(ids, kept, _metrics.code(metric), points, exact, None)

    def _hold(
        self, ids: Array, distances: Array, metric: int, points: int, exact: bool, owner: Any
    ) -> None:
        self._ids = ids
        self.distances = distances
        self._metric = metric
        self.n_points = int(points)
        self.exact = bool(exact)
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
    def metric(self) -> str:
        return _metrics.name(self._metric)

    @property
    def indices(self) -> Array:
        """Neighbours as int64; -1 where there is none."""
        wide = self._ids.astype(np.int64)
        wide[self._ids == s.ID_NONE] = -1
        return wide

    @property
    def neighbors(self) -> Neighbors:
        return Neighbors(self.distances, self.indices)

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
        how = "exact" if self.exact else "approximate"
        return f"<kith.Graph: {rows} x {k} of {self.n_points} points, {self.metric}, {how}>"

    # ---- Files -----------------------------------------------------------------------------------

    def save(self, path: Path, format: str | None = None) -> None:
        """Writes a file, whole or not at all.

        Parameters
        ----------
        path : path
            The format is that of its extension: .npz, .ivecs, .ibin, .knn, .kith.
        format : {"npz", "csr", "ivecs", "ibin", "knn", "kith"}, optional
            Another one; csr is a SciPy sparse matrix in .npz.
        """
        file = encoded(path)
        number = 0
        if format is not None:
            number = lib.kith_format_parse(format.encode()) if isinstance(format, str) else 0
            if number == 0:
                raise ValueError(
                    f"format is {format!r}, must be npz, csr, ivecs, ibin, knn or kith"
                )
        table, keep = narrow((self.distances, self._ids.astype(np.uint32, copy=False)), "the graph")
        if keep[0].dtype == np.float64:  # files have float32, as the library rounds it
            keep = (self.distances.astype(np.float32), keep[1])
            table.distances = keep[0].ctypes.data
        same = self.n_points == self.shape[0]
        meta = s.sized(
            s.ResultMeta,
            kind=s.KIND_GRAPH if same else s.KIND_RESULT,
            metric=self._metric,
            exact=s.UNKNOWN if self.exact else s.APPROXIMATE,
            corpus_rows=self.n_points,
            recall=-1.0,
        )
        context(settings()).call(lib.kith_result_save, file, number, c.byref(table), c.byref(meta))

    @classmethod
    def load(cls, path: Path) -> Graph:
        """A graph from a file of any of these formats, in memory."""
        graph = cls.map(path)
        ids, distances = graph._ids.copy(), graph.distances.copy()
        graph._hold(ids, distances, graph._metric, graph.n_points, graph.exact, None)
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
        metric = meta.metric or _metrics.EUCLIDEAN
        graph._hold(ids, distances, metric, meta.corpus_rows or table.rows, meta.exact == 1, owner)
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
        self.meta = lib.kith_result_get_meta(self._made).contents

    def view(self, address: int, shape: tuple[int, int], dtype: Any) -> Array:
        """A read-only array of the memory, which keeps it there."""
        size = shape[0] * shape[1] * np.dtype(dtype).itemsize
        block = (c.c_char * size).from_address(address)
        block._owner = self._made
        array: Array = np.frombuffer(block, dtype).reshape(shape)
        array.flags.writeable = False
        return array
