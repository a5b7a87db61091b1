# SPDX-License-Identifier: Apache-2.0
"""Minkowski distances of any power: against NumPy, SciPy and scikit-learn where they are there."""

import pathlib
import tempfile
import unittest

import kith
import numpy as np
import support

try:
    from scipy.spatial.distance import cdist
    from sklearn import neighbors
    from sklearn.metrics import pairwise_distances
except ImportError:
    cdist = None

POWERS = 1.1, 1.5, 2.5, 3, 4, 7.25, 16, 17
# Theirs are sums by pow() and a last pow(), each within a few units of 2**-53.
TOLERANCE = 1e-13


def plain(x, y, p):
    """All distances, in longdouble."""
    t = np.abs(x.astype(np.longdouble)[:, None, :] - y.astype(np.longdouble)[None, :, :])
    return (t**p).sum(-1) ** (1 / np.longdouble(p))


class Minkowski(unittest.TestCase):
    def setUp(self):
        self.x = support.points(160, 7, np.float64)
        self.q = support.points(30, 7, np.float64, seed=1)

    def close(self, found, wanted):
        np.testing.assert_allclose(found, wanted.astype(float), rtol=TOLERANCE, atol=0)

    def test_searches_are_those_of_the_definition(self):
        for p in POWERS:
            right = np.sort(plain(self.q, self.x, p), axis=1)[:, :6]
            out = np.empty((30, 6)), np.empty((30, 6), np.int64)
            found = kith.knn(self.x, self.q, 6, metric="minkowski", p=p, out=out)
            self.close(found.distances, right)
            self.assertEqual(found.metric, f"minkowski:{p:g}")
            again = kith.knn(self.x, self.q, 6, metric=f"minkowski:{p:g}")
            np.testing.assert_array_equal(again.indices, found.indices)

    def test_graphs_radii_and_pairs(self):
        for p in (1.5, 3):
            all_pairs = plain(self.x, self.x, p).astype(float)
            graph = kith.knn_graph(self.x, 5, metric="minkowski", p=p)
            others = all_pairs + np.diag(np.full(160, np.inf))
            np.testing.assert_array_equal(graph.indices, np.argsort(others, axis=1)[:, :5])
            radius = float(np.quantile(all_pairs, 0.03))
            ranges = kith.radius_neighbors(self.x, radius=radius, metric="minkowski", p=p)
            self.assertEqual(len(ranges.indices), int((others <= radius).sum()))
            found = kith.pairs(self.x, radius=radius, metric="minkowski", p=p).all()
            self.assertEqual(len(found[0]), len(ranges.indices) // 2)

    def test_whole_powers_of_names_are_the_names(self):
        for p, name in (1, "manhattan"), (2, "euclidean"), (2.0, "l2"), (np.inf, "chebyshev"):
            ours = kith.knn(self.x, self.q, 4, metric="minkowski", p=p)
            same = kith.knn(self.x, self.q, 4, metric=name)
            self.assertEqual(ours.distances.tobytes(), same.distances.tobytes())
            self.assertEqual(ours.metric, same.metric)

    def test_indices_and_files_keep_the_power(self):
        truth = kith.knn(self.x, self.q, 4, metric="minkowski", p=2.5)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "points.kith"
            index = kith.Index(self.x, "minkowski", p=2.5, method="exact")
            self.assertEqual(index.metric, "minkowski:2.5")
            index.save(path)
            opened = kith.Index.open(path)
            self.assertEqual(opened.metric, "minkowski:2.5")
            found = opened.search(self.q, 4)
            self.assertEqual(found.distances.tobytes(), truth.distances.tobytes())
            graph = kith.Graph(kith.knn_graph(self.x, 5, metric="minkowski", p=3))
            for ending in "npz", "kith":
                graph.save(pathlib.Path(folder) / f"graph.{ending}")
                again = kith.Graph.load(pathlib.Path(folder) / f"graph.{ending}")
                self.assertEqual(again.metric, "minkowski:3")
            with self.assertRaisesRegex(ValueError, "minkowski:3"):
                kith.recall(again, X=self.x, metric="minkowski", p=4)

    def test_two_graphs_become_one(self):
        first, second = self.x[:90], self.x[90:]
        graphs = [kith.knn_graph(part, 5, metric="minkowski", p=3) for part in (first, second)]
        merged = kith.merge(self.x, *graphs)
        whole = kith.knn_graph(self.x, 5, metric="minkowski", p=3)
        np.testing.assert_array_equal(merged.indices, whole.indices)
        self.assertEqual(merged.distances.tobytes(), whole.distances.tobytes())

    def test_ends_and_ties(self):
        far = np.array([[0.0, 0], [1e120, 0], [-1e120, 0], [1e-200, 0], [5e-324, 0]])
        found = kith.knn(far, far[:1], 5, metric="minkowski", p=3)
        np.testing.assert_array_equal(found.indices, [[0, 3, 4, 1, 2]])
        np.testing.assert_array_equal(found.distances, [[0, 0, 0, np.inf, np.inf]])

    def test_what_is_no_power_is_said(self):
        for p, said in (
            (0.5, "p is 0.5, must be at least 1"),
            (float("nan"), "p is nan, must be at least 1"),
            (-3, "p is -3, must be at least 1"),
            (1.00001, "p is 1.00001, must be 1 to 3355.4431 in steps of 0.0001"),
            (4000, "p is 4000, must be 1 to 3355.4431"),
        ):
            for call in (kith.knn_graph, kith.pairs):
                with self.assertRaisesRegex(ValueError, said):
                    more = {"radius": 1} if call is kith.pairs else {"k": 3}
                    call(self.x, metric="minkowski", p=p, **more)


@unittest.skipIf(cdist is None, "SciPy or scikit-learn is missing")
class Theirs(unittest.TestCase):
    def test_scipy_and_sklearn_have_the_same_distances(self):
        x = support.points(200, 9, np.float64)
        q = support.points(40, 9, np.float64, seed=1)
        for p in POWERS:
            found = kith.Index(x, "minkowski", p=p).search(q, 200)
            wanted = np.sort(cdist(q, x, "minkowski", p=p), axis=1)
            np.testing.assert_allclose(found.distances, wanted, rtol=1e-6, atol=0)
            theirs = np.sort(pairwise_distances(q, x, metric="minkowski", p=p), axis=1)
            np.testing.assert_allclose(found.distances, theirs, rtol=1e-6, atol=0)

    def test_estimators(self):
        x = support.points(200, 9, np.float64)
        q = support.points(40, 9, np.float64, seed=1)
        y = np.arange(200) % 3
        for p in (1.5, 3, 10):
            for more in ({"p": p}, {"metric_params": {"p": p}}):
                ours = kith.NearestNeighbors(n_neighbors=4, metric="minkowski", **more).fit(x)
                their = neighbors.NearestNeighbors(n_neighbors=4, metric="minkowski", p=p).fit(x)
                for _ in range(3):  # from the second on the points are prepared
                    np.testing.assert_array_equal(
                        ours.kneighbors(q)[1], their.kneighbors(q)[1], str(p)
                    )
                self.assertEqual(ours.effective_metric_, f"minkowski:{p:g}")
            ours = kith.KNeighborsClassifier(5, p=p, weights="distance").fit(x, y)
            their = neighbors.KNeighborsClassifier(5, p=p, weights="distance").fit(x, y)
            np.testing.assert_array_equal(ours.predict(q), their.predict(q))
            ours = kith.KNeighborsRegressor(5, p=p).fit(x, y).predict(q)
            their = neighbors.KNeighborsRegressor(5, p=p).fit(x, y).predict(q)
            np.testing.assert_allclose(ours, their)
            graph = kith.KNeighborsTransformer(n_neighbors=3, p=p).fit_transform(x)
            wanted = neighbors.KNeighborsTransformer(n_neighbors=3, p=p).fit_transform(x)
            np.testing.assert_allclose(graph.toarray(), wanted.toarray(), rtol=1e-6)
        with self.assertRaisesRegex(ValueError, "p is 0.5"):
            kith.NearestNeighbors(p=0.5).fit(x)


if __name__ == "__main__":
    unittest.main()
