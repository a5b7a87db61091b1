# SPDX-License-Identifier: Apache-2.0
"""Points that are prepared once and searched many times."""

from __future__ import annotations

import ctypes as c
import os
import threading
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np

from . import _metrics, _small
from . import _structs as s
from ._arrays import HostMatrix, as_matrix
from ._context import Context, Settings, context, settings
from ._library import lib
from ._options import excluded, whole
from ._options import path as encoded
from ._progress import Progress
from ._results import Neighbors, Table
from ._search import like, limit, search_params

_Self = TypeVar("_Self", bound="Corpus")
_DTYPES = {1: np.float32, 2: np.float64, 3: np.float16, 4: np.uint16, 5: np.uint8, 6: np.int8}


class Corpus:
    """Points that are prepared once, on the device that will search them.

    Several threads may query at once. The points are not copied: they must stay as they are.

    Parameters
    ----------
    X : array of shape (n, d)
        As in `kith.knn`.
    metric : str
        Its name.
    p, n_jobs, device, memory_limit
        As in `kith.knn`; n_jobs and the memory limit are those of preparing.

    Attributes
    ----------
    metric : str
    shape : (n, d)
    dtype : numpy.dtype
        Of the points (of bfloat16: uint16).
    """

    _method = 0
    _device: str | None = None  # that searches name; None: where the corpus is

    def __init__(
        self,
        X: Any,
        metric: str = "euclidean",
        *,
        p: float = 2,
        n_jobs: int | None = None,
        device: str | None = None,
        memory_limit: int | None = None,
    ) -> None:
        wanted = settings(n_jobs, device, memory_limit)
        self._prepare(as_matrix(X, "X"), _metrics.code(metric, p), 0, wanted)

    @classmethod
    def of_matrix(cls: type[_Self], points: HostMatrix, metric: int, wanted: Settings) -> _Self:
        """A corpus of a matrix, with settings."""
        self = cls.__new__(cls)
        self._prepare(points, metric, 0, wanted)
        return self

    def _prepare(self, points: HostMatrix, metric: int, height: int, wanted: Settings) -> None:
        self._start(Context(wanted), points.array)
        params = s.sized(s.CorpusParams, metric=metric, method=self._method, tree_height=height)
        self._context.call(
            lib.kith_corpus_create_with,
            c.byref(points.struct),
            c.byref(params),
            c.byref(self._handle),
        )

    def _start(self, owner: Context, keep: Any) -> None:
        self._handle = c.c_void_p()
        self._context = owner  # the library keeps it, so it is nobody else's
        self._keep = keep
        self._lock = threading.Lock()

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle:
            lib.kith_corpus_free(handle)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied (save it, and open its file where "
            "it is needed)"
        )

    @classmethod
    def open(cls: type[_Self], path: str | os.PathLike[str]) -> _Self:
        """A corpus from its file, which is mapped: no row is read before it is needed."""
        self = cls.__new__(cls)
        self._start(Context(settings(device=cls._device)), None)
        self._context.call(lib.kith_corpus_open, encoded(path), c.byref(self._handle))
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes points and preparation to a .kith file, whole or not at all."""
        with self._lock:
            self._context.call(lib.kith_corpus_save, self._handle, encoded(path))

    def _points(self) -> s.Matrix:
        matrix: s.Matrix = lib.kith_corpus_points(self._handle).contents
        return matrix

    @property
    def shape(self) -> tuple[int, int]:
        points = self._points()
        return points.rows, points.cols

    @property
    def dtype(self) -> Any:
        return np.dtype(_DTYPES[self._points().dtype])

    @property
    def metric(self) -> str:
        return _metrics.name(lib.kith_corpus_metric(self._handle))

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        rows, cols = self.shape
        return f"<kith.{type(self).__name__}: {rows} x {cols} {self.dtype}, {self.metric}>"

    def query(
        self,
        queries: Any,
        k: int = 1,
        *,
        radius: float | None = None,
        exclude: Any = None,
        n_jobs: int | None = None,
        memory_limit: int | None = None,
        progress: Progress = None,
        out: Sequence[Any] | None = None,
    ) -> Neighbors:
        """The k nearest points of each query: `kith.knn` without its preparations.

        Parameters
        ----------
        queries : array of shape (m, d)
        k : int
        radius, exclude, n_jobs, memory_limit, progress, out
            As in `kith.knn`.

        Returns
        -------
        Neighbors
        """
        asked = as_matrix(queries, "queries")
        wanted = settings(n_jobs, self._device, memory_limit)
        return like(queries, self.search(asked, k, radius, exclude, wanted, progress, out), out)

    def search(
        self,
        asked: HostMatrix,
        k: int,
        radius: float | None = None,
        exclude: Any = None,
        wanted: Settings = Settings(),
        progress: Progress = None,
        out: Sequence[Any] | None = None,
    ) -> Neighbors:
        """query of a matrix, with settings."""
        k = whole(k, "k")
        points = self._points()
        number = lib.kith_corpus_metric(self._handle)
        if radius is None and exclude is None and out is None and not progress:
            limits = wanted.threads or None, wanted.device, wanted.memory_limit or None
            small = _small.search_corpus(self._handle, points, asked.array, k, number, limits)
            if small is not None:
                return small
        double = asked.is_double or points.dtype == 2
        table = Table(asked.rows, k, points.rows, double, out, radius is not None)
        distance = _metrics.Distance(number, s.DISTANCE(), [])
        params = search_params(distance, k, radius=limit(radius, distance))
        keep = excluded(exclude, asked.rows, params)
        context(wanted).call(
            lib.kith_corpus_search,
            self._handle,
            c.byref(asked.struct),
            c.byref(params),
            c.byref(table.struct),
            progress=progress,
        )
        del keep
        return table.result()


class Tree(Corpus):
    """A buffer k-d tree of points of few dimensions, which is kept while rows come and go.

    For the metrics euclidean, sqeuclidean, manhattan and chebyshev, on the processor.

    Parameters
    ----------
    X : array of shape (n, d)
        As in `kith.knn`.
    metric, p, n_jobs, memory_limit
        As in `kith.Corpus`.
    height : int
        2**height leaves; 0: what is fastest for so many columns.

    Examples
    --------
    >>> import numpy as np, kith
    >>> tree = kith.Tree(np.array([[0.0, 0.0], [2.0, 0.0]]))
    >>> tree.add(np.array([[5.0, 0.0]]))
    >>> tree.query(np.array([[4.0, 0.0]])).indices
    array([[2]])
    """

    _method = s.METHOD_TREE
    _device = "cpu"

    def __init__(
        self,
        X: Any,
        metric: str = "euclidean",
        *,
        p: float = 2,
        height: int = 0,
        n_jobs: int | None = None,
        memory_limit: int | None = None,
    ) -> None:
        wanted = settings(n_jobs, self._device, memory_limit)
        self._prepare(as_matrix(X, "X"), _metrics.code(metric, p), whole(height, "height"), wanted)

    def add(self, X: Any) -> None:
        """Adds rows behind the last one. Nobody may query meanwhile."""
        points = as_matrix(X, "X")
        with self._lock:
            self._context.call(lib.kith_corpus_add, self._handle, c.byref(points.struct))

    def remove(self, indices: Any) -> None:
        """Removes rows; later ones move up, as in numpy.delete. Nobody may query meanwhile."""
        wide = np.atleast_1d(np.asarray(indices))
        if wide.shape == (0,):  # of floats, where it is a list
            return
        if wide.ndim != 1 or wide.dtype.kind not in "iu" or wide.min() < 0:
            raise ValueError("indices must be whole numbers, 0 or more")
        if wide.max() > s.ID_NONE:
            raise ValueError(f"indices hold {wide.max()}, must be below {len(self)}")
        ids = np.ascontiguousarray(wide, np.uint32)
        with self._lock:
            self._context.call(lib.kith_corpus_remove, self._handle, ids.ctypes.data, ids.size)
