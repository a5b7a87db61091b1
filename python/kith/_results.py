# SPDX-License-Identifier: Apache-2.0
"""Results as arrays: int64 ids outward, -1 and inf where nothing exists."""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _metrics
from . import _structs as s
from ._arrays import DTYPES, address, dtype_name
from ._places import on_host
from ._typing import Floats, Indices

Array = np.ndarray[Any, Any]


class Fingerprint(NamedTuple):
    """Which points: shape, type and a checksum of the values. Points that differ have another one.

    Attributes
    ----------
    rows, cols : int
    dtype : str
    checksum : int
    """

    rows: int
    cols: int
    dtype: str
    checksum: int

    def __str__(self) -> str:
        return f"{self.rows:,} x {self.cols} {self.dtype}, {self.checksum >> 32:08x}"

    @classmethod
    def of_struct(cls, given: s.Fingerprint) -> Fingerprint | None:
        """The library's; None: it knows none."""
        if given.rows == 0:
            return None
        return cls(given.rows, given.cols, dtype_name(given.dtype), given.checksum)

    def as_struct(self) -> s.Fingerprint:
        """For the library."""
        return s.Fingerprint(self.rows, self.cols, DTYPES[self.dtype], self.checksum)


class _Pair(NamedTuple):
    distances: Floats
    indices: Indices


class Neighbors(_Pair):
    """Neighbours of a number of points, a row for each, the nearest first.

    It says what the call that made it knows; of arrays that somebody else puts together nothing is
    known.

    Attributes
    ----------
    distances : array of shape (n, k)
        float64 where points or queries were float64, else float32: the distance in double
        precision, rounded once.
    indices : array of shape (n, k), int64
        Rows of the corpus; -1, at distance inf (inner_product: -inf), where there is no neighbour (beyond a
        radius).
    metric : str or None
        Its name; None: it is not known.
    exact : bool or None
        True: certified. False: approximate. None: it is not known.
    fingerprint : Fingerprint or None
        Of the points that indices are rows of, as they were in the call. None: it is not known; so
        it is of arrays on a GPU, of sparse matrices that are not made dense at once, and of a
        search for fewer than 32 queries in points that are not prepared or lie in a file, which would
        take longer for it.
    """

    _metric = 0
    exact: bool | None = None
    fingerprint: Fingerprint | None = None

    @property
    def metric(self) -> str | None:
        return _metrics.name(self._metric) if self._metric else None

    @property
    def k(self) -> int:
        return int(self.indices.shape[1])


def claim(
    found: Neighbors, metric: int, exact: bool | None, fingerprint: Fingerprint | None = None
) -> Neighbors:
    """Neighbours with what the call knows of them."""
    found._metric = metric
    found.exact = exact
    found.fingerprint = fingerprint
    return found


def level(exact: bool | None, fingerprint: Fingerprint | None) -> int:
    """A kith_exactness: nothing is certified of unknown points."""
    if exact is None:
        return s.EXACTNESS_UNKNOWN
    if not exact:
        return s.APPROXIMATE
    return s.EXACTNESS_UNKNOWN if fingerprint is None else s.CERTIFIED


def known_of(neighbors: Any) -> s.ResultMeta:
    """What Neighbors, or a Graph, say of themselves."""
    fingerprint = getattr(neighbors, "fingerprint", None)
    if not isinstance(fingerprint, Fingerprint):
        fingerprint = None
    meta = s.sized(s.ResultMeta, recall=-1.0)
    if isinstance(getattr(neighbors, "_metric", None), int):
        meta.metric = neighbors._metric
        meta.exact = level(neighbors.exact, fingerprint)
        if fingerprint is not None:
            meta.points = fingerprint.as_struct()
    return meta


class Selection(NamedTuple):
    """The chosen values of each row, and where in the row they stand (int64)."""

    values: Floats
    indices: Indices


def room(rows: int, k: int, most: int) -> tuple[int, int]:
    """The shape of a table. A k below 1 or above `most` is an error that the library tells: it gets
    no room; but what is no int64 would come there as another number."""
    if 0 < k <= most:
        return rows, k
    if not -(2**63) <= k < 2**63:
        raise ValueError(f"k is {k}, must be 1 to {most}")
    return rows, 0


class Table:
    """Room for a table of neighbours, and what the caller gets of it."""

    __slots__ = ("struct", "distances", "_ids", "_given", "_may_be_empty")

    def __init__(
        self,
        rows: int,
        k: int,
        most: int,
        double: bool,
        out: Sequence[Any] | None = None,
        may_be_empty: bool = False,
    ) -> None:
        self._may_be_empty = may_be_empty
        self._given: Array | None = None
        if out is None:
            shape = room(rows, k, most)
            self.distances = np.empty(shape, np.float64 if double else np.float32)
            self._ids = np.empty(shape, np.uint32)
        else:
            self._take(out, (rows, k))
            double = self.distances.dtype == np.float64
        at, ids = address(self.distances), address(self._ids)
        self.struct = s.Neighbors(ids, None if double else at, at if double else None, rows, k)

    def _take(self, out: Sequence[Any], shape: tuple[int, int]) -> None:
        try:
            distances, ids = out
        except (TypeError, ValueError):
            raise TypeError("out must be two arrays, (distances, indices)") from None
        for name, array, kinds in (
            ("distances", distances, (np.float32, np.float64)),
            ("indices", ids, (np.int64, np.uint32)),
        ):
            if not isinstance(array, np.ndarray) or array.dtype not in kinds:
                names = " or ".join(kind.__name__ for kind in kinds)
                raise ValueError(f"out: {name} must be a NumPy array of {names}")
            if array.shape != shape or not array.flags.carray:
                raise ValueError(
                    f"out: {name} must be {shape[0]} x {shape[1]}, contiguous and writeable"
                )
        self.distances = distances
        self._given = ids
        self._ids = np.empty(shape, np.uint32) if ids.dtype == np.int64 else ids

    def result(self) -> Neighbors:
        """The table, when it is filled."""
        wide = self._given
        if wide is self._ids:  # the caller wants uint32 and is given what the library wrote
            return Neighbors(self.distances, wide)
        if wide is None:
            wide = self._ids.astype(np.int64)
        else:
            np.copyto(wide, self._ids)
        if self._may_be_empty:
            wide[self._ids == s.ID_NONE] = -1
        return Neighbors(self.distances, wide)


def pair_of(
    neighbors: Any, name: str, read: Callable[[Any], Any] = lambda part: part
) -> tuple[Any, Any]:
    """Distances and indices of anybody's neighbours, each as `read` has it. name is what errors call
    them."""
    try:
        distances, indices = (read(part) for part in getattr(neighbors, "neighbors", neighbors))
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be (distances, indices), or a kith.Graph") from None
    return distances, indices


def check_pair(distances: tuple[int, ...], indices: tuple[int, ...], name: str) -> None:
    """Shapes of the two: a table."""
    if len(indices) != 2 or distances != indices:
        raise ValueError(
            f"{name}: distances are {distances} and indices {indices}: both must have "
            "the same two axes"
        )


def check_ids(least: int, most: int, name: str) -> None:
    """Whether indices from `least` to `most` are ids; -1 is none."""
    if least < -1 or most >= s.ID_NONE:
        raise ValueError(f"{name}: indices must be -1 to {s.ID_NONE - 1}")


def narrow(neighbors: Any, name: str) -> tuple[s.Neighbors, tuple[Array, Array, s.ResultMeta]]:
    """Anybody's (distances, indices) as a table of the library, and the arrays that hold it, with
    what is known of them; a kith.Graph has them. name is what errors call it."""
    distances, indices = pair_of(neighbors, name, lambda part: np.asarray(on_host(part)))
    check_pair(distances.shape, indices.shape, name)
    if distances.dtype not in (np.float32, np.float64):
        distances = distances.astype(np.float64)
    distances = np.ascontiguousarray(distances)
    indices = _narrow_ids(indices, name)
    double = distances.dtype == np.float64
    table = s.Neighbors(
        indices.ctypes.data,
        None if double else distances.ctypes.data,
        distances.ctypes.data if double else None,
        *indices.shape,
    )
    meta = known_of(neighbors)
    table.meta = c.addressof(meta)
    return table, (distances, indices, meta)


def narrow_indices(indices: Any, name: str) -> tuple[s.Neighbors, Array]:
    """Anybody's indices as a table of the library without distances, and the array that holds it."""
    ids = _narrow_ids(np.asarray(on_host(indices)), name)
    if ids.ndim != 2:
        raise ValueError(f"{name}: indices are {ids.shape}: they must have two axes")
    return s.Neighbors(ids.ctypes.data, None, None, *ids.shape), ids


def _narrow_ids(indices: Array, name: str) -> Array:
    if indices.dtype.kind not in "iu":
        raise ValueError(
            f"{name}: indices are {indices.dtype}, must be integers (distances come first)"
        )
    if indices.dtype != np.uint32:
        if indices.size:
            check_ids(int(indices.min()), int(indices.max()), name)
        indices = indices.astype(np.uint32)  # -1 becomes ID_NONE
    return np.ascontiguousarray(indices)


def copy_of(address: int | None, count: int, dtype: Any) -> Array:
    """A copy of count values in the library's memory."""
    result = np.empty(count, dtype)
    if address is not None and count > 0:
        c.memmove(result.ctypes.data, address, result.nbytes)
    return result
