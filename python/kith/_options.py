# SPDX-License-Identifier: Apache-2.0
"""Arguments that several calls have."""

from __future__ import annotations

import ctypes as c
import operator
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from . import _structs as s
from ._places import on_host
from ._results import narrow_indices
from ._typing import Whole

_METHODS = {  # scikit-learn's names, and one of its kind
    "auto": s.METHOD_AUTO,
    "ball_tree": s.METHOD_AUTO,  # the answers are the same
    "brute": s.METHOD_EXACT,
    "kd_tree": s.METHOD_TREE,
    "nn_descent": s.METHOD_DESCENT,
}


def _shown(value: Any) -> str:
    """A value in a sentence; of what is long or takes several lines, the type."""
    text = repr(value)
    return text if len(text) < 60 and "\n" not in text else f"of type {type(value).__name__}"


def whole(value: Any, name: str) -> int:
    """A whole number as int: Python's, NumPy's, or whatever else has an index."""
    try:
        return int(operator.index(value))
    except TypeError:
        raise TypeError(f"{name} is {_shown(value)}, must be a whole number") from None


def radii(radius: Any) -> Any:
    """A number, or one for each query."""
    try:
        if radius is None:  # which NumPy takes for NaN
            raise TypeError
        return np.asarray(on_host(radius), np.float64, order="C")
    except (TypeError, ValueError):
        raise TypeError(f"radius is {radius!r}, must be a number, or one for each query") from None


def within(radius: Any, closed: Any, metric: int) -> Any:
    """Radii that a distance is at most. Of one that it must be below, the number before that:
    distances are numbers of the same type."""
    if not isinstance(closed, (bool, np.bool_)):
        raise TypeError(f"closed is {closed!r}, must be True or False")
    if closed:
        return radius
    least = radii(radius)
    if metric == s.INNER_PRODUCT:
        return np.nextafter(least, np.inf)
    if (least <= 0.0).any():
        raise ValueError("radius is 0, and no distance is less (give a larger one, or closed=True)")
    return np.nextafter(least, -np.inf)


def number(value: Any, name: str) -> float:
    """A number as float."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {_shown(value)}, must be a number") from None


def path(given: str | os.PathLike[str]) -> bytes:
    """The name of a file as the library takes it, which ends at the first 0."""
    name = os.fsencode(given)
    if b"\0" in name:
        raise ValueError(f"path is {given!r}, must have no null character")
    return name


def optional(value: Any, name: str) -> int | None:
    """The same, or None."""
    return None if value is None else whole(value, name)


def method(algorithm: str) -> int:
    """The library's number of an algorithm."""
    try:
        return _METHODS[algorithm]
    except (KeyError, TypeError):
        known = ", ".join(_METHODS)
        raise ValueError(f"algorithm is {_shown(algorithm)}, must be one of {known}") from None


def check_recall(recall: float | None) -> None:
    """Whether it is a share that can be wanted."""
    if recall is not None and not 0.0 < number(recall, "recall") <= 1.0:
        raise ValueError(f"recall is {recall}, must be above 0 and at most 1")


def seed(random_state: Any) -> int:
    """A seed from None (0: the same every time), an integer, or a NumPy generator."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**32))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**32, dtype=np.uint32))
    return whole(random_state, "random_state") % 2**64


class Descent(NamedTuple):
    """What only a descent has; None: the library's choice."""

    init: Any = None
    rounds: Whole | None = None
    candidates: Whole | None = None
    delta: float | None = None
    recall_at: Whole | None = None
    tuned: Mapping[str, Any] = {}  # of kith_descent_params, by their names there

    def method(self, method: int) -> int:
        """The number of an algorithm, given that of what was named: auto becomes a descent where
        something is said of it."""
        named = self._asdict()
        said = [name for name in named if name != "tuned" and named[name] is not None]
        said += [f"tune's {name}" for name in self.tuned if name != "sample"]
        if not said or method == s.METHOD_DESCENT or said == ["recall_at"]:
            return method
        if method != s.METHOD_AUTO:
            raise ValueError(f"{said[0]} goes with nn_descent (leave one out)")
        return s.METHOD_DESCENT


def descent_params(
    metric: dict[str, Any],
    k: int,
    flags: int,
    recall: float | None,
    random_state: Any,
    descent: Descent = Descent(),
) -> s.DescentParams:
    """kith_descent_params; metric has its fields. Without a recall none is estimated."""
    params = s.sized(
        s.DescentParams,
        k=k,
        flags=flags,
        recall=recall or 0.0,
        recall_at=optional(descent.recall_at, "recall_at") or 0,
        sample=-1 if recall is None else 0,
        seed=seed(random_state),
        rounds=_rounds(descent.rounds),
        candidates=optional(descent.candidates, "candidates") or 0,
        delta=number(descent.delta or 0.0, "delta"),
        **metric,
    )
    for field, value in descent.tuned.items():
        s.put(params, field, value)
    if descent.init is not None:
        table, ids = narrow_indices(_indices_of(descent.init), "init")
        params.init = c.addressof(table)
        params.keep = table, ids  # for as long as the parameters live
    return params


def _rounds(rounds: Any) -> int:
    """As kith_descent_params has them, where 0 is "enough" and -1 none."""
    if rounds is None:
        return 0
    if whole(rounds, "rounds") < 0:
        raise ValueError(f"rounds is {rounds}, must be at least 0")
    return int(rounds) or -1


def _indices_of(graph: Any) -> Any:
    """Of a kith.Graph, of (distances, indices), or of an array of indices."""
    if isinstance(graph, tuple):
        return graph[1]
    return getattr(graph, "indices", graph)


def walk(
    params: s.SearchParams,
    width: int | None,
    meets: int,
    recall: float | None,
    seed: int,
    graph: s.Neighbors | None = None,
) -> None:
    """What a search is told of walks. graph: that of points; of an index none."""
    told = s.sized(s.WalkParams, width=width or 0, meets=meets)
    if graph is not None:
        told.graph = c.addressof(graph)
    s.put(params, "seed", seed)
    params.recall = recall or 0.0
    params.walk = c.addressof(told)
    params.keep = told, graph  # for as long as the parameters live


def period(given: Any, cols: int) -> Any:
    """Lengths of the columns' circles, which params point to, from one for all, or one each; None:
    none has one."""
    if given is None:
        return None
    try:
        lengths = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"period is {_shown(given)}, must be a number, or one for each column"
        ) from None
    if lengths.shape not in ((), (cols,)):
        raise ValueError(f"period must be one number, or {cols}: one for each column (0: none)")
    return np.ascontiguousarray(np.broadcast_to(lengths, cols)) if lengths.any() else None


def periodic(given: Any, cols: int, params: Any) -> None:
    """Sets params.period, which lives as long as the parameters."""
    params.lengths = lengths = period(given, cols)
    if lengths is not None:
        params.period = lengths.ctypes.data


def excluded(exclude: Any, rows: int, params: s.SearchParams) -> Any:
    """Sets params.exclude; what it returns must live as long as params are used."""
    if exclude is None:
        return None
    wide = np.asarray(on_host(exclude))
    if wide.shape != (rows,) or wide.dtype.kind not in "iu":
        raise ValueError(f"exclude must be {rows} integers, one for each query")
    if wide.size and (wide.min() < -1 or wide.max() >= s.ID_NONE):
        raise ValueError(f"exclude must be -1 (none) to {s.ID_NONE - 1}")
    ids = np.ascontiguousarray(wide.astype(np.uint32))  # -1 becomes "none"
    params.exclude = ids.ctypes.data
    return ids
