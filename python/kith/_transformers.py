# SPDX-License-Identifier: Apache-2.0
"""Transformers of points to sparse matrices of neighbours, for pipelines, UMAP and Scanpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ._estimator import NeighborsEstimator
from ._nearest import RadiusMixin
from ._places import on_host
from ._results import Neighbors
from ._typing import Metric

# A point need not be the nearest to itself.
_SELF_MAY_BE_FAR = ("inner_product", "kl")


class KNeighborsTransformer(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    NeighborsEstimator,
):
    """Points to the sparse matrix of their nearest neighbours, as scikit-learn's.

    Parameters
    ----------
    mode : {"distance", "connectivity"}
        distance: a fitted point has itself, at 0, and n_neighbors others. connectivity: ones at
        itself and n_neighbors - 1 others.
    n_neighbors, algorithm, leaf_size, metric, p, metric_params, n_jobs, device, recall, random_state, period
        As in `kith.NearestNeighbors`.

    Examples
    --------
    >>> import kith
    >>> kith.KNeighborsTransformer(n_neighbors=1).fit_transform([[0.0], [1.0], [3.0]]).toarray()
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 2., 0.]])
    """

    mode: str

    def __init__(
        self,
        *,
        mode: str = "distance",
        n_neighbors: int = 5,
        algorithm: str = "auto",
        leaf_size: int = 30,
        metric: Metric = "minkowski",
        p: float = 2,
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
        recall: float | None = None,
        random_state: Any = None,
        period: Any = None,
    ) -> None:
        self._keep(locals())

    @property
    def _n_features_out(self) -> int:
        return self.n_samples_fit_

    def fit(self, X: Any, y: Any = None) -> KNeighborsTransformer:
        """Keeps the points."""
        self._fit_unlabelled(X)
        return self

    def _row_length(self) -> int:
        return self.n_neighbors + (self.mode == "distance")

    def transform(self, X: Any) -> csr_matrix:
        """The nearest fitted points of each row of X; n_neighbors + 1 of them for distances."""
        check_is_fitted(self)
        return self.kneighbors_graph(X, self._row_length(), self.mode)

    def fit_transform(self, X: Any, y: Any = None) -> csr_matrix:
        """The nearest points of each point, itself first."""
        self.fit(X)
        k = self._row_length()
        if k > self.n_samples_fit_:
            return self.transform(X)  # which says what is wrong
        if self.effective_metric_ in _SELF_MAY_BE_FAR:
            return self._to_csr(self._make_graph(k, include_self=True), self.mode)
        own = np.arange(self.n_samples_fit_)[:, None]
        if k == 1:
            return self._to_csr(Neighbors(np.zeros(own.shape), own), self.mode)
        others = self._graph_of_points(k - 1)
        far, ids = (np.asarray(on_host(part)) for part in others)
        distances = np.zeros((len(own), k), far.dtype)
        distances[:, 1:] = far
        indices = np.concatenate([own, ids], axis=1)
        return self._to_csr(Neighbors(distances, indices), self.mode)


class RadiusNeighborsTransformer(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    RadiusMixin,
):
    """Points to the sparse matrix of their neighbours within a radius, as scikit-learn's.

    Parameters
    ----------
    mode : {"distance", "connectivity"}
    radius : float
    algorithm, leaf_size, metric, p, metric_params, n_jobs, device, period
        As in `kith.NearestNeighbors`.
    """

    n_neighbors = 1  # of no meaning here
    recall = None
    random_state = None

    def __init__(
        self,
        *,
        mode: str = "distance",
        radius: float = 1.0,
        algorithm: str = "auto",
        leaf_size: int = 30,
        metric: Metric = "minkowski",
        p: float = 2,
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
        period: Any = None,
    ) -> None:
        self._keep(locals())

    @property
    def _n_features_out(self) -> int:
        return self.n_samples_fit_

    def fit(self, X: Any, y: Any = None) -> RadiusNeighborsTransformer:
        """Keeps the points."""
        if self.algorithm == "nn_descent":
            raise ValueError("algorithm nn_descent finds a number of neighbours, not a radius")
        self._fit_unlabelled(X)
        return self

    def transform(self, X: Any) -> csr_matrix:
        """The fitted points within the radius of each row of X."""
        check_is_fitted(self)
        return self.radius_neighbors_graph(X, mode=self.mode)

    def fit_transform(self, X: Any, y: Any = None) -> csr_matrix:
        """The points within the radius of each point, itself among them."""
        self.fit(X)
        return self._ranges_to_csr(self._ranges(None, None, include_self=True), self.mode)
