# SPDX-License-Identifier: Apache-2.0
"""Searches that end so soon that what Python does for them counts.

A plain search is one of NumPy's arrays as the library reads them, by a metric's name and without
further wishes. Where it is small, too, nothing has to watch over it: Python itself looks for Ctrl-C
as soon as the call returns. Small is a number of steps and no time, so that the same calls are small
everywhere. All other searches go the long way (`_search`), which also says what is wrong.
"""

from __future__ import annotations

import ctypes as c
import struct
import threading
from typing import Any

import numpy as np

from . import _metrics
from . import _structs as s
from ._arrays import CODES, address
from ._context import Context, settings
from ._errors import exception
from ._library import lib
from ._results import Array, Neighbors

# Portable code needs up to half a second for so many, on one thread (kl more: it takes logarithms).
MOST_STEPS = 1 << 27
_LOGARITHMS = 11

Wanted = tuple[int | None, str | None, int | None]
"""n_jobs, device and memory_limit as they were given."""


def steps(points: int, cols: int, queries: int, k: int) -> int:
    """What a search costs at most: all pairs, and 64 queries more for preparing the points."""
    return (queries + 64) * points * (cols + k + 16)


class Frame(c.Structure):
    """The structs of a call, one behind the other, so that one write fills them."""

    _fields_ = [
        ("points", s.Matrix),
        ("queries", s.Matrix),
        ("params", s.SearchParams),
        ("table", s.NeighborTable),
    ]


write = struct.Struct("Pqqii Pqqii IiqIIPPPiiiiid PPPqq").pack_into
_PARAMS_SIZE = c.sizeof(s.SearchParams)
_FLOAT, _DOUBLE, _ID, _INDEX = (np.dtype(each) for each in ("f4", "f8", "u4", "i8"))
_MOST_IDS = 1 << 16  # that a seat keeps room for
_NONE = 0, 0, 0, 0, 0  # no matrix
_empty = np.empty
_new = tuple.__new__  # of a named tuple: half of what its own way takes


class _Seat:
    """A context that asks nobody whether to go on, a frame, and room for the library's ids."""

    __slots__ = ("handle", "points", "queries", "params", "table", "frame", "ids", "ids_at", "_own")

    def __init__(self, wanted: Wanted) -> None:
        self._own = Context(settings(*wanted), watched=False)
        self.handle = self._own.handle
        self.frame = Frame()
        at = c.addressof(self.frame)
        self.points = at + Frame.points.offset
        self.queries = at + Frame.queries.offset
        self.params = at + Frame.params.offset
        self.table = at + Frame.table.offset
        self.make_room((1, 1))

    def make_room(self, shape: tuple[int, int]) -> None:
        self.ids = _empty(shape, _ID)
        self.ids_at = address(self.ids)

    def call(
        self,
        points: Array,
        code: int,
        queries: Array | None,
        asked_code: int,
        shape: tuple[int, int],
        params: tuple[int, ...],
    ) -> Neighbors:
        """A call with kith_search_params, from metric to method."""
        if self.ids.shape != shape:
            self.make_room(shape)
        double = code == 2 or asked_code == 2
        distances = _empty(shape, _DOUBLE if double else _FLOAT)
        at = address(distances)
        rows, cols = points.shape
        given = address(points), rows, 0, cols, code
        table = self.ids_at, 0 if double else at, at if double else 0, *shape
        if queries is None:
            write(self.frame, 0, *given, *_NONE, _PARAMS_SIZE, *params, 0, 0, 0.0, *table)
            status = lib.kith_graph_exact(self.handle, self.points, self.params, self.table)
        else:
            rows, cols = queries.shape
            asked = address(queries), rows, 0, cols, asked_code
            write(self.frame, 0, *given, *asked, _PARAMS_SIZE, *params, 0, 0, 0.0, *table)
            status = lib.kith_knn_exact(
                self.handle, self.points, self.queries, self.params, self.table
            )
        if status != 0:
            raise exception(status, lib.kith_ctx_detail(self.handle))
        indices = self.ids.astype(_INDEX)
        if indices.size > _MOST_IDS:
            self.make_room((1, 1))
        return _new(Neighbors, (distances, indices))


class _Seats(threading.local):
    """This thread's, by what is wanted. Who computes has taken the seat out: a signal handler that
    searches meanwhile finds none, and makes one."""

    def __init__(self) -> None:
        self.free: dict[Wanted, _Seat] = {}


_MOST_KEPT = 8
_seats = _Seats()


def search(
    points: Any,
    queries: Any,
    k: Any,
    metric: Any,
    p: float,
    method: int,
    wanted: Wanted,
    flags: int = 0,
) -> Neighbors | None:
    """kith_knn_exact, or without queries kith_graph_exact; None: it is not plain, or not small."""
    if not (type(points) is np.ndarray and type(k) is int and type(metric) is str):
        return None
    code = CODES.get(points.dtype)
    if code is None or points.ndim != 2 or not points.flags.c_contiguous:
        return None
    rows, cols = points.shape
    asked_code = 0
    if queries is None:
        asked = rows
        most = rows if flags else rows - 1
    elif type(queries) is np.ndarray and queries.ndim == 2 and queries.flags.c_contiguous:
        asked, most = len(queries), rows
        asked_code = CODES.get(queries.dtype, 0)
        if asked_code == 0:
            return None
    else:
        return None
    number = _metrics.code(metric, p)
    if not (0 < k <= most and steps(rows, cols, asked, k) <= MOST_STEPS and number != _LOGARITHMS):
        return None
    free = _seats.free
    seat = free.pop(wanted, None)
    if seat is None:
        if wanted[0] is not None and wanted[0] < -1:  # as many as there are processors now
            return None
        if len(free) >= _MOST_KEPT:
            free.clear()
        seat = _Seat(wanted)
    params = number, k, flags, 0, 0, 0, 0, 0, 0, method
    found = seat.call(points, code, queries, asked_code, (asked, k), params)
    free[wanted] = seat
    return found
