# SPDX-License-Identifier: Apache-2.0
"""Pairs within a radius: what NumPy's full table holds above its diagonal, and across two sets."""

import pathlib
import tempfile
import tracemalloc
import unittest

import kith
import numpy as np
import support

RADIUS = 1.0


def by_hand(truth, one, allowed=True):
    """Pairs by i, then by distance, then by j, of a table of distances."""
    near = (truth <= RADIUS) & allowed
    if one:
        near &= np.triu(np.ones(truth.shape, bool), 1)
    i, j = np.nonzero(near)
    order = np.lexsort((j, truth[i, j], i))
    return i[order], j[order]


class Pairs(unittest.TestCase):
    def test_files(self):
        """what is written is what is told, in .npy and .kith; another job's leftovers are refused"""
        with tempfile.TemporaryDirectory() as folder:
            one, two = (pathlib.Path(folder, name) for name in ("p.npy", "p.kith"))
            wanted = kith.pairs(self.x, radius=RADIUS, path=one).all()
            kith.pairs(self.x, radius=RADIUS, path=two)
            stored = np.load(one)
            for name, told, read in zip(("i", "j", "distance"), wanted, kith.read_pairs(two), strict=True):
                np.testing.assert_array_equal(stored[name], told)
                np.testing.assert_array_equal(read, told)
            pathlib.Path(folder, "q.npy.partial").write_bytes(b"left")
            with self.assertRaisesRegex(OSError, "restart"):
                kith.pairs(self.x, radius=RADIUS, path=pathlib.Path(folder, "q.npy"))
            kith.pairs(self.x, radius=RADIUS, path=pathlib.Path(folder, "q.npy"), restart=True)
            self.assertEqual(pathlib.Path(folder, "q.npy").read_bytes(), one.read_bytes())

    def setUp(self):
        self.x, self.y = support.points(300, 3), support.points(70, 3, seed=1)
        self.own = support.distances_between(self.x, self.x)
        self.across = support.distances_between(self.x, self.y)

    def check(self, found, truth, one, allowed=True):
        i, j = by_hand(truth, one, allowed)
        self.assertGreater(len(i), 50)
        np.testing.assert_array_equal(found.i, i)
        np.testing.assert_array_equal(found.j, j)
        np.testing.assert_allclose(found.distance, truth[i, j], rtol=1e-6)
        self.assertEqual((found.i.dtype, found.distance.dtype), (np.int64, np.float64))

    def test_all_at_once_and_in_chunks(self):
        for y, truth in ((None, self.own), (self.y, self.across)):
            for chunk in (None, 1, 100):
                near = kith.pairs(self.x, y, radius=RADIUS, chunk_pairs=chunk)
                self.check(near.all(), truth, y is None)
                self.assertEqual(near.count(), len(near.all().i))
                if chunk is not None:
                    self.assertGreater(len(list(near)), 5)
                for one, other in zip(near, near):  # two walks at once
                    np.testing.assert_array_equal(one.j, other.j)

    def test_a_limit(self):
        i, j = by_hand(self.own, True)
        for limit in (1, 57, len(i), len(i) + 1):
            near = kith.pairs(self.x, radius=RADIUS, limit=limit, chunk_pairs=90)
            np.testing.assert_array_equal(near.all().j, j[:limit])
            self.assertEqual(near.count(), min(limit, len(j)))

    def test_filters(self):
        groups = np.arange(300) % 3
        allow = np.arange(300) % 5 > 0
        same = groups[:, None] == groups[None]
        self.check(kith.pairs(self.x, radius=RADIUS, groups=groups).all(), self.own, True, same)
        found = kith.pairs(self.x, radius=RADIUS, groups=groups, rule="other", allow=allow).all()
        self.check(found, self.own, True, ~same & allow & allow[:, None])
        asked = {"groups": groups[:70], "query_groups": groups}
        found = kith.pairs(self.x, self.y, radius=RADIUS, **asked).all()
        self.check(found, self.across, False, same[:, :70])

    def test_components_and_rows_to_keep(self):
        i, j = by_hand(self.own, True)
        near = kith.pairs(self.x, radius=RADIUS / 4)
        i, j, _ = near.all()
        label = np.arange(300)
        for a, b in zip(i, j):
            label[label == max(label[a], label[b])] = min(label[a], label[b])
        np.testing.assert_array_equal(near.components(), label)
        kept = np.ones(300, bool)
        for a, b in zip(i, j):
            kept[b] &= not kept[a]
        np.testing.assert_array_equal(near.keep(), np.flatnonzero(kept))
        degree = np.bincount(np.r_[i, j], minlength=300)
        parts = [np.flatnonzero(label == each) for each in np.unique(label)]
        best = [max(part, key=lambda row: (degree[row], -row)) for part in parts]
        np.testing.assert_array_equal(near.keep("central"), np.sort(best))
        self.assertLess(len(best), 300)

    def test_an_estimate(self):
        near = kith.pairs(self.x, radius=RADIUS)
        self.assertEqual(near.estimate(), (near.count(), near.count(), near.count(), 300))
        some = near.estimate(sample=60, seed=4)
        self.assertTrue(some.low < some.pairs < some.high and some.sample == 60)
        self.assertEqual(some, near.estimate(60, 4))

    def test_nothing_and_one(self):
        none = self.x[:0]
        for x, y in ((none, None), (self.x[:1], None), (self.x, self.y[:0]), (none, self.y)):
            near = kith.pairs(x, y, radius=RADIUS)
            self.assertEqual((len(near.all().i), near.count(), list(near)), (0, 0, []))
        self.assertEqual(kith.pairs(self.x[:1], radius=1).keep().tolist(), [0])
        same = kith.pairs(np.zeros((4, 2)), radius=0)
        self.assertEqual(same.all().j.tolist(), [1, 2, 3, 2, 3, 3])

    def test_a_function_as_metric(self):
        near = kith.pairs(self.x[:40], radius=RADIUS, metric=lambda a, b: np.abs(a - b).max())
        other = kith.pairs(self.x[:40], radius=RADIUS, metric="chebyshev")
        np.testing.assert_array_equal(near.all().j, other.all().j)
        with self.assertRaises(ZeroDivisionError):
            kith.pairs(self.x[:40], radius=RADIUS, metric=lambda a, b: 1 / 0).count()

    def test_memory_stays_flat(self):
        x = support.points(3000, 2).astype(np.float64)
        tracemalloc.start()
        count = sum(len(chunk.i) for chunk in kith.pairs(x, radius=100.0, chunk_pairs=50_000))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        self.assertEqual(count, 3000 * 2999 // 2)
        self.assertLess(peak, 8 << 20)

    def test_mistakes(self):
        for options, says in (
            ({"radius": float("nan")}, "radius is NaN"),
            ({"radius": -1}, "radius is -1"),
            ({"radius": 1, "limit": 0}, "limit is 0"),
            ({"radius": 1, "chunk_pairs": -3}, "chunk_pairs is -3"),
            ({"radius": 1, "algorithm": "nn_descent"}, "algorithm is nn_descent"),
            ({"radius": 1, "groups": np.zeros(300, int), "rule": "each"}, "rule is each"),
            ({"radius": 1, "metric": "far"}, "metric 'far'"),
            ({"radius": 1, "restart": True}, "without a path"),
            ({"radius": 1, "restart": True, "path": "no.csv"}, "text begins anew"),
        ):
            with self.assertRaisesRegex(ValueError, says):
                kith.pairs(self.x, **options).count()
        with self.assertRaisesRegex(TypeError, "radius is 'a'"):
            kith.pairs(self.x, radius="a")
        with self.assertRaisesRegex(ValueError, "Y.* 2"):
            kith.pairs(self.x, self.y[:, :2], radius=1).count()
        with self.assertRaisesRegex(ValueError, "of one set of points"):
            kith.pairs(self.x, self.y, radius=1).keep()
        with self.assertRaisesRegex(ValueError, "how is 'best'"):
            kith.pairs(self.x, radius=1).keep("best")
        bad = self.x.copy()
        bad[7, 1] = np.nan
        with self.assertRaisesRegex(ValueError, r"X\[7, 1\] is NaN"):
            kith.pairs(bad, radius=1).all()


if __name__ == "__main__":
    unittest.main()
