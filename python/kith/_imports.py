# SPDX-License-Identifier: Apache-2.0
"""Packages that are imported when they are asked for, and said where they are missing."""

from __future__ import annotations

import importlib
from typing import Any

_INSTALLED_BY = {
    "dask": '"dask[array]" distributed',
    "matplotlib": "matplotlib",
    "scipy": "scipy",
    "sklearn": "scikit-learn",
    "torch": "torch",
    "tqdm": "tqdm",
}
_NAMES = {
    "dask": "Dask",
    "matplotlib": "Matplotlib",
    "scipy": "SciPy",
    "sklearn": "scikit-learn",
    "torch": "PyTorch",
}


def needed(module: str, what: str) -> Any:
    """A module that `what` needs."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{what} needs {_NAMES.get(package, package)} (pip install {_INSTALLED_BY[package]})"
        ) from error
