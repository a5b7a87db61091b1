# SPDX-License-Identifier: Apache-2.0
"""Failures: a place and a reason, of which one sentence is made. What the library reports comes as
these fields, with the names that its header has; what is found here has those of the call."""

from __future__ import annotations

import ctypes as c
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import _structs as s
from ._library import lib
from ._names import argument, member

_KINDS: dict[int, type[BaseException]] = {
    s.E_ARGUMENT: ValueError,
    s.E_MEMORY: MemoryError,
    s.E_DEVICE_MEMORY: MemoryError,
    s.E_DEVICE: RuntimeError,
    s.E_FORMAT: ValueError,
    s.E_IO: OSError,
    s.E_UNSUPPORTED: NotImplementedError,
    s.E_CANCELLED: KeyboardInterrupt,
    s.E_LIMIT: MemoryError,
    s.E_DATA: ValueError,
    s.E_INTERNAL: RuntimeError,
}


class Failure(NamedTuple):
    """What is wrong, and where. Without an argument and a file the reason says it all."""

    reason: str
    argument: str = ""
    member: str = ""
    row: int = -1
    column: int = -1
    file: str = ""
    kind: type[BaseException] = ValueError

    def sentence(self) -> str:
        if self.file:
            return f"{self.file}: {self.reason}"
        if not self.argument:
            return self.reason
        cell = ", ".join(str(at) for at in (self.row, self.column) if at >= 0)
        part = f".{self.member}" if self.member else ""
        return f"{self.argument}{part}{f'[{cell}]' if cell else ''} {self.reason}"

    def error(self) -> BaseException:
        """The exception, which knows what it is made of."""
        made = self.kind(self.sentence())
        made._kith_failure = self  # type: ignore[attr-defined]
        return made


def rename(error: BaseException, names: Mapping[str, str], rows: int = 0) -> None:
    """An error that is about arguments which have other names where it goes, and so many rows more."""
    failure = getattr(error, "_kith_failure", None)
    if failure is not None and not failure.file:
        known = failure._replace(argument=names.get(failure.argument, failure.argument))
        if known.row >= 0:
            known = known._replace(row=known.row + rows)
        error.args = (known.sentence(),)


def _wanted(function: str, file: str) -> str:
    """What has to be there: a file that is read, or the folder of one that is written."""
    return file if function.endswith("_open") else os.path.dirname(file) or "."


def exception(status: int, context: Any = None, function: Any = None) -> BaseException:
    """The exception for a status of a function of the library. context: that of the call, which
    says more."""
    where = s.sized(s.Where)
    kind = _KINDS.get(status, RuntimeError)
    if context is None or lib.kith_ctx_where(context, c.byref(where)) != s.OK or not where.reason:
        return Failure(lib.kith_status_text(status).decode(), kind=kind).error()
    name, file = getattr(function, "__name__", ""), os.fsdecode(where.file)
    if kind is OSError and file and not os.path.exists(_wanted(name, file)):
        kind = FileNotFoundError
    return Failure(
        where.reason.decode(errors="replace").replace("is NULL", "is None"),
        argument(where.argument.decode(), name),
        member(where.member.decode()),
        where.row,
        where.column,
        file,
        kind,
    ).error()
