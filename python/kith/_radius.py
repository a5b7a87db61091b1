# SPDX-License-Identifier: Apache-2.0
"""All neighbours within a radius."""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _options
from . import _structs as s
from ._arrays import as_matrix, given_back
from ._context import context, settings
from ._library import lib
from ._metrics import Metric, resolve
from ._progress import Progress
from ._results import copy_of
from ._search import check_types


class Ranges(NamedTuple):
    """Neighbours within a radius: those of query i are entries ``offsets[i] : offsets[i + 1]``.

    Attributes
    ----------
    distances : array of offsets[-1] floats, or None
        float64 where points or queries were float64, else float32. None of `count_only`.
    indices : array of offsets[-1] int64, or None
        Rows of the corpus, the nearest first.
    offsets : array of m + 1 int64
    """

    distances: Any
    indices: Any
    offsets: Any


def radius_neighbors(
    corpus: Any,
    queries: Any = None,
    *,
    radius: float | Sequence[float],
    metric: Metric = "euclidean",
    p: float = 2,
    algorithm: str = "auto",
    include_self: bool = False,
    count_only: bool = False,
    n_jobs: int | None = None,
    device: str | None = None,
    memory_limit: int | None = None,
    progress: Progress = None,
) -> Ranges:
    """All rows of corpus within a radius of each query.

    Parameters
    ----------
    corpus, queries : array of shape (n, d), (m, d)
        As in `knn`. Without queries each point is set against all others.
    radius : float or array of m floats
        A distance is at most this (of ``inner_product``: at least).
    include_self : bool
        Without queries: a point is its own neighbour, too.
    count_only : bool
        Only how many there are: ``numpy.diff(ranges.offsets)``.
    metric, p, algorithm, n_jobs, device, memory_limit, progress
        As in `knn`.

    Returns
    -------
    Ranges
        ``(distances, indices, offsets)``, each row ascending by (distance, index).

    Examples
    --------
    >>> import numpy as np, kith
    >>> kith.radius_neighbors(np.array([[0.0], [1.0], [3.0]]), radius=1.5).indices
    array([1, 0])
    """
    method = _options.method(algorithm)
    if method == s.METHOD_DESCENT:
        raise ValueError(
            "algorithm is nn_descent, which finds a number of neighbours and no radius (leave it out)"
        )
    points = as_matrix(corpus, "corpus")
    asked = points if queries is None else as_matrix(queries, "queries")
    distance = resolve(metric, p, asked.array.dtype)
    check_types(distance, points, asked)
    params = s.sized(
        s.RadiusParams,
        flags=s.INCLUDE_SELF if include_self else 0,
        count_only=int(count_only),
        method=method,
        **distance.fields,
    )
    try:
        radii = np.asarray(radius, np.float64, order="C")
    except (TypeError, ValueError):
        raise TypeError(f"radius is {radius!r}, must be a number, or one for each query") from None
    if radii.ndim == 0:
        params.radius = float(radii)
    elif radii.shape == (asked.rows,):
        params.radii = radii.ctypes.data
    else:
        raise ValueError(f"radius must be one number, or {asked.rows}: one for each query")
    wanted = context(settings(n_jobs, device, memory_limit))
    found = c.c_void_p()
    try:
        wanted.call(
            lib.kith_radius,
            c.byref(points.struct),
            None if queries is None else c.byref(asked.struct),
            c.byref(params),
            c.byref(found),
            progress=progress,
        )
    except ValueError as error:
        distance.reraise(error)
    try:
        ranges = _copied(found, points.is_double or asked.is_double, count_only)
    finally:
        lib.kith_ranges_free(found)
    if isinstance(corpus, np.ndarray):
        return ranges
    return Ranges(*(None if part is None else given_back(corpus, part) for part in ranges))


def _copied(found: c.c_void_p, double: bool, count_only: bool) -> Ranges:
    offsets = copy_of(lib.kith_ranges_offsets(found), lib.kith_ranges_rows(found) + 1, np.int64)
    if count_only:
        return Ranges(None, None, offsets)
    total = int(offsets[-1])
    ids = copy_of(lib.kith_ranges_ids(found), total, np.uint32).astype(np.int64)
    if double:
        distances = copy_of(lib.kith_ranges_distances64(found), total, np.float64)
    else:
        distances = copy_of(lib.kith_ranges_distances(found), total, np.float32)
    return Ranges(distances, ids, offsets)
