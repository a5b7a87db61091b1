# SPDX-License-Identifier: Apache-2.0
"""Arguments that several calls have."""

from __future__ import annotations

from typing import Any

import numpy as np

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
