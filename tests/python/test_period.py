# SPDX-License-Identifier: Apache-2.0
"""Periodic boxes: what SciPy's cKDTree(boxsize=) finds, by every call that has a period."""

import tempfile
import unittest

import kith
import numpy as np

try:
    import sklearn
except ImportError:
    sklearn = None

BOXES = (1.0, 0.7, (1.0, 1.5, 0.0))


def distances_in_box(a, b, box):
    apart = np.abs(a[:, None, :].astype(np.float64) - b[None])
    box = np.broadcast_to(box, a.shape[1])
    around = np.where(box > 0, np.minimum(apart, box - apart), apart)
    return np.sqrt((around**2).sum(2))


class Period(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(3)
        self.x, self.y = rng.random((500, 3)), rng.random((40, 3))

    def boxes(self):
        for box in BOXES:
            size = np.where(np.broadcast_to(box, 3) > 0, np.broadcast_to(box, 3), 2.0)
            for dtype in (np.float64, np.float32):
                yield box, (self.x % size).astype(dtype), (self.y % size).astype(dtype)

    def test_neighbours(self):
        for box, x, y in self.boxes():
            truth = distances_in_box(y, x, box)
            order = np.argsort(truth, axis=1, kind="stable")[:, :5]
            for algorithm in ("auto", "brute", "kd_tree"):
                found = kith.knn(x, y, 5, period=box, algorithm=algorithm)
                np.testing.assert_array_equal(found.indices, order)
                np.testing.assert_allclose(
                    found.distances, np.take_along_axis(truth, order, 1), rtol=1e-6
                )
                self.assertIsNone(found.exact)
            own = distances_in_box(x, x, box)
            np.fill_diagonal(own, np.inf)
            graph = kith.knn_graph(x, 5, period=box)
            np.testing.assert_array_equal(
                graph.indices, np.argsort(own, axis=1, kind="stable")[:, :5]
            )

    def test_radius_and_pairs(self):
        for box, x, y in self.boxes():
            truth = distances_in_box(y, x, box)
            found = kith.radius_neighbors(x, y, radius=0.2, period=box)
            np.testing.assert_array_equal(np.diff(found.offsets), (truth <= 0.2).sum(1))
            near = np.triu(distances_in_box(x, x, box) <= 0.1, 1).sum()
            self.assertEqual(kith.pairs(x, radius=0.1, period=box).count(), near)

    def test_indexes(self):
        for box, x, y in self.boxes():
            wanted = kith.knn(x, y, 5, period=box).indices
            for method in ("exact", "tree"):
                with kith.Index(x[:-3], method=method, period=box) as index:
                    index.add(x[-3:])
                    np.testing.assert_array_equal(index.search(y, 5).indices, wanted)
                    np.testing.assert_array_equal(index.period, np.broadcast_to(box, 3))
                    found = index.radius(y, 0.2)
                    other = kith.radius_neighbors(x, y, radius=0.2, period=box)
                    np.testing.assert_array_equal(found.indices, other.indices)
                    with tempfile.NamedTemporaryFile(suffix=".kith") as file:
                        index.save(file.name)
                        with kith.Index.open(file.name) as opened:
                            np.testing.assert_array_equal(opened.search(y, 5).indices, wanted)
                            self.assertIsNone(opened.search(y, 5).exact)
                            self.assertIsNone(opened.radius(y, 0.2).exact)

    @unittest.skipUnless(sklearn, "scikit-learn is missing")
    def test_estimators(self):
        for box, x, y in self.boxes():
            wanted = kith.knn(x, y, 5, period=box).indices
            nearest = kith.NearestNeighbors(n_neighbors=5, period=box).fit(x)
            for _ in range(3):  # from the second time on points are prepared
                np.testing.assert_array_equal(nearest.kneighbors(y, return_distance=False), wanted)
            own = nearest.kneighbors(return_distance=False)
            np.testing.assert_array_equal(own, kith.knn_graph(x, 5, period=box).indices)
            rows = nearest.radius_neighbors(y, 0.2, return_distance=False)
            other = kith.radius_neighbors(x, y, radius=0.2, period=box)
            np.testing.assert_array_equal(np.concatenate(rows), other.indices)
            self.assertEqual(nearest.get_params()["period"], box)
            labels = (x[:, 0] > 0.3).astype(int)
            model = kith.KNeighborsClassifier(1, period=box).fit(x, labels)
            np.testing.assert_array_equal(model.predict(y), labels[wanted[:, 0]])

    def test_large_groups(self):
        """halves that meet as a merge's sets do are in the box, too"""
        x = np.random.default_rng(4).random((24000, 3))
        group = np.arange(24000) % 2
        for algorithm in "auto", "brute":
            found = kith.knn_graph(
                x, 4, groups=group, rule="other", period=1.0, algorithm=algorithm, device="cpu"
            )
            for side in (0, 1):
                other = np.flatnonzero(group != side)
                wanted = kith.knn(x[other], x[group == side], 4, period=1.0, device="cpu")
                np.testing.assert_array_equal(found.distances[group == side], wanted.distances)
                np.testing.assert_array_equal(found.indices[group == side], other[wanted.indices])

    def test_refused(self):
        x, y = self.x, self.y
        for period, error, said in (
            ((1.0, 1.0), ValueError, "one number, or 3"),
            ("box", TypeError, "must be a number"),
            (np.nan, ValueError, r"period\[0\] is nan"),
            ((1.0, -1.0, 1.0), ValueError, r"period\[1\] is -1"),
            (0.5, ValueError, r"corpus\[\d+, \d\] is .*below its column's period, 0.5"),
        ):
            with self.assertRaisesRegex(error, said):
                kith.knn(x, y, 3, period=period)
        with self.assertRaisesRegex(ValueError, "cosine, which has no period"):
            kith.knn(x, y, 3, metric="cosine", period=1.0)
        with self.assertRaisesRegex(NotImplementedError, "a descent has none"):
            kith.knn_graph(x, 3, algorithm="nn_descent", period=1.0)
        with self.assertRaisesRegex(ValueError, "period is for an index by method"):
            kith.Index(x, method="graph", period=1.0)
        with (
            kith.Index(x, period=1.0) as index,
            self.assertRaisesRegex(ValueError, r"Y\[1, 2\] is 1.0|is 1, must"),
        ):
            index.add(np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))


if __name__ == "__main__":
    unittest.main()
