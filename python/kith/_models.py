# SPDX-License-Identifier: Apache-2.0
"""Classification and regression by the nearest neighbours, as scikit-learn has them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from . import _structs as s
from ._arrays import refuse_masked
from ._estimator import InWords, NeighborsEstimator
from ._places import back, must_be_copied, on_host
from ._predict import predict
from ._typing import Metric

Weights = str | Callable[[Any], Any] | None


class _Model(NeighborsEstimator):
    """Neighbours with labels, and their weights."""

    weights: Weights

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        weights: Weights = "uniform",
        algorithm: str = "auto",
        leaf_size: int = 30,
        p: float = 2,
        metric: Metric = "minkowski",
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
        recall: float | None = None,
        random_state: Any = None,
        period: Any = None,
    ) -> None:
        self._keep(locals())

    def _fit_labelled(self, X: Any, y: Any, numeric: bool) -> Any:
        if not (self.weights in ("uniform", "distance", None) or callable(self.weights)):
            raise ValueError(
                f"weights is {self.weights!r}, must be 'uniform', 'distance' or a function"
            )
        refuse_masked(X, "X")
        self._labels_of = y if must_be_copied(y) else None
        X, y = self._checked_by_sklearn(X, y, multi_output=True, y_numeric=numeric)
        self._fit_points(X)
        return y

    def _like_labels(self, found: Any) -> Any:
        """Predictions, which are numbers where labels lie on a GPU, beside these."""
        return found if self._labels_of is None else back(self._labels_of, found)

    def _scored(self, score: Callable[..., float], X: Any, y: Any, sample_weight: Any) -> float:
        """scikit-learn's score, of arrays of the host."""
        alone = copy.copy(self)
        alone._labels_of = None
        return score(alone, X, on_host(y), on_host(sample_weight))

    def _weights(self, distances: Any) -> Any:
        """A weight for each neighbour; uniform ones are 1."""
        if self.weights in ("uniform", None):
            return np.ones(distances.shape)
        if callable(self.weights):
            return np.asarray(self.weights(distances), np.float64)
        if (distances < 0).any():
            raise ValueError(
                f"a distance is {distances.min():g}, weights='distance' divides by it (take a metric "
                "whose distances are not negative)"
            )
        with np.errstate(divide="ignore"):
            weights = 1.0 / np.asarray(distances, np.float64)
        infinite = np.isinf(weights)  # where neighbours are at 0, these alone count
        rows = infinite.any(axis=1)
        weights[rows] = infinite[rows]
        return weights

    def _near(self, X: Any) -> Any:
        """Distances and indices of the neighbours of X, in host memory."""
        return [np.asarray(on_host(part)) for part in self.kneighbors(X)]

    def _predicted(self, X: Any, labels: Any, mode: int, by_distance: int) -> Any:
        """kith_predict of the neighbours of X; of weights that are no function."""
        with InWords():
            how = by_distance if self.weights == "distance" else mode
            return predict(self.kneighbors(X), labels, how, self._settings())


class KNeighborsClassifier(ClassifierMixin, _Model):  # type: ignore[misc]
    """Classification by a vote of the nearest neighbours, as scikit-learn's.

    Parameters
    ----------
    n_neighbors : int
    weights : {"uniform", "distance"} or callable
        distance: by 1 / distance; where neighbours are at 0, these alone. A function makes weights
        of an array of distances.
    algorithm, leaf_size, p, metric, metric_params, n_jobs, device, recall, random_state, period
        As in `kith.NearestNeighbors`.

    Attributes
    ----------
    classes_ : array, or list of arrays where y has several columns
    effective_metric_ : str or callable
    n_features_in_, n_samples_fit_ : int
    outputs_2d_ : bool
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any) -> KNeighborsClassifier:
        """Keeps the points and their classes, one or several columns. Labels on a GPU are copied to
        the host, and predictions to their side; shares of votes are NumPy's."""
        y = self._fit_labelled(X, y, numeric=False)
        check_classification_targets(y)
        if y.ndim == 2 and y.shape[1] == 1:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected. Please change the "
                "shape of y to (n_samples,), for example using ravel().",
                DataConversionWarning,
                stacklevel=2,
            )
        self.outputs_2d_ = y.ndim == 2 and y.shape[1] > 1
        columns = y.reshape(len(y), -1)
        found = [np.unique(column, return_inverse=True) for column in columns.T]
        self._codes = np.stack([codes.ravel() for _, codes in found], axis=1)
        classes = [names for names, _ in found]
        self.classes_ = classes if self.outputs_2d_ else classes[0]
        return self

    def _votes(self, X: Any) -> list[Any]:
        """For each column of y the weight of each class."""
        check_is_fitted(self)
        distances, indices = self._near(X)
        weights = self._weights(distances)
        if (weights == 0).all(axis=1).any():
            raise ValueError("All neighbors of some sample are getting zero weights (see weights)")
        rows = np.arange(len(indices))
        result = []
        for column in range(self._codes.shape[1]):
            codes = self._codes[indices, column]
            votes = np.zeros((len(indices), int(self._codes[:, column].max()) + 1))
            for place in range(indices.shape[1]):
                votes[rows, codes[:, place]] += weights[:, place]
            result.append(votes)
        return result

    def predict(self, X: Any) -> Any:
        """The class of each row of X; of several with equal votes the first. None: of the points."""
        check_is_fitted(self)
        classes = self.classes_ if self.outputs_2d_ else [self.classes_]
        if callable(self.weights):  # these are Python's business
            codes = [np.argmax(each, axis=1) for each in self._votes(X)]
        else:
            codes = list(
                self._predicted(X, self._codes, s.PREDICT_VOTE, s.PREDICT_WEIGHTED_VOTE).T.astype(
                    np.intp
                )
            )
        chosen = [names[each] for names, each in zip(classes, codes)]
        return self._like_labels(np.stack(chosen, axis=1) if self.outputs_2d_ else chosen[0])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows of X whose class is y's."""
        return self._scored(ClassifierMixin.score, X, y, sample_weight)

    def predict_proba(self, X: Any) -> Any:
        """The share of votes that each class has; a list where y has several columns."""
        shares = [votes / votes.sum(axis=1, keepdims=True) for votes in self._votes(X)]
        return shares if self.outputs_2d_ else shares[0]


class KNeighborsRegressor(RegressorMixin, _Model):  # type: ignore[misc]
    """Regression by the mean of the nearest neighbours, as scikit-learn's, or by their median.

    Parameters
    ----------
    average : {"mean", "median"}
        The median has no weights: it goes with ``weights="uniform"``.
    n_neighbors, weights, algorithm, leaf_size, p, metric, metric_params, n_jobs, device, recall, \
random_state, period
        As in `kith.KNeighborsClassifier`.

    Attributes
    ----------
    effective_metric_ : str or callable
    n_features_in_, n_samples_fit_ : int
    """

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        weights: Weights = "uniform",
        average: str = "mean",
        algorithm: str = "auto",
        leaf_size: int = 30,
        p: float = 2,
        metric: Metric = "minkowski",
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        device: str | None = None,
        recall: float | None = None,
        random_state: Any = None,
        period: Any = None,
    ) -> None:
        self._keep(locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> KNeighborsRegressor:
        """Keeps the points and their values, one or several columns. Values on a GPU are copied to
        the host, and predictions to their side."""
        if self.average not in ("mean", "median"):
            raise ValueError(f"average is {self.average!r}, must be 'mean' or 'median'")
        if self.average == "median" and self.weights not in ("uniform", None):
            raise ValueError("average='median' has no weights (leave them out)")
        self._y = self._fit_labelled(X, y, numeric=True)
        return self

    def predict(self, X: Any) -> Any:
        """The mean, or the median, of each row's neighbours. X None: of the points, each without
        itself."""
        check_is_fitted(self)
        labels = self._y.reshape(len(self._y), -1)
        if callable(self.weights):  # these are Python's business
            distances, indices = self._near(X)
            weights = self._weights(distances)
            sums = (labels[indices] * weights[:, :, None]).sum(axis=1)
            found = sums / weights.sum(axis=1, keepdims=True)
        else:
            found = self._predicted(
                X,
                labels,
                s.PREDICT_MEDIAN if self.average == "median" else s.PREDICT_MEAN,
                s.PREDICT_WEIGHTED,
            )
        return self._like_labels(found if self._y.ndim == 2 else found.ravel())

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R squared of predictions of X for y."""
        return self._scored(RegressorMixin.score, X, y, sample_weight)
