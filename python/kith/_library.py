# SPDX-License-Identifier: Apache-2.0
"""Finds libkith.so, opens it, and says how its functions are called."""

from __future__ import annotations

import ctypes as c
import os
import pathlib

from ._header import FUNCTIONS


def _open() -> c.CDLL:
    """The library that KITH_LIBRARY names, else the one of this package, else the system's."""
    beside = pathlib.Path(__file__).with_name("libkith.so")
    path = os.environ.get("KITH_LIBRARY") or (str(beside) if beside.exists() else "libkith.so.1")
    try:
        return c.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"kith's library cannot be opened: {error} (install the package again, or let "
            "KITH_LIBRARY name libkith.so)"
        ) from error


lib = _open()
for _name, (_result, _arguments) in FUNCTIONS.items():
    try:
        _function = getattr(lib, _name)
    except AttributeError:
        raise ImportError(
            f"{lib._name} is not the library of this package: it lacks {_name} (install the "
            "package again, or let KITH_LIBRARY name its libkith.so)"
        ) from None
    _function.restype = _result
    _function.argtypes = _arguments

version: str = lib.kith_version().decode()
