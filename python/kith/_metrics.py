# SPDX-License-Identifier: Apache-2.0
"""Metrics by scikit-learn's and the library's names, and those that are a Python function."""

from __future__ import annotations

import ctypes as c
import difflib
import functools
from typing import Any, NamedTuple

import numpy as np

from . import _structs as s
from ._library import lib
from ._typing import Metric

_MOST_POWER = 3355.4431


def _minkowski(p: float) -> str:
    """The name of a power, as the library parses it."""
    try:
        below, text = not p >= 1, f"{p:.4f}"
    except (TypeError, ValueError):
        raise TypeError(f"p is {p!r}, must be a number") from None
    if below:
        raise ValueError(f"p is {p}, must be at least 1")
    if p == float("inf"):
        return "minkowski:inf"
    if p > _MOST_POWER or float(text) != p:
        raise ValueError(f"p is {p}, must be 1 to {_MOST_POWER} in steps of 0.0001, or infinity")
    return f"minkowski:{text}"


@functools.cache
def code(name: Any, p: float = 2) -> int:
    """The number of a metric. p is minkowski's."""
    if not isinstance(name, str):
        raise ValueError(f"metric is {name!r}, must be a name here")
    if name.lower() == "minkowski":
        name = _minkowski(p)
    found = lib.kith_metric_parse(name.encode())
    if found == 0:
        near = difflib.get_close_matches(name.lower(), names(), 1, cutoff=0.8)
        raise ValueError(
            f"metric {name!r} is not known ("
            + (f"the nearest name is {near[0]!r}; " if near else "")
            + f"there are: {', '.join(names())}, minkowski with p, and any function of two rows)"
        )
    return int(found)


def name(number: int) -> str:
    """The name of a metric's number."""
    text: bytes = lib.kith_metric_name(number)
    return text.decode()


def names() -> list[str]:
    """Of all that have one and no parameter, and are no function of the caller's."""
    known = s.ENUMS["kith_metric"].values()
    others = (s.METRIC_DEFAULT, s.CUSTOM, s.MINKOWSKI)
    return [name(each) for each in known if each not in others]


class Distance(NamedTuple):
    """A metric as parameters have it. What failed in a Python function stands in `errors`."""

    number: int
    function: Any  # s.DistanceFn; a null pointer but for a Python function
    errors: list[BaseException]

    @property
    def fields(self) -> dict[str, Any]:
        """metric and custom of any parameter struct."""
        return {"metric": self.number, "custom": self.function}

    def reraise(self, error: BaseException) -> None:
        """Raises what a Python function raised first, else error."""
        raise self.errors[0] if self.errors else error


_NO_FUNCTION = s.DistanceFn()


@functools.cache
def _named(metric: str, p: float) -> Distance:
    return Distance(code(metric, p), _NO_FUNCTION, [])


def resolve(metric: Metric, p: float, dtype: np.dtype[Any]) -> Distance:
    """A metric on rows of a dtype."""
    if isinstance(metric, str):
        return _named(metric, p)
    if not callable(metric):
        raise ValueError(f"metric is {metric!r}, must be a name or a function of two rows")
    errors: list[BaseException] = []

    def distance(arg: int | None, query: int, point: int, cols: int) -> float:
        try:
            size = cols * dtype.itemsize
            rows = ((c.c_char * size).from_address(at) for at in (query, point))
            views = (
                memoryview(row).toreadonly() for row in rows
            )  # they are the caller's, or a file's
            return float(metric(*(np.frombuffer(view, dtype) for view in views)))
        except BaseException as error:
            errors.append(error)
            return float("nan")  # which ends the call

    return Distance(s.CUSTOM, s.DistanceFn(distance), errors)
