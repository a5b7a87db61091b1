# SPDX-License-Identifier: Apache-2.0
"""Arrays of all kinds as matrices of the library, without a copy where memory allows it.

Taken as they lie in host memory: rows of float16, float32, float64, uint8, int8 or bfloat16 whose values are
contiguous, whatever the step from row to row. Copied once: other types (to the smallest float that
holds them), Fortran order, unaligned values, and what lies on a GPU; as long as the copy fits into
the memory.
"""

from __future__ import annotations

import ctypes as c
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from . import _structs as s
from ._errors import Failure
from ._library import lib
from ._memory import refuse_large, size_text
from ._places import back, is_jax, is_torch, must_be_copied, on_device, on_host


def dtype_name(code: int) -> str:
    """NumPy's name of a type of the library."""
    text: bytes = lib.kith_dtype_name(code)
    return text.decode()


DTYPES = {dtype_name(code): code for code in s.ENUMS["kith_dtype"].values() if code}
BFLOAT16 = s.BF16
FLOATS = s.F32, s.F64, s.F16, s.BF16
CODES: dict[np.dtype[Any], int] = {
    np.dtype(name): code for name, code in DTYPES.items() if code != BFLOAT16
}
KINDS = {"|b1": s.U8, **{dtype.str: code for dtype, code in CODES.items()}}
"""By the names of types in the interfaces of arrays."""
_BOOL = np.dtype(bool)
BLOCK_BYTES = 256 << 20
_MOST_WHOLE = 2**53
TOLD_BYTES = 1 << 20
"""What is made dense beyond it is told."""
_CPU_DEVICES = (1, 3)  # kDLCPU, kDLCUDAHost


class HostMatrix(NamedTuple):
    """A matrix in host memory, and the array that its memory belongs to."""

    struct: s.Matrix
    array: np.ndarray[Any, Any]
    rows: int
    is_double: bool
    copied: int = 0  # bytes that were not there before


def address(array: np.ndarray[Any, Any]) -> int:
    """Where the values of an array begin."""
    try:  # a fourth of the time that NumPy's own ways take
        return c.addressof(c.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # read-only, not contiguous, or empty
        return int(array.__array_interface__["data"][0])


def is_sparse(x: Any) -> bool:
    """Whether x is one of SciPy's sparse matrices or arrays; does not import SciPy."""
    return hasattr(x, "tocsr")


def _from_torch(x: Any) -> tuple[np.ndarray[Any, Any], int]:
    import torch

    x = x.detach()
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view(np.uint16), BFLOAT16
    return x.numpy(), 0


def to_numpy(x: Any) -> tuple[np.ndarray[Any, Any], int]:
    """The array of anything in host memory, and BFLOAT16 where its 16-bit words are such."""
    if isinstance(x, np.ndarray):
        array = x
    elif is_torch(x):
        return _from_torch(x)
    elif hasattr(x, "__dlpack_device__") and x.__dlpack_device__()[0] in _CPU_DEVICES:
        try:
            array = np.from_dlpack(x)
        except (BufferError, RuntimeError, TypeError):  # a type that NumPy's DLPack has not
            array = np.asarray(x)
    else:
        array = np.asarray(x)
    if array.dtype.kind == "V" and array.dtype.name == "bfloat16":  # ml_dtypes' and JAX's
        return array.view(np.uint16), BFLOAT16
    return array, 0


def refuse_masked(x: Any, name: str) -> None:
    """An array knows nothing of a mask: what is masked would be read like anything else."""
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        raise ValueError(f"{name} has masked values (fill them, or leave their rows out)")


def _array_of(x: Any, name: str) -> tuple[np.ndarray[Any, Any], int]:
    """to_numpy of what may be no matrix at all."""
    refuse_masked(x, name)
    try:
        array, code = to_numpy(on_host(x))
    except ValueError as error:  # lists of different lengths
        raise ValueError(f"{name} is no matrix: {error}") from error
    if array.ndim == 0:
        raise ValueError(f"{name} is of type {type(x).__name__}, must be an array with 2 axes")
    return array, code


def given_back(given: Any, array: np.ndarray[Any, Any]) -> Any:
    """A result as an array of the kind that was given, where that lies: a tensor, CuPy's, JAX's, else
    NumPy's.

    Words of 16 bits are bfloat16. JAX holds integers and floats of 64 bits only where its
    ``jax_enable_x64`` is set, and else makes them 32.
    """
    is_bfloat = array.dtype == np.uint16
    if is_torch(given) and not on_device(given):
        import torch

        if is_bfloat:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)
    if is_bfloat and (isinstance(given, np.ndarray) or is_jax(given)):
        array = array.view(given.dtype)
    if is_jax(given):
        import jax

        return jax.device_put(array, min(given.devices(), key=lambda device: device.id))
    return back(given, array) if on_device(given) else array


def _wanted(array: np.ndarray[Any, Any], name: str) -> np.dtype[Any]:
    """The type of the library that holds the values of another."""
    dtype = array.dtype
    native: np.dtype[Any] = dtype.newbyteorder("=")
    if dtype == _BOOL:
        return np.dtype(np.uint8)
    if native in CODES:
        return native
    if dtype.kind in "iu":
        refuse_rounding(array, name)
        return np.dtype(np.float32 if dtype.itemsize <= 2 else np.float64)
    if dtype.kind in "fO":
        return np.dtype(np.float64)
    if dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} is {dtype}")
    raise ValueError(f"{name} is of type {dtype}, must be of numbers")


def _converted(x: Any, array: np.ndarray[Any, Any], name: str, limit: int) -> np.ndarray[Any, Any]:
    """array in a type of the library, in the machine's byte order, its rows contiguous."""
    if array.dtype == _BOOL:
        return array.view(np.uint8)
    wanted = _wanted(array, name)
    refuse_large(
        array.size * wanted.itemsize,
        limit,
        f"{name} is {array.dtype}, and a copy of it as {wanted}",
        f"write it as {wanted}, in C order",
    )
    try:
        return array.astype(wanted, order="C", subok=False)
    except (TypeError, ValueError):
        _refuse_no_number(x, array, name)
        raise


def _refuse_no_number(x: Any, array: np.ndarray[Any, Any], name: str) -> None:
    """Names the first value of an array of objects that is no number."""
    for row, values in enumerate(array):
        for col, value in enumerate(values):
            try:
                float(value)
            except (TypeError, ValueError):
                missing = value is None or type(value).__name__ in ("NAType", "NaTType")
                what = "missing" if missing else f"{value!r}, must be a number"
                advice = "fill it, or leave its row out" if missing else "encode it as one"
                column = _column_of(x, col)
                raise Failure(f"{column}is {what} ({advice})", name, "", row, col).error() from None


def _column_of(x: Any, col: int) -> str:
    """Its name, where x is a data frame."""
    columns = getattr(x, "columns", None)
    return "" if columns is None else f"(column {columns[col]!r}) "


def refuse_not_finite(array: np.ndarray[Any, Any], name: str, x: Any = None) -> None:
    """Names the first value that is NaN or infinite, as the library does. x: what was given."""
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return
    row, *rest = (int(at) for at in np.argwhere(~np.isfinite(array))[0])
    col = rest[0] if rest else -1
    raise not_finite(array[tuple([row, *rest])], name, row, col, _column_of(x, col) if rest else "")


def not_finite(value: Any, name: str, row: int, col: int, column: str = "") -> BaseException:
    """What is wrong with a value that is NaN or infinite."""
    what = "NaN" if np.isnan(value) else "infinite" if value > 0 else "-infinite"
    return Failure(f"{column}is {what} (remove or replace it)", name, "", row, col).error()


def refuse_missing(x: Any, name: str) -> None:
    """Names the first value of anything that is missing, NaN, infinite or no number."""
    if is_sparse(x):
        x = x.tocsr()
        for wrong in np.flatnonzero(~np.isfinite(x.data))[:1]:
            row = int(np.searchsorted(x.indptr, wrong, side="right")) - 1
            raise not_finite(x.data[wrong], name, row, int(x.indices[wrong]))
        return
    array = np.asarray(x)
    if array.dtype.kind == "O" and array.ndim == 2:
        array = _converted(x, array, name, 0)
    refuse_not_finite(array, name, x)


def refuse_rounding(array: np.ndarray[Any, Any], name: str) -> None:
    """float64 holds whole numbers up to 2^53; distances of others would not be exact."""
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 8:
        return
    most = max(int(array.max(initial=0)), -int(array.min(initial=0)))
    if most > _MOST_WHOLE:
        raise ValueError(
            f"{name} has whole numbers up to {most} in magnitude, beyond 2^53, which float64 does "
            "not hold (subtract what they have in common, or give floats)"
        )


def _rows_lie_well(array: np.ndarray[Any, Any]) -> bool:
    item = array.itemsize
    rows, cols = array.shape
    return (
        array.flags.aligned
        and (cols == 1 or array.strides[1] == item)
        and (rows == 1 or array.strides[0] >= cols * item)
    )


def sparse_rows(x: Any) -> Any:
    """x by rows, in a type of the library that SciPy has: halves, which it has not, as float32."""
    x = x.tocsr()
    wanted = _wanted(x.data, "the sparse matrix")
    if wanted == np.float16:
        wanted = np.dtype(np.float32)
    return x.astype(wanted, copy=False)


def _dense(x: Any, name: str, limit: int = 0) -> np.ndarray[Any, Any]:
    """All of x as one array, which is all that is made beside x. limit: as in as_matrix."""
    x = sparse_rows(x)
    size = x.shape[0] * x.shape[1] * x.dtype.itemsize
    what = f"{name} is sparse, and a copy of all its zeros"
    way_out = "make fewer columns of it: sklearn.decomposition.TruncatedSVD"
    refuse_large(size, limit, what, way_out)
    if size > TOLD_BYTES:
        warnings.warn(f"{name} is sparse and is made dense: {size_text(size)}", stacklevel=4)
    result: np.ndarray[Any, Any] = np.zeros(x.shape, x.dtype)
    for start, block in sparse_blocks(x):
        block.toarray(out=result[start : start + block.shape[0]])
    return result


def sparse_blocks(x: Any) -> Iterator[tuple[int, Any]]:
    """Rows of x, some at a time, each with the number of its first one."""
    rows = max(1, BLOCK_BYTES // max(1, x.shape[1] * x.dtype.itemsize))
    for start in range(0, x.shape[0], rows):
        yield start, x[start : start + rows]


def as_matrix(x: Any, name: str, limit: int = 0) -> HostMatrix:
    """x as a matrix of the library; name is what errors call it. Sparse ones are made dense. limit
    is what a copy may take; 0: as much as is free."""
    array = x
    code = CODES.get(x.dtype, 0) if type(x) is np.ndarray else 0  # known at once
    copied = 0
    if code == 0:
        if is_sparse(x):
            x = _dense(x, name, limit)
            copied = x.nbytes
        elif must_be_copied(x):
            copied = int(getattr(x, "nbytes", 0))
            what = f"{name} lies on a GPU, and a copy of it in host memory"
            refuse_large(copied, limit, what, "use fewer rows at a time")
        array, code = _array_of(x, name)
    if array.ndim != 2:
        advice = " (x.reshape(1, -1) makes one point of a vector)" if array.ndim == 1 else ""
        axes = "1 axis" if array.ndim == 1 else f"{array.ndim} axes"
        raise ValueError(f"{name} has {axes}, must have 2: a row for each point{advice}")
    if code == 0:
        code = CODES.get(array.dtype, 0)
        if code == 0:
            is_bool = array.dtype == _BOOL  # read as bytes
            array = _converted(x, array, name, limit)
            copied += 0 if is_bool else array.nbytes
            code = CODES[array.dtype]
    stride = 0
    if not array.flags.c_contiguous:
        if _rows_lie_well(array):
            stride = array.strides[0]
        else:
            what = f"{name} has rows that are not contiguous, and a copy of it"
            refuse_large(array.nbytes, limit, what, "write it in C order")
            array = np.ascontiguousarray(array)
            copied += array.nbytes
    rows, cols = array.shape
    struct = s.Matrix(address(array), rows, stride, cols, code)
    return HostMatrix(struct, array, rows, code == s.F64, copied)
