# SPDX-License-Identifier: Apache-2.0
"""SciPy's sparse matrices: by products that stay sparse, or made dense block by block.

Which way is a matter of counts, and of nothing that is guessed of machines: the steps of the dense way
are the products of all pairs of values, zeros among them; those of a sparse product are the products of
stored values, and the pairs, of which each is ranked. The dense way is taken up to twenty times the steps
of a sparse product, since its steps are the cheaper ones; beyond, the sparse product, and where a metric
has none, rows that would take many more steps than that are refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import _structs as s
from ._arrays import TOLD_BYTES, as_matrix, is_sparse, sparse_blocks, sparse_rows
from ._context import Settings
from ._memory import size_text
from ._metrics import code, name
from ._progress import Bar, Progress
from ._results import Array, Fingerprint, Neighbors, claim
from ._sparse_product import METRICS, Product, first_of
from ._typing import Metric

_MOST_TIMES = 20  # the steps of a sparse product: what others would do in its place
_ALLOWED_STEPS = 1 << 34  # that are made without asking for better ways
_WAY_OUT = (
    "make fewer columns of them: sklearn.decomposition.TruncatedSVD; or give X.toarray(), which is "
    "searched whatever it takes"
)


def _dense_blocks(x: Any) -> Iterator[tuple[int, Array]]:
    if not is_sparse(x):
        yield 0, x
        return
    for start, block in sparse_blocks(sparse_rows(x)):
        yield start, block.toarray()


def refuse(**options: Any) -> None:
    """What does not go with sparse matrices, by its name."""
    for option, value in options.items():
        if value is not None:
            raise ValueError(f"{option} does not go with sparse matrices (use X.toarray())")


def blockwise(
    search: Callable[..., Neighbors],
    corpus: Any,
    queries: Any,
    k: int,
    metric: Metric,
    p: float,
    method: int,
    wanted: Settings,
    progress: Progress,
    without_self: bool = False,
) -> Neighbors:
    """knn where corpus or queries are sparse: blocks against blocks, in double, each by search.

    without_self: the queries are the corpus, and none of them is its own neighbour.
    """
    if not isinstance(metric, str):
        raise ValueError("a function as metric does not go with sparse matrices (use X.toarray())")
    same = corpus is queries
    corpus = _rows_or_dense(corpus, "corpus")
    queries = corpus if same else _rows_or_dense(queries, "queries")
    most = corpus.shape[0] - without_self
    if not 1 <= k <= most:
        raise ValueError(f"k is {k}, must be 1 to {most}")
    number = code(metric, p)
    if corpus.shape[1] != queries.shape[1]:
        raise ValueError(
            f"corpus has {corpus.shape[1]} columns and queries has {queries.shape[1]} (both must "
            "have the same)"
        )
    dense, sparse = _steps(corpus, queries)
    both = is_sparse(corpus) and is_sparse(queries)
    double = np.float64 in (corpus.dtype, queries.dtype)
    if both and number in METRICS and method <= s.METHOD_EXACT and dense > _MOST_TIMES * sparse:
        job = Product(corpus, queries, number, same)
        result = _by_products(
            search, job, queries.shape[0], k, number, wanted, progress, without_self
        )
        if not double:
            result = Neighbors(result.distances.astype(np.float32), result.indices)
        return claim(result, number, True)
    if dense > _ALLOWED_STEPS and dense > _MOST_TIMES * sparse:
        what = "" if number in METRICS else f" metric {name(number)} has no sparse product:"
        raise ValueError(
            f"sparse rows of {corpus.shape[1]} columns:{what} made dense they take {dense:.1e} steps, "
            f"{dense / sparse:.0f} times those of what they hold ({_WAY_OUT})"
        )
    _tell_dense(corpus, queries)
    # Blocks are merged by what rows are ordered by, which is the square.
    root = number == s.EUCLIDEAN
    sign = -1.0 if number == s.INNER_PRODUCT else 1.0
    rows = queries.shape[0]
    made_of: Fingerprint | None = None  # of the dense points, where these come at once
    result = Neighbors(np.empty((rows, k)), np.empty((rows, k), np.int64))
    for first_query, query_block in _dense_blocks(queries):
        asked = as_matrix(query_block, "queries")
        best: Neighbors | None = None
        for first_point, point_block in _dense_blocks(corpus):
            points = as_matrix(point_block, "corpus")
            own = None
            if without_self:
                own = np.arange(first_query, first_query + asked.rows) - first_point
                own[(own < 0) | (own >= points.rows)] = -1
            # Queries that meet themselves have one row less to find.
            size = min(k, points.rows - bool(own is not None and (own >= 0).any()))
            if size == 0:
                continue
            found = search(
                points,
                asked,
                size,
                metric=name(s.SQEUCLIDEAN if root else number),
                method=method,
                exclude=own,
                wanted=wanted,
                progress=progress,
                out=(np.empty((asked.rows, size)), np.empty((asked.rows, size), np.int64)),
            )
            if points.rows == corpus.shape[0]:
                made_of = made_of or found.fingerprint
            found.indices[...] += first_point
            best = first_of(best, found, k, sign)
        assert best is not None
        block = slice(first_query, first_query + asked.rows)
        result.distances[block] = np.sqrt(best.distances) if root else best.distances
        result.indices[block] = best.indices
    if not double:
        result = Neighbors(result.distances.astype(np.float32), result.indices)
    return claim(result, number, True, made_of)


def _rows_or_dense(x: Any, name: str) -> Any:
    return sparse_rows(x) if is_sparse(x) else as_matrix(x, name).array


def _counts(x: Any) -> Array:
    """Values of each column that are stored."""
    if is_sparse(x):
        return np.bincount(x.indices, minlength=x.shape[1]).astype(np.float64)
    return np.full(x.shape[1], float(x.shape[0]))


def _steps(corpus: Any, queries: Any) -> tuple[float, float]:
    """Of the dense way, and of a sparse product: products of values, and pairs."""
    pairs = float(corpus.shape[0]) * queries.shape[0]
    return pairs * corpus.shape[1], pairs + float(_counts(corpus) @ _counts(queries))


def _tell_dense(*matrices: Any) -> None:
    size = max(x.shape[0] * x.shape[1] * x.dtype.itemsize for x in matrices if is_sparse(x))
    if size > TOLD_BYTES:
        warnings.warn(
            f"sparse rows are made dense block by block, {size_text(size)} in all", stacklevel=4
        )


def _by_products(
    search: Callable[..., Neighbors],
    job: Product,
    rows: int,
    k: int,
    number: int,
    wanted: Settings,
    progress: Progress,
    without_self: bool,
) -> Neighbors:
    result = Neighbors(np.empty((rows, k)), np.empty((rows, k), np.int64))
    tell = Bar() if progress is True else progress
    alone = wanted._replace(threads=1)  # a query at a time is nothing to divide
    for block in job.blocks(wanted.memory_limit):
        keys, may = job.candidates(block, k, without_self)
        if not job.is_exact:
            _refuse_ties(may, k, job.columns)
        for query in range(block.start, block.stop):
            at = query - block.start
            ids = np.flatnonzero(may[at])
            if job.is_exact:
                found = job.ranked(keys[at], ids, k)
            else:
                found = job.solved(search, query, ids, k, alone)
            result.distances[query], result.indices[query] = found
        if tell:
            tell("sparse product", float(block.stop), float(rows))
    if isinstance(tell, Bar):
        tell.close()
    if number == s.EUCLIDEAN:
        np.sqrt(result.distances, out=result.distances)
    return result


def _refuse_ties(may: Array, k: int, columns: int) -> None:
    """Where hosts of points are as near as the k-th but for rounding, as rows are by cosine that have
    no column in common with the query's: the library would have to be asked for all of them."""
    rows, points = may.shape
    count = int(np.count_nonzero(may))
    if rows * points * columns > _ALLOWED_STEPS and count > _MOST_TIMES * k * rows:
        raise ValueError(
            f"{count // rows} points are as near to a sparse row as its {k}-th neighbour, but for "
            "rounding: most have no column in common with it (ask for fewer neighbours, leave out "
            f"rows that share no column, or {_WAY_OUT})"
        )
