# SPDX-License-Identifier: Apache-2.0
"""The k smallest or largest values of each row of a matrix, and the k-th alone."""

from __future__ import annotations

import ctypes as c
from typing import Any

import numpy as np

from . import _structs as s
from . import _tune
from ._arrays import FLOATS, as_matrix, given_back
from ._context import Settings, context, settings
from ._library import lib
from ._options import whole
from ._places import on_device
from ._progress import Progress
from ._results import Selection
from ._tune import Tune
from ._typing import Bytes, Points, Whole


def select_params(
    k: Whole, largest: bool, sorted: bool, method: str, tune: Tune | None
) -> s.SelectParams:
    """kith_select_params from select_k's arguments."""
    number = _tune.selection(method, "method")
    (tuned,) = _tune.fields(tune, _tune.SELECT)
    flags = (s.SELECT_LARGEST if largest else 0) | (0 if sorted else s.SELECT_UNSORTED)
    flags |= s.SELECT_ALIGNED if tuned.pop("aligned", False) else 0
    flags |= tuned.pop("merge", 0)
    return s.sized(s.SelectParams, method=number, k=whole(k, "k"), flags=flags, **tuned)


def _host_values(values: Points, wanted: Settings) -> tuple[Any, Any, s.Values]:
    """Values in host memory: their matrix, the array that is read, and the library's view of it."""
    matrix = as_matrix(values, "values", wanted.memory_limit)
    if matrix.struct.dtype not in FLOATS:
        raise ValueError(f"values are {matrix.array.dtype}, must be floats")
    array, stride = matrix.array, matrix.struct.stride_bytes
    if not (array.flags.aligned or isinstance(array, np.memmap)):  # points may lie so, values not
        array, stride = array.copy(), 0
    at = array.__array_interface__["data"][0]
    return matrix, array, s.Values(at, None, *array.shape, stride, 0, matrix.struct.dtype)


def select_k(
    values: Points,
    k: Whole,
    *,
    largest: bool = False,
    sorted: bool = True,
    method: str = "auto",
    tune: Tune | None = None,
    n_jobs: Whole | None = None,
    device: str | None = None,
    memory_limit: Bytes | None = None,
    progress: Progress = None,
) -> Selection:
    """The k smallest (or largest) values of each row of a matrix.

    Equal values stand by their place in the row; NaN comes last, whichever end is asked for.

    Parameters
    ----------
    values : array of shape (n, m)
        float16, float32, float64 or bfloat16, as in `knn`.
    k : int
        1 to m.
    largest : bool
        The largest instead, largest first.
    sorted : bool
        False: the same k, in any order.
    method : str
        ``auto`` (the fastest),
        ``scan``, ``quick``, ``radix``, ``insertion``, ``heap``, ``merge_queue``, ``bitonic``,
        ``threshold_heap``:
        the same answers.
    tune : dict, optional
        Of some methods: ``buffer`` ("none", "plain", "full", "sorted"), ``buffer_size`` (8 to 64),
        ``group`` (2, 4, 8) and, of ``merge_queue``, ``level`` (4 to 64), ``merge`` ("network",
        "path") and ``aligned`` (bool); ``heap_sample`` of ``threshold_heap``, in k.
    n_jobs, device, memory_limit, progress
        As in `knn`.

    Returns
    -------
    Selection
        ``(values, indices)``, where the values live and in their type.

    Examples
    --------
    >>> import numpy as np, kith
    >>> kith.select_k(np.array([[3.0, 1.0, 2.0]]), 2).indices
    array([[1, 2]])
    """
    params = select_params(k, largest, sorted, method, tune)
    wanted = settings(n_jobs, device, memory_limit)
    if on_device(values):
        from . import _cuda

        return _cuda.select(values, params, wanted, progress)
    matrix, array, given = _host_values(values, wanted)
    rows, cols = array.shape
    shape = (rows, params.k if 0 < params.k <= cols else 0)
    best = np.empty(shape, array.dtype)
    ids = np.empty(shape, np.uint32)
    table = s.Selection(best.ctypes.data, ids.ctypes.data)
    context(wanted.beside(matrix)).call(
        lib.kith_select, c.byref(given), c.byref(params), c.byref(table), progress=progress
    )
    return Selection(given_back(values, best), given_back(values, ids.astype(np.int64)))


def select_kth(
    values: Points,
    k: Whole,
    *,
    largest: bool = False,
    method: str = "auto",
    tune: Tune | None = None,
    n_jobs: Whole | None = None,
    device: str | None = None,
    memory_limit: Bytes | None = None,
    progress: Progress = None,
) -> Any:
    """The k-th smallest (or largest) value of each row of a matrix.

    Parameters
    ----------
    values, k, largest, method, tune, n_jobs, device, memory_limit, progress
        As in `select_k`.

    Returns
    -------
    array of n values
        Where the values live and in their type.

    Examples
    --------
    >>> import numpy as np, kith
    >>> kith.select_kth(np.array([[3.0, 1.0, 2.0]]), 2)
    array([2.])
    """
    params = select_params(k, largest, True, method, tune)
    wanted = settings(n_jobs, device, memory_limit)
    if on_device(values):
        from . import _cuda

        return _cuda.select_kth(values, params, wanted, progress)
    matrix, array, given = _host_values(values, wanted)
    kth = np.empty(array.shape[0], array.dtype)
    out = s.Selection(None, None, kth.ctypes.data)
    context(wanted.beside(matrix)).call(
        lib.kith_select, c.byref(given), c.byref(params), c.byref(out), progress=progress
    )
    return given_back(values, kth)
