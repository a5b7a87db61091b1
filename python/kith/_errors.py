# SPDX-License-Identifier: Apache-2.0
"""What the library reports becomes the exception that Python has for it."""

from __future__ import annotations

from typing import Any

from ._library import lib
from ._wording import in_python

_EXCEPTIONS: dict[int, type[BaseException]] = {
    -1: ValueError,  # E_ARGUMENT
    -2: MemoryError,  # E_MEMORY
    -3: MemoryError,  # E_DEVICE_MEMORY
    -4: RuntimeError,  # E_DEVICE
    -5: ValueError,  # E_FORMAT
    -6: OSError,  # E_IO
    -7: NotImplementedError,  # E_UNSUPPORTED
    -8: KeyboardInterrupt,  # E_CANCELLED
    -9: MemoryError,  # E_LIMIT
    -10: ValueError,  # E_DATA
    -11: RuntimeError,  # E_INTERNAL
}


def exception(status: int, detail: bytes, function: Any = None) -> BaseException:
    """The exception for a status of a function of the library, with its sentence."""
    said = (detail or lib.kith_status_text(status)).decode(errors="replace")
    text = in_python(said, getattr(function, "__name__", ""))
    kind = _EXCEPTIONS.get(status, RuntimeError)
    if kind is OSError and "No such file" in text:
        kind = FileNotFoundError
    return kind(text)
