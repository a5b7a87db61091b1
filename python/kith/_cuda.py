# SPDX-License-Identifier: Apache-2.0
"""Matrices that lie in the memory of a GPU: what is found stays there.

Arrays are read by ``__cuda_array_interface__`` (PyTorch, CuPy, JAX, Numba), the results are made by
PyTorch for its tensors, else by CuPy.
"""

from __future__ import annotations

import ctypes as c
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _options, _places
from . import _structs as s
from ._arrays import BFLOAT16, FLOATS, KINDS, dtype_name
from ._context import Context, Settings, context
from ._filter import NONE, NOTHING, Asked, Filter
from ._filter import make as make_filter
from ._handle import Pointer
from ._library import lib
from ._metrics import code
from ._places import address, check_device, is_torch, on_device, readable
from ._progress import Progress
from ._results import Neighbors, Selection, check_ids, check_pair, claim, known_of, pair_of, room
from ._small import is_small_there, met_there



class _About(NamedTuple):
    """What ``__cuda_array_interface__`` says; of a tensor without making that, which takes a while."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # bytes; None: contiguous
    type: str
    stream: int


@functools.cache
def _type_of(dtype: Any) -> str:
    """Of a tensor's dtype, as the interface has it."""
    name = str(dtype)
    try:
        kind: str = np.dtype(name.rpartition(".")[2]).str
        return kind
    except TypeError:
        return name


def _about(array: Any) -> _About:
    if is_torch(array):
        if not array.is_cuda or array.requires_grad:
            raise ValueError("a tensor must lie on the GPU, and require no gradient (x.detach())")
        item = array.element_size()
        strides = None if array.is_contiguous() else tuple(item * each for each in array.stride())
        return _About(array.data_ptr(), tuple(array.shape), strides, _type_of(array.dtype), 0)
    said = array.__cuda_array_interface__
    stream = int(said.get("stream") or 0)
    return _About(
        int(said["data"][0]), tuple(said["shape"]), said.get("strides"), said["typestr"], stream
    )


class DeviceMatrix(NamedTuple):
    """A matrix in device memory, the array it belongs to, and the stream that fills it."""

    struct: s.Matrix
    array: Any
    maker: Any  # of arrays on the same device
    stream: int

    @property
    def is_current(self) -> bool:
        """Whether that is the one in which its library works."""
        return _places.same_stream(self.stream, self.maker.stream)

    @property
    def settings_device(self) -> str:
        return f"cuda:{self.maker.index}"


def as_device_matrix(x: Any, name: str) -> DeviceMatrix:
    """x as a matrix of the library, without a copy."""
    if not on_device(x):
        raise ValueError(f"{name} must lie where the other matrix does, on the GPU")
    array, dtype = _readable(x)
    about = _about(array)
    dtype = dtype or KINDS.get(about.type, 0)
    shape, strides = about.shape, about.strides
    if len(shape) != 2:
        raise ValueError(f"{name} has {len(shape)} axes, must have 2: a row for each point")
    if dtype == 0:
        raise ValueError(
            f"{name} is of type {about.type}, must be float16, float32, float64, bfloat16, "
            "uint8 or int8 on a GPU"
        )
    item = int(about.type[2:])
    if strides is not None and (strides[1] != item or strides[0] < shape[1] * item):
        raise ValueError(f"{name} must have contiguous rows on a GPU (x.contiguous() makes them)")
    stride = 0 if strides is None else int(strides[0])
    matrix = s.Matrix(about.address, shape[0], stride, shape[1], dtype)
    # The interface's own word on streams is for those who do not know the library of the array.
    where = _places.maker(array)
    return DeviceMatrix(matrix, array, where, about.stream or where.stream)


def added(Y: Any, points: s.Matrix) -> DeviceMatrix | None:
    """Y as it lies, complete, where an index of such points on a GPU takes it; else None."""
    try:
        matrix = as_device_matrix(Y, "Y")
    except ValueError:  # of another type, or not row behind row
        return None
    rows = matrix.struct
    alike = (rows.cols, rows.dtype, rows.stride_bytes) == (points.cols, points.dtype, 0)
    if not alike or rows.rows == 0:
        return None
    matrix.maker.complete(matrix.stream)
    return matrix


def _readable(x: Any) -> tuple[Any, int]:
    """x as an array that tells where it lies, and its type where the array cannot say it, else 0."""
    if not is_torch(x):
        return readable(x), 0
    import torch

    x = x.detach() if x.requires_grad else x
    return (x.view(torch.int16), BFLOAT16) if x.dtype == torch.bfloat16 else (x, 0)


def narrow(
    neighbors: Any, name: str, beside: DeviceMatrix
) -> tuple[s.Neighbors, tuple[Any, s.ResultMeta]]:
    """(distances, indices) on the device of a matrix as a table of the library without distances,
    complete whichever stream filled it; the array that holds it, and what is known of it."""
    distances, indices = pair_of(neighbors, name)
    array = readable(indices)
    about = _about(array)
    shape, kind = about.shape, about.type
    check_pair(tuple(distances.shape), shape, name)
    if kind not in ("<i4", "<u4", "<i8"):
        raise ValueError(
            f"{name}: indices are {kind}, must be int64, int32 or uint32 on a GPU (distances come "
            "first)"
        )
    where = _places.maker(array)
    check_device("X", beside.maker.index, name, where.index)
    if kind == "<i8" and 0 not in shape:
        least, most = where.ends(array)
        check_ids(least, most, name)
    ids = where.narrow(array)  # -1 becomes ID_NONE
    meta = known_of(neighbors)
    table = s.Neighbors(address(ids), None, None, *shape, c.addressof(meta))
    return table, (ids, meta)


def search_params(
    metric: str,
    p: float,
    k: int,
    method: int,
    flags: int,
    tuned: Mapping[str, Any],
    radius: float | None = None,
) -> s.SearchParams:
    """kith_search_params of arguments."""
    params = s.SearchParams(c.sizeof(s.SearchParams), code(metric, p), k, flags)
    params.method = method
    if radius is not None:
        params.radius = _options.number(radius, "radius")
        params.flags = flags | s.WITHIN_RADIUS
    for field, value in tuned.items():
        s.put(params, field, value)
    return params


class _Table:
    """Room for neighbours beside a matrix."""

    def __init__(
        self,
        beside: DeviceMatrix,
        rows: int,
        most: int,
        params: s.SearchParams,
        out: Any,
        *dtypes: int,
        filtered: Filter = NONE,
    ) -> None:
        self._maker = beside.maker
        self._waits = not params.flags & s.ENQUEUE
        self._may_be_empty = (
            bool(params.flags & (s.WITHIN_RADIUS | s.ENQUEUE)) or filtered is not NONE
        )
        self._signed = most < 1 << 31
        k = params.k * filtered.wide
        shape = room(rows, k, most * filtered.wide)
        double = s.F64 in (beside.struct.dtype, *dtypes)
        if out is None:
            self._distances = self._maker.empty(shape, "float64" if double else "float32")
            self._ids = self._maker.empty(shape, "uint32")
        else:
            self._distances, self._ids = out
            double = _check_out(self._distances, shape, ("<f4", "<f8")) == "<f8"
            _check_out(self._ids, shape, ("<u4", "<i4"))
        self._given = out is not None
        at = address(self._distances)
        self.struct = s.Neighbors(
            address(self._ids), None if double else at, at if double else None, rows, k
        )

    def result(self) -> Neighbors:
        if self._given:
            return Neighbors(self._distances, self._ids)
        ids = self._maker.wide(self._ids, self._may_be_empty, self._signed)
        if self._waits:
            self._maker.settle()
        return Neighbors(self._distances, ids)


def _check_out(array: Any, shape: tuple[int, int], kinds: tuple[str, ...]) -> str:
    about = _about(array)
    kind = about.type
    if about.shape != shape or kind not in kinds or about.strides is not None:
        raise ValueError(
            f"out: must be {shape[0]} x {shape[1]}, contiguous, of {' or '.join(kinds)} on the GPU"
        )
    return kind


def settings_for(wanted: Settings, beside: DeviceMatrix) -> Settings:
    """Those that name the device of a matrix."""
    if wanted.device in (None, "auto", "cuda"):
        wanted = wanted._replace(device=beside.settings_device)
    return wanted


def context_of(wanted: Settings, beside: DeviceMatrix, watched: bool = True) -> Context:
    """One for the device of a matrix."""
    return context(settings_for(wanted, beside), watched)


def _call(
    wanted: Settings,
    progress: Progress,
    beside: DeviceMatrix,
    function: Any,
    *structs: Any,
    watched: bool = True,
) -> None:
    """A call of the library on structs, on the device of a matrix; None is NULL, and what the
    library made stands for itself."""
    context_of(wanted, beside, watched).call(
        function,
        *(c.byref(each) if isinstance(each, c.Structure) else each for each in structs),
        c.c_void_p(beside.stream),
        progress=progress,
    )


def _find(
    function: Any,
    searched: Any,
    points: s.Matrix,
    beside: DeviceMatrix,
    asked: DeviceMatrix,
    params: s.SearchParams,
    exclude: Any,
    wanted: Settings,
    progress: Progress,
    out: Sequence[Any] | None,
    asked_for: Asked,
    watched: bool = True,
    numbers: bool = True,
) -> Neighbors:
    """A search of `searched`, which holds the points, for rows on the device; answers beside a matrix.
    numbers: those of groups may lie on the device, too."""
    rows = asked.struct.rows
    keep = _options.excluded(exclude, rows, params)
    dtypes = points.dtype, asked.struct.dtype
    filtered = make_filter(asked_for, points.rows, rows, beside.maker.index if numbers else None)
    filtered.into(params)
    table = _Table(beside, rows, points.rows, params, out, *dtypes, filtered=filtered)
    if rows > 0:  # without any there is no address
        structs = searched, asked.struct, params, table.struct
        _call(wanted, progress, beside, function, *structs, watched=watched)
    del keep
    return table.result()


def knn(
    corpus: Any,
    queries: Any,
    params: s.SearchParams,
    exclude: Any,
    wanted: Settings,
    progress: Progress,
    out: Sequence[Any] | None,
    asked_for: Asked = NOTHING,
    period: Any = None,
) -> Neighbors:
    """kith_cuda_search."""
    points, asked = both(corpus, queries)
    matrix, search = points.struct, lib.kith_cuda_search
    _options.periodic(period, matrix.cols, params)
    found = _find(
        search, matrix, matrix, points, asked, params, exclude, wanted, progress, out, asked_for
    )
    return claim(found, params.metric, None if asked_for or params.period else True)


def both(corpus: Any, queries: Any) -> tuple[DeviceMatrix, DeviceMatrix]:
    """Matrices that lie on one GPU."""
    if on_device(corpus):
        _places.check_together("corpus", corpus, queries=queries)
    return as_device_matrix(corpus, "corpus"), as_device_matrix(queries, "queries")


def make_index(points: DeviceMatrix, wanted: Settings, **fields: Any) -> Pointer:
    """kith_cuda_index_create. fields: of kith_index_params."""
    period = fields.pop("period", None)
    params = s.sized(s.IndexParams, **fields)
    _options.periodic(period, points.struct.cols, params)
    return context_of(wanted, points).make(
        lib.kith_index_free,
        points.array,
        lib.kith_cuda_index_create,
        c.byref(points.struct),
        c.byref(params),
        behind=(c.c_void_p(points.stream),),
    )


def index_search(
    kept: Any,
    queries: Any,
    params: s.SearchParams,
    exclude: Any,
    wanted: Settings,
    progress: Progress,
    out: Sequence[Any] | None,
    asked_for: Asked = NOTHING,
    wait: bool = True,
) -> Neighbors:
    """kith_cuda_index_search, of a Kept."""
    asked = as_device_matrix(queries, "queries")
    if not wait and asked.is_current:
        params.flags |= s.ENQUEUE
    search, made, points = lib.kith_cuda_index_search, kept.made, kept.points
    walks = kept.method == s.METHOD_GRAPH
    small = is_small_there(met_there(points.rows, walks), points.cols, asked.struct.rows, params.k)
    watched = bool(progress or asked_for) or not small or kept.metric == s.KL
    found = _find(
        *(search, made, points, asked, asked, params, exclude, wanted, progress, out, asked_for),
        watched=watched,
        numbers=not walks,
    )
    untold = asked_for or kept.period is not None
    return claim(found, kept.metric, None if untold else not walks)


def index_wait(kept: Any, wanted: Settings) -> None:
    """kith_cuda_index_search that asks nothing, of a Kept."""
    nothing = (None,) * 4  # queries, params, out and stream
    context(wanted).call(lib.kith_cuda_index_search, kept.made, *nothing)


def graph(
    X: Any,
    params: s.SearchParams,
    wanted: Settings,
    progress: Progress,
    out: Sequence[Any] | None,
    asked_for: Asked = NOTHING,
    period: Any = None,
) -> Neighbors:
    """kith_cuda_graph."""
    points = as_device_matrix(X, "X")
    rows = points.struct.rows
    _options.periodic(period, points.struct.cols, params)
    filtered = make_filter(asked_for, rows, rows, points.maker.index)
    filtered.into(params)
    table = _Table(points, rows, rows, params, out, filtered=filtered)
    report = s.sized(s.Report)
    _call(
        wanted, progress, points, lib.kith_cuda_graph, points.struct, params, table.struct, report
    )
    exact = None if asked_for or params.period else report.exact == s.CERTIFIED
    return claim(table.result(), params.metric, exact)


def merge(
    points: DeviceMatrix,
    sets: s.MergeSets,
    params: s.SearchParams,
    report: s.Report,
    wanted: Settings,
    progress: Progress,
    out: Sequence[Any] | None,
) -> Neighbors:
    """kith_cuda_graph_merge."""
    rows = points.struct.rows
    table = _Table(points, rows, rows, params, out)
    _call(wanted, progress, points, lib.kith_cuda_graph_merge, sets, params, table.struct, report)
    return table.result()


def _device_values(values: Any) -> tuple[DeviceMatrix, s.Values, str]:
    """Values on the device: their matrix, the library's view, and the type that room for them has."""
    matrix = as_device_matrix(values, "values")
    m = matrix.struct
    if m.dtype not in FLOATS:
        raise ValueError("values must be floats")
    given = s.Values(m.data, None, m.rows, m.cols, m.stride_bytes, 0, m.dtype)
    return matrix, given, "int16" if m.dtype == BFLOAT16 else dtype_name(m.dtype)


def select(values: Any, params: s.SelectParams, wanted: Settings, progress: Progress) -> Selection:
    """kith_cuda_select."""
    matrix, given, kind = _device_values(values)
    m = matrix.struct
    shape = (m.rows, params.k if 0 < params.k <= m.cols else 0)
    best = matrix.maker.empty(shape, kind)
    ids = matrix.maker.empty(shape, "uint32")
    table = s.Selection(address(best), address(ids))
    _call(wanted, progress, matrix, lib.kith_cuda_select, given, params, table)
    if m.dtype == BFLOAT16:
        best = best.view(values.dtype)
    wide = matrix.maker.wide(ids)
    matrix.maker.settle()
    return Selection(best, wide)


def select_kth(values: Any, params: s.SelectParams, wanted: Settings, progress: Progress) -> Any:
    """kith_cuda_select, of the k-th alone."""
    matrix, given, kind = _device_values(values)
    kth = matrix.maker.empty((given.rows,), kind)
    if given.rows > 0:  # without any there is no address
        out = s.Selection(None, None, address(kth))
        _call(wanted, progress, matrix, lib.kith_cuda_select, given, params, out)
    return kth.view(values.dtype) if given.dtype == BFLOAT16 else kth
