# SPDX-License-Identifier: Apache-2.0
"""The structs and constants of include/kith, and how a struct is filled."""

from __future__ import annotations

import ctypes as c
from numbers import Integral
from typing import Any, TypeVar

from ._header import *  # noqa: F403
from ._names import argument

_Struct = TypeVar("_Struct", bound=c.Structure)


def sized(kind: type[_Struct], /, **fields: Any) -> _Struct:
    """A struct whose first field says how large it is; what is not given is 0, "the default"."""
    made = kind(c.sizeof(kind), **fields)
    for name, value in fields.items():  # ctypes drops the bits of a number that do not fit
        if isinstance(value, Integral) and getattr(made, name) != value:
            raise ValueError(f"{argument(name)} is {value}, which is out of range")
    return made
