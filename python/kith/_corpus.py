# SPDX-License-Identifier: Apache-2.0
"""Points that are prepared once and searched many times."""

from __future__ import annotations

import ctypes as c
import os
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from . import _metrics, _small
from . import _structs as s
from ._arrays import HostMatrix, as_matrix, refuse_not_finite
from ._context import Settings, context, settings
from ._handle import Handle, Pointer
from ._library import lib
from ._mixed import dtype_of, in_type, joined
from ._options import excluded, whole
from ._options import path as encoded
from ._progress import Progress
from ._radius import RadiusJob, Ranges
from ._results import Array, Fingerprint, Neighbors, Table, claim
from ._search import check_shapes, fingerprint, like, search_params
from ._typing import Bytes, Pair, Points, Whole

_Self = TypeVar("_Self", bound="Corpus")
_ANYWHERE: str | None = None  # the device that searches name: where the corpus is
_NO_HANDLE: Handle[Pointer] = Handle("Corpus", None)  # until there is one


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

    _method = s.METHOD_AUTO
    _device = _ANYWHERE
    _handle = _NO_HANDLE

    def __init__(
        self,
        X: Points,
        metric: str = "euclidean",
        *,
        p: float = 2,
        n_jobs: Whole | None = None,
        device: str | None = None,
        memory_limit: Bytes | None = None,
    ) -> None:
        wanted = settings(n_jobs, device, memory_limit)
        points = as_matrix(X, "X", wanted.memory_limit)
        self._prepare(points, _metrics.code(metric, p), 0, wanted)

    @classmethod
    def _of_matrix(cls: type[_Self], points: HostMatrix, metric: int, wanted: Settings) -> _Self:
        """A corpus of a matrix, with settings."""
        self = cls.__new__(cls)
        self._prepare(points, metric, 0, wanted)
        return self

    def _prepare(self, points: HostMatrix, metric: int, height: int, wanted: Settings) -> None:
        made = self._make(points, metric, height, wanted)
        self._hold(made, wanted, height)

    def _make(self, points: HostMatrix, metric: int, height: int, wanted: Settings) -> Pointer:
        params = s.sized(s.CorpusParams, metric=metric, method=self._method, tree_height=height)
        return context(wanted.beside(points)).make(
            lib.kith_corpus_free,
            points.array,
            lib.kith_corpus_create,
            c.byref(points.struct),
            c.byref(params),
        )

    def _hold(
        self, made: Pointer, wanted: Settings, height: int = 0, in_file: bool = False
    ) -> None:
        self._handle = Handle(type(self).__name__, made)
        self._wanted = wanted
        self._height = height
        self._in_file = in_file
        self._made_of: Fingerprint | None = None  # until a search tells it

    def _points_of(self, points: s.Matrix, queries: int) -> Fingerprint | None:
        """The fingerprint of its points, for the answer to so many queries; those of a file are
        not all read for a few."""
        if self._made_of is None and not (self._in_file and queries < _small.WORTH):
            self._made_of = fingerprint(points, self._wanted._replace(memory_limit=0))
        return self._made_of

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied (save it, and open its file where "
            "it is needed)"
        )

    @classmethod
    def open(cls: type[_Self], path: str | os.PathLike[str]) -> _Self:
        """One from its file, which is mapped: no row is read before it is needed."""
        wanted = settings(device=cls._device)
        made = context(wanted).make(lib.kith_corpus_free, None, lib.kith_corpus_open, encoded(path))
        has_tree = _has_tree(made, wanted)
        if has_tree != (cls._method == s.METHOD_TREE):
            what, other = ("a tree", "Tree") if has_tree else ("no tree", "Corpus")
            raise ValueError(
                f"{os.fsdecode(path)} holds points with {what} (open it by kith.{other}.open)"
            )
        self = cls.__new__(cls)
        self._hold(made, wanted, in_file=True)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes points and preparation to a .kith file, whole or not at all."""
        file = encoded(path)
        with self._handle as made:
            context(self._wanted).call(lib.kith_corpus_save, made, file)

    def close(self) -> None:
        """Gives its memory back, when searches by other threads are done, and lets go of X and of a
        mapped file. ``with`` does so at its end. Closing again does nothing, all else is then a
        ValueError."""
        self._handle.close()

    def __enter__(self: _Self) -> _Self:
        with self._handle:
            return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    @property
    def shape(self) -> tuple[int, int]:
        with self._handle as made:
            points = _points(made)
            return points.rows, points.cols

    @property
    def dtype(self) -> Any:
        with self._handle as made:
            return dtype_of(_points(made).dtype)

    @property
    def metric(self) -> str:
        with self._handle as made:
            return _metrics.name(lib.kith_corpus_metric(made))

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            with self._handle:
                rows, cols = self.shape
                return f"<kith.{name}: {rows} x {cols} {self.dtype}, {self.metric}>"
        except ValueError:
            return f"<kith.{name}: closed>"

    def query(
        self,
        queries: Points,
        k: Whole = 1,
        *,
        radius: float | None = None,
        exclude: ArrayLike | None = None,
        n_jobs: Whole | None = None,
        memory_limit: Bytes | None = None,
        progress: Progress = None,
        out: Pair | None = None,
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
        wanted = settings(n_jobs, self._device, memory_limit)
        asked = as_matrix(queries, "queries", wanted.memory_limit)
        found = self._search(asked, k, radius, exclude, wanted.beside(asked), progress, out)
        return like(queries, found, out)

    def _search(
        self,
        asked: HostMatrix,
        k: Whole,
        radius: float | None = None,
        exclude: Any = None,
        wanted: Settings = Settings(),
        progress: Progress = None,
        out: Sequence[Any] | None = None,
    ) -> Neighbors:
        """query of a matrix, with settings."""
        k = whole(k, "k")
        with self._handle as made:
            points = _points(made)
            number = lib.kith_corpus_metric(made)
            if radius is None and exclude is None and out is None and not progress:
                limits = wanted.threads or None, wanted.device, wanted.memory_limit or None
                small = _small.search_corpus(made, points, asked.array, k, number, limits)
                if small is not None:
                    return claim(small, number, True, self._points_of(points, asked.rows))
            double = asked.is_double or points.dtype == s.F64
            table = Table(asked.rows, k, points.rows, double, out, radius is not None)
            distance = _metrics.Distance(number, s.DistanceFn(), [])
            params = search_params(distance, k, radius=radius)
            keep = excluded(exclude, asked.rows, params)
            if asked.rows == 0:
                check_shapes(points, asked, k, "the corpus")
                return table.result()
            context(wanted).call(
                lib.kith_corpus_search,
                made,
                c.byref(asked.struct),
                c.byref(params),
                c.byref(table.struct),
                progress=progress,
            )
            del keep
            return claim(table.result(), number, True, self._points_of(points, asked.rows))

    def radius(
        self,
        queries: Points,
        radius: ArrayLike,
        *,
        count_only: bool = False,
        n_jobs: Whole | None = None,
        memory_limit: Bytes | None = None,
        progress: Progress = None,
    ) -> Ranges:
        """All points within a radius of each query: `kith.radius_neighbors` without its preparations.

        Parameters
        ----------
        queries : array of shape (m, d)
        radius : float or array of m floats
        count_only, n_jobs, memory_limit, progress
            As in `kith.radius_neighbors`.

        Returns
        -------
        Ranges
        """
        wanted = settings(n_jobs, self._device, memory_limit)
        asked = as_matrix(queries, "queries", wanted.memory_limit)
        job = RadiusJob(radius, asked, count_only)
        with self._handle as made:
            points = _points(made)
            double = asked.is_double or points.dtype == s.F64
            if asked.rows == 0:
                check_shapes(points, asked, 1, "the corpus")
                return job.nothing(double, points.rows)
            found = job.run(
                context(wanted.beside(asked)),
                lib.kith_corpus_radius,
                made,
                double,
                points.rows,
                progress,
            )
            made_of = self._points_of(points, asked.rows)
            return found._claim(lib.kith_corpus_metric(made), made_of)._like(queries)


def _points(made: Pointer) -> s.Matrix:
    """The points of a corpus, until it is changed."""
    matrix: s.Matrix = lib.kith_corpus_points(made).contents
    return matrix


def _has_tree(made: Pointer, wanted: Settings) -> bool:
    """Whether a corpus is a tree: of others the library makes no plan."""
    points = _points(made)
    one = np.zeros((1, points.cols), np.uint8)
    asked = as_matrix(one, "queries")
    params = s.sized(s.SearchParams, k=1)
    plan = s.sized(s.Plan)
    try:
        context(wanted).call(
            lib.kith_corpus_plan, made, c.byref(asked.struct), c.byref(params), c.byref(plan)
        )
    except NotImplementedError:
        return False
    return True


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
        X: Points,
        metric: str = "euclidean",
        *,
        p: float = 2,
        height: Whole = 0,
        n_jobs: Whole | None = None,
        memory_limit: Bytes | None = None,
    ) -> None:
        wanted = settings(n_jobs, self._device, memory_limit)
        points = as_matrix(X, "X", wanted.memory_limit)
        self._prepare(points, _metrics.code(metric, p), whole(height, "height"), wanted)

    def add(self, X: Points) -> None:
        """Adds rows behind the last one; waits for those who query meanwhile.

        Rows of another type keep their values: where the tree's type does not hold them, the tree
        is made anew in the smallest one that holds all.
        """
        added = as_matrix(X, "X")
        with self._handle.alone() as made:
            points = _points(made)
            if added.struct.cols != points.cols:
                raise ValueError(
                    f"the corpus has {points.cols} columns and X has {added.struct.cols} (both must "
                    "have the same)"
                )
            if added.rows == 0:
                return
            fitting = in_type(added, points.dtype)
            if fitting is not None:
                context(self._wanted).call(lib.kith_corpus_add, made, c.byref(fitting.struct))
            else:
                self._widen(made, added)
            self._made_of, self._in_file = None, False

    def _widen(self, made: Pointer, added: HostMatrix) -> None:
        """The same points and others, in a type that holds all."""
        refuse_not_finite(added.array, "X")
        both = joined(_points(made), added)
        metric = lib.kith_corpus_metric(made)
        self._handle.replace(self._make(both, metric, self._height, self._wanted))

    def remove(self, indices: ArrayLike) -> None:
        """Removes rows; later ones move up, as in numpy.delete. Waits for those who query."""
        with self._handle.alone() as made:
            ids = _ids(indices, _points(made).rows)
            if ids.size:
                context(self._wanted).call(lib.kith_corpus_remove, made, ids.ctypes.data, ids.size)
                self._made_of, self._in_file = None, False


def _ids(indices: Any, rows: int) -> Array:
    """Anybody's indices of rows; what is below 2^32 and too large is the library's to refuse."""
    wide = np.atleast_1d(np.asarray(indices))
    if wide.shape == (0,):  # of floats, where it is a list
        return np.empty(0, np.uint32)
    if wide.dtype == bool:
        raise ValueError("indices are a mask, must be whole numbers (numpy.flatnonzero makes them)")
    if wide.ndim != 1 or wide.dtype.kind not in "iu" or wide.min() < 0:
        raise ValueError("indices must be whole numbers, 0 or more")
    if wide.max() > s.ID_NONE:
        raise ValueError(f"indices hold {wide.max()}, must be below {rows}")
    return np.ascontiguousarray(wide, np.uint32)
