# SPDX-License-Identifier: Apache-2.0
"""Neighbours of new points by walks on a graph of the old ones, for estimators."""

from __future__ import annotations

import functools
import os
from typing import Any

from . import _metrics, _options, _small
from . import _structs as s
from ._arrays import HostMatrix
from ._context import Settings
from ._devices import devices
from ._handle import Lock
from ._index import Index
from ._library import lib
from ._results import Neighbors, claim, narrow
from ._search import call, check_types, fingerprint_for, search_params, table_for
from ._typing import Metric


class Walks:
    """Searches a graph. Where the processor does so all preparations are kept from the first search
    on; a GPU, and a function as metric, prepare in every call. The answers are the same.

    Nothing of it is pickled, copied, or part of what an estimator has learnt.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._index: Index | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Walks, ()

    def search(
        self,
        points: HostMatrix,
        graph: Neighbors,
        queries: HostMatrix,
        k: int,
        metric: Metric,
        p: float,
        recall: float | None,
        seed: int,
        wanted: Settings,
    ) -> Neighbors:
        """The same points, graph and metric every time."""
        cols = points.struct.cols
        small = recall is None and _small.is_small_walk(points.rows, cols, queries.rows, k, None, 0)
        if not isinstance(metric, str) or not _on_processor(wanted.device, small):
            return _graph_search(points, graph, queries, k, metric, p, recall, seed, wanted)
        with self._lock:
            if self._index is None:
                number, alone = _metrics.code(metric, p), wanted._replace(device="cpu")
                self._index = Index._of_matrix(points, number, s.METHOD_GRAPH, alone, graph)
        return self._index._walk(queries, k, seed=seed, recall=recall, wanted=wanted)


def _on_processor(device: str | None, small: bool) -> bool:
    """Whether the processor searches; where a GPU may, it depends on the size of the job."""
    named = device or os.environ.get("KITH_DEVICE") or "auto"
    return named == "cpu" or (named == "auto" and (small or not _has_gpu()))


@functools.cache
def _has_gpu() -> bool:
    return any(each.available for each in devices() if each.name != "cpu")


def _graph_search(
    points: HostMatrix,
    graph: Neighbors,
    queries: HostMatrix,
    k: int,
    metric: Metric,
    p: float,
    recall: float | None,
    seed: int,
    wanted: Settings,
) -> Neighbors:
    """kith_search on a graph, of arrays in host memory."""
    distance = _metrics.resolve(metric, p, queries.array.dtype)
    check_types(distance, points, queries)
    known, keep = narrow(graph, "graph")
    table = table_for(points, queries, k, None, None)
    params = search_params(distance, k, method=s.METHOD_GRAPH)
    _options.walk(params, None, 0, recall, seed, known)
    call(
        distance,
        wanted,
        None,
        lib.kith_search,
        points.struct,
        queries.struct,
        params,
        table.struct,
        None,
    )
    del keep
    made_of = fingerprint_for(queries.rows, points, wanted)
    return claim(table.result(), distance.number, False, made_of)
