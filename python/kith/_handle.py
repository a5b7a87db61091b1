# SPDX-License-Identifier: Apache-2.0
"""What the library made: when it is freed, and who may use it until then.

No order of calls from any threads may free memory that somebody reads. A `Pointer` lives as long as
its last reference, and what it needs (a context, points, a callback) lives longer. A `Handle` lets
many threads use what it holds at once; who changes or closes it is alone, and waits for that.
"""

from __future__ import annotations

import ctypes as c
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any, Generic, TypeVar

Held = TypeVar("Held")

_made: dict[int, tuple[Callable[[int], object], tuple[Any, ...]]] = {}
"""How each pointer is freed, and what has to live until it is."""


class Pointer(int):
    """An address that the library gave, freed with its last reference and never before.

    It is a number without a slot, so the garbage collector does not look at it. Of objects in a
    circle that calls every ``__del__`` in any order: a corpus would be freed after its context, or
    a mapped file before a ``__del__`` of the caller's that reads it.
    """

    __slots__ = ()

    @classmethod
    def take(cls, made: c.c_void_p, free: Callable[[int], object], *needs: Any) -> Pointer:
        """What a call wrote to `made`."""
        pointer = cls(made.value or 0)
        _made[int(pointer)] = free, needs  # the pointer itself would never be let go
        return pointer

    def let_go(self) -> None:
        """It needs nothing any more."""
        free, _ = _made[self]
        _made[int(self)] = free, ()

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if finalizing():  # a daemon thread may still be in the library; the process ends anyway
            return
        known = _made.pop(self, None)
        if known is not None:
            known[0](self)

    def __reduce__(self) -> Any:
        raise TypeError("a pointer cannot be pickled or copied")


_locked: weakref.WeakSet[Any] = weakref.WeakSet()
"""What a forked process finds open."""


class Lock:
    """One thread at a time; of a forked process none."""

    def __init__(self) -> None:
        self.after_fork()
        _locked.add(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: Any) -> None:
        self._lock.release()


class Handle(Generic[Held]):
    """Something that many threads may use at once (``with handle as held``), or one change.

    Who comes while it is changed waits. A thread that uses it already, in a progress function or a
    signal handler, does not wait, and may not change it: it would wait for itself.
    """

    def __init__(self, name: str, held: Held | None) -> None:
        self._name = name
        self._held = held
        self._users: dict[int, int] = {}  # by thread: how often
        self._alone: int | None = None  # the thread that changes it, or is about to
        self._waiting = 0  # users, for who is alone: the next one lets them pass
        self._broken = ""
        self._renew_lock()
        _locked.add(self)

    def _renew_lock(self) -> None:
        self._lock = threading.RLock()  # a signal handler may come while this thread has it
        self._turn = threading.Condition(self._lock)

    # ---- Used ------------------------------------------------------------------------------------

    def __enter__(self) -> Held:
        me = get_ident()
        entered = False
        try:
            with self._lock:
                depth = self._users.get(me, 0)
                if depth == 0 and self._alone is not None:
                    self._wait_for_change(me)
                held = self._look()
                self._users[me] = depth + 1
                entered = True
            return held
        except BaseException:
            if entered:  # Ctrl-C, when it was done
                self.__exit__()
            raise

    def __exit__(self, *error: Any) -> None:
        me = get_ident()
        with self._lock:
            depth = self._users.pop(me)
            if depth > 1:
                self._users[me] = depth - 1
            elif self._alone is not None:
                self._turn.notify_all()

    def _wait_for_change(self, me: int) -> None:
        if self._alone == me:
            raise RuntimeError(
                f"the {self._name} is being changed by this thread (use it when that has returned)"
            )
        self._waiting += 1
        try:
            self._turn.wait_for(lambda: self._alone is None)
        finally:
            self._waiting -= 1
            self._turn.notify_all()

    def _look(self) -> Held:
        if self._held is None:
            raise ValueError(f"the {self._name} is closed")
        if self._broken:
            raise RuntimeError(self._broken)
        return self._held

    # ---- Changed ---------------------------------------------------------------------------------

    @contextmanager
    def alone(self) -> Iterator[Held]:
        """When nobody uses it, and until this ends."""
        with self._turn:
            self._claim(get_ident())
        try:
            yield self._look()
        finally:
            with self._turn:
                self._alone = None
                self._turn.notify_all()

    def _claim(self, me: int) -> None:
        if me in self._users or self._alone == me:
            raise RuntimeError(
                f"the {self._name} is in use by this thread (change or close it when its call has "
                "returned)"
            )
        self._turn.wait_for(lambda: self._alone is None and not self._waiting)
        self._alone = me
        try:
            self._turn.wait_for(lambda: not self._users)
        except BaseException:
            self._alone = None
            self._turn.notify_all()
            raise

    def close(self) -> None:
        """Lets go what it holds, when all who use it are done. Again: does nothing."""
        if self._held is None:
            return
        with self._turn:
            self._claim(get_ident())
            self._held = None
            self._alone = None
            self._turn.notify_all()

    @property
    def closed(self) -> bool:
        return self._held is None

    # ---- A forked process ------------------------------------------------------------------------

    def after_fork(self) -> None:
        """In the child: only the thread that forked is there, and nobody holds the lock."""
        me = get_ident()
        if self._alone not in (None, me) and not self._users:
            self._broken = (
                f"the {self._name} was being changed by another thread when this process was "
                "forked (make it again)"
            )
        self._users = {me: self._users[me]} if me in self._users else {}
        self._alone = None if self._alone != me else me
        self._waiting = 0
        self._renew_lock()


def _after_fork() -> None:
    for each in list(_locked):
        each.after_fork()


os.register_at_fork(after_in_child=_after_fork)
