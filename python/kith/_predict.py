# SPDX-License-Identifier: Apache-2.0
"""One number of the labels of each row's neighbours: kith_predict, so with its bytes."""

from __future__ import annotations

import ctypes as c

import numpy as np

from . import _structs as s
from ._context import Settings, context
from ._library import lib
from ._results import Array, Neighbors, narrow


def predict(found: Neighbors, labels: Array, mode: int, wanted: Settings) -> Array:
    """A column for each column of labels, which have a row for each point."""
    table, keep = narrow(found, "neighbours")
    params = s.sized(s.PredictParams, mode=mode)
    result: Array = np.empty((labels.shape[1], table.rows))
    for column, out in zip(labels.T, result):
        values = np.ascontiguousarray(column, np.float64)
        context(wanted).call(
            lib.kith_predict,
            c.byref(table),
            values.ctypes.data,
            values.size,
            c.byref(params),
            out.ctypes.data,
        )
    del keep
    columns: Array = result.T
    return columns
