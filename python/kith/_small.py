# SPDX-License-Identifier: Apache-2.0
"""Searches that end so soon that what Python does for them counts.

A plain search is one of NumPy's arrays as the library reads them, by a metric's name and without
further wishes. Where it is small, too, nothing has to watch over it: Python itself looks for Ctrl-C
as soon as the call returns. Small is a number of steps and no time, so that the same calls are small
everywhere. All other searches go the long way (`_search`), which also says what is wrong.
"""

from __future__ import annotations

import ctypes as c
import functools
import operator
import struct
import threading
from typing import Any

import numpy as np

from . import _metrics, _places, _pool
from . import _structs as s
from ._arrays import CODES, KINDS, address
from ._context import Context, Settings, settings
from ._errors import exception
from ._handle import Pointer
from ._library import lib
from ._results import Fingerprint, Neighbors, claim
from ._typing import Bytes, Whole

# Portable code needs up to half a second for so many, on one thread (kl more: it takes logarithms).
MOST_STEPS = 1 << 27
# A GPU needs a tenth of a second for so many, where they are compared one by one; and copies so many
# numbers there and back in no more.
_MOST_THERE = 1 << 36
_MOST_NUMBERS_THERE = 1 << 22

Wanted = tuple[Whole | None, str | None, Bytes | None]
"""n_jobs, device and memory_limit as they were given."""
Laid = tuple[int, int, int, int, int]
"""The fields of a kith_matrix; NONE is no matrix."""
Way = tuple[int, int]
"""Width and meets of a kith_walk_params."""


def steps(points: int, cols: int, queries: int, k: int) -> int:
    """What a search costs at most: all pairs, and 64 queries more for preparing the points."""
    return (queries + 64) * points * (cols + k + 16)


def is_small_there(points: int, cols: int, queries: int, k: int) -> bool:
    """Whether a search of an index on a GPU ends before anybody would press Ctrl-C."""
    numbers = queries * (cols + k)
    return numbers <= _MOST_NUMBERS_THERE and numbers * points <= _MOST_THERE


def met_there(rows: int, walks: bool) -> int:
    """How many of an index's rows a query meets at most, on a GPU: by walks far fewer than all."""
    return min(rows, 1 << 16) if walks else rows


def is_small_walk(
    points: int, cols: int, queries: int, k: int, width: int | None, meets: int
) -> bool:
    """Whether walks end before anybody would press Ctrl-C."""
    met = min(points, (meets or _DENSELY) + _MET * max(width or 0, 2 * k, 64))
    return queries * met * (cols + 16) <= MOST_STEPS


class Frame(c.Structure):
    """The structs of a call, one behind the other."""

    _fields_ = [
        ("points", s.Matrix),
        ("queries", s.Matrix),
        ("params", s.SearchParams),
        ("table", s.Neighbors),
        ("walk", s.WalkParams),
    ]


def packed(*kinds: type[c.Structure]) -> struct.Struct:
    """What writes structs that stand one behind the other."""
    return struct.Struct(" ".join("".join(map(_letter, kind._fields_)) for kind in kinds))


def _letter(field: tuple[str, Any] | tuple[str, Any, int]) -> str:
    letter = getattr(field[1], "_type_", "P")  # a function is a pointer
    return letter if isinstance(letter, str) and letter in "iIlLdP" else "P"


_write_matrices = packed(s.Matrix, s.Matrix).pack_into
_write_table = packed(s.Neighbors).pack_into
_FLOAT, _DOUBLE, _ID, _INDEX = (np.dtype(each) for each in ("f4", "f8", "u4", "i8"))
_MOST_IDS = 1 << 16  # that a seat keeps room for
NONE: Laid = (0, 0, 0, 0, 0)
_DENSELY = 16_384  # met by a walk where `meets` is 0
_MET = 64  # points at most that a walk meets for each that it keeps, as a rule far fewer
WORTH = 32  # queries, beside which reading all points once more is little
ITSELF = object()  # as queries: a graph
_empty = np.empty
_new = tuple.__new__  # of a named tuple: half of what its own way takes


class _Seat:
    """A context that asks nobody whether to go on, a frame, and room for the library's ids."""

    __slots__ = (
        "handle", "points", "queries", "params", "table", "frame", "ids", "ids_at", "_own", "_asked",
        "_way"
    )  # fmt: skip

    def __init__(self, wanted: Settings) -> None:
        self._own = Context(wanted, watched=False)
        self.handle = self._own.handle
        self.frame = Frame()
        self.frame.params.struct_size = c.sizeof(s.SearchParams)
        self.frame.walk.struct_size = c.sizeof(s.WalkParams)
        self._asked = 0, 0, 0, 0
        self._way: Way | None = None
        at = c.addressof(self.frame)
        self.points = at + Frame.points.offset
        self.queries = at + Frame.queries.offset
        self.params = at + Frame.params.offset
        self.table = at + Frame.table.offset
        self.make_room((1, 1))

    def _ask(self, asked: tuple[int, int, int, int]) -> None:
        params = self.frame.params
        params.metric, params.k, params.flags, params.method = self._asked = asked

    def _go(self, way: Way | None) -> None:
        walk = self.frame.walk
        self._way = way
        self.frame.params.walk = None if way is None else c.addressof(walk)
        walk.width, walk.meets = way or (0, 0)

    def make_room(self, shape: tuple[int, int]) -> None:
        self.ids = _empty(shape, _ID)
        self.ids_at = address(self.ids)

    def call(
        self,
        index: Pointer | None,
        points: Laid,
        queries: Laid,
        shape: tuple[int, int],
        number: int,
        flags: int = 0,
        method: int = s.METHOD_AUTO,
        way: Way | None = None,
    ) -> Neighbors:
        """kith_index_search of queries where there is an index, kith_graph where there are no
        queries, else kith_search. way: of an index by graph."""
        if self.ids.shape != shape:
            self.make_room(shape)
        double = points[4] == s.F64 or queries[4] == s.F64
        distances = _empty(shape, _DOUBLE if double else _FLOAT)
        at = address(distances)
        asked = number, shape[1], flags, method
        if asked != self._asked:
            self._ask(asked)
        if way != self._way:
            self._go(way)
        _write_matrices(self.frame, 0, *points, *queries)
        table = self.ids_at, 0 if double else at, at if double else 0, *shape, 0
        _write_table(self.frame, Frame.table.offset, *table)
        own = self.handle
        if index is not None:
            function = lib.kith_index_search
            status = function(own, index, self.queries, self.params, self.table, None)
        elif queries is NONE:
            function = lib.kith_graph
            status = function(own, self.points, self.params, self.table, None)
        else:
            function = lib.kith_search
            status = function(own, self.points, self.queries, self.params, self.table, None)
        if status != 0:
            raise exception(status, own, function)
        indices = self.ids.astype(_INDEX)
        if indices.size > _MOST_IDS:
            self.make_room((1, 1))
        return _new(Neighbors, (distances, indices))

    def call_there(
        self,
        index: Pointer,
        queries: Laid,
        table: tuple[int, int, int, int, int, int],
        asked: tuple[int, int, int, int],
        stream: int,
        way: Way | None,
    ) -> None:
        """kith_cuda_index_search; table: of kith_neighbors, asked: number, k, flags and method."""
        if asked != self._asked:
            self._ask(asked)
        if way != self._way:
            self._go(way)
        _write_matrices(self.frame, 0, *NONE, *queries)
        _write_table(self.frame, Frame.table.offset, *table)
        own, function = self.handle, lib.kith_cuda_index_search
        status = function(own, index, self.queries, self.params, self.table, stream)
        if status != 0:
            raise exception(status, own, function)

    def fingerprint(self) -> Fingerprint | None:
        """Of the points of the last call; None where it does not come to be."""
        made = s.Fingerprint()
        lib.kith_fingerprint_make(self.handle, self.points, c.byref(made))
        return Fingerprint.of_struct(made)


class _Seats(threading.local):
    """This thread's, by what is wanted. Who computes has taken the seat out: a signal handler that
    searches meanwhile finds none, and makes one."""

    def __init__(self) -> None:
        self.free: dict[Wanted, _Seat] = {}


_MOST_KEPT = 8
_seats = _Seats()


def _take(wanted: Wanted) -> _Seat | None:
    """A seat, which the caller puts back; None: these wishes have none."""
    if _pool.current is not None:  # the long way tells what its functions raise
        return None
    free = _seats.free
    try:
        seat = free.pop(wanted, None)
    except TypeError:  # some list or array, of which the long way says what it must be
        return None
    if seat is None:
        known = settings(*wanted)
        if (
            wanted[0] is not None and operator.index(wanted[0]) < -1
        ):  # as many as there are processors now
            return None
        if len(free) >= _MOST_KEPT:
            free.clear()
        seat = _Seat(known)
    return seat


def _lay(array: Any) -> Laid | None:
    """An array as kith_matrix; None: it is not plain."""
    if type(array) is not np.ndarray or array.ndim != 2 or not array.flags.c_contiguous:
        return None
    code = CODES.get(array.dtype)
    if code is None:
        return None
    rows, cols = array.shape
    return address(array), rows, 0, cols, code


def search(
    points: Any,
    queries: Any,
    k: int,
    metric: Any,
    p: float,
    method: int,
    wanted: Wanted,
    flags: int = 0,
) -> Neighbors | None:
    """kith_search, or of ITSELF kith_graph; None: it is not plain, or not small."""
    if type(metric) is not str:
        return None
    given = _lay(points)
    asked = NONE if queries is ITSELF else _lay(queries)
    if given is None or asked is None:
        return None
    _, rows, _, cols, _ = given
    count = rows if asked is NONE else asked[1]
    number = _metrics.code(metric, p)
    if not (0 < k <= rows and steps(rows, cols, count, k) <= MOST_STEPS and number != s.KL):
        return None
    if count == 0:
        return None
    seat = _take(wanted)
    if seat is None:
        return None
    found = seat.call(None, given, asked, (count, k), number, flags, method)
    worth = asked is NONE or count >= WORTH
    claim(found, number, True, seat.fingerprint() if worth else None)
    _seats.free[wanted] = seat
    return found


def search_index(
    index: Pointer,
    points: s.Matrix,
    queries: Any,
    k: int,
    number: int,
    wanted: Wanted,
    there: bool,
    way: Way | None = None,
) -> Neighbors | None:
    """kith_index_search of an index of points, which is `there`, on a GPU, or not, and by graph where
    there is a way; None: it is not plain, or not small."""
    asked = _lay(queries)
    if asked is None or asked[1] == 0 or number == s.KL:
        return None
    count, rows, cols = asked[1], points.rows, points.cols
    if way is not None:
        small = is_small_walk(rows, cols, count, k, *way)
    else:
        small = steps(rows, cols, count, k) <= MOST_STEPS
        small = small or (there and is_small_there(rows, cols, count, k))
    if not (0 < k <= rows and small):
        return None
    seat = _take(wanted)
    if seat is None:
        return None
    found = seat.call(index, (0, rows, 0, 0, points.dtype), asked, (count, k), number, way=way)
    _seats.free[wanted] = seat
    return found


@functools.cache
def _code_of(kind: Any) -> int:
    """Of a tensor's dtype; 0: it is not plain."""
    try:
        return CODES.get(np.dtype(str(kind).rpartition(".")[2]), 0)
    except TypeError:
        return 0


def _lay_there(array: Any) -> tuple[Laid, int] | None:
    """An array on a GPU as kith_matrix, and the stream that fills it, 0 being the current one; None:
    it is not plain."""
    stream = 0
    if _places.is_torch(array):
        if not array.is_cuda or array.requires_grad or not array.is_contiguous():
            return None
        at, shape, code = array.data_ptr(), array.shape, _code_of(array.dtype)
    else:
        said = getattr(array, "__cuda_array_interface__", None)
        if said is None or said.get("strides") is not None:
            return None
        at, shape, code = said["data"][0], said["shape"], KINDS.get(said["typestr"], 0)
        stream = said.get("stream") or 0
    if code == 0 or len(shape) != 2:
        return None
    return (at, shape[0], 0, shape[1], code), stream


def search_there(
    index: Pointer,
    points: s.Matrix,
    array: Any,
    k: int,
    number: int,
    wanted: Wanted,
    wait: bool,
    way: Way | None = None,
) -> Neighbors | None:
    """kith_cuda_index_search of an index of points that is on a GPU, and by graph where there is a
    way, of queries there; None: they are not plain, or not small."""
    laid = _lay_there(array)
    if laid is None or number == s.KL:
        return None
    (_, count, _, _, code), stream = laid
    rows = points.rows
    fits = 0 < k <= rows < 1 << 31 and count > 0
    if not fits or not is_small_there(met_there(rows, way is not None), points.cols, count, k):
        return None
    maker = _places.maker(array)
    wanted = wanted[0], f"cuda:{maker.index}", wanted[2]
    seat = _take(wanted)
    if seat is None:
        return None
    current = maker.stream
    waits = wait or not (stream == 0 or _places.same_stream(stream, current))
    double = code == s.F64 or points.dtype == s.F64
    shape = count, k
    distances = maker.empty(shape, "float64" if double else "float32")
    ids = maker.empty(shape, "uint32")
    at = _places.address(distances)
    seat.call_there(
        index,
        laid[0],
        (_places.address(ids), 0 if double else at, at if double else 0, count, k, 0),
        (number, k, 0 if waits else s.ENQUEUE, s.METHOD_AUTO),
        stream or current,
        way,
    )
    _seats.free[wanted] = seat
    indices = maker.wide(ids, not waits, True)
    if waits:
        maker.settle()
    return _new(Neighbors, (distances, indices))
