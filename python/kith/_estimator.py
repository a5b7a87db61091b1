# SPDX-License-Identifier: Apache-2.0
"""What all estimators are: parameters, points, and kneighbors, as scikit-learn has them."""

from __future__ import annotations

import functools
import math
import numbers
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from . import _metrics, _options
from . import _structs as s
from ._arrays import HostMatrix, as_matrix, refuse_masked, refuse_missing
from ._context import Settings, settings
from ._errors import rename
from ._places import check_together, must_be_copied, on_host
from ._prepared import Prepared
from ._results import Neighbors
from ._search import knn, knn_graph, like
from ._typing import Metric
from ._walk import Walks

# What the library is told, and what it is here.
_NAMES = {
    "corpus": "the fitted X",
    "the corpus": "the fitted X",
    "the index": "the fitted X",
    "queries": "X",
    "k": "n_neighbors",
}
_PLAIN = np.dtype(np.float32), np.dtype(np.float64)


class Fitted(NamedTuple):
    """What was said when points were fitted: parameters that are set later wait for the next fit."""

    algorithm: str
    metric: Metric
    p: float
    period: Any = None

    def exact(self) -> str:
        """The algorithm, where an approximate one has no say."""
        return "auto" if self.algorithm == "nn_descent" else self.algorithm


class NeighborsEstimator(BaseEstimator):  # type: ignore[misc]
    """Points that were fitted, and their nearest neighbours."""

    n_neighbors: int
    algorithm: str
    leaf_size: int
    metric: Metric
    p: float
    metric_params: dict[str, Any] | None
    n_jobs: int | None
    device: str | None
    recall: float | None
    random_state: Any
    period: Any

    def _keep(self, given: dict[str, Any]) -> None:
        """The parameters of __init__, which is what scikit-learn reads them from."""
        for name in self._get_param_names():
            setattr(self, name, given[name])

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
        _options.check_recall(self.recall)
        metric, p = self._metric_and_p()
        self._fitted = Fitted(self.algorithm, metric, p, self.period)
        number = _metrics.code(metric, p) if isinstance(metric, str) else 0
        self.effective_metric_ = _metrics.name(number) if number else self.metric
        self._settings()
        there = must_be_copied(X)
        self._fit_X = X.tocsr() if issparse(X) else X if there else as_matrix(X, "X").array
        self._walked = on_host(X) if there and method == s.METHOD_DESCENT else self._fit_X
        self.n_samples_fit_ = int(X.shape[0])
        self._prepared = Prepared()
        self._walks = Walks()
        self._graph: Neighbors | None = None
        if method == s.METHOD_DESCENT:
            if self.n_samples_fit_ < 2:
                raise ValueError("n_samples = 1, a graph by nn_descent has at least 2 points")
            k = _checked(self.n_neighbors)
            self._graph = self._make_graph(min(k, self.n_samples_fit_ - 1))

    def _metric_and_p(self) -> tuple[Metric, float]:
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
        _, metric, p, period = self._fitted
        return {
            "metric": metric,
            "p": p,
            "period": period,
            "n_jobs": self.n_jobs,
            "device": self.device,
        }

    def _fit_unlabelled(self, X: Any) -> None:
        """Keeps X, as it was given."""
        refuse_masked(X, "X")
        self._fit_points(self._checked_by_sklearn(X))

    def _asked(self, X: Any) -> Any:
        """X, validated, which lies where the fitted points do."""
        check_together("the fitted X", self._fit_X, X=X)
        return self._validated(X)

    def _validated(self, X: Any) -> Any:
        if self._is_plain(X):
            return X
        refuse_masked(X, "X")
        return self._checked_by_sklearn(X, reset=False)

    def _checked_by_sklearn(self, X: Any, y: Any = "no_validation", **options: Any) -> Any:
        """scikit-learn's own checks; what is missing is named by its row and column. Of X on a GPU
        shape and type are checked here, and values by the library."""
        labelled = not isinstance(y, str)
        y = on_host(y)
        try:
            if must_be_copied(X):
                rows = self._check_there(X, options.pop("reset", True))
                return (X, check_X_y(np.zeros((rows, 1)), y, **options)[1]) if labelled else X
            return validate_data(self, X, y, accept_sparse="csr", **options)
        except ValueError:
            if not must_be_copied(X):
                refuse_missing(X, "X")
            if labelled and y is not None:
                refuse_missing(y, "y")
            raise

    def _check_there(self, X: Any, reset: bool) -> int:
        from . import _cuda

        matrix = _cuda.as_device_matrix(X, "X").struct
        rows, cols = int(matrix.rows), int(matrix.cols)
        if rows < 1 or cols < 1:
            raise ValueError(
                f"X has {rows} rows and {cols} columns, must have at least one of each"
            )
        if reset:
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            self.n_features_in_ = cols
        elif cols != self.n_features_in_:
            raise ValueError(
                f"X has {cols} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        return rows

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
            algorithm=self._fitted.algorithm,
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
        algorithm, metric, p, period = self._fitted
        if issparse(X) or issparse(self._fit_X):
            algorithm = self._fitted.exact()
            return knn(self._fit_X, X, k, algorithm=algorithm, **self._options())
        there = must_be_copied(X)
        if there and algorithm != "nn_descent":
            return self._prepared.search_there(self._fit_X, X, k, algorithm, **self._options())
        points: HostMatrix = as_matrix(self._walked, "the fitted X")
        queries = as_matrix(X, "X")
        if algorithm == "nn_descent":
            seed = _options.seed(self.random_state)
            graph = self._graph
            assert graph is not None
            found = self._walks.search(
                points, graph, queries, k, metric, p, self.recall, seed, self._settings()
            )
            return like(X, found) if there else found
        method = _options.method(algorithm)
        return self._prepared.search(
            points, queries, k, metric, p, method, self._settings(), period
        )

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
            ``(distances, indices)``; the indices alone without `return_distance`. On a GPU where
            the fitted X lies there; so must X, then.
        """
        check_is_fitted(self)
        k = _checked(self.n_neighbors if n_neighbors is None else n_neighbors)
        if X is not None:
            X = self._asked(X)
        most = self.n_samples_fit_ - (X is None)
        if k > most:
            sign = "<" if X is None else "<="
            rows = self.n_samples_fit_ if X is None else X.shape[0]
            raise ValueError(
                f"Expected n_neighbors {sign} n_samples_fit, but n_neighbors = {k}, "
                f"n_samples_fit = {self.n_samples_fit_}, n_samples = {rows}"
            )
        with InWords():
            found = self._graph_of_points(k) if X is None else self._search_points(X, k)
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
        distances, indices = (np.asarray(on_host(part)) for part in found)
        rows, k = indices.shape
        starts = np.arange(0, rows * k + 1, k)
        values = weights_of(mode, distances)
        shape = (rows, self.n_samples_fit_)
        return csr_matrix((values, indices.ravel(), starts), shape=shape)


class InWords:
    """Errors from within are about an estimator's arguments."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ValueError):
            rename(error, _NAMES)


def _checked(n_neighbors: Any) -> int:
    if not isinstance(n_neighbors, numbers.Integral):
        raise TypeError(f"n_neighbors does not take {type(n_neighbors)} value, enter integer value")
    if n_neighbors <= 0:
        raise ValueError(f"Expected n_neighbors > 0. Got {n_neighbors}")
    return int(n_neighbors)


def weights_of(mode: str, distances: Any) -> Any:
    """What stands in a sparse matrix of neighbours: float64, since scikit-learn would convert others
    and by that lose the order of rows."""
    if mode == "distance":
        return distances.ravel().astype(np.float64, copy=False)
    if mode == "connectivity":
        return np.ones(distances.size)
    raise ValueError(
        f'Unsupported mode, must be one of "connectivity", or "distance" but got "{mode}" instead'
    )
