# SPDX-License-Identifier: Apache-2.0
"""Contexts of the library: one for each thread and each way of computing, made when needed."""

from __future__ import annotations

import ctypes as c
import os
import re
import threading
from typing import Any, NamedTuple

from . import _ending, _pool
from . import _structs as s
from ._arrays import HostMatrix
from ._errors import exception
from ._handle import Pointer
from ._library import lib
from ._memory import size_text
from ._options import whole
from ._progress import Progress, Watch
from ._typing import Bytes, Whole


class Settings(NamedTuple):
    """Where and with what a call computes."""

    threads: int = 0
    device: str | None = None
    memory_limit: int = 0

    def beside(self, *matrices: HostMatrix) -> Settings:
        """The same beside copies that were made of matrices: they count, too."""
        copied = sum(each.copied for each in matrices)
        if not (copied and self.memory_limit):
            return self
        left = self.memory_limit - copied
        if left <= 0:
            raise MemoryError(
                f"copies of the input take {size_text(copied)}, more than the memory_limit of "
                f"{size_text(self.memory_limit)} (give arrays that are read in place: float32 or "
                "float64 in C order)"
            )
        return self._replace(memory_limit=left)


_DEVICE = re.compile(r"auto|cpu|cuda(:(all|\d+(,\d+)*))?")


def _inner_threads() -> int:
    """Threads where nobody says how many: 0 is all processors. joblib's and Dask's workers are told
    by OMP_NUM_THREADS what is theirs; KITH_THREADS, which the library reads, goes before it."""
    said = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if not said.isdecimal() or int(said) == 0 or os.environ.get("KITH_THREADS"):
        return 0
    return min(int(said), len(os.sched_getaffinity(0)))


def settings(
    n_jobs: Whole | None = None, device: str | None = None, memory_limit: Bytes | None = None
) -> Settings:
    """Settings from arguments as scikit-learn names them: n_jobs -1 are all processors, and None as
    many as this process is meant to take."""
    jobs = (_inner_threads() or -1) if n_jobs is None else whole(n_jobs, "n_jobs")
    if jobs == 0:
        raise ValueError("n_jobs is 0, must be 1 or more, or -1 for all processors")
    if jobs > 0:
        threads = jobs
    elif jobs == -1:
        threads = 0
    else:
        threads = max(1, len(os.sched_getaffinity(0)) + 1 + jobs)
    if device is not None and not isinstance(device, str):
        raise TypeError(f"device is {device!r}, must be a name such as 'cpu' or 'cuda:0'")
    if device is not None and not _DEVICE.fullmatch(device):
        raise ValueError(
            f"device is {device!r}, must be auto, cpu, cuda, cuda:0, cuda:0,1 or cuda:all"
        )
    try:
        limit = 0 if memory_limit is None else int(memory_limit)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"memory_limit is {memory_limit!r}, must be a number of bytes") from None
    return Settings(threads, device, limit)


class Context:
    """A kith_ctx. Unless it is watched nothing ends a call."""

    __slots__ = ("handle", "_wanted", "_busy", "_watch", "_pool")

    def __init__(self, wanted: Settings, watched: bool = True) -> None:
        self._wanted = wanted, watched
        self._busy = False
        self._watch = Watch()
        source = _pool.current
        self._pool = pool = None if source is None else _pool.Pool(source)
        tick = s.ProgressFn(self._watch.tick) if watched else s.ProgressFn()
        params = s.sized(
            s.CtxParams,
            threads=wanted.threads,
            memory_limit=wanted.memory_limit,
            progress=tick,
            device=None if wanted.device is None else wanted.device.encode(),
        )
        if pool is not None:
            params.device_allocate, params.device_release = pool.take, pool.give
        # The name of the device is read here and not kept.
        made = c.c_void_p()
        status = lib.kith_ctx_create(c.byref(params), c.byref(made))
        if status != 0:
            raise exception(status)
        self.handle = Pointer.take(made, lib.kith_ctx_free, tick, pool)

    def call(self, function: Any, *arguments: Any, progress: Progress = None) -> None:
        """function(ctx, *arguments), with Ctrl-C, progress and exceptions. A call from within a
        call, of a progress function or a signal handler, has a context of its own."""
        if self._busy:
            return Context(*self._wanted).call(function, *arguments, progress=progress)
        self._busy = True  # no instruction between the two lets a signal handler in
        watch = self._watch
        try:
            _ending.begin(self)
            watch.begin(progress)
            if self._pool is not None:
                self._pool.raised()  # for what this context made, in a call of another
            try:
                status = function(self.handle, *arguments)
                failed = exception(status, self.handle, function) if status != 0 else None
            finally:
                watch.end()
            error, watch.error = watch.error, None
            if self._pool is not None and failed is not None:
                error = error or self._pool.raised()
        finally:
            self._busy = False  # nor between these: a function of ours would let one in
            _ending.running.discard(self)
        if _ending.is_ending():
            _ending.stay()
        if error is not None:
            raise error
        if failed is not None:
            raise failed
        return None

    def make(
        self,
        free: Any,
        keep: Any,
        function: Any,
        *arguments: Any,
        behind: tuple[Any, ...] = (),
        progress: Progress = None,
    ) -> Pointer:
        """What function(ctx, *arguments, &made, *behind) makes; it keeps the context, and `keep`."""
        made = c.c_void_p()
        self.call(function, *arguments, c.byref(made), *behind, progress=progress)
        return Pointer.take(made, free, self.handle, keep)


class _Cache(threading.local):
    def __init__(self) -> None:
        self.contexts: dict[tuple[Settings, bool, _pool.Source | None], Context] = {}


_KEPT = 8
_cache = _Cache()


def context(wanted: Settings, watched: bool = True) -> Context:
    """This thread's context for these settings."""
    contexts = _cache.contexts
    key = wanted, watched, _pool.current
    found = contexts.get(key)
    if found is None:
        if len(contexts) >= _KEPT:
            contexts.pop(next(iter(contexts)))
        found = contexts[key] = Context(wanted, watched)
    return found
