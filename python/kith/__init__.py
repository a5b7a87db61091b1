# SPDX-License-Identifier: Apache-2.0
"""Exact, certified and reproducible nearest neighbours and k-NN graphs.

>>> import numpy as np, kith
>>> X = np.random.default_rng(0).random((1000, 8), dtype=np.float32)
>>> distances, indices = kith.knn_graph(X, k=15, metric="cosine")

Functions: `knn`, `knn_graph`, `radius_neighbors`, `pairs`, `read_pairs`, `truth`, `select_k`,
`select_kth`, `merge`, `remove`, `recall`, `devices`, `set_device_allocator`. Points that are searched
more than once, and changed: `Index`. Graphs as files, matrices and edges: `Graph`. With scikit-learn
installed, its interface: `NearestNeighbors`, `KNeighborsTransformer`, `RadiusNeighborsTransformer`,
`KNeighborsClassifier`, `KNeighborsRegressor`.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from ._devices import DeviceInfo, devices
from ._graph import Graph
from ._index import Index
from ._library import version as __version__
from ._merge import merge
from ._pairs import Pairs, PairsChunk, PairsEstimate, pairs, read_pairs
from ._pool import set_device_allocator
from ._radius import Ranges, radius_neighbors
from ._recall import Recall, recall
from ._remove import remove
from ._results import Fingerprint, Neighbors, Selection
from ._search import knn, knn_graph
from ._select import select_k, select_kth
from ._truth import Truth, truth

if TYPE_CHECKING:
    from ._models import KNeighborsClassifier, KNeighborsRegressor
    from ._nearest import NearestNeighbors
    from ._transformers import KNeighborsTransformer, RadiusNeighborsTransformer

# scikit-learn takes longer to import than all of kith: it is imported by who asks for these.
_ESTIMATORS = {
    "NearestNeighbors": "_nearest",
    "KNeighborsTransformer": "_transformers",
    "RadiusNeighborsTransformer": "_transformers",
    "KNeighborsClassifier": "_models",
    "KNeighborsRegressor": "_models",
}

__all__ = [
    "DeviceInfo",
    "Fingerprint",
    "Graph",
    "Index",
    "KNeighborsClassifier",
    "KNeighborsRegressor",
    "KNeighborsTransformer",
    "NearestNeighbors",
    "Neighbors",
    "Pairs",
    "PairsChunk",
    "PairsEstimate",
    "RadiusNeighborsTransformer",
    "Ranges",
    "Recall",
    "Selection",
    "Truth",
    "__version__",
    "devices",
    "knn",
    "knn_graph",
    "merge",
    "pairs",
    "radius_neighbors",
    "read_pairs",
    "recall",
    "remove",
    "select_k",
    "select_kth",
    "set_device_allocator",
    "truth",
]


def _shown(found: Any, name: str) -> Any:
    """Something public, at home where it is imported from: so help() and errors name it."""
    found.__module__ = "kith"
    globals()[name] = found
    return found


for _name in __all__:
    if _name in globals() and not _name.startswith("_"):
        _shown(globals()[_name], _name)
del _name


if not TYPE_CHECKING:  # who checks types would take any name for one of these

    def __getattr__(name: str) -> Any:
        module = _ESTIMATORS.get(name)
        if module is None:
            what = f"module 'kith' has no attribute {name!r}"  # Python says what may be meant
            raise AttributeError(what, name=name, obj=sys.modules[__name__])
        try:
            found = getattr(importlib.import_module(f"kith.{module}"), name)
        except ImportError as error:
            raise ImportError(
                f"kith.{name} needs scikit-learn 1.6 or later (pip install -U scikit-learn)"
            ) from error
        return _shown(found, name)


def __dir__() -> list[str]:
    return sorted(__all__)
