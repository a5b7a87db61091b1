# SPDX-License-Identifier: Apache-2.0
"""Points that leave a graph: what is left is the graph that a new one would be, and says of what it is."""

import unittest

import numpy as np
from support import points

import kith


class Removing(unittest.TestCase):
    def setUp(self):
        self.points = points(400, 6, seed=8)
        self.graph = kith.knn_graph(self.points, 9, metric="cosine")

    def test_what_is_left_has_the_bytes_of_a_new_graph(self):
        random = np.random.default_rng(1)
        for share in (0.0, 0.01, 0.3, 0.9):
            mask = random.random(len(self.points)) < share
            fresh = kith.knn_graph(self.points[~mask], 9, metric="cosine")
            for removed in (mask, np.flatnonzero(mask), np.flatnonzero(mask).tolist()):
                rest = kith.remove(self.points, self.graph, removed)
                self.assertTrue(np.array_equal(rest.indices, fresh.indices), share)
                self.assertTrue(np.array_equal(rest.distances, fresh.distances), share)
                self.assertIs(rest.exact, True)
                self.assertEqual(rest.fingerprint, fresh.fingerprint)

    def test_fewer_neighbours_other_types_and_places(self):
        for dtype in (np.float64, np.uint8, np.float16):
            x = points(100, 5, dtype, seed=2)
            rest = kith.remove(x, kith.knn_graph(x, 6), [1, 99], k=4)
            fresh = kith.knn_graph(np.delete(x, [1, 99], axis=0), 4)
            self.assertTrue(np.array_equal(rest.indices, fresh.indices), dtype)
        out = np.empty((398, 9), np.float32), np.empty((398, 9), np.int64)
        kith.remove(self.points, self.graph, [5, 6], out=out)
        fresh = kith.knn_graph(np.delete(self.points, [5, 6], axis=0), 9, metric="cosine")
        self.assertTrue(np.array_equal(out[1], fresh.indices))

    def test_what_is_not_certified_stays_so(self):
        bare = kith.remove(self.points, tuple(self.graph), [3], metric="cosine")
        self.assertIsNone(bare.exact)
        near = kith.knn_graph(points(20000, 16), 8, rounds=1, tune={"start": "random"})
        self.assertIs(kith.remove(points(20000, 16), near, [3]).exact, False)

    def test_what_is_made_anew_is_approximate_only_where_the_graph_was(self):
        removed = np.arange(30, 400)
        fresh = kith.knn_graph(self.points[:30], 9, metric="cosine")
        for graph in self.graph, tuple(self.graph):  # certified, and not known
            rest = kith.remove(self.points, graph, removed, metric="cosine")
            self.assertTrue(np.array_equal(rest.indices, fresh.indices))
            self.assertIs(rest.exact, True)
        x = points(20000, 16)
        near = kith.knn_graph(x, 8, rounds=1, tune={"start": "random"})
        self.assertIs(kith.remove(x, near, np.arange(2000, 20000)).exact, False)

    def test_what_cannot_be_is_refused(self):
        x, graph = self.points, self.graph
        for removed, said in (
            ([400], "removed has row 400, X has 400 rows"),
            ([-1], "removed has row -1"),
            (np.zeros(3, bool), "removed must be 400 bools"),
            ([0.5], "removed must be"),
        ):
            with self.assertRaisesRegex(ValueError, said):
                kith.remove(x, graph, removed)
        with self.assertRaisesRegex(ValueError, "graph is of 400 points, X has 399"):
            kith.remove(x[1:], graph, [0])
        with self.assertRaisesRegex(ValueError, "k"):
            kith.remove(x, graph, [0], k=10)
        with self.assertRaises(ValueError):
            kith.remove(x, graph, np.arange(395))
        with self.assertRaises(ValueError):
            kith.remove(x + 1, graph, [0])


if __name__ == "__main__":
    unittest.main()
