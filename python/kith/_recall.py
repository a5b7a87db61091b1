# SPDX-License-Identifier: Apache-2.0
"""How many of the true neighbours a result has."""

from __future__ import annotations

import ctypes as c
from typing import NamedTuple

from . import _options
from . import _structs as s
from ._arrays import as_matrix
from ._context import context, settings
from ._library import lib
from ._metrics import code
from ._places import check_together
from ._progress import Progress
from ._results import narrow, pair_of
from ._typing import Bytes, Metric, Pair, Points, Seed, Whole


class Recall(NamedTuple):
    """A recall at K, with its 95 % interval over rows.

    Attributes
    ----------
    recall : float
        Share of the first K whose distance is at most the true K-th: ties are no mistakes.
    low, high : float
        The interval; equal to recall where all rows were compared.
    equal_ids : float
        Share of the first K true indices that were found.
    distance_ratio : float
        Mean of found K-th by true K-th distance.
    rows : int
        Rows that were compared.
    at : int
        K.
    """

    recall: float
    low: float
    high: float
    equal_ids: float
    distance_ratio: float
    rows: int
    at: int


def recall(
    found: Pair,
    truth: Pair | None = None,
    *,
    X: Points | None = None,
    metric: Metric | None = None,
    p: float = 2,
    at: Whole | None = None,
    sample: Whole = 1000,
    random_state: Seed = None,
    n_jobs: Whole | None = None,
    device: str | None = None,
    memory_limit: Bytes | None = None,
    progress: Progress = None,
) -> Recall:
    """The recall of anybody's neighbours: against the truth, or estimated from the points.

    Parameters
    ----------
    found : (distances, indices)
        What is judged.
    truth : (distances, indices), optional
        What is right; both with distances in the same metric. Arrays on a GPU, all of them or
        none, are copied to the host.
    X : array of shape (n, d), optional
        Instead of the truth, the points that `found` is a graph of: a sample of its rows is solved
        exactly. The distances of `found` are not read. Where rows name themselves (`include_self`)
        recall is that of the others.
    at : int, optional
        K; min(10, k) unless given, of the others at most k - 1.
    sample : int
        Rows to solve.
    random_state
        Seed of the sample.
    metric, p, n_jobs, device, memory_limit, progress
        As in `knn`; the metric is a name here, and unless given that of the neighbours, where
        it is known. Neighbours of another metric, or of other points, are refused.

    Returns
    -------
    Recall

    Examples
    --------
    >>> import numpy as np, kith
    >>> X = np.random.default_rng(0).random((200, 8))
    >>> kith.recall(kith.knn_graph(X, 5), X=X).recall
    1.0
    """
    if (truth is None) == (X is None):
        raise ValueError("give either the truth or X, the points")
    if metric is not None and not isinstance(metric, str):
        raise ValueError("metric must be a name")
    own = getattr(found, "_metric", 0) or getattr(truth, "_metric", 0) or s.EUCLIDEAN
    number = own if metric is None else code(metric, p)
    given = pair_of(found, "found")
    right = (None, None) if truth is None else pair_of(truth, "truth")
    check_together("found", given[0], found=given[1], truth=right[0], X=X)
    check_together("found", given[0], truth=right[1])
    table, keep = narrow(found, "found")
    place = _options.optional(at, "at") or 0
    result = s.Recall()
    known = settings(n_jobs, device, memory_limit)
    if truth is not None:
        true_table, true_keep = narrow(truth, "truth")
        context(known).call(
            lib.kith_recall_measure,
            c.byref(table),
            c.byref(true_table),
            number,
            place,
            c.byref(result),
            progress=progress,
        )
        del true_keep
    else:
        points = as_matrix(X, "X", known.memory_limit)
        size = _options.whole(sample, "sample")
        if size < 1:
            raise ValueError(f"sample is {size}, must be at least 1")
        params = s.sized(
            s.RecallParams, metric=number, at=place, sample=size, seed=_options.seed(random_state)
        )
        context(known.beside(points)).call(
            lib.kith_recall_estimate,
            c.byref(points.struct),
            c.byref(table),
            c.byref(params),
            c.byref(result),
            progress=progress,
        )
    del keep
    return Recall(*(getattr(result, field) for field in Recall._fields))
