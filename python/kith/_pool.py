# SPDX-License-Identifier: Apache-2.0
"""Device memory of the program that kith is a part of."""

from __future__ import annotations

import ctypes as c
import functools
import operator
from collections.abc import Callable
from typing import NamedTuple

from . import _structs as s
from ._imports import needed

Allocate = Callable[[int, int], int]
Release = Callable[[int, int, int], object]
DeviceAllocator = str | tuple[Allocate, Release] | None


class _Torch:
    """PyTorch's caching allocator.

    It gives a block that was freed to whoever next asks on the same stream: what that one does
    comes after what still reads the block. kith's streams are others, so it asks on one of its own
    that no work ever runs on: blocks of that stream are kith's alone, and freed when nothing reads
    them.
    """

    def __init__(self) -> None:
        self._torch = needed("torch", "the device memory of PyTorch")
        self._streams: dict[int, int] = {}

    def _stream(self, device: int) -> int:
        made = c.c_void_p()
        with self._torch.cuda.device(device):
            status = self._torch.cuda.cudart().cudaStreamCreate(c.addressof(made))
        if int(status) != 0 or made.value is None:
            raise RuntimeError(f"PyTorch made no stream on cuda:{device} ({status})")
        return self._streams.setdefault(device, made.value)

    def allocate(self, device: int, size: int) -> int:
        stream = self._streams.get(device) or self._stream(device)
        try:
            return int(self._torch.cuda.caching_allocator_alloc(size, device, stream))
        except self._torch.cuda.OutOfMemoryError as error:
            raise MemoryError from error

    def release(self, device: int, address: int, size: int) -> None:
        self._torch.cuda.caching_allocator_delete(address)


class Source(NamedTuple):
    """Where device memory comes from, and goes back to."""

    allocate: Allocate
    release: Release


class Pool:
    """A source as the library calls it, for one context. An exception cannot pass through C: what
    `allocate` raises is kept for the call that fails for it; `release` has nobody to tell, so that
    Python prints it as ignored."""

    def __init__(self, source: Source) -> None:
        self._error: BaseException | None = None

        def take(arg: int | None, device: int, size: int) -> int | None:
            try:
                return operator.index(source.allocate(device, size)) or None
            except MemoryError:
                return None  # smaller batches, or a MemoryError of the call
            except BaseException as error:
                self._error = error
                return None

        def give(arg: int | None, device: int, address: int, size: int) -> None:
            source.release(device, address, size)

        self.take = s.DeviceAllocateFn(take)
        self.give = s.DeviceReleaseFn(give)

    def raised(self) -> BaseException | None:
        """What `allocate` raised since this was last asked."""
        error, self._error = self._error, None
        return error


current: Source | None = None
"""Where contexts take device memory from that are made now; None: the driver."""


@functools.cache
def _torch() -> Source:
    """One for the process: PyTorch keeps blocks that come back by their stream."""
    torch = _Torch()
    return Source(torch.allocate, torch.release)


def set_device_allocator(allocator: DeviceAllocator) -> None:
    """Where kith takes its memory on GPUs from, in every call from now on.

    allocator
        ``"torch"``: PyTorch's caching allocator, which then counts what kith uses
        (``torch.cuda.memory_allocated()``), and lets go of blocks that it keeps for later where
        kith lacks memory. How much a call may take is still what the driver says is free.

        ``(allocate, release)``: functions. ``allocate(device, size)`` gives the address of so many
        bytes on ``cuda:<device>``, at least 256-byte aligned, which work of any stream may use at
        once. Where there are none it raises ``MemoryError``, and kith works in smaller batches or
        raises that itself; what else it raises goes on from the call that fails for it.
        ``release(device, address, size)`` takes them back: nothing of kith's reads or writes them
        any more. Both may be called from any thread, and must not call kith.

        ``None``: the driver's memory, kept from call to call; the default.

    What no index holds is given back before a call returns. An index keeps to the memory that it
    was made in.

    >>> kith.set_device_allocator("torch")                                         # doctest: +SKIP
    """
    global current
    if allocator is None:
        current = None
    elif allocator == "torch":
        current = _torch()
    elif (
        isinstance(allocator, tuple) and len(allocator) == 2 and all(callable(f) for f in allocator)
    ):
        current = Source(*allocator)
    else:
        raise ValueError(
            f"allocator is {allocator!r}, must be 'torch', a pair of functions "
            "(allocate, release), or None"
        )
