# SPDX-License-Identifier: Apache-2.0
"""NearestNeighbors, and neighbours within a radius as scikit-learn has them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.utils.validation import check_is_fitted

from ._estimator import InWords, NeighborsEstimator, weights_of
from ._places import on_host
from ._radius import Ranges, radius_neighbors
from ._typing import Metric


class RadiusMixin(NeighborsEstimator):
    """radius_neighbors of fitted points."""

    radius: float

    def _ranges(
        self, X: Any, radius: Any, include_self: bool = False, count_only: bool = False
    ) -> Ranges:
        check_is_fitted(self)
        queries = None if X is None else self._asked(X)
        with InWords():
            return radius_neighbors(
                self._fit_X,
                queries,
                radius=self.radius if radius is None else radius,
                algorithm=self._fitted.exact(),
                include_self=include_self,
                count_only=count_only,
                **self._options(),
            )

    def radius_neighbors(
        self,
        X: Any = None,
        radius: Any = None,
        return_distance: bool = True,
        sort_results: bool = False,
    ) -> Any:
        """All fitted points within a radius of each row of X.

        Parameters
        ----------
        X : {array, sparse matrix} of shape (m, d), optional
            Without it the fitted points themselves, each without itself.
        radius : float or array of m floats, optional
            Unless given, that of the estimator.
        return_distance : bool
        sort_results : bool
            Taken as in scikit-learn: rows are always sorted, by (distance, index).

        Returns
        -------
        (distances, indices) : two arrays of m arrays
            The indices alone without `return_distance`. On a GPU where the fitted X lies there.
        """
        if sort_results and not return_distance:
            raise ValueError("return_distance must be True if sort_results is True.")
        found = self._ranges(X, radius)
        offsets = np.asarray(on_host(found.offsets))
        indices = _rows(found.indices, offsets)
        return (_rows(found.distances, offsets), indices) if return_distance else indices

    def radius_neighbors_graph(
        self,
        X: Any = None,
        radius: Any = None,
        mode: str = "connectivity",
        sort_results: bool = False,
    ) -> csr_matrix:
        """radius_neighbors as a sparse matrix of shape (m, n): ones, or distances."""
        return self._ranges_to_csr(self._ranges(X, radius), mode)

    def _ranges_to_csr(self, found: Ranges, mode: str) -> csr_matrix:
        shape = (len(found.offsets) - 1, self.n_samples_fit_)
        lists = found.distances, found.indices, found.offsets
        distances, *rows = (np.asarray(on_host(part)) for part in lists)
        return csr_matrix((weights_of(mode, distances), *rows), shape=shape)


def _rows(values: Any, offsets: Any) -> Any:
    """An array of arrays."""
    rows = np.empty(len(offsets) - 1, object)
    for index in range(len(rows)):
        rows[index] = values[offsets[index] : offsets[index + 1]]
    return rows


class NearestNeighbors(RadiusMixin):
    """Nearest neighbours with scikit-learn's interface, exact unless told otherwise.

    Parameters
    ----------
    n_neighbors : int
    radius : float
    algorithm : {"auto", "brute", "kd_tree", "ball_tree", "nn_descent"}
        The first four give the same answers, ``auto`` by the fastest way. ``nn_descent`` makes an
        approximate graph when it is fitted, and finds the neighbours of new points by it; what
        that needs is prepared by the first search, and kept.
    leaf_size : int
        Taken for scikit-learn's sake; the library chooses the leaves of its tree.
    metric : str or callable
        As in `kith.knn`.
    p : float
        Of ``minkowski``, the default: 1 to 3355.4431 in steps of 0.0001, or infinity.
    metric_params : dict, optional
        Further arguments of a function as metric.
    n_jobs : int, optional
        Threads. -1: all processors. None, unlike in scikit-learn: as in `kith.knn`.
    device : str, optional
        ``"auto"`` (default), ``"cpu"``, ``"cuda"``, ``"cuda:1"``.
    recall : float, optional
        The share of true neighbours that is enough (`kith.knn_graph`).
    random_state : int, optional
        Seed of ``nn_descent``.
    period : float or array of d floats, optional
        As in `kith.knn`; not of ``nn_descent``.

    Attributes
    ----------
    effective_metric_ : str or callable
    n_features_in_, n_samples_fit_ : int

    Examples
    --------
    >>> import kith
    >>> nearest = kith.NearestNeighbors(n_neighbors=1).fit([[0.0], [1.0], [3.0]])
    >>> nearest.kneighbors([[2.5]], return_distance=False)
    array([[2]])
    """

    def __init__(
        self,
        n_neighbors: int = 5,
        radius: float = 1.0,
        *,
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

    def fit(self, X: Any, y: Any = None) -> NearestNeighbors:
        """Keeps the points; X is not copied where its type allows it. On a GPU it stays there, and
        neighbours are found and given there; new points of ``nn_descent`` are copied to the host."""
        self._fit_unlabelled(X)
        return self
