# SPDX-License-Identifier: Apache-2.0
"""The k smallest or largest values of each row of a matrix."""

from __future__ import annotations

import ctypes as c

import numpy as np

from . import _structs as s
from ._arrays import FLOATS, as_matrix, given_back, on_device
from ._context import context, settings
from ._library import lib
from ._options import whole
from ._progress import Progress
from ._results import Selection
from ._typing import Bytes, Points, Whole


def methods() -> list[str]:
    """The names of all methods of selection, by their numbers."""
    names: list[str] = []
    while (name := lib.kith_select_method_name(len(names)).decode()) != "unknown":
        names.append(name)
    return names


def select_params(k: Whole, largest: bool, sorted: bool, method: str) -> s.SelectParams:
    """kith_select_params from select_k's arguments."""
    number = lib.kith_select_method_parse(method.encode()) if isinstance(method, str) else -1
    if number < 0:
        raise ValueError(f"method is {method!r}, must be one of {', '.join(methods())}")
    flags = (s.SELECT_LARGEST if largest else 0) | (0 if sorted else s.SELECT_UNSORTED)
    return s.sized(s.SelectParams, method=number, k=whole(k, "k"), flags=flags)


def select_k(
    values: Points,
    k: Whole,
    *,
    largest: bool = False,
    sorted: bool = True,
    method: str = "auto",
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
        ``auto`` (the fastest), ``scan``, ``insertion``, ``heap``, ``merge_queue``, ``quick``,
        ``bitonic``, ``radix``, ``threshold_heap``: the same answers.
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
    params = select_params(k, largest, sorted, method)
    wanted = settings(n_jobs, device, memory_limit)
    if on_device(values):
        from . import _cuda

        _cuda.refuse(progress=progress or None)
        return _cuda.select(values, params, wanted)
    matrix = as_matrix(values, "values", wanted.memory_limit)
    if matrix.struct.dtype not in FLOATS:
        raise ValueError(f"values are {matrix.array.dtype}, must be floats")
    array, stride = matrix.array, matrix.struct.stride_bytes
    if not (array.flags.aligned or isinstance(array, np.memmap)):  # points may lie so, values not
        array, stride = array.copy(), 0
    rows, cols = array.shape
    shape = (rows, params.k if 0 < params.k <= cols else 0)
    best = np.empty(shape, array.dtype)
    ids = np.empty(shape, np.uint32)
    at = array.__array_interface__["data"][0]
    given = s.Values(at, None, rows, cols, stride, 0, matrix.struct.dtype)
    table = s.Selection(best.ctypes.data, ids.ctypes.data)
    context(wanted.beside(matrix)).call(
        lib.kith_select, c.byref(given), c.byref(params), c.byref(table), progress=progress
    )
    return Selection(given_back(values, best), given_back(values, ids.astype(np.int64)))
