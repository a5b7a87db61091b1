# SPDX-License-Identifier: Apache-2.0
"""Neighbours of new points by walks on a graph of the old ones."""

from __future__ import annotations

from . import _structs as s
from ._arrays import HostMatrix
from ._context import Settings
from ._library import lib
from ._metrics import Metric, resolve
from ._results import Neighbors, narrow
from ._search import call, check_types, table_for


def graph_search(
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
    """kith_graph_search, of arrays in host memory."""
    distance = resolve(metric, p, queries.array.dtype)
    check_types(distance, points, queries)
    known, keep = narrow(graph)
    table = table_for(points, queries, k, None, None)
    params = s.sized(
        s.GraphSearchParams,
        k=k,
        recall=recall or 0.0,
        sample=-1 if recall is None else 0,
        seed=seed,
        **distance.fields,
    )
    call(
        distance,
        wanted,
        None,
        lib.kith_graph_search,
        points.struct,
        known,
        queries.struct,
        params,
        table.struct,
        None,
    )
    del keep
    return table.result()
