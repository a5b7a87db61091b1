# SPDX-License-Identifier: Apache-2.0
"""Ground truth: what a full table of distances says, of one array and of several, with ties."""

import json
import os
import pathlib
import tempfile
import unittest

import kith
import numpy as np


class Truth(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(3)
        self.x = rng.integers(0, 5, (400, 4)).astype(np.float32)
        self.q = rng.integers(0, 5, (30, 4)).astype(np.float32)
        self.table = np.abs(self.q[:, None] - self.x[None]).sum(2).astype(float)

    def check(self, found, k, table=None):
        table = self.table if table is None else table
        order = np.argsort(table, axis=1, kind="stable")[:, :k]
        near = np.take_along_axis(table, order, 1)
        np.testing.assert_array_equal(found.indices, np.where(np.isinf(near), -1, order))
        np.testing.assert_array_equal(found.distances, near)
        ties = np.where(np.isinf(near[:, -1]), 0, (table == near[:, -1:]).sum(1))
        np.testing.assert_array_equal(found.ties, ties)
        self.assertEqual((found.indices.dtype, found.ties.dtype), (np.int64, np.int64))

    def test_arrays(self):
        for corpus in (self.x, [self.x[:7], self.x[7:250], self.x[250:]], [self.x.astype(np.uint8)[:9], self.x[9:]]):
            for k in (1, 9, 400):
                self.check(kith.truth(corpus, self.q, k, metric="manhattan"), k)

    def test_filters(self):
        groups, asked = np.arange(400) % 60, np.arange(30)
        allow = np.arange(400) % 3 > 0
        table = np.where((groups[None] == asked[:, None]) & allow, self.table, np.inf)
        found = kith.truth([self.x[:33], self.x[33:]], self.q, 6, metric="l1", groups=groups, query_groups=asked,
                           allow=allow)
        self.check(found, 6, table)
        self.assertTrue((found.ties == 0).any())

    def test_radius(self):
        """all within a radius, of one array and of several, under a filter and as a file"""
        allow = np.arange(400) % 3 > 0
        for corpus in (self.x, [self.x[:7], self.x[7:250], self.x[250:]]):
            for radius in (0, 3, 4.5):
                for kept in (None, allow):
                    found = kith.truth(corpus, self.q, radius=radius, metric="manhattan", allow=kept)
                    table = self.table if kept is None else np.where(kept, self.table, np.inf)
                    self.assertEqual(len(found), len(self.q))
                    for row, (distances, indices) in zip(table, found):
                        order = np.argsort(row, kind="stable")[:(row <= radius).sum()]
                        np.testing.assert_array_equal(indices, order)
                        np.testing.assert_array_equal(distances, row[order])
        self.assertEqual((distances.dtype, found.n_points), (np.float64, 400))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "t.range")
            found = kith.truth(self.x, self.q, radius=3, metric="manhattan", path=path)
            data = np.fromfile(path, np.int32)
            total = len(found.indices)
            self.assertEqual(list(data[:2]), [30, total])
            np.testing.assert_array_equal(data[2:32], np.diff(found.offsets))
            np.testing.assert_array_equal(data[32:32 + total], found.indices)
            np.testing.assert_array_equal(data[32 + total:].view(np.float32), found.distances)
        for words in ({}, {"k": 3, "radius": 2}):
            with self.assertRaisesRegex(TypeError, "one of both"):
                kith.truth(self.x, self.q, **words)
        with self.assertRaisesRegex(ValueError, "radius is -1"):
            kith.truth(self.x, self.q, radius=-1)
        with self.assertRaisesRegex(TypeError, "radius is 'far'"):
            kith.truth(self.x, self.q, radius="far")

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path, ties = pathlib.Path(folder, "t.npy"), pathlib.Path(folder, "ties.npy")
            np.save(pathlib.Path(folder, "x.npy"), self.x)
            corpus = np.load(pathlib.Path(folder, "x.npy"), mmap_mode="r")
            found = kith.truth(corpus, self.q, 5, metric="manhattan", path=path, ties_path=str(ties))
            self.check(found, 5)
            np.testing.assert_array_equal(np.load(path), found.indices)
            np.testing.assert_array_equal(np.load(ties).ravel(), found.ties)
            said = json.loads(pathlib.Path(folder, "t.npy.json").read_text())
            self.assertEqual((said["k"], said["metric"], said["corpus 0"]["rows"]), (5, "manhattan", 400))

    def test_going_on(self):
        """a call that was interrupted goes on, and a file that changed since is refused"""
        with tempfile.TemporaryDirectory() as folder:
            path, name = pathlib.Path(folder, "t.npy"), pathlib.Path(folder, "x.npy")
            np.save(name, np.tile(self.x, (400, 16)))
            queries, calls = np.tile(self.q, (1, 16)), []

            def stop(*_):
                calls.append(pathlib.Path(folder, "t.npy.partial").exists())
                if calls[-1]:
                    raise KeyboardInterrupt

            words = {"metric": "chi2", "path": path, "memory_limit": 4 << 20, "n_jobs": 1}
            with self.assertRaises(KeyboardInterrupt):
                kith.truth(np.load(name, mmap_mode="r"), queries, 5, progress=stop, **words)
            with self.assertRaisesRegex(ValueError, "another job"):
                kith.truth(np.load(name, mmap_mode="r"), queries, 6, **words)
            stat = name.stat()
            os.utime(name, ns=(0, 0))
            with self.assertRaisesRegex(ValueError, "another job"):
                kith.truth(np.load(name, mmap_mode="r"), queries, 5, **words)
            os.utime(name, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            found = kith.truth(np.load(name, mmap_mode="r"), queries, 5, **words)
            self.assertEqual(sorted(each.name for each in pathlib.Path(folder).iterdir()),
                             ["t.npy", "t.npy.json", "x.npy"])
            np.testing.assert_array_equal(found.indices, kith.truth(np.load(name), queries, 5, metric="chi2").indices)

    def test_places_within_an_angle(self):
        rng = np.random.default_rng(5)
        places = np.stack([rng.uniform(-1.5, 1.5, 300), rng.uniform(-3.1, 3.1, 300)], 1)
        for radius in (0.0, 0.05, 1.0, 3.0, 4.0):
            found = kith.truth([places[:100], places[100:]], places[:20], radius=radius, metric="haversine")
            wanted = kith.radius_neighbors(places, places[:20], radius=radius, metric="haversine")
            np.testing.assert_array_equal(found.offsets, wanted.offsets)
            np.testing.assert_array_equal(found.indices, wanted.indices)
            np.testing.assert_array_equal(found.distances, wanted.distances)
        self.assertTrue(found.exact)

    def test_mistakes(self):
        for error, says, arguments in ((ValueError, "k", {"k": 0}), (ValueError, "k", {"k": 401}),
                                       (ValueError, "rule", {"groups": np.zeros(400, int), "rule": "each"}),
                                       (ValueError, "nn_descent", {"algorithm": "nn_descent"}),
                                       (ValueError, "function", {"metric": lambda a, b: 0.0}),
                                       (ValueError, "no file of a truth", {"path": "t.csv"})):
            with self.assertRaisesRegex(error, says):
                kith.truth(self.x, self.q, **{"k": 3, **arguments})
        with self.assertRaisesRegex(ValueError, "columns"):
            kith.truth([self.x, self.x[:, :3]], self.q, 3)


if __name__ == "__main__":
    unittest.main()
