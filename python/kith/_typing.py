# SPDX-License-Identifier: Apache-2.0
"""What callers may give, for those who check types: no value is looked at here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, SupportsIndex, SupportsInt

import numpy as np
from numpy.typing import ArrayLike, NDArray


class _Sparse(Protocol):
    def tocsr(self) -> Any: ...


class _Dlpack(Protocol):
    def __dlpack__(self, *arguments: Any, **options: Any) -> Any: ...

    def __dlpack_device__(self) -> Any: ...


class _OnDevice(Protocol):
    @property
    def __cuda_array_interface__(self) -> Any: ...


Points = ArrayLike | _Sparse | _Dlpack | _OnDevice
"""Rows of numbers: NumPy's, PyTorch's, JAX's, CuPy's, SciPy's sparse, data frames, lists."""
Pair = Sequence[Any]
"""(distances, indices)."""
Whole = SupportsIndex
Bytes = SupportsInt
Seed = SupportsIndex | np.random.Generator | np.random.RandomState | None
Metric = str | Callable[[Any, Any], float]
Floats = NDArray[np.floating[Any]]
Indices = NDArray[np.int64]
