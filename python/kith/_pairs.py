# SPDX-License-Identifier: Apache-2.0
"""Every pair of rows within a radius, once, in chunks."""

from __future__ import annotations

import ctypes as c
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from . import _filter, _options
from . import _structs as s
from ._arrays import HostMatrix, as_matrix, given_back
from ._context import Settings, context, settings
from ._library import lib
from ._metrics import Distance, resolve
from ._places import check_together
from ._progress import Progress
from ._results import Array, copy_of
from ._search import check_types
from ._typing import Bytes, Floats, Indices, Metric, Points, Whole

_KEEPS = {"first": s.KEEP_FIRST, "central": s.KEEP_CENTRAL}


class PairsChunk(NamedTuple):
    """Pairs of rows, ordered by (i, distance, j).

    Attributes
    ----------
    i, j : array of int64
        Rows: of X, and of Y or, without it, of X, where i < j.
    distance : array of float64
    """

    i: Indices
    j: Indices
    distance: Floats


class PairsEstimate(NamedTuple):
    """How many pairs there will be.

    Attributes
    ----------
    pairs : float
        Expected, before a filter.
    low, high : float
        A 95 % interval over rows. A few rows with very many pairs may stand in no sample.
    sample : int
        Rows that were looked at.
    """

    pairs: float
    low: float
    high: float
    sample: int


class _Job(NamedTuple):
    """What pairs are asked of."""

    points: HostMatrix
    others: HostMatrix | None
    corpus: HostMatrix  # others or points
    wanted: Settings
    distance: Distance
    fields: dict[str, Any]
    filter: _filter.Filter
    progress: Progress
    like: Any  # whose library's arrays are given; None: NumPy's
    period: Any


class Pairs:
    """Every pair of rows within a radius, once: what `kith.pairs` gives. Nothing is computed before
    it is asked for, and each question computes anew.

    Iteration gives chunks, `kith.PairsChunk`; all pairs of a row i stand in one. Memory does not
    grow with the number of pairs.
    """

    __slots__ = ("_job",)

    def __init__(self, job: Any) -> None:
        self._job: _Job = job

    def __repr__(self) -> str:
        job = self._job
        others = "" if job.others is None else f" with {job.others.rows} others"
        return f"<kith.Pairs: {job.points.rows} points{others}, radius {job.fields['radius']}>"

    def _find(self, function: Any, told: c.Structure, **fields: Any) -> None:
        job = self._job
        params = s.sized(s.PairsParams, **{**job.distance.fields, **job.fields, **fields})
        job.filter.into(params)
        _options.periodic(job.period, job.points.struct.cols, params)
        try:
            context(job.wanted.beside(job.points, job.corpus)).call(
                function,
                c.byref(job.points.struct),
                None if job.others is None else c.byref(job.others.struct),
                c.byref(params),
                c.byref(told),
                progress=job.progress,
            )
        except ValueError as error:
            job.distance.reraise(error)

    @property
    def _is_empty(self) -> bool:
        return self._job.points.rows == 0 or self._job.corpus.rows == 0

    def _back(self, array: Array) -> Any:
        return array if self._job.like is None else given_back(self._job.like, array)

    def __iter__(self) -> Iterator[PairsChunk]:
        left, row, rows = self._job.fields["limit"], 0, 0
        while not self._is_empty and row < self._job.points.rows:
            found: list[tuple[Array, Array, Array]] = []

            def take(_: int | None, at: int, distances: int, found: Any = found) -> int:
                pairs = s.Pairs.from_address(at)
                i = copy_of(pairs.query_ids, pairs.count, np.uint32)
                j = copy_of(pairs.corpus_ids, pairs.count, np.uint32)
                found.append((i, j, copy_of(distances, pairs.count, np.float64)))
                return 1  # the next chunk is another call's

            report = s.sized(s.PairsReport)
            self._find(
                lib.kith_pairs_find,
                report,
                take=s.PairsFn(take),
                first_row=row,
                chunk_rows=rows,
                limit=left,
            )
            row, rows = report.next_row, report.chunk_rows
            for i, j, distance in found:
                first, second = (self._back(each.astype(np.int64)) for each in (i, j))
                yield PairsChunk(first, second, self._back(distance))
            left -= report.count if left else 0
            if report.complete or (self._job.fields["limit"] and left == 0):
                return

    def _save(self, path: str | os.PathLike[str], restart: bool) -> None:
        """Writes all pairs to a file, and goes on where an interrupted call was."""
        if self._is_empty:
            raise ValueError("path is given, and there are no pairs to write (X or Y is empty)")
        self._find(
            lib.kith_pairs_find,
            s.sized(s.PairsReport),
            path=os.fsencode(path),
            restart=int(restart),
        )

    def all(self) -> PairsChunk:
        """All pairs at once."""
        chunks = [*Pairs(self._job._replace(like=None))]
        if not chunks:
            nothing = np.empty(0, np.int64)
            chunks = [PairsChunk(nothing, nothing, np.empty(0))]
        parts = [self._back(np.concatenate(part)) for part in zip(*chunks, strict=True)]
        return PairsChunk(*parts)

    def count(self) -> int:
        """How many pairs there are, at most `limit`."""
        report = s.sized(s.PairsReport)
        if not self._is_empty:
            self._find(lib.kith_pairs_find, report)
        return int(report.count)

    def components(self) -> Indices:
        """For each row of X the first one of its component; pairs connect. Without Y."""
        labels = np.arange(self._job.points.rows, dtype=np.uint32)
        self._check_one("components")
        if not self._is_empty:
            self._find(lib.kith_pairs_find, s.sized(s.PairsReport), labels=labels.ctypes.data)
        found: Indices = self._back(labels.astype(np.int64))
        return found

    def keep(self, how: str = "first") -> Indices:
        """Rows of X to keep of those that are near each other, rising; without Y.

        Parameters
        ----------
        how : {"first", "central"}
            ``first``: by rising row, one is kept if no kept row before it is within the radius.
            ``central``: of each component the row that is in most pairs, of several the first.
        """
        if how not in _KEEPS:
            raise ValueError(f"how is {how!r}, must be one of {', '.join(_KEEPS)}")
        self._check_one("keep")
        kept = np.ones(self._job.points.rows, np.uint8)
        if not self._is_empty:
            self._find(
                lib.kith_pairs_find, s.sized(s.PairsReport), keep=_KEEPS[how], kept=kept.ctypes.data
            )
        found: Indices = self._back(np.flatnonzero(kept).astype(np.int64))
        return found

    def estimate(self, sample: Whole = 1000, seed: Whole = 0) -> PairsEstimate:
        """How many pairs there will be, from a sample of the rows of X.

        Parameters
        ----------
        sample : int
            Rows, each compared with all others.
        seed : int
            Which rows.
        """
        plan = s.sized(s.PairsPlan)
        wanted = _options.whole(sample, "sample")
        if wanted < 1:
            raise ValueError(f"sample is {wanted}, must be 1 or more")
        if not self._is_empty:
            self._find(lib.kith_plan_pairs, plan, sample=wanted, seed=_options.whole(seed, "seed"))
        return PairsEstimate(plan.pairs, plan.low, plan.high, int(plan.sample))

    def _check_one(self, name: str) -> None:
        if self._job.others is not None:
            raise ValueError(f"{name} is of one set of points (leave Y out)")


def pairs(
    X: Points,
    Y: Points | None = None,
    *,
    radius: float,
    closed: bool = True,
    metric: Metric = "euclidean",
    p: float = 2,
    algorithm: str = "auto",
    allow: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    query_groups: ArrayLike | None = None,
    rule: str | None = None,
    period: ArrayLike | None = None,
    limit: Whole | None = None,
    chunk_pairs: Whole | None = None,
    path: str | os.PathLike[str] | None = None,
    restart: bool = False,
    n_jobs: Whole | None = None,
    device: str | None = None,
    memory_limit: Bytes | None = None,
    progress: Progress = None,
) -> Pairs:
    """Every pair of rows within a radius, once, in chunks.

    Parameters
    ----------
    X, Y : array of shape (n, d), (m, d)
        As in `knn`. Without Y pairs are of rows i < j of X, else of rows i of X and j of Y. Those
        on a GPU are copied to the host, and chunks back to X's side.
    radius : float
        A distance is at most this (of ``inner_product``: at least).
    closed : bool
        False: a distance is less than the radius (of ``inner_product``: more).
    allow, groups, query_groups, rule
        As in `knn`, Y (or X alone) being the corpus and X the queries; rules ``same`` and
        ``other``. Without Y both rows of a pair must be allowed. A filter drops pairs that were
        found; it saves no time.
    limit : int, optional
        At most so many pairs.
    chunk_pairs : int, optional
        Pairs of a chunk, at most, and those that are found beside them; a row's pairs stand in one.
        None: by memory_limit, at most 2**22.
    path : str or path, optional
        All pairs are written to this file before the call returns: .npy, a structured array of i, j
        and distance for `numpy.load`; .kith, the same with checksums, for `read_pairs`; .csv or
        .tsv. What a killed or interrupted call has left of .npy and .kith, the same call goes on
        with, unless metric is a function; the bytes are those of one that was not. Each question
        still computes anew.
    restart : bool
        Forget what an earlier call has left there; of .npy and .kith alone.
    metric, p, algorithm, period, n_jobs, device, memory_limit, progress
        As in `knn`.

    Returns
    -------
    Pairs
        To be iterated over, or asked for all of them, their number, components, rows to keep.

    Examples
    --------
    >>> import numpy as np, kith
    >>> near = kith.pairs(np.array([[0.0], [1.0], [1.5], [9.0]]), radius=1.0)
    >>> [(chunk.i.tolist(), chunk.j.tolist(), chunk.distance.tolist()) for chunk in near]
    [([0, 1], [1, 2], [1.0, 0.5])]
    >>> near.components(), near.keep()
    (array([0, 0, 0, 3]), array([0, 2, 3]))
    """
    method = _options.method(algorithm)
    if method == s.METHOD_DESCENT:
        raise ValueError("algorithm is nn_descent, which finds no pairs (leave it out)")
    try:
        within = float(radius)
    except (TypeError, ValueError):
        raise TypeError(f"radius is {radius!r}, must be a number") from None
    wanted = settings(n_jobs, device, memory_limit)
    check_together("X", X, Y=Y)
    points = as_matrix(X, "X", wanted.memory_limit)
    others = None if Y is None else as_matrix(Y, "Y", wanted.memory_limit)
    distance = resolve(metric, p, points.array.dtype)
    within = float(_options.within(within, closed, distance.number))
    fields: dict[str, Any] = {"radius": within, "method": method, "limit": 0}
    for name, value in (("limit", limit), ("chunk_pairs", chunk_pairs)):
        if value is not None:
            fields[name] = _options.whole(value, name)
            if fields[name] < 1:
                raise ValueError(f"{name} is {fields[name]}, must be 1 or more")
    if others is not None:
        check_types(distance, others, points)
    corpus = points if others is None else others
    if corpus.struct.cols != points.struct.cols:
        raise ValueError(
            f"Y has {corpus.struct.cols} columns and X has {points.struct.cols} (both must have "
            "the same)"
        )
    lengths = _options.period(period, points.struct.cols)
    asked = _filter.Asked(allow, groups, query_groups, rule)
    filtered = _filter.make(asked, corpus.rows, points.rows)
    like = None if isinstance(X, np.ndarray) else X
    found = Pairs(
        _Job(points, others, corpus, wanted, distance, fields, filtered, progress, like, lengths)
    )
    if path is not None:
        found._save(path, restart)
    elif restart:
        raise ValueError("restart is True without a path (give both, or leave it out)")
    return found


def read_pairs(path: str | os.PathLike[str]) -> PairsChunk:
    """All pairs of a .kith that `pairs` or ``kith pairs`` has written; its checksums are checked.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    PairsChunk
    """
    found: list[tuple[Array, Array, Array]] = []

    def take(_: int | None, at: int, distances: int) -> int:
        told = s.Pairs.from_address(at)
        i = copy_of(told.query_ids, told.count, np.uint32)
        j = copy_of(told.corpus_ids, told.count, np.uint32)
        found.append((i, j, copy_of(distances, told.count, np.float64)))
        return 0

    context(settings(None, None, None)).call(
        lib.kith_pairs_read,
        os.fsencode(path),
        s.PairsFn(take),
        None,
        c.byref(s.sized(s.PairsReport)),
    )
    if not found:
        return PairsChunk(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    i, j, distance = (np.concatenate(part) for part in zip(*found, strict=True))
    return PairsChunk(i.astype(np.int64), j.astype(np.int64), distance)
