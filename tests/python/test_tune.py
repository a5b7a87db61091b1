# SPDX-License-Identifier: Apache-2.0
"""What tune has: the ways of five papers give the same bytes, and what it cannot mean is refused."""

import unittest

import numpy as np
from support import points

import kith
from kith import _tune


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other))


class Selecting(unittest.TestCase):
    def setUp(self):
        self.values = points(40, 700, seed=3)
        self.best = kith.select_k(self.values, 33)

    def test_every_switch_of_a_method_gives_the_same_bytes(self):
        for method in ("insertion", "heap", "merge_queue"):
            for buffer in ("none", "plain", "full", "sorted"):
                for group in (0, 2, 4, 8):
                    tune = {"buffer": buffer, "group": group}
                    found = kith.select_k(self.values, 33, method=method, tune=tune)
                    self.assertTrue(same(found, self.best), (method, tune))
        aligned = kith.select_k(self.values, 33, method="merge_queue", tune={"aligned": True})
        self.assertTrue(same(aligned, self.best))
        for tune in ({"level": 4}, {"level": 64, "merge": "path"}, {"merge": "network"}, {"level": 0},
                     {"buffer": "sorted", "buffer_size": 64, "group": 2, "merge": "path"}):
            found = kith.select_k(self.values, 33, method="merge_queue", tune=tune)
            self.assertTrue(same(found, self.best), tune)
        for sample in (1, 4, 16):
            tune = {"heap_sample": sample}
            found = kith.select_k(self.values, 33, method="threshold_heap", tune=tune)
            self.assertTrue(same(found, self.best), tune)

    def test_the_kth_alone(self):
        for method in _tune.selections():
            kth = kith.select_kth(self.values, 33, method=method)
            self.assertTrue(np.array_equal(kth, self.best.values[:, -1]), method)
        largest = kith.select_kth(self.values.astype(np.float64), 1, largest=True)
        self.assertEqual(largest.dtype, np.float64)
        self.assertTrue(np.array_equal(largest, self.values.max(axis=1)))
        self.assertEqual(kith.select_kth(self.values[:0], 3).shape, (0,))

    def test_what_a_method_does_not_have_is_refused(self):
        with self.assertRaisesRegex(ValueError, "buffer"):
            kith.select_k(self.values, 3, method="radix", tune={"buffer": "full"})
        with self.assertRaisesRegex(ValueError, "buffer is 'fast', must be one of none, plain, full, sorted"):
            kith.select_k(self.values, 3, method="heap", tune={"buffer": "fast"})
        with self.assertRaisesRegex(ValueError, "heap_sample is 5000"):
            kith.select_k(self.values, 3, method="threshold_heap", tune={"heap_sample": 5000})
        with self.assertRaisesRegex(ValueError, r"group is 1099511627776"):
            kith.select_k(self.values, 3, method="heap", tune={"group": 2**40})
        with self.assertRaisesRegex(ValueError, r"no 'pipeline' here \(it may have aligned, buffer, buffer_size, group, heap_sample, level, merge\)"):
            kith.select_kth(self.values, 3, tune={"pipeline": "matrix"})
        for tune, says in (({"level": 12}, "level is 12, must be 0, or a power of two, 4 to 64"),
                           ({"buffer": "full", "buffer_size": 128}, "buffer_size is 128, must be 0, or a power"),
                           ({"buffer_size": 32}, "buffer_size is 32, but buffer is none"),
                           ({"merge": "fast"}, "merge is 'fast', must be one of network, path")):
            with self.assertRaisesRegex(ValueError, says):
                kith.select_k(self.values, 3, method="merge_queue", tune=tune)
        with self.assertRaisesRegex(ValueError, "level is 8, which the method heap does not have"):
            kith.select_k(self.values, 3, method="heap", tune={"level": 8})
        with self.assertRaisesRegex(TypeError, "must be a dict"):
            kith.select_k(self.values, 3, tune="buffer=full")


class Searching(unittest.TestCase):
    def setUp(self):
        self.points = points(500, 6, seed=4)

    def test_the_pipelines_and_heights_give_the_same_bytes(self):
        found, graph = kith.knn(self.points, self.points[:50], 7), kith.knn_graph(self.points, 7)
        for method in _tune.selections():
            tune = {"pipeline": "matrix", "select": method}
            self.assertTrue(same(kith.knn(self.points, self.points[:50], 7, tune=tune), found), tune)
            self.assertTrue(same(kith.knn_graph(self.points, 7, tune=tune), graph), tune)
        for height in (1, 3, 4):
            tune = {"tree_height": height}
            self.assertTrue(same(kith.knn_graph(self.points, 7, algorithm="kd_tree", tune=tune), graph), tune)
        for more in ({}, {"leaf_buffer": 2}, {"leaf_buffer": 64, "tree_height": 3}):
            tune = {"pipeline": "buffer_tree", **more}
            self.assertTrue(same(kith.knn(self.points, self.points[:50], 7, tune=tune), found), tune)
            self.assertTrue(same(kith.knn_graph(self.points, 7, tune=tune), graph), tune)
        with self.assertRaises(NotImplementedError):  # of a GPU
            kith.knn_graph(self.points, 7, device="cpu", tune={"pipeline": "hybrid"})

    def test_a_descent_has_its_keys(self):
        made = {}
        for start in ("random", "screen"):
            for updates in ("all", "nearest"):
                tune = {"start": start, "updates": updates, "list": 24}
                made[start, updates] = kith.knn_graph(points(20000, 16), 10, rounds=1, tune=tune)
                self.assertIs(made[start, updates].exact, False)
        self.assertFalse(same(made["random", "all"], made["random", "nearest"]))
        self.assertFalse(same(made["random", "all"], made["screen", "all"]))

    def test_a_merge_has_them(self):
        x = points(9000, 8, seed=5)
        parts = kith.knn_graph(x[:4500], 8), kith.knn_graph(x[4500:], 8)
        exact = kith.merge(x, *parts)
        drawn = kith.merge(x, *parts, rounds=4, tune={"start": "random"})
        published = kith.merge(x, *parts, rounds=9, tune={"start": "ggm"})
        self.assertIs(exact.exact, True)
        self.assertFalse(same(drawn, published))
        for found in (drawn, published):
            self.assertIs(found.exact, False)
            share = (found.indices[:, :, None] == exact.indices[:, None, :]).any(axis=2).mean()
            self.assertGreater(share, 0.5)
        with self.assertRaisesRegex(ValueError, "start is ggm, which merges two graphs"):
            kith.knn_graph(x, 8, algorithm="nn_descent", tune={"start": "ggm"})

    def test_what_it_cannot_mean_is_refused(self):
        x = self.points
        with self.assertRaisesRegex(ValueError, r"tune has no 'lists' here"):
            kith.knn_graph(x, 3, tune={"lists": 3})
        with self.assertRaisesRegex(ValueError, r"tune's start goes with nn_descent"):
            kith.knn_graph(x, 3, algorithm="brute", tune={"start": "random"})
        with self.assertRaisesRegex(ValueError, "exact graphs, not of nn_descent"):
            kith.knn_graph(x, 3, algorithm="nn_descent", tune={"pipeline": "matrix"})
        with self.assertRaisesRegex(ValueError, "start is 'graph', must be one of auto, random, screen"):
            kith.knn_graph(x, 3, tune={"start": "graph"})
        with self.assertRaisesRegex(TypeError, "list is 'long', must be a whole number"):
            kith.knn_graph(x, 3, tune={"list": "long"})
        with self.assertRaisesRegex(ValueError, "start_share is 0.3, and the start is no screen"):
            kith.knn_graph(points(6000, 8), 3, tune={"start": "random", "start_share": 0.3})
        with self.assertRaisesRegex(ValueError, "tree_height is 5, must be 0 to 4 for 500 rows"):
            kith.knn_graph(x, 3, algorithm="kd_tree", tune={"tree_height": 5})
        with self.assertRaisesRegex(ValueError, "batch is -2, must be 0 to 4194304"):
            kith.knn(x, x, 3, tune={"pipeline": "hybrid", "batch": -2})
        with self.assertRaisesRegex(ValueError, "batch is 4, and the pipeline hybrid alone"):
            kith.knn(x, x, 3, tune={"pipeline": "matrix", "batch": 4})
        with self.assertRaisesRegex(ValueError, "leaf_buffer is 1, must be 2 to 4194304"):
            kith.knn(x, x, 3, tune={"pipeline": "buffer_tree", "leaf_buffer": 1})
        with self.assertRaisesRegex(ValueError, "leaf_buffer is 8, and the pipeline"):
            kith.knn(x, x, 3, tune={"leaf_buffer": 8})
        with self.assertRaisesRegex(ValueError, "select is 'fastest', must be one of auto, scan"):
            kith.knn(x, x, 3, tune={"pipeline": "matrix", "select": "fastest"})


if __name__ == "__main__":
    unittest.main()
