# SPDX-License-Identifier: Apache-2.0
"""Packed bits and haversine: against NumPy's unpacked bits, and scikit-learn where it is there."""

import pathlib
import tempfile
import unittest

import kith
import numpy as np

try:
    from sklearn import neighbors
    from sklearn.metrics import pairwise_distances
except ImportError:
    neighbors = None


def words(rows, cols, seed):
    """Rows of bytes, some of them equal and some empty."""
    rng = np.random.default_rng(seed)
    made = rng.integers(0, 256, (rows, cols), dtype=np.uint8)
    made[rng.random((rows, cols)) < 0.4] = 0
    made[rows // 2] = made[0]
    made[1] = made[rows - 1] = 0
    return made


def plain(metric, x, y):
    a, b = (np.unpackbits(z, axis=1).astype(np.int64) for z in (x, y))
    both = a @ b.T
    either = a.sum(1)[:, None] + b.sum(1)[None, :] - both
    if metric == "bit_hamming":
        return (either - both).astype(float)
    return np.where(either == 0, 0.0, (either - both) / np.maximum(either, 1))


def places(rows, seed):
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [np.arcsin(rng.uniform(-1, 1, rows)), rng.uniform(-np.pi, np.pi, rows)]
    )


def first(distances, k):
    """The k first by (distance, row)."""
    return np.argsort(distances, axis=1, kind="stable")[:, :k]


class Bits(unittest.TestCase):
    def test_searches_graphs_radii_and_pairs_are_those_of_unpacked_bits(self):
        for metric in ("bit_hamming", "bit_jaccard"):
            for cols in (1, 5, 8, 16, 20, 32, 64, 100, 128, 256):
                x, q = words(300, cols, cols), words(40, cols, cols + 1)
                right = plain(metric, q, x)
                out = np.empty((40, 9)), np.empty((40, 9), np.int64)
                found = kith.knn(x, q, 9, metric=metric, out=out)
                wanted = first(right, 9)
                np.testing.assert_array_equal(found.indices, wanted)
                np.testing.assert_array_equal(
                    found.distances, np.take_along_axis(right, wanted, 1)
                )
                self.assertEqual(found.metric, metric)
                every = plain(metric, x, x)
                np.fill_diagonal(every, np.inf)
                graph = kith.knn_graph(x, 5, metric=metric)
                np.testing.assert_array_equal(graph.indices, first(every, 5))
                radius = float(np.quantile(every, 0.05))
                ranges = kith.radius_neighbors(x, radius=radius, metric=metric)
                self.assertEqual(len(ranges.indices), int((every <= radius).sum()))
                pairs = kith.pairs(x, radius=radius, metric=metric).all()
                self.assertEqual(len(pairs[0]), len(ranges.indices) // 2)

    def test_an_index_a_file_and_a_descent_know_them(self):
        x = words(2000, 16, 3)
        right = kith.knn(x, x[:50], 10, metric="bit_hamming")
        index = kith.Index(x, "bit_hamming")
        np.testing.assert_array_equal(index.search(x[:50], 10).indices, right.indices)
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "bits.kith")
            index.save(path)
            again = kith.Index.open(path)
            self.assertEqual(again.metric, "bit_hamming")
            np.testing.assert_array_equal(again.search(x[:50], 10).indices, right.indices)
        exact = kith.knn_graph(x, 10, metric="bit_hamming")
        near = kith.knn_graph(
            x, 10, metric="bit_hamming", algorithm="nn_descent", recall=0.95, random_state=0
        )
        self.assertGreater(kith.recall(near, exact).recall, 0.9)
        model = kith.NearestNeighbors(n_neighbors=10, metric="bit_hamming").fit(x)
        np.testing.assert_array_equal(model.kneighbors(x[:50])[1], right.indices)

    def test_other_types_are_refused_once(self):
        for dtype in (np.float32, np.float64, np.int8):
            x = words(30, 8, 4).astype(dtype)
            for metric in ("bit_hamming", "bit_jaccard"):
                with self.assertRaisesRegex(ValueError, "takes uint8 alone"):
                    kith.knn(x, x, 2, metric=metric)
                with self.assertRaisesRegex(ValueError, "takes uint8 alone"):
                    kith.Index(x, metric)


class Haversine(unittest.TestCase):
    def test_searches_are_those_of_the_formula(self):
        x, q = places(500, 1), places(60, 2)
        x[7] = x[3]
        q[0] = x[3]
        half = (q[:, None, :] - x[None, :, :]) / 2
        h = np.sin(half[..., 0]) ** 2 + np.cos(q[:, :1]) * np.cos(x[:, 0]) * (
            np.sin(half[..., 1]) ** 2
        )
        right = 2 * np.arcsin(np.sqrt(h))
        out = np.empty((60, 8)), np.empty((60, 8), np.int64)
        found = kith.knn(x, q, 8, metric="haversine", out=out)
        wanted = first(right, 8)
        np.testing.assert_array_equal(found.indices, wanted)
        np.testing.assert_allclose(
            found.distances, np.take_along_axis(right, wanted, 1), rtol=1e-14, atol=1e-15
        )
        self.assertEqual(found.distances[0, 0], 0.0)
        self.assertEqual(list(found.indices[0, :2]), [3, 7])
        index = kith.Index(x, "haversine")
        np.testing.assert_array_equal(index.search(q, 8).indices, wanted)
        for radius in (0.2, 1.5, 3.2):
            ranges = kith.radius_neighbors(x, q, radius=radius, metric="haversine")
            self.assertEqual(len(ranges.indices), int((right <= radius).sum()))
        group = np.arange(500) % 3
        kept = kith.knn(x, q, 4, metric="haversine", allow=group == 1)
        rows = np.flatnonzero(group == 1)
        np.testing.assert_array_equal(kept.indices, rows[first(right[:, rows], 4)])

    @unittest.skipIf(neighbors is None, "scikit-learn is not installed")
    def test_scikit_learn_finds_the_same(self):
        x, q = places(2000, 5), places(100, 6)
        tree = neighbors.BallTree(x, metric="haversine")
        distances, indices = tree.query(q, k=6)
        model = kith.NearestNeighbors(n_neighbors=6, metric="haversine", algorithm="ball_tree")
        found = model.fit(x).kneighbors(q)
        np.testing.assert_array_equal(found[1], indices)
        np.testing.assert_allclose(found[0], distances, rtol=1e-12)
        right = pairwise_distances(q, x, metric="haversine")
        np.testing.assert_allclose(found[0], np.sort(right, axis=1)[:, :6], rtol=1e-12)

    def test_what_is_refused(self):
        with self.assertRaisesRegex(ValueError, "latitude and longitude"):
            kith.knn(np.zeros((9, 3)), np.zeros((2, 3)), 1, metric="haversine")
        degrees = np.array([[52.5, 2e7], [1.0, 1.0]])
        with self.assertRaisesRegex(ValueError, "radians"):
            kith.knn(degrees, degrees, 1, metric="haversine")


if __name__ == "__main__":
    unittest.main()
