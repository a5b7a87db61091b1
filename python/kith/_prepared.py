# SPDX-License-Identifier: Apache-2.0
"""Preparations that pay when the same points are searched again."""

from __future__ import annotations

import ctypes as c
from typing import Any

from . import _options
from . import _structs as s
from ._arrays import HostMatrix
from ._context import Settings, context
from ._index import Index
from ._library import lib
from ._metrics import code, resolve
from ._results import Neighbors
from ._search import knn, search, search_params
from ._typing import Metric


class Prepared:
    """Searches points; from the second search on they are prepared once and kept so.

    Nothing of it is pickled, copied, or part of what an estimator has learnt.
    """

    def __init__(self) -> None:
        self._searched = False
        self._index: Index | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Prepared, ()

    def search(
        self,
        points: HostMatrix,
        queries: HostMatrix,
        k: int,
        metric: Metric,
        p: float,
        method: int,
        wanted: Settings,
        period: Any = None,
    ) -> Neighbors:
        """knn; the same points, metric and method every time."""
        if not isinstance(metric, str) or not self._searched:
            self._searched = True
            return search(
                points, queries, k, metric=metric, p=p, method=method, wanted=wanted, period=period
            )
        index = self._index
        if index is None:
            number = code(metric, p)
            tree = _takes_tree(points, queries, k, metric, p, method, wanted, period)
            kind = s.METHOD_TREE if tree else s.METHOD_EXACT
            index = self._index = Index._of_matrix(points, number, kind, wanted, period=period)
        return index._search(queries, k, wanted)

    def search_there(
        self, points: Any, queries: Any, k: int, algorithm: str, *, metric: Metric, **options: Any
    ) -> Neighbors:
        """The same of arrays on a GPU; options: of knn."""
        if not isinstance(metric, str) or not self._searched:
            self._searched = True
            return knn(points, queries, k, metric=metric, algorithm=algorithm, **options)
        if self._index is None:
            method = "tree" if algorithm == "kd_tree" else "exact"
            self._index = Index(points, metric, method=method, **options)
        return self._index.search(queries, k, n_jobs=options["n_jobs"])


def _shape(matrix: HostMatrix) -> s.Matrix:
    """The matrix without its data, which a plan would read."""
    shape = s.Matrix.from_buffer_copy(matrix.struct)
    shape.data = None
    return shape


def _takes_tree(
    points: HostMatrix,
    queries: HostMatrix,
    k: int,
    metric: Metric,
    p: float,
    method: int,
    wanted: Settings,
    period: Any,
) -> bool:
    """Whether kith_search would take a tree on the processor, by shapes alone."""
    params = search_params(resolve(metric, p, queries.array.dtype), k, method=method)
    _options.periodic(period, points.struct.cols, params)
    plan = s.sized(s.Plan)
    context(wanted).call(
        lib.kith_plan_search,
        c.byref(_shape(points)),
        c.byref(_shape(queries)),
        c.byref(params),
        c.byref(plan),
    )
    return bool(plan.method == b"tree" and plan.backend == b"cpu")
