# SPDX-License-Identifier: Apache-2.0
"""What an index holds: an index of the library, and what it knows of its points."""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _filter, _options, _small
from . import _structs as s
from ._arrays import HostMatrix, as_matrix, refuse_not_finite
from ._context import Settings, context, settings
from ._errors import rename
from ._handle import Pointer
from ._library import lib
from ._metrics import Distance
from ._mixed import dtype_of, in_type, joined, stored
from ._places import must_be_copied, on_device, on_host
from ._progress import Progress
from ._radius import RadiusJob, Ranges
from ._results import Array, Fingerprint, Neighbors, Table, claim, copy_of
from ._search import check_shapes, fingerprint, search_params

METHODS = {
    "auto": s.METHOD_EXACT,
    "exact": s.METHOD_EXACT,
    "tree": s.METHOD_TREE,
    "graph": s.METHOD_GRAPH,
}
NAMES = {METHODS[name]: name for name in ("exact", "tree", "graph")}
Limits = tuple[_filter.Filter, Any]
"""A filter, and the address of excluded ids."""
ALL: Limits = (_filter.NONE, None)
_OWN = Distance(s.METRIC_DEFAULT, s.DistanceFn(), [])  # the metric of the index


def only(method: int, *of: int, **given: Any) -> None:
    """Refuses what only indexes by some methods have. None: it is not given."""
    for name, value in given.items():
        if value is not None and method not in of:
            others = " or ".join(repr(NAMES[each]) for each in of)
            raise ValueError(
                f"{name} is for an index by method {others}, and this one is by {NAMES[method]!r} "
                "(leave it out)"
            )


def method_of(name: Any, has_graph: bool) -> int:
    """The number of a method."""
    if not isinstance(name, str) or name not in METHODS:
        raise ValueError(f"method is {name!r}, must be one of {', '.join(METHODS)}")
    return s.METHOD_GRAPH if name == "auto" and has_graph else METHODS[name]


class Kept:
    """An index of the library. Who changes it is alone with it."""

    __slots__ = (
        "made", "method", "metric", "on_gpu", "_device", "_points", "_wanted", "_height", "_of",
        "_in_file", "period"
    )  # fmt: skip

    def __init__(
        self,
        made: Pointer,
        wanted: Settings,
        height: int = 0,
        in_file: bool = False,
        on_gpu: bool = False,
    ) -> None:
        self.made = made
        self._points: s.Matrix | None = None
        info = self.inspect()
        self.method: int = info.method
        self.metric: int = info.metric
        self._device: int = info.device  # of the GPU that has it
        cols = info.points.cols
        self.period = copy_of(info.period, cols, np.float64) if info.period else None
        self._wanted = wanted
        self._height = height
        self._of: Fingerprint | None = None  # until a search tells it
        self._in_file = in_file
        self.on_gpu = on_gpu  # its points, where the caller has them

    @classmethod
    def create(cls, points: HostMatrix, wanted: Settings, **fields: Any) -> Kept:
        """fields: of kith_index_params."""
        period = fields.pop("period", None)
        params = s.sized(s.IndexParams, **fields)
        _options.periodic(period, points.struct.cols, params)
        made = context(wanted.beside(points)).make(
            lib.kith_index_free,
            points.array,
            lib.kith_index_create,
            c.byref(points.struct),
            c.byref(params),
        )
        return cls(made, wanted, params.tree_height)

    @classmethod
    def open(cls, file: bytes, device: str | None) -> Kept:
        wanted = settings(device=device)
        try:
            made = context(wanted).make(lib.kith_index_free, None, lib.kith_index_open, file)
        except NotImplementedError:  # the variable KITH_DEVICE names a GPU
            if device is not None:
                raise
            wanted = settings(device="cpu")
            made = context(wanted).make(lib.kith_index_free, None, lib.kith_index_open, file)
        return cls(made, wanted, in_file=True)

    def save(self, file: bytes) -> None:
        context(self._wanted).call(lib.kith_index_save, self.made, file)

    # ---- Asked -----------------------------------------------------------------------------------

    def inspect(self) -> s.IndexInfo:
        info = s.sized(s.IndexInfo)
        lib.kith_index_inspect(self.made, c.byref(info))
        return info

    @property
    def points(self) -> s.Matrix:
        """They lie in the library, or where the caller has them, until the index is changed."""
        if self._points is None:
            self._points = self.inspect().points
        return self._points

    @property
    def rows(self) -> HostMatrix:
        """The same, as an array."""
        points = self.points
        return HostMatrix(points, stored(points), points.rows, points.dtype == s.F64)

    @property
    def device(self) -> str | None:
        """That searches of rows on the host name. None: where the index is."""
        return None if self.method == s.METHOD_EXACT else self.made_for or "cpu"

    def takes(self, rows: Any) -> bool:
        """Whether it is searched for rows where these lie, on a GPU."""
        return on_device(rows) and (self.on_gpu or self._device >= 0)

    @property
    def made_for(self) -> str | None:
        """The device that was named when it was made."""
        return self._wanted.device

    def fingerprint_for(self, queries: int) -> Fingerprint | None:
        """Of its points, for the answer to so many queries; those of a file are not all read for a
        few, those on a GPU not at all."""
        unread = self.on_gpu or (self._in_file and queries < _small.WORTH)
        if self._of is None and not unread:
            self._of = fingerprint(self.points, self._wanted._replace(memory_limit=0))
        return self._of

    def search_small(
        self,
        queries: Any,
        k: int,
        limits: _small.Wanted,
        wait: bool = True,
        way: _small.Way | None = None,
    ) -> Neighbors | None:
        """Of plain arrays, and no wishes; None: the long way. way: of a graph."""
        points = self._points or self.points
        there = self._device >= 0
        exact = None if self.period is not None else way is None
        if there and not isinstance(queries, np.ndarray):
            asked = queries, k, self.metric, limits, wait, way
            found = _small.search_there(self.made, points, *asked)
            return found and claim(found, self.metric, exact)
        found = _small.search_index(self.made, points, queries, k, self.metric, limits, there, way)
        if found is None:
            return None
        return claim(found, self.metric, exact, self._of or self.fingerprint_for(len(queries)))

    def params(self, k: int, radius: float | None = None) -> s.SearchParams:
        return search_params(_OWN, k, radius=radius)

    def search(
        self,
        asked: HostMatrix,
        params: s.SearchParams,
        wanted: Settings,
        filtered: _filter.Filter = _filter.NONE,
        *,
        progress: Progress = None,
        out: Sequence[Any] | None = None,
        watched: bool = True,
    ) -> Neighbors:
        points, k = self.points, params.k
        double = asked.is_double or points.dtype == s.F64
        some = bool(params.flags & s.WITHIN_RADIUS) or filtered.struct is not None
        table = Table(asked.rows, k * filtered.wide, points.rows * filtered.wide, double, out, some)
        filtered.into(params)
        if asked.rows == 0:
            check_shapes(points, asked, k, "the index")
            return table.result()
        context(wanted, watched).call(
            lib.kith_index_search,
            self.made,
            c.byref(asked.struct),
            c.byref(params),
            c.byref(table.struct),
            None,
            progress=progress,
        )
        untold = filtered.struct is not None or self.period is not None  # by files and graphs
        exact = None if untold else self.method != s.METHOD_GRAPH
        return claim(table.result(), self.metric, exact, self.fingerprint_for(asked.rows))

    def is_small(self, queries: int, k: int, width: int | None, meets: int) -> bool:
        """Whether walks end before anybody would press Ctrl-C."""
        points = self.points
        return _small.is_small_walk(points.rows, points.cols, queries, k, width, meets)

    def walk(
        self,
        asked: HostMatrix,
        params: s.SearchParams,
        limits: Limits,
        wanted: Settings,
        progress: Progress,
        out: Sequence[Any] | None,
        small: bool,
    ) -> Neighbors:
        """search of a graph."""
        filtered, params.exclude = limits
        watched = bool(progress) or not small
        wanted = wanted._replace(device=self.device)
        return self.search(
            asked, params, wanted, filtered, progress=progress, out=out, watched=watched
        )

    def ranges(
        self, job: RadiusJob, asked: Any, wanted: Settings, progress: Progress, told: bool
    ) -> Ranges:
        """asked: of matrices on the host or on its GPU. told: that it is exact."""
        points, rows = self.points, asked.struct.rows
        double = s.F64 in (asked.struct.dtype, points.dtype)
        if rows == 0:
            check_shapes(points, asked, 1, "the index")
            return job.nothing(double, points.rows)
        where, function, stream = context(wanted), lib.kith_index_radius, None
        if not isinstance(asked, HostMatrix):
            function, stream = lib.kith_cuda_index_radius, asked.stream
        behind = () if stream is None else (c.c_void_p(stream),)
        found = job.run(where, function, self.made, double, points.rows, progress, behind=behind)
        return found._claim(self.metric, self.fingerprint_for(rows), told and self.period is None)

    # ---- Changed ---------------------------------------------------------------------------------

    def add(self, Y: Any) -> None:
        """Rows behind the last one."""
        points = self.points
        if self.on_gpu and self.method == s.METHOD_EXACT and must_be_copied(Y):
            from . import _cuda

            there = _cuda.added(Y, points)
            if there is not None:
                self._change(lib.kith_index_add, c.byref(there.struct))
                return
        added = as_matrix(Y, "Y", self._wanted.memory_limit)
        if added.struct.cols != points.cols:
            raise ValueError(
                f"the index has {points.cols} columns and Y has {added.struct.cols} (both must "
                "have the same)"
            )
        if added.rows == 0:
            return
        fitting = in_type(added, points.dtype)
        if fitting is None and self.on_gpu:
            raise ValueError(
                f"Y has values that {dtype_of(points.dtype)}, the type of the index, does not hold, "
                "and its points lie on a GPU (round them, or make an index of all rows)"
            )
        if fitting is not None:
            self._change(lib.kith_index_add, c.byref(fitting.struct))
        else:
            self._widen(added)

    def remove(self, ids: Any) -> None:
        """Rows by their numbers."""
        gone = _ids(ids, self.points.rows)
        if gone.size:
            self._change(lib.kith_index_remove, gone.ctypes.data, gone.size)

    def _change(self, function: Any, *arguments: Any) -> None:
        self._points = self._of = None
        context(self._wanted).call(function, self.made, *arguments)
        self._in_file = False
        self.on_gpu = self.on_gpu and self.method == s.METHOD_EXACT  # its own rows are there, too
        self.made.let_go()

    def _widen(self, added: HostMatrix) -> None:
        """The same points and others, in a type that holds all: an index that is made anew."""
        refuse_not_finite(added.array, "Y")
        points = self.points
        if self.method == s.METHOD_GRAPH:
            raise ValueError(
                f"Y has values that {dtype_of(points.dtype)}, the type of the index, does not hold "
                "(round them, or make an index of all rows)"
            )
        try:
            other = Kept.create(
                joined(points, added),
                self._wanted
                if self._device < 0 or (self.made_for or "").startswith("cuda")
                else self._wanted._replace(device=f"cuda:{self._device}"),
                metric=self.metric,
                method=self.method,
                tree_height=self._height,
                period=self.period,
            )
        except ValueError as error:
            rename(error, {"X": "Y"}, -points.rows)
            raise
        self._points = self._of = None
        self.made = other.made
        self._device = other._device
        self._in_file = False


def _ids(indices: Any, rows: int) -> Array:
    """Anybody's indices of rows; what is below 2^32 and too large is the library's to refuse."""
    wide = np.atleast_1d(np.asarray(on_host(indices)))
    if wide.shape == (0,):  # of floats, where it is a list
        return np.empty(0, np.uint32)
    if wide.dtype == bool:
        raise ValueError("ids are a mask, must be whole numbers (numpy.flatnonzero makes them)")
    if wide.ndim != 1 or wide.dtype.kind not in "iu" or wide.min() < 0:
        raise ValueError("ids must be whole numbers, 0 or more")
    if wide.max() > s.ID_NONE:
        raise ValueError(f"ids hold {wide.max()}, must be below {rows}")
    return np.ascontiguousarray(wide, np.uint32)
