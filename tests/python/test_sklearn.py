# SPDX-License-Identifier: Apache-2.0
"""The estimators: scikit-learn's own checks, and its own answers."""

import functools
import operator
import os
import pickle
import threading
import unittest
import unittest.mock
import warnings

import kith
import numpy as np
import support

try:
    import sklearn.neighbors as theirs
    from scipy.sparse import csr_matrix
    from sklearn.base import clone
    from sklearn.utils.estimator_checks import check_estimator
except ImportError as missing:
    raise unittest.SkipTest(f"scikit-learn is missing: {missing}") from None

X = support.points(300, 5, np.float64)
Q = support.points(40, 5, np.float64, seed=1)
Y = np.stack([np.arange(300) % 3, np.arange(300) % 2], axis=1)


class Checks(unittest.TestCase):
    def test_check_estimator(self):
        for name in (
            "NearestNeighbors",
            "KNeighborsTransformer",
            "RadiusNeighborsTransformer",
            "KNeighborsClassifier",
            "KNeighborsRegressor",
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = check_estimator(getattr(kith, name)(), on_fail=None)
            failed = [each["check_name"] for each in results if each["status"] == "failed"]
            self.assertEqual(failed, [], name)
            self.assertGreater(len(results), 30)

    def test_estimators_are_cloned_pickled_and_survive_a_fork(self):
        nearest = kith.NearestNeighbors(n_neighbors=4, metric="cosine").fit(X)
        for _ in range(3):  # from the second on the points are prepared
            truth = nearest.kneighbors(Q).indices
        again = pickle.loads(pickle.dumps(nearest))
        np.testing.assert_array_equal(again.kneighbors(Q).indices, truth)
        self.assertEqual(clone(nearest).get_params(), nearest.get_params())
        child = os.fork()
        if child == 0:
            os._exit(0 if (nearest.kneighbors(Q).indices == truth).all() else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


def assert_same_csr(ours, their):
    assert ours.shape == their.shape
    np.testing.assert_array_equal(ours.indptr, their.indptr)
    np.testing.assert_array_equal(ours.indices, their.indices)
    np.testing.assert_allclose(ours.data, their.data, atol=1e-7)


class Answers(unittest.TestCase):
    def test_neighbours_for_metrics_and_algorithms(self):
        options = [
            {"metric": name}
            for name in ("euclidean", "cosine", "manhattan", "chebyshev", "correlation")
        ]
        options += [{"p": 1}, {"p": np.inf}, {"algorithm": "kd_tree"}, {"algorithm": "ball_tree"}]
        options += [{"metric_params": {"p": 1}}, {"metric": lambda a, b: np.abs(a - b).max()}]
        for each in options:
            ours = kith.NearestNeighbors(n_neighbors=6, **each).fit(X)
            if "metric_params" in each:
                each = {"p": 1}
            their = theirs.NearestNeighbors(n_neighbors=6, **each).fit(X)
            for queries in Q, Q, None:  # the second time the points are prepared
                distances, indices = ours.kneighbors(queries)
                true_distances, true_indices = their.kneighbors(queries)
                np.testing.assert_array_equal(indices, true_indices, str(each))
                np.testing.assert_allclose(distances, true_distances, atol=1e-7)
        only = ours.kneighbors(Q, n_neighbors=2, return_distance=False)
        np.testing.assert_array_equal(only, true_indices_of(their, 2))

    def test_a_point_with_many_twins_is_never_its_own_neighbour(self):
        x = np.zeros((20, 2))
        found = kith.NearestNeighbors(n_neighbors=3).fit(x).kneighbors()
        self.assertFalse((found.indices == np.arange(20)[:, None]).any())
        graph = kith.KNeighborsTransformer(n_neighbors=3).fit_transform(x)
        np.testing.assert_array_equal(graph.indices.reshape(20, 4)[:, 0], np.arange(20))

    def test_graphs_and_radius(self):
        ours, their = (
            kith.NearestNeighbors(radius=1.5).fit(X),
            theirs.NearestNeighbors(radius=1.5).fit(X),
        )
        for mode in "connectivity", "distance":
            assert_same_csr(ours.kneighbors_graph(Q, 4, mode), their.kneighbors_graph(Q, 4, mode))
            assert_same_csr(
                ours.radius_neighbors_graph(mode=mode),
                their.radius_neighbors_graph(mode=mode, sort_results=True)
                if mode == "distance"
                else sorted_connectivity(their),
            )
        distances, indices = ours.radius_neighbors(Q)
        true_distances, true_indices = their.radius_neighbors(Q, sort_results=True)
        for row in range(len(Q)):
            np.testing.assert_array_equal(indices[row], true_indices[row])
            np.testing.assert_allclose(distances[row], true_distances[row])
        with self.assertRaisesRegex(ValueError, "Expected n_neighbors < n_samples_fit"):
            ours.kneighbors(n_neighbors=300)

    def test_transformers(self):
        for mode in "distance", "connectivity":
            ours = kith.KNeighborsTransformer(mode=mode, n_neighbors=4)
            their = theirs.KNeighborsTransformer(mode=mode, n_neighbors=4)
            assert_same_csr(ours.fit_transform(X), their.fit_transform(X))
            assert_same_csr(ours.transform(Q), their.transform(Q))
        ours = kith.RadiusNeighborsTransformer(radius=1.5)
        their = theirs.RadiusNeighborsTransformer(radius=1.5)
        assert_same_csr(ours.fit_transform(X), their.fit_transform(X))
        assert_same_csr(ours.transform(Q), their.transform(Q))

    def test_what_takes_their_graphs_takes_ours_without_a_warning(self):
        from sklearn.cluster import DBSCAN, SpectralClustering
        from sklearn.manifold import Isomap

        x = X.astype(np.float32)
        for transformer, estimator in (
            (
                kith.KNeighborsTransformer(n_neighbors=9),
                SpectralClustering(3, affinity="precomputed_nearest_neighbors", n_neighbors=9),
            ),
            (
                kith.KNeighborsTransformer(n_neighbors=9),
                Isomap(n_neighbors=8, metric="precomputed"),
            ),
            (kith.RadiusNeighborsTransformer(radius=1), DBSCAN(eps=0.9, metric="precomputed")),
        ):
            graph = transformer.fit_transform(x)
            self.assertEqual(graph.dtype, np.float64)
            with warnings.catch_warnings():
                warnings.filterwarnings("error", message=".*not sorted by row values.*")
                estimator.fit(graph)

    def test_models(self):
        names = np.array(["a", "b", "c"])
        for weights in "uniform", "distance", lambda d: np.exp(-d):
            for y in Y[:, 0], names[Y[:, 0]], Y:
                ours = kith.KNeighborsClassifier(5, weights=weights).fit(X, y)
                their = theirs.KNeighborsClassifier(5, weights=weights).fit(X, y)
                for queries in Q, X:  # X: distances of 0
                    np.testing.assert_array_equal(ours.predict(queries), their.predict(queries))
                    shares = ours.predict_proba(queries), their.predict_proba(queries)
                    for column in zip(*shares) if y.ndim == 2 else [shares]:
                        np.testing.assert_allclose(*column)
            for y in X[:, 0], X[:, :2]:
                ours = kith.KNeighborsRegressor(5, weights=weights).fit(X, y)
                their = theirs.KNeighborsRegressor(5, weights=weights).fit(X, y)
                for queries in Q, X:
                    np.testing.assert_allclose(ours.predict(queries), their.predict(queries))

    def test_models_give_the_bytes_of_the_librarys_prediction(self):
        by_hand = {
            # From the left, as the library does; the sum() of Python 3.12 and later makes up for roundings.
            "mean": lambda y: functools.reduce(operator.add, y.tolist()) / len(y),
            "median": lambda y: float(np.median(y)),
        }
        y = support.points(300, 2, np.float64, seed=3) * 1e3
        for average, one in by_hand.items():
            for k in 4, 5:
                model = kith.KNeighborsRegressor(k, average=average).fit(X, y)
                truth = [
                    [one(y[row, col]) for col in (0, 1)] for row in model.kneighbors(Q).indices
                ]
                self.assertEqual(model.predict(Q).tobytes(), np.array(truth).tobytes())
                single = kith.KNeighborsRegressor(k, average=average).fit(X, y[:, 1]).predict(Q)
                self.assertEqual(single.tobytes(), np.array(truth)[:, 1].tobytes())
        for weights in "uniform", "distance":
            model = kith.KNeighborsClassifier(6, weights=weights).fit(X, Y[:, 0])
            for queries in Q, X, None:
                best = model.classes_[np.argmax(model.predict_proba(queries), axis=1)]
                np.testing.assert_array_equal(model.predict(queries), best)
        with unittest.mock.patch("kith._models.predict", side_effect=KeyError("asked")):
            with self.assertRaisesRegex(KeyError, "asked"):
                kith.KNeighborsClassifier().fit(X, Y[:, 0]).predict(Q)
        self.assertEqual(clone(model).get_params(), model.get_params())
        regressor = kith.KNeighborsRegressor(average="median")
        self.assertEqual(clone(regressor).average, "median")
        for text, options in (
            ("average is 'mode', must be 'mean' or 'median'", {"average": "mode"}),
            ("has no weights", {"average": "median", "weights": "distance"}),
        ):
            with self.assertRaisesRegex(ValueError, text):
                kith.KNeighborsRegressor(**options).fit(X, y)
        far = kith.KNeighborsRegressor(3, metric="inner_product", weights="distance")
        text = r"^the neighbours of X\[0, 0\] has the distance -.*, and weights divide by it .take"
        with self.assertRaisesRegex(ValueError, text):
            far.fit(abs(X), y).predict(-abs(X))
        far = kith.KNeighborsClassifier(3, metric="inner_product", weights="distance")
        with self.assertRaisesRegex(ValueError, "weights='distance' divides by it .take a metric"):
            far.fit(abs(X), Y[:, 0]).predict_proba(-abs(X))

    def test_sparse_points(self):
        x = np.where(X > 0.3, X, 0)
        ours = kith.NearestNeighbors(metric="cosine").fit(csr_matrix(x))
        dense = kith.NearestNeighbors(metric="cosine").fit(x)
        for queries in csr_matrix(Q), Q, None:
            full = Q if queries is not None else None
            np.testing.assert_array_equal(
                ours.kneighbors(queries).indices, dense.kneighbors(full).indices
            )

    def test_nn_descent(self):
        x, q = support.points(3000, 12), support.points(100, 12, seed=1)
        ours = kith.NearestNeighbors(
            n_neighbors=10, algorithm="nn_descent", recall=0.95, random_state=0
        )
        ours.fit(x)
        for found, truth in (
            (ours.kneighbors(), kith.knn_graph(x, 10)),
            (ours.kneighbors(q), kith.knn(x, q, 10)),
        ):
            self.assertGreater(kith.recall(found, truth).recall, 0.93)
        ours.set_params(algorithm="brute").fit(x[:100])
        exact = kith.knn_graph(x[:100], 10)
        np.testing.assert_array_equal(ours.kneighbors().indices, exact.indices)
        transformer = kith.KNeighborsTransformer(
            n_neighbors=10, algorithm="nn_descent", random_state=0
        )
        self.assertEqual(transformer.fit_transform(x).nnz, 11 * 3000)

    def test_walks_on_a_graph_are_prepared_once(self):
        from kith import _walk
        from kith._arrays import as_matrix

        for dtype, metric, recall in (
            ("float32", "euclidean", None),
            ("float64", "manhattan", 0.9),
            ("uint8", "cosine", None),
        ):
            x = (40 * abs(support.points(2500, 12))).astype(dtype)
            q = (40 * abs(support.points(60, 12, seed=1))).astype(dtype)
            options = {"algorithm": "nn_descent", "metric": metric, "recall": recall}
            nearest = kith.NearestNeighbors(n_neighbors=6, random_state=5, **options).fit(x)
            known = nearest._graph, metric, 2, recall, 5

            def prepared_anew(queries):
                graph, *rest = known
                points, asked = as_matrix(x, "x"), as_matrix(queries, "queries")
                return _walk._graph_search(points, graph, asked, 6, *rest, nearest._settings())

            kinds = [q, q[:1], q.astype("float32")] if dtype == "uint8" else [q, q[:1]]
            truths = [prepared_anew(each) for each in kinds]
            made = unittest.mock.patch.object(
                kith.Index, "_of_matrix", side_effect=kith.Index._of_matrix
            )
            with made as index:
                found = [[None] * len(kinds) for _ in range(6)]

                def ask(slot):
                    found[slot] = [nearest.kneighbors(each) for each in kinds]

                threads = [threading.Thread(target=ask, args=(slot,)) for slot in range(6)]
                for each in threads:
                    each.start()
                for each in threads:
                    each.join()
                self.assertEqual(index.call_count, 1)
            again = pickle.loads(pickle.dumps(nearest))
            for answers in *found, [again.kneighbors(each) for each in kinds]:
                for answer, truth in zip(answers, truths):
                    self.assertEqual(answer.indices.tobytes(), truth.indices.tobytes())
                    self.assertEqual(answer.distances.tobytes(), truth.distances.tobytes())
            child = os.fork()
            if child == 0:
                same = nearest.kneighbors(q).indices == truths[0].indices
                os._exit(0 if same.all() else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
        labels = x[:, 0] > 20
        guess = kith.KNeighborsClassifier(5, **options).fit(x, labels)
        self.assertGreater((guess.predict(x) == labels).mean(), 0.9)

    def test_parameters_that_are_set_wait_for_the_next_fit(self):
        nearest = kith.NearestNeighbors(n_neighbors=3, metric="manhattan").fit(X)
        truth = nearest.kneighbors(Q).distances
        nearest.set_params(metric="chebyshev", algorithm="nn_descent")
        for _ in range(3):
            np.testing.assert_array_equal(nearest.kneighbors(Q).distances, truth)
        other = nearest.fit(X).kneighbors(Q).distances
        self.assertFalse((other == truth).any())

    def test_plain_queries_are_taken_and_others_validated(self):
        import kith._estimator as estimator

        fitted = kith.NearestNeighbors(n_neighbors=3, n_jobs=1).fit(X)
        their = theirs.NearestNeighbors(n_neighbors=3).fit(X)
        bad, named = Q.copy(), kith.NearestNeighbors().fit(X)
        bad[3, 2] = np.inf
        named.feature_names_in_ = np.array(list("abcde"), object)  # as a data frame leaves them
        validate = estimator.validate_data
        with unittest.mock.patch.object(estimator, "validate_data", side_effect=validate) as said:
            for times in range(3):  # the second search prepares the points
                for q in Q, Q[:1], Q.astype(np.float32), np.asfortranarray(Q), Q[::2]:
                    self.assertTrue((fitted.kneighbors(q)[1] == their.kneighbors(q)[1]).all())
            self.assertEqual(said.call_count, 0)
            for other in Q.tolist(), (8 * Q).astype(int), Q.astype(">f8"):
                fitted.kneighbors(other)
            self.assertEqual(said.call_count, 3)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                named.kneighbors(Q)
            self.assertIn("does not have valid feature names", str(caught[0].message))
            with self.assertRaisesRegex(ValueError, r"^X\[3, 2\] is infinite"):
                fitted.kneighbors(bad)
            for wrong in Q[:, :4], Q[:0], Q[0]:
                messages = []
                for each in fitted, their:
                    with self.assertRaises(ValueError) as raised:
                        each.kneighbors(wrong)
                    messages.append(str(raised.exception))
                self.assertEqual(*messages)

    def test_what_cannot_be_is_said(self):
        for error, text, options in (
            (ValueError, "no parameters", {"metric": "euclidean", "metric_params": {"w": 1}}),
            (ValueError, "'precomputed' is not there", {"metric": "precomputed"}),
            (ValueError, "algorithm is 'hnsw'", {"algorithm": "hnsw"}),
        ):
            with self.assertRaisesRegex(error, text):
                kith.NearestNeighbors(**options).fit(X)


def true_indices_of(their, k):
    return their.kneighbors(Q, n_neighbors=k, return_distance=False)


def sorted_connectivity(their):
    """Ones, in the order of distance."""
    graph = their.radius_neighbors_graph(mode="distance", sort_results=True)
    graph.data[:] = 1
    return graph


if __name__ == "__main__":
    unittest.main()
