# SPDX-License-Identifier: Apache-2.0
"""Sparse matrices that stay so: a product finds the candidates, the library decides among them.

Euclidean, inner product and cosine need products of rows alone, which SciPy adds up in double, in an
order of its own. What that may be off is bounded, so that every point that may be among the k first
is a candidate. Of these the library computes its own distances, of rows that are squeezed: columns
in which they are all 0 go, and the others keep their place modulo 8, which is the lane of the sum
that they belong to (docs/notes/numerics.md). A 0 adds nothing to a lane, so the bytes are those of the
rows as they were. Sums of small whole numbers are exact, and then nothing is left to decide.

The bound: with m values in a row at most and u = 2^-53, the product is within m u |q||c|, either
square within m u of itself, their sum within 3 u (|q| + |c|)^2; the library's own sum of squares,
m / 4 + 8 roundings in each of its lanes, within (m / 4 + 8) u of itself, and a row that is brought to
length 1 within (m + 8) u of what it is, twice. All of it is below (8 m + 64) u (|q| + |c|)^2, and a
squared length that underflows is below the 1e-290 that stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from . import _structs as s
from ._arrays import as_matrix, not_finite, sparse_rows
from ._context import Settings
from ._errors import Failure
from ._metrics import name
from ._results import Array, Neighbors

METRICS = (s.EUCLIDEAN, s.SQEUCLIDEAN, s.INNER_PRODUCT, s.COSINE)
_LANES = 8
_BLOCK_BYTES = 64 << 20  # of products
_SQUEEZED_VALUES = 1 << 21  # of candidates at a time
_WHOLE = 2.0**53
_LARGEST = 2.0**500

Search = Callable[..., Neighbors]


class Rows(NamedTuple):
    """Rows as they were given, as products are made of them, and their lengths."""

    given: Any
    scaled: Any
    squares: Array
    lengths: Array


def _rows(x: Any, number: int, what: str) -> Rows:
    given = sparse_rows(x).copy()
    given.sum_duplicates()
    given.eliminate_zeros()
    _check(given, what)
    scaled = given.astype(np.float64)
    counts = np.diff(scaled.indptr)
    if number == s.COSINE and scaled.nnz:
        most = np.ones(len(counts))
        full = counts > 0
        most[full] = np.maximum.reduceat(np.abs(scaled.data), scaled.indptr[:-1][full])
        scaled.data /= np.repeat(most, counts)  # whose squares neither overflow nor vanish
        scaled.data /= np.repeat(np.sqrt(_squares(scaled, counts)), counts)
    squares = _squares(scaled, counts)
    return Rows(given, scaled, squares, np.sqrt(squares))


def _squares(x: Any, counts: Array) -> Array:
    squares = np.zeros(len(counts))
    full = counts > 0
    if full.any():
        squares[full] = np.add.reduceat(x.data**2, x.indptr[:-1][full])
    return squares


def _check(x: Any, what: str) -> None:
    """NaN, infinity and numbers beyond 2^500, by row and column."""
    if x.dtype.kind != "f":
        return
    most = _LARGEST if x.dtype == np.float64 else np.inf
    for wrong in np.flatnonzero(~((np.abs(x.data) <= most) & np.isfinite(x.data)))[:1]:
        row = int(np.searchsorted(x.indptr, wrong, side="right")) - 1
        col, value = int(x.indices[wrong]), x.data[wrong]
        if not np.isfinite(value):
            raise not_finite(value, what, row, col)
        reason = f"is {value:.17g}, beyond 2^500 in magnitude (scale the data)"
        raise Failure(reason, what, "", row, col).error()


def _is_exact(number: int, first: Rows, second: Rows) -> bool:
    """Whether all products and sums are whole numbers that double holds."""
    if number == s.COSINE:
        return False
    most = 0.0
    for x in (first.scaled.data, second.scaled.data):
        if not (x == np.floor(x)).all():
            return False
        most = max(most, float(np.abs(x).max(initial=0)))
    longest = max(int(np.diff(each.scaled.indptr).max(initial=0)) for each in (first, second))
    return 4.0 * most * most * max(1, longest) < _WHOLE


def _squeezed(x: Any, ids: Array, more: Array) -> tuple[Any, Array]:
    """Entries of some rows as (row, place, value), and the columns `more` at their new places: which
    are those of a matrix with none that is empty, but for filling lanes up."""
    begin, end = x.indptr[ids].astype(np.int64), x.indptr[ids + 1].astype(np.int64)
    counts = end - begin
    ends = np.cumsum(counts)
    at = np.arange(int(ends[-1])) + np.repeat(begin - (ends - counts), counts)
    columns = x.indices[at]
    there = np.union1d(columns, more)
    lane = there % _LANES
    order = np.argsort(lane, kind="stable")
    in_lane = np.bincount(lane, minlength=_LANES)
    place = np.empty(len(there), np.int64)
    place[order] = np.arange(len(there)) - np.repeat(np.cumsum(in_lane) - in_lane, in_lane)
    place = place * _LANES + lane
    made = np.zeros((len(ids), _LANES * max(1, int(in_lane.max(initial=0)))), x.dtype)
    rows = np.repeat(np.arange(len(ids)), counts)
    made[rows, place[np.searchsorted(there, columns)]] = x.data[at]
    return made, place[np.searchsorted(there, more)]


def first_of(best: Neighbors | None, found: Neighbors, k: int, sign: float) -> Neighbors:
    """The k best of two answers; those of the first one have the lower indices."""
    if best is None:
        return found
    distances = np.concatenate([best.distances, found.distances], axis=1)
    indices = np.concatenate([best.indices, found.indices], axis=1)
    order = np.argsort(sign * distances, axis=1, kind="stable")[:, :k]
    return Neighbors(
        np.take_along_axis(distances, order, axis=1), np.take_along_axis(indices, order, axis=1)
    )


class Product:
    """The job: queries among points, both sparse, of which no dense copy is made."""

    def __init__(self, points: Any, queries: Any, number: int, same: bool) -> None:
        self._points = _rows(points, number, "X" if same else "corpus")
        self._queries = self._points if same else _rows(queries, number, "queries")
        self._number = number
        self._transposed = self._points.scaled.T.tocsr()
        longest = max(
            int(np.diff(each.scaled.indptr).max(initial=0))
            for each in (self._points, self._queries)
        )
        exact = _is_exact(number, self._points, self._queries)
        self._share = 0.0 if exact else (8 * longest + 64) * 2.0**-53

    def blocks(self, limit: int) -> Iterator[slice]:
        """Queries at a time; limit is what the call may take."""
        points, rows = self._points.given.shape[0], self._queries.given.shape[0]
        most = min(_BLOCK_BYTES, limit // 8) if limit else _BLOCK_BYTES
        step = max(1, most // (8 * points))
        for start in range(0, rows, step):
            yield slice(start, min(rows, start + step))

    def candidates(self, block: slice, k: int, without_self: bool) -> tuple[Array, Array]:
        """For each query of a block and each point the key, and whether it may be among the k
        first."""
        keys: Array = (self._queries.scaled[block] @ self._transposed).toarray()
        asked, points = self._queries.lengths[block, None], self._points.lengths[None]
        if self._number == s.INNER_PRODUCT:
            np.negative(keys, out=keys)
        elif self._number == s.COSINE:
            np.subtract(1.0, keys, out=keys)
        else:
            keys *= -2.0
            keys += self._points.squares[None]
            keys += self._queries.squares[block, None]
        slack = 0.0 if self._share == 0.0 else self._share * (asked + points) ** 2 + 1e-290
        most = keys + slack
        if without_self:
            own = np.arange(block.start, block.stop)
            most[own - block.start, own] = np.inf
        worst = np.partition(most, k - 1, axis=1)[:, k - 1]
        may: Array = keys - slack <= worst[:, None]
        if without_self:
            may[own - block.start, own] = False
        return keys, may

    @property
    def columns(self) -> int:
        return int(self._points.given.shape[1])

    @property
    def is_exact(self) -> bool:
        """Whether keys are the library's own."""
        return self._share == 0.0

    def ranked(self, keys: Array, ids: Array, k: int) -> tuple[Array, Array]:
        """The k first of candidates by exact keys; what the library returns by its metric."""
        order = np.argsort(keys[ids], kind="stable")[:k]
        found = keys[ids[order]] + 0.0
        return (-found + 0.0 if self._number == s.INNER_PRODUCT else found), ids[order]

    def solved(
        self, search: Search, query: int, ids: Array, k: int, wanted: Settings
    ) -> tuple[Array, Array]:
        """The same by the library."""
        metric = name(s.SQEUCLIDEAN if self._number == s.EUCLIDEAN else self._number)
        sign = -1.0 if self._number == s.INNER_PRODUCT else 1.0
        asked, points = self._queries.given, self._points.given
        own = slice(asked.indptr[query], asked.indptr[query + 1])
        values = int((points.indptr[ids + 1] - points.indptr[ids]).sum()) + own.stop - own.start
        pieces = int(np.ceil(np.sqrt(len(ids) * values / _SQUEEZED_VALUES)))
        best: Neighbors | None = None
        for part in np.array_split(ids, max(1, min(pieces, len(ids)))):
            rows, places = _squeezed(points, part, asked.indices[own])
            row = np.zeros((1, rows.shape[1]), asked.dtype)
            row[0, places] = asked.data[own]
            size = min(k, len(part))
            room = np.empty((1, size)), np.empty((1, size), np.int64)
            found = search(
                as_matrix(rows, "corpus"),
                as_matrix(row, "queries"),
                size,
                metric=metric,
                wanted=wanted,
                out=room,
            )
            found.indices[...] = part[found.indices]
            best = first_of(best, found, k, sign)
        assert best is not None
        return best.distances[0], best.indices[0]
