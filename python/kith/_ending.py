# SPDX-License-Identifier: Apache-2.0
"""The end of the interpreter, while daemon threads are in the library.

Python ends such a thread where it next asks for the interpreter, which is in our progress function:
in the middle of a call whose workers still read its stack. So before that calls are cancelled and
waited for, and their threads go no further.
"""

from __future__ import annotations

import atexit
import os
import time
from threading import get_ident
from typing import Any

_MOST_SECONDS = 10.0  # a call that is cancelled returns within a tenth of one

running: set[Any] = set()
"""What has begun; who ends takes itself out."""
_ender: int | None = None


def is_ending() -> bool:
    """Whether calls of this thread are to end."""
    return _ender is not None and _ender != get_ident()


def begin(call: Any) -> None:
    """A call begins, which is any object."""
    running.add(call)
    if is_ending():  # asked only now: who waits for the others sees this one, or stops it
        running.discard(call)
        stay()


def stay() -> None:
    """Until the process is gone."""
    while True:
        time.sleep(3600)


def _wait() -> None:
    global _ender
    _ender = get_ident()
    begun = time.monotonic()
    while running and time.monotonic() - begun < _MOST_SECONDS:
        time.sleep(0.002)


atexit.register(_wait)
os.register_at_fork(after_in_child=running.clear)
