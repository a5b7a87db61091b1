# SPDX-License-Identifier: Apache-2.0
"""Neighbours under a filter: what NumPy's full table gives where only allowed rows are left in it."""

import unittest

import kith
import numpy as np
import support


def by_hand(truth, allowed, k, wide=1):
    """The k first allowed columns of each row; -1 and inf behind them."""
    far = np.where(allowed, truth, np.inf)
    order = np.argsort(far, axis=1, kind="stable")[:, :k]
    order = np.pad(order, ((0, 0), (0, max(0, k - order.shape[1]))))
    kept = np.take_along_axis(far, order, 1)
    return np.where(np.isinf(kept), -1, order)


class Filters(unittest.TestCase):
    def setUp(self):
        random = np.random.default_rng(5)
        self.x, self.q = support.points(300, 5), support.points(40, 5, seed=1)
        self.groups = random.integers(0, 7, 300)
        self.asked = random.integers(0, 9, 40)  # some groups have no rows
        self.allow = random.random(300) < 0.2
        self.truth = support.distances_between(self.q, self.x)
        self.own = support.distances_between(self.x, self.x)
        np.fill_diagonal(self.own, np.inf)

    def check(self, found, truth, allowed, k):
        np.testing.assert_array_equal(found.indices, by_hand(truth, allowed, k))
        empty = found.indices < 0
        self.assertTrue(np.isinf(found.distances[empty]).all())
        self.assertTrue(np.isfinite(found.distances[~empty]).all())
        self.assertIsNone(found.exact)

    def test_bitmaps_for_all_queries_and_for_each(self):
        self.check(kith.knn(self.x, self.q, 8, allow=self.allow), self.truth, self.allow[None], 8)
        each = np.random.default_rng(6).random((40, 300)) < 0.05
        each[3] = False
        self.check(kith.knn(self.x, self.q, 30, allow=each), self.truth, each, 30)
        self.check(kith.knn_graph(self.x, 4, allow=self.allow), self.own, self.allow[None], 4)

    def test_groups_of_queries(self):
        for kind in (np.int32, np.int64, np.uint8):
            asked = {"groups": self.groups.astype(kind), "query_groups": self.asked.astype(kind)}
            same = self.asked[:, None] == self.groups[None]
            self.check(kith.knn(self.x, self.q, 60, **asked), self.truth, same, 60)
            found = kith.knn(self.x, self.q, 5, rule="other", **asked)
            self.check(found, self.truth, ~same, 5)
            found = kith.knn(self.x, self.q, 5, rule="other", allow=self.allow, **asked)
            self.check(found, self.truth, ~same & self.allow, 5)

    def test_of_an_index(self):
        asked = {"groups": self.groups, "query_groups": self.asked}
        same = self.asked[:, None] == self.groups[None]
        for method in ("exact", "tree"):
            index = kith.Index(self.x, method=method)
            self.check(index.search(self.q, 8, allow=self.allow), self.truth, self.allow[None], 8)
            self.check(index.search(self.q, 60, **asked), self.truth, same, 60)
            found = index.search(self.q, 5, rule="other", allow=self.allow, **asked)
            self.check(found, self.truth, ~same & self.allow, 5)
            each = index.search(self.q, 3, groups=self.groups, rule="each")
            np.testing.assert_array_equal(
                each.indices, kith.knn(self.x, self.q, 3, groups=self.groups, rule="each").indices
            )

    def test_of_walks(self):
        index = kith.Index(self.x, method="graph")
        asked = {"groups": self.groups, "query_groups": self.asked}
        same = self.asked[:, None] == self.groups[None]
        # As wide as there are points nobody walks, and few rows are compared.
        self.check(index.search(self.q, 60, width=300, **asked), self.truth, same, 60)
        self.check(index.search(self.q, 9, allow=np.zeros(300, bool)), self.truth, same & False, 9)
        each = index.search(self.q, 3, groups=self.groups, rule="each")
        np.testing.assert_array_equal(
            each.indices, kith.knn(self.x, self.q, 3, groups=self.groups, rule="each").indices
        )
        half = np.arange(300) % 2 == 0
        truth = by_hand(self.truth, half[None], 5)
        for options in ({}, {"width": 20}, {"width": 20, "exclude": truth[:, 0]}):
            found = index.search(self.q, 5, allow=half, **options)
            self.assertTrue(half[found.indices].all())
            self.assertIsNone(found.exact)
            if "exclude" in options:
                self.assertFalse((found.indices == truth[:, :1]).any())
            else:
                hits = [len(set(a) & set(b)) for a, b in zip(found.indices, truth, strict=True)]
                self.assertGreater(np.mean(hits), 4.5)
        own = index.search(self.x, 4, exclude=np.arange(300))
        self.assertFalse((own.indices == np.arange(300)[:, None]).any())
        with self.assertRaisesRegex(ValueError, "radius is for an index by method"):
            index.search(self.q, 3, radius=1.0, allow=half)
        with self.assertRaisesRegex(ValueError, "allow must be an array of bool"):
            index.search(self.q, 3, allow=half[:20])
        with self.assertRaisesRegex(ValueError, "width"):
            index.search(self.q, 5, width=4, allow=half)

    def test_groups_of_a_graph(self):
        same = self.groups[:, None] == self.groups[None]
        self.check(kith.knn_graph(self.x, 50, groups=self.groups), self.own, same, 50)
        found = kith.knn_graph(self.x, 3, groups=self.groups, rule="other")
        self.check(found, self.own, ~same, 3)

    def test_some_of_every_group(self):
        found = kith.knn(self.x, self.q, 3, groups=self.groups * 10, rule="each")
        self.assertEqual(found.indices.shape, (40, 21))
        lists = found.indices.reshape(40, 7, 3)
        for group in range(7):
            wanted = by_hand(self.truth, (self.groups == group)[None], 3)
            np.testing.assert_array_equal(lists[:, group], wanted)

    def test_within_a_radius(self):
        radius = float(np.quantile(self.truth, 0.1))
        same = self.asked[:, None] == self.groups[None]
        asked = {"groups": self.groups, "query_groups": self.asked}
        for allowed, options in (
            (self.allow[None] & np.ones_like(same), {"allow": self.allow}),
            (same, asked),
            (~same & self.allow, {"rule": "other", "allow": self.allow, **asked}),
        ):
            found = kith.radius_neighbors(self.x, self.q, radius=radius, **options)
            self.assertIsNone(found.exact)
            within = np.where(allowed, self.truth, np.inf) <= radius
            np.testing.assert_array_equal(np.diff(found.offsets), within.sum(1))
            for row, neighbours in enumerate(found):
                self.assertEqual(sorted(neighbours.indices), list(np.flatnonzero(within[row])))
            counted = kith.radius_neighbors(
                self.x, self.q, radius=radius, count_only=True, **options
            )
            np.testing.assert_array_equal(counted.offsets, found.offsets)
            for method in ("exact", "tree"):
                kept = kith.Index(self.x, method=method).radius(self.q, radius, **options)
                np.testing.assert_array_equal(kept.indices, found.indices)
                np.testing.assert_array_equal(kept.distances, found.distances)
                self.assertIsNone(kept.exact)
        with self.assertRaisesRegex(ValueError, "rule is each"):
            kith.radius_neighbors(self.x, self.q, radius=1, groups=self.groups, rule="each")

    def test_a_filter_that_allows_all_changes_nothing(self):
        plain = kith.knn(self.x, self.q, 6)
        found = kith.knn(self.x, self.q, 6, allow=np.ones(300, bool))
        np.testing.assert_array_equal(found.indices, plain.indices)
        np.testing.assert_array_equal(found.distances, plain.distances)

    def test_what_is_wrong_is_named(self):
        x, q = self.x, self.q
        ones = np.ones(300, bool)
        for words, options in (
            ("allow must be an array of bool: 300", {"allow": ones[:-1]}),
            ("allow must be an array of bool", {"allow": ones.astype(int)}),
            ("groups must be 300 integers", {"groups": self.groups[1:]}),
            ("groups must be 300 integers", {"groups": self.groups * 1.0}),
            ("query_groups must be 40", {"groups": self.groups, "query_groups": self.groups}),
            ("query_groups is NULL|query_groups", {"groups": self.groups}),
            ("rule goes with groups", {"rule": "same"}),
            ("query_groups goes with groups", {"query_groups": self.asked}),
            ("rule is 'none', must be one of same", {"groups": self.groups, "rule": "none"}),
            (r"groups\[0\] is -\d", {"groups": self.groups - 9, "rule": "each"}),
        ):
            with self.assertRaisesRegex(ValueError, words):
                kith.knn(x, q, 3, **options)
        with self.assertRaisesRegex((ValueError, NotImplementedError), "algorithm is"):
            kith.knn_graph(x, 3, allow=ones, algorithm="nn_descent")


if __name__ == "__main__":
    unittest.main()
