# SPDX-License-Identifier: Apache-2.0
"""Contexts of the library: one for each thread and each way of computing, made when needed."""

from __future__ import annotations

import ctypes as c
import os
import threading
from typing import Any, NamedTuple

from . import _structs as s
from ._errors import exception
from ._library import lib
from ._options import whole
from ._progress import Progress, Watch


class Settings(NamedTuple):
    """Where and with what a call computes."""

    threads: int = 0
    device: str | None = None
    memory_limit: int = 0


def settings(
    n_jobs: int | None = None, device: str | None = None, memory_limit: int | None = None
) -> Settings:
    """Settings from arguments as scikit-learn names them: n_jobs -1 or None are all processors."""
    jobs = -1 if n_jobs is None else whole(n_jobs, "n_jobs")
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
    try:
        limit = 0 if memory_limit is None else int(memory_limit)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"memory_limit is {memory_limit!r}, must be a number of bytes") from None
    return Settings(threads, device, limit)


class Context:
    """A kith_ctx, freed with the last object that needs it. Unless it is watched nothing ends a call."""

    __slots__ = ("handle", "busy", "_watch", "_tick", "__weakref__")

    def __init__(self, wanted: Settings, watched: bool = True) -> None:
        self.handle = c.c_void_p()
        self.busy = False
        self._watch = Watch()
        self._tick = s.PROGRESS(self._watch.tick) if watched else s.PROGRESS()
        params = s.sized(
            s.CtxParams,
            threads=wanted.threads,
            memory_limit=wanted.memory_limit,
            progress=self._tick,
            device=None if wanted.device is None else wanted.device.encode(),
        )
        # The name of the device is read here and not kept.
        status = lib.kith_ctx_create(c.byref(params), c.byref(self.handle))
        if status != 0:
            raise exception(status, b"")

    def __del__(self) -> None:
        lib.kith_ctx_free(self.handle)

    def call(self, function: Any, *arguments: Any, progress: Progress = None) -> None:
        """function(ctx, *arguments), with Ctrl-C, progress and exceptions."""
        watch = self._watch
        watch.begin(progress)
        self.busy = True
        try:
            status = function(self.handle, *arguments)
        finally:
            self.busy = False
            watch.end()
        if watch.error is not None:
            error, watch.error = watch.error, None
            raise error
        if status != 0:
            raise exception(status, lib.kith_ctx_detail(self.handle), function)


class _Cache(threading.local):
    def __init__(self) -> None:
        self.contexts: dict[tuple[Settings, bool], Context] = {}


_KEPT = 8
_cache = _Cache()


def context(wanted: Settings, watched: bool = True) -> Context:
    """This thread's context for these settings; a new one for calls from within a call."""
    contexts = _cache.contexts
    key = wanted, watched
    found = contexts.get(key)
    if found is None:
        if len(contexts) >= _KEPT:
            contexts.pop(next(iter(contexts)))
        found = contexts[key] = Context(wanted, watched)
    return Context(wanted, watched) if found.busy else found
