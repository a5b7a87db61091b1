# SPDX-License-Identifier: Apache-2.0
"""Arrays of PyTorch, CuPy and JAX: where they lie, and arrays beside those on a GPU.

Copies go by the stream that is the current one of the array's library, so they come after what
fills it.
"""

from __future__ import annotations

import contextlib
import functools
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@functools.lru_cache(64)
def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def is_torch(x: Any) -> bool:
    """Whether x is a torch.Tensor; does not import torch."""
    return _package(type(x)) == "torch"  # type: ignore[arg-type]


def is_jax(x: Any) -> bool:
    """Whether x is a jax.Array; does not import JAX."""
    return _package(type(x)) in ("jaxlib", "jax")  # type: ignore[arg-type]


def address(array: Any) -> int:
    """Of the first value of an array in the memory of a GPU."""
    if is_torch(array):
        return int(array.data_ptr())
    return int(array.__cuda_array_interface__["data"][0])


def on_device(x: Any) -> bool:
    """Whether x lies in the memory of a GPU."""
    if isinstance(x, np.ndarray):
        return False
    if is_torch(x):
        return bool(x.is_cuda)
    if hasattr(x, "__cuda_array_interface__"):
        return True
    return hasattr(x, "__dlpack_device__") and int(x.__dlpack_device__()[0]) == 2


def must_be_copied(x: Any) -> bool:
    """Whether x lies where NumPy cannot read it. JAX copies its arrays by itself."""
    return on_device(x) and not is_jax(x)


def on_host(x: Any) -> Any:
    """x, or where it lies on a GPU a copy of it in host memory."""
    return maker(x).to_host(x) if must_be_copied(x) else x


def back(given: Any, array: Array) -> Any:
    """An array of the host as one beside `given`, which lies on a GPU."""
    return maker(given).from_host(array)


def check_together(name: str, first: Any, **others: Any) -> None:
    """Refuses arrays that do not lie where the first one does; None: it is not given."""
    there = must_be_copied(first)
    for other_name, other in others.items():
        if other is None or is_jax(other) or is_jax(first):
            continue
        if must_be_copied(other) != there:
            side = "on the GPU" if there else "in host memory"
            raise ValueError(
                f"{other_name} must lie where {name} does, {side} (copy one to the other's side)"
            )
        if there:
            check_device(name, maker(first).index, other_name, maker(other).index)


def check_device(name: str, first: int, other_name: str, other: int) -> None:
    """Refuses two GPUs."""
    if other != first:
        raise ValueError(
            f"{other_name} lies on cuda:{other} and {name} on cuda:{first} (copy one to the other's)"
        )


class _Lent:
    """Values of the library in the memory of a GPU."""

    def __init__(self, address: int, count: int, kind: str) -> None:
        self.__cuda_array_interface__ = {
            "shape": (count,),
            "typestr": np.dtype(kind).str,
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


def same_stream(first: int, other: int) -> bool:
    """Whether two numbers are of one stream: 0 and 1 are the default one."""
    return first == other or {first, other} == {0, 1}


class _Torch:
    """Makes tensors on a GPU."""

    def __init__(self, index: int) -> None:
        import torch

        self._torch = torch
        self._device = torch.device("cuda", index)
        self.index = index

    @property
    def stream(self) -> int:
        """The current one of this thread."""
        return int(self._torch.cuda.current_stream(self._device).cuda_stream)

    def empty(self, shape: tuple[int, ...], name: str) -> Any:
        # PyTorch computes little with uint32: ids have int32 as long as the library writes them.
        kind = getattr(self._torch, "int32" if name == "uint32" else name)
        return self._torch.empty(shape, dtype=kind, device=self._device)

    def wide(self, ids: Any, may_be_empty: bool = False, signed: bool = False) -> Any:
        """int64 of ids as the library writes them, complete behind the current stream. signed: none
        is 2**31 or more, but for what is empty."""
        if signed:
            return ids.long()
        unsigned = getattr(self._torch, "uint32", None)  # since PyTorch 2.3: one kernel, not two
        wide = ids.long() & 0xFFFFFFFF if unsigned is None else ids.view(unsigned).long()
        return wide.masked_fill_(wide == 0xFFFFFFFF, -1) if may_be_empty else wide

    def settle(self) -> None:
        """PyTorch's users order streams themselves."""

    def complete(self, _stream: int = 0) -> None:
        """Waits for what the current stream holds, which is what fills its tensors."""
        self._torch.cuda.current_stream(self._device).synchronize()

    def take(self, address: int | None, count: int, name: str) -> Any:
        """A copy of values that the library has on this GPU; ids, of uint32, become int64."""
        ids = name == "uint32"
        if address is None or count == 0:
            return self.empty((count,), "int64" if ids else name)
        kind = "int32" if ids else name
        lent = self._torch.as_tensor(_Lent(address, count, kind), device=self._device)
        own = self.wide(lent) if ids else lent.clone()
        self.complete()
        return own

    def ends(self, ids: Any) -> tuple[int, int]:
        return int(ids.min()), int(ids.max())

    def narrow(self, ids: Any) -> Any:
        narrow = (ids.int() if ids.dtype == self._torch.int64 else ids).contiguous()
        self.complete()
        return narrow

    def whole(self, numbers: Any) -> Any:
        """Integers as int64, complete whichever stream reads them; others: None."""
        kind = numbers.dtype
        others = self._torch.bool, getattr(self._torch, "uint64", None)
        if kind.is_floating_point or kind.is_complex or kind in others:
            return None
        wide = numbers.long().contiguous()
        self.complete()
        return wide

    def to_host(self, tensor: Any) -> Any:
        return tensor.detach().cpu()

    def from_host(self, array: Array) -> Any:
        return self._torch.from_numpy(array).to(self._device)


class _Cupy:
    """Makes CuPy arrays on a GPU."""

    def __init__(self, index: int) -> None:
        import cupy

        self._cupy = cupy
        self._runtime = cupy.cuda.runtime
        self._here = contextlib.nullcontext()
        self.index = index

    def _there(self) -> AbstractContextManager[Any]:
        """With that GPU as the current one, which it mostly is."""
        current: int = self._runtime.getDevice()
        there: AbstractContextManager[Any] = self._here
        return there if current == self.index else self._cupy.cuda.Device(self.index)

    @property
    def stream(self) -> int:
        """The current one of this thread."""
        with self._there():
            return int(self._cupy.cuda.get_current_stream().ptr)

    def empty(self, shape: tuple[int, ...], name: str) -> Any:
        with self._there():
            return self._cupy.empty(shape, name)

    def wide(self, ids: Any, may_be_empty: bool = False, signed: bool = False) -> Any:
        with self._there():
            wide = (ids.view("int32") if signed else ids).astype("int64")
            if may_be_empty and not signed:
                wide[wide == 0xFFFFFFFF] = -1
            return wide

    def settle(self) -> None:
        """What was made here is complete, whichever stream reads it."""
        with self._there():
            self._cupy.cuda.get_current_stream().synchronize()

    def complete(self, stream: int) -> None:
        """Waits for what that stream holds."""
        with self._there():
            self._runtime.streamSynchronize(stream)

    def take(self, address: int | None, count: int, name: str) -> Any:
        kind = "int64" if name == "uint32" else name
        if address is None or count == 0:
            return self.empty((count,), kind)
        with self._there():
            own = self._cupy.array(_Lent(address, count, name), dtype=kind, copy=True)
            self._cupy.cuda.get_current_stream().synchronize()
            return own

    def ends(self, ids: Any) -> tuple[int, int]:
        with self._there():
            ids = self._cupy.asarray(ids)
            return int(ids.min()), int(ids.max())

    def narrow(self, ids: Any) -> Any:
        with self._there():
            ids = self._cupy.asarray(ids)
            narrow = ids.astype("uint32") if ids.dtype.itemsize == 8 else ids
            narrow = self._cupy.ascontiguousarray(narrow)
            self._cupy.cuda.get_current_stream().synchronize()
            return narrow

    def whole(self, numbers: Any) -> Any:
        with self._there():
            numbers = self._cupy.asarray(numbers)
            if numbers.dtype.kind not in "iu" or numbers.dtype == "uint64":
                return None
            wide = self._cupy.ascontiguousarray(numbers, "int64")
            self._cupy.cuda.get_current_stream().synchronize()
            return wide

    def to_host(self, array: Any) -> Any:
        with self._there():
            return self._cupy.asnumpy(array)

    def from_host(self, array: Array) -> Any:
        with self._there():
            return self._cupy.asarray(array)


_torch_on = functools.cache(_Torch)
_cupy_on = functools.cache(_Cupy)


def _cupy_index(array: Any) -> int:
    """Of the GPU of an array: CuPy's own say it, of others the driver knows whose address it is."""
    import cupy

    if isinstance(array, cupy.ndarray):
        return int(array.device.id)
    at = int(array.__cuda_array_interface__["data"][0])
    runtime = cupy.cuda.runtime
    return int(runtime.pointerGetAttributes(at).device if at != 0 else runtime.getDevice())


def readable(x: Any) -> Any:
    """x as an array with ``__cuda_array_interface__``."""
    if is_torch(x) or hasattr(x, "__cuda_array_interface__"):
        return x
    import cupy

    return cupy.from_dlpack(x)


def maker(array: Any) -> Any:
    """Of arrays beside one on a GPU: by PyTorch for its tensors, else by CuPy."""
    if is_torch(array):
        return _torch_on(array.device.index)
    try:
        return _cupy_on(_cupy_index(readable(array)))
    except ImportError as error:
        raise ImportError(
            "arrays on a GPU are made and copied by CuPy where the points are no PyTorch tensor "
            "(install CuPy, or pass torch.as_tensor(x))"
        ) from error
