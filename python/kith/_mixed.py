# SPDX-License-Identifier: Apache-2.0
"""Rows of one type among rows of another: no value is rounded."""

from __future__ import annotations

import ctypes as c
from typing import Any

import numpy as np

from . import _structs as s
from ._arrays import BFLOAT16, CODES, HostMatrix, as_matrix
from ._results import Array

_DTYPES: dict[int, np.dtype[Any]] = {code: dtype for dtype, code in CODES.items()}
_DTYPES[BFLOAT16] = np.dtype(np.uint16)


def dtype_of(code: int) -> np.dtype[Any]:
    """NumPy's type of a number of the library; bfloat16 as the words that it is stored in."""
    return _DTYPES[code]


def numbers(array: Array, code: int) -> Array:
    """Numbers; bfloat16 is the upper half of a float32."""
    if code != BFLOAT16:
        return array
    return (array.astype(np.uint32) << 16).view(np.float32)


def in_type(matrix: HostMatrix, code: int) -> HostMatrix | None:
    """A matrix in another type of the library; None: some value would change."""
    given = matrix.struct.dtype
    if given == code:
        return matrix
    values = numbers(matrix.array, given)
    with np.errstate(over="ignore", invalid="ignore"):
        if code == BFLOAT16:
            words = values.astype(np.float32)
            made = (words.view(np.uint32) >> 16).astype(np.uint16)
        else:
            made = values.astype(dtype_of(code))
        if not np.array_equal(numbers(made, code).astype(np.float64), values, equal_nan=True):
            return None
    struct = s.Matrix(made.ctypes.data, matrix.rows, 0, matrix.struct.cols, code)
    return HostMatrix(struct, made, matrix.rows, code == s.F64, matrix.copied + made.nbytes)


def stored(matrix: s.Matrix) -> Array:
    """Rows that lie in the library, for as long as it has them; bfloat16 as the words it is stored in."""
    dtype = dtype_of(matrix.dtype)
    stride = matrix.stride_bytes or matrix.cols * dtype.itemsize
    memory = (c.c_char * ((matrix.rows - 1) * stride + matrix.cols * dtype.itemsize)).from_address(
        matrix.data
    )
    shape = matrix.rows, matrix.cols
    rows: Array = np.ndarray(shape, dtype, memory, strides=(stride, dtype.itemsize))
    return rows


def joined(first: s.Matrix, second: HostMatrix) -> HostMatrix:
    """The rows of both in the smallest type that holds all values; first lies in the library."""
    values = numbers(stored(first), first.dtype), numbers(second.array, second.struct.dtype)
    both = np.result_type(*values)
    wide = both if both in CODES else np.dtype(np.float32)  # uint8 beside int8
    return as_matrix(np.concatenate(values, dtype=wide), "X")
