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
    made = kind(c.sizeof(kind))
    for name, value in fields.items():
        put(made, name, value)
    return made


def put(struct: c.Structure, name: str, value: Any) -> None:
    """A field of a struct; ctypes drops the bits of a number that do not fit."""
    setattr(struct, name, value)
    if isinstance(value, Integral) and getattr(struct, name) != value:
        raise ValueError(f"{argument(name)} is {value}, which is out of range")
