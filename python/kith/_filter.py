# SPDX-License-Identifier: Apache-2.0
"""Which rows a query may find: bitmaps, and groups."""

from __future__ import annotations

import ctypes as c
from typing import Any, NamedTuple

import numpy as np

from . import _structs as s
from . import _places
from ._places import on_host

_RULES = {"same": s.RULE_SAME, "other": s.RULE_OTHER, "each": s.RULE_EACH}


class Asked(NamedTuple):
    """allow, groups, query_groups and rule of a call."""

    allow: Any
    groups: Any
    query_groups: Any
    rule: Any

    @property
    def given(self) -> dict[str, Any]:
        """Those that were given, by their names; None: it was not."""
        return self._asdict()

    def __bool__(self) -> bool:
        allow, groups, query_groups, rule = self
        return not (allow is groups is query_groups is rule is None)


NOTHING = Asked(None, None, None, None)


class Filter(NamedTuple):
    """A kith_filter, and the arrays that its addresses are of."""

    struct: s.Filter | None
    keep: tuple[Any, ...]
    wide: int
    """Lists of k that a query has."""

    def into(self, params: s.SearchParams | s.PairsParams | s.TruthParams | s.RadiusParams) -> None:
        """Sets params.filter; this must live as long as params are used."""
        if self.struct is not None:
            params.filter = c.addressof(self.struct)


NONE = Filter(None, (), 1)


def _numbers_there(groups: Any, rows: int, device: int | None) -> Any:
    """Numbers on a GPU as int64 there, if they may stay; else None."""
    if device is None or not _places.must_be_copied(groups):
        return None
    where = _places.maker(groups)
    if where.index != device or tuple(groups.shape) != (rows,):
        return None
    return where.whole(groups)


def _numbers(groups: Any, rows: int, name: str, of: str) -> np.ndarray[Any, Any]:
    array = np.asarray(on_host(groups))
    if array.shape != (rows,) or array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be {rows} integers, one for each {of}")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} must be integers below 2**63")
    return np.ascontiguousarray(array, np.int64)


def _bitmap(allow: Any, rows: int, queries: int) -> np.ndarray[Any, Any]:
    array = np.asarray(on_host(allow))
    if array.dtype != np.bool_ or array.shape not in ((rows,), (queries, rows)):
        raise ValueError(
            f"allow must be an array of bool: {rows} for all queries, or {queries} x {rows}, a row "
            "for each query"
        )
    return np.packbits(array, axis=-1, bitorder="little")


def _rule(asked: Asked) -> int:
    if asked.groups is None:
        for name in ("query_groups", "rule"):
            if asked.given[name] is not None:
                raise ValueError(f"{name} goes with groups (give both or none)")
        return s.RULE_NONE
    rule = "same" if asked.rule is None else asked.rule
    if rule not in _RULES:
        raise ValueError(f"rule is {rule!r}, must be one of {', '.join(_RULES)}")
    return _RULES[rule]


def make(asked: Asked, rows: int, queries: int, device: int | None = None) -> Filter:
    """Of a corpus of so many rows and so many queries; where nothing is asked for, no filter.
    device: the GPU whose numbers of groups the call reads there."""
    rule = _rule(asked)
    if not asked:
        return NONE
    struct = s.sized(s.Filter, rule=rule)
    keep: list[Any] = []
    wide = 1
    if rule == s.RULE_EACH:
        device = None
    if asked.allow is not None:
        keep.append(_bitmap(asked.allow, rows, queries))
        struct.allow = keep[-1].ctypes.data
        struct.allow_stride_bytes = keep[-1].shape[1] if keep[-1].ndim == 2 else 0
    for name, count, of in ("groups", rows, "row"), ("query_groups", queries, "query"):
        given = asked.given[name]
        if given is None:
            continue
        there = _numbers_there(given, count, device)
        keep.append(_numbers(given, count, name, of) if there is None else there)
        s.put(struct, name, keep[-1].ctypes.data if there is None else _places.address(there))
    if rule == s.RULE_EACH:
        wide = len(np.unique(keep[-1]))
    return Filter(struct, tuple(keep), wide)
