# SPDX-License-Identifier: Apache-2.0
"""What all estimators are: parameters, points, and kneighbors, as scikit-learn has them."""

from __future__ import annotations

import functools
import math
import numbers
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _metrics, _options
from . import _structs as s
from ._arrays import HostMatrix, as_matrix
from ._context import Settings, settings
from ._prepared import Prepared
from ._results import Neighbors
from ._search import knn, knn_graph

_PLAIN = np.dtype(np.float32), np.dtype(np.float64)


class NeighborsEstimator(BaseEstimator):  # type: ignore[misc]
    """Points that were fitted, and their nearest neighbours."""

    n_neighbors: int
    algorithm: str
    leaf_size: int
    metric: _metrics.Metric
    p: float
    metric_params: dict[str, Any] | None
    n_jobs: int | None
    device: str | None
    recall: float | None
    random_state: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ---- Points ----------------------------------------------------------------------------------

    def _fit_points(self, X: Any) -> None:
        """Keeps X, which was validated, and looks at the parameters."""
        method = _options.method(self.algorithm)
        if not isinstance(self.metric, str) and not callable(self.metric):
            raise ValueError(f"metric is {self.metric!r}, must be a name or a function")
        if self.metric == "precomputed":
            raise ValueError(
                "metric 'precomputed' is not there: neighbours come from points "
                "(kith.select_k takes the smallest distances of each row of a matrix)"
            )
        metric, p = self._metric_and_p()
        number = _metrics.code(metric, p) if isinstance(metric, str) else 0
        self.effective_metric_ = _metrics.name(number) if number else self.metric
        self._settings()
        self._fit_X = X.tocsr() if issparse(X) else as_matrix(X, "X").array
        self.n_samples_fit_ = int(X.shape[0])
        self._prepared = Prepared()
        self._graph: Neighbors | None = None
        if method == s.METHOD_DESCENT:
            self._graph = self._make_graph(min(self.n_neighbors, self.n_samples_fit_ - 1))

    def _metric_and_p(self) -> tuple[_metrics.Metric, float]:
        more = dict(self.metric_params or {})
        if not isinstance(self.metric, str):
            return (functools.partial(self.metric, **more) if more else self.metric), 2
        p = more.pop("p", self.p)
        if more:
            raise ValueError(f"metric {self.metric!r} has no parameters {sorted(more)}")
        return self.metric, p

    def _settings(self) -> Settings:
        return settings(self.n_jobs, self.device)

    def _options(self) -> dict[str, Any]:
        metric, p = self._metric_and_p()
        return {"metric": metric, "p": p, "n_jobs": self.n_jobs, "device": self.device}

    def _validated(self, X: Any) -> Any:
        if self._is_plain(X):
            return X
        return validate_data(self, X, accept_sparse="csr", reset=False)

    def _is_plain(self, X: Any) -> bool:
        """Whether X is what validate_data would give back: to find out so takes it longer than a
        small search does."""
        if type(X) is not np.ndarray or X.dtype not in _PLAIN or X.ndim != 2:
            return False
        if not X.size or X.shape[1] != self.n_features_in_ or hasattr(self, "feature_names_in_"):
            return False
        with np.errstate(over="ignore", invalid="ignore"):
            return math.isfinite(X.sum())

    # ---- Neighbours ------------------------------------------------------------------------------

    def _make_graph(self, k: int, include_self: bool = False) -> Neighbors:
        return knn_graph(
            self._fit_X,
            k,
            algorithm=self.algorithm,
            recall=self.recall,
            random_state=self.random_state,
            include_self=include_self,
            **self._options(),
        )

    def _graph_of_points(self, k: int) -> Neighbors:
        """Each fitted point's k nearest among the others."""
        kept = self._graph
        if kept is None or k > kept.indices.shape[1]:
            return self._make_graph(k)
        return Neighbors(kept.distances[:, :k], kept.indices[:, :k])

    def _search_points(self, X: Any, k: int) -> Neighbors:
        """The k nearest fitted points of each row of X."""
        metric, p = self._metric_and_p()
        if issparse(X) or issparse(self._fit_X):
            algorithm = "auto" if self.algorithm == "nn_descent" else self.algorithm
            return knn(self._fit_X, X, k, algorithm=algorithm, **self._options())
        points: HostMatrix = as_matrix(self._fit_X, "the fitted X")
        queries = as_matrix(X, "X")
        if self.algorithm == "nn_descent":
            from ._walk import graph_search

            seed = _options.seed(self.random_state)
            graph = self._graph
            assert graph is not None
            return graph_search(
                points, graph, queries, k, metric, p, self.recall, seed, self._settings()
            )
        method = _options.method(self.algorithm)
        return self._prepared.search(points, queries, k, metric, p, method, self._settings())

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> Any:
        """The nearest fitted points of each row of X.

        Parameters
        ----------
        X : {array, sparse matrix} of shape (m, d), optional
            Without it the fitted points themselves, each without itself.
        n_neighbors : int, optional
            Unless given, that of the estimator.
        return_distance : bool

        Returns
        -------
        Neighbors
            ``(distances, indices)``; the indices alone without `return_distance`.
        """
        check_is_fitted(self)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        if not isinstance(k, numbers.Integral):
            raise TypeError(f"n_neighbors does not take {type(k)} value, enter integer value")
        if k <= 0:
            raise ValueError(f"Expected n_neighbors > 0. Got {k}")
        if X is not None:
            X = self._validated(X)
        most = self.n_samples_fit_ - (X is None)
        if k > most:
            sign = "<" if X is None else "<="
            rows = self.n_samples_fit_ if X is None else X.shape[0]
            raise ValueError(
                f"Expected n_neighbors {sign} n_samples_fit, but n_neighbors = {k}, "
                f"n_samples_fit = {self.n_samples_fit_}, n_samples = {rows}"
            )
        found = self._graph_of_points(int(k)) if X is None else self._search_points(X, int(k))
        return found if return_distance else found.indices

    def kneighbors_graph(
        self, X: Any = None, n_neighbors: int | None = None, mode: str = "connectivity"
    ) -> csr_matrix:
        """kneighbors as a sparse matrix.

        Parameters
        ----------
        X, n_neighbors
            As in `kneighbors`.
        mode : {"connectivity", "distance"}
            What stands in it: ones, or distances.

        Returns
        -------
        csr_matrix of shape (m, n)
            Each row in the order of distance.
        """
        check_is_fitted(self)
        return self._to_csr(self.kneighbors(X, n_neighbors), mode)

    def _to_csr(self, found: Neighbors, mode: str) -> csr_matrix:
        rows, k = found.indices.shape
        starts = np.arange(0, rows * k + 1, k)
        values = weights_of(mode, found.distances)
        shape = (rows, self.n_samples_fit_)
        return csr_matrix((values, found.indices.ravel(), starts), shape=shape)


def weights_of(mode: str, distances: Any) -> Any:
    """What stands in a sparse matrix of neighbours."""
    if mode == "distance":
        return distances.ravel()
    if mode == "connectivity":
        return np.ones(distances.size)
    raise ValueError(
        f'Unsupported mode, must be one of "connectivity", or "distance" but got "{mode}" instead'
    )
