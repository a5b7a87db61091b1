# SPDX-License-Identifier: Apache-2.0
"""Arguments that several calls have."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _structs as s

_METHODS = {
    "auto": 0,
    "ball_tree": 0,  # scikit-learn's name: the answers are the same
    "brute": 1,
    "kd_tree": 2,
    "nn_descent": 3,
}


def method(algorithm: str) -> int:
    """The library's number of an algorithm."""
    try:
        return _METHODS[algorithm]
    except (KeyError, TypeError):
        known = ", ".join(_METHODS)
        raise ValueError(f"algorithm is {algorithm!r}, must be one of {known}") from None


def seed(random_state: Any) -> int:
    """A seed from None (0: the same every time), an integer, or a NumPy generator."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**32))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**32, dtype=np.uint32))
    return int(random_state) % 2**64


def descent_params(
    metric: dict[str, Any], k: int, flags: int, recall: float | None, random_state: Any
) -> s.DescentParams:
    """kith_descent_params; metric has its fields. Without a recall none is estimated."""
    return s.sized(
        s.DescentParams,
        k=k,
        flags=flags,
        recall=recall or 0.0,
        sample=-1 if recall is None else 0,
        seed=seed(random_state),
        **metric,
    )


def excluded(exclude: Any, rows: int, params: s.SearchParams) -> Any:
    """Sets params.exclude; what it returns must live as long as params are used."""
    if exclude is None:
        return None
    wide = np.asarray(exclude)
    if wide.shape != (rows,) or wide.dtype.kind not in "iu":
        raise ValueError(f"exclude must be {rows} integers, one for each query")
    ids = np.ascontiguousarray(wide.astype(np.uint32))  # -1 becomes "none"
    params.exclude = ids.ctypes.data
    return ids
