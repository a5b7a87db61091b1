# SPDX-License-Identifier: Apache-2.0
"""`tune`: what is rarely needed, by the keys that the command line has after --tune and --select."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from . import _structs as s
from ._library import lib
from ._options import number, whole

Tune = Mapping[str, Any]
Fields = dict[str, Any]


class _Key(NamedTuple):
    """field: of the call's parameters. read: what is given, and what it is called, as its value."""

    field: str
    read: Callable[[Any, str], Any]


def _choice(names: Mapping[str, int]) -> Callable[[Any, str], int]:
    def read(given: Any, name: str) -> int:
        if not isinstance(given, str) or given not in names:
            raise ValueError(f"{name} is {given!r}, must be one of {', '.join(names)}")
        return names[given]

    return read


def _constants(prefix: str, *without: str) -> dict[str, int]:
    """The names of the header's constants of a kind."""
    return {
        name.removeprefix(prefix).lower(): value
        for name, value in vars(s).items()
        if name.startswith(prefix) and name.removeprefix(prefix) not in without
    }


def selection(given: Any, name: str) -> int:
    """The number of a method of selection."""
    known = selections()
    if given not in known:
        raise ValueError(f"{name} is {given!r}, must be one of {', '.join(known)}")
    return known.index(given)


def selections() -> list[str]:
    """The names of all methods of selection, by their numbers."""
    return [lib.kith_select_method_name(at).decode() for at in range(s.SELECT_METHOD_COUNT)]


# Of exact graphs and searches.
EXACT = {
    "tree_height": _Key("tree_height", whole),
    "pipeline": _Key("pipeline", _choice(_constants("PIPELINE_", "COUNT"))),
    "select": _Key("select", selection),
    "heap_sample": _Key("sample", whole),
    "batch": _Key("batch", whole),
    "leaf_buffer": _Key("leaf_buffer", whole),
}
# Of approximate graphs, beside what has a name among the arguments.
DESCENT = {
    "list": _Key("list", whole),
    "start": _Key("start", _choice(_constants("START_", "GRAPH"))),
    "start_share": _Key("start_share", number),
    "updates": _Key("all_updates", _choice({"auto": 0, "all": 1, "nearest": -1})),
    "sample": _Key("sample", whole),
}
# Of selection; aligned and merge are flags.
SELECT = {
    "buffer": _Key("buffer", _choice(_constants("BUFFER_"))),
    "buffer_size": _Key("buffer_size", whole),
    "group": _Key("group", whole),
    "level": _Key("level", whole),
    "merge": _Key("merge", _choice({"network": 0, "path": s.SELECT_MERGE_PATH})),
    "aligned": _Key("aligned", lambda given, name: bool(given)),
    "heap_sample": _Key("sample", whole),
}


def fields(tune: Tune | None, *tables: Mapping[str, _Key]) -> tuple[Fields, ...]:
    """What tune says, as fields of each of these kinds of parameters."""
    if tune is not None and not isinstance(tune, Mapping):
        raise TypeError(
            f"tune is of type {type(tune).__name__}, must be a dict of names and values"
        )
    for name in tune or ():
        if not any(name in table for table in tables):
            known = ", ".join(sorted(key for table in tables for key in table))
            raise ValueError(f"tune has no {name!r} here (it may have {known})")
    return tuple(
        {
            table[name].field: table[name].read(value, name)
            for name, value in (tune or {}).items()
            if name in table
        }
        for table in tables
    )
