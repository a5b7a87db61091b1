# SPDX-License-Identifier: Apache-2.0
"""Progress bars, Ctrl-C, and exceptions that must pass through a C call.

The library asks a function some ten times a second whether to go on. Python runs signal handlers
only between its own instructions, so that function is also where Ctrl-C is seen. Neither a handler
nor a progress function can raise through C: what they raise is kept, the call is cancelled, and
the exception goes on from where the call returns.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from ._ending import is_ending
from ._imports import needed

try:  # what `signal` calls, without looking for an enum in all that it takes and returns
    import _signal as signals  # type: ignore[import-not-found]
except ImportError:
    signals = signal

ProgressFunction = Callable[[str, float, float], object]
Progress = bool | ProgressFunction | None


class Bar:
    """tqdm's bar, one for each phase of a call."""

    def __init__(self) -> None:
        self._tqdm = needed("tqdm.auto", "progress=True").tqdm
        self._phase: str | None = None
        self._bar: Any = None

    def __call__(self, phase: str, done: float, total: float) -> None:
        if phase != self._phase:
            self.close()
            self._phase = phase
            self._bar = self._tqdm(desc=f"kith: {phase}", unit_scale=True, leave=False)
        self._bar.total = total
        self._bar.n = done
        self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


class Watch:
    """What is known about the call that a context is in."""

    __slots__ = ("error", "function", "_previous")

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.function: ProgressFunction | None = None
        self._previous: Any = None

    def begin(self, progress: Progress) -> None:
        if progress and progress is not True and not callable(progress):
            raise TypeError(f"progress is {progress!r}, must be True or a function")
        self.error = None
        self.function = (Bar() if progress is True else progress) or None
        self._previous = None
        if threading.current_thread() is threading.main_thread():
            previous = signals.getsignal(signal.SIGINT)
            if callable(previous):  # else Ctrl-C is ignored, or ends the process without us
                self._previous = previous
                signals.signal(signal.SIGINT, self._interrupted)

    def end(self) -> None:
        if self._previous is not None:
            signals.signal(signal.SIGINT, self._previous)
            self._previous = None
        function, self.function = self.function, None
        if isinstance(function, Bar):
            function.close()

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        try:
            self._previous(number, frame)
        except BaseException as error:
            self.error = error

    def tick(self, arg: int | None, phase: bytes, done: float, total: float) -> int:
        """kith_progress_fn: not 0 cancels the call."""
        if self.function is not None and self.error is None:
            try:
                self.function(phase.decode(), done, total)
            except BaseException as error:
                self.error = error
        return 0 if self.error is None and not is_ending() else 1
