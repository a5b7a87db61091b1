# SPDX-License-Identifier: Apache-2.0
"""Dask arrays: the bytes of the whole arrays, however they are chunked and whoever computes them, a worker
that is killed included. Skipped without Dask."""

import doctest
import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import kith
import numpy as np
import support

# Dask has threads, and other tests fork: its tests are in a process of their own.
IN_OWN_PROCESS = __name__ == "__main__"
MISSING = [name for name in ("dask", "distributed") if importlib.util.find_spec(name) is None]
if IN_OWN_PROCESS:
    import dask
    import dask.array as da
    import kith.dask

ALL = os.environ.get("KITH_CASES") == "all"
UNEVEN = (1, 0, 50, 100, 1, 51)  # rows of chunks: of one, of none
METRICS = ("euclidean", "sqeuclidean", "inner_product", "cosine", "correlation", "manhattan", "chebyshev",
           "chi2", "hamming", "jaccard", "kl", "minkowski:1.5")  # fmt: skip


@unittest.skipIf(IN_OWN_PROCESS, "this is that process")
class Process(unittest.TestCase):
    @unittest.skipIf(MISSING, f"{' and '.join(MISSING)} missing")
    def test_dask(self):
        ran = subprocess.run([sys.executable, "-B", __file__], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_without_dask(self):
        """kith does not need it, and kith.dask says what is missing"""
        code = "import sys; sys.modules['dask'] = None; import kith; import kith.dask"
        ran = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True)
        self.assertIn("kith.dask needs Dask (pip install", ran.stderr.splitlines()[-1])


def with_ties(rows, dtype, seed=0):
    """Rows of few values: many are equal, and many are equally far."""
    return np.random.default_rng(seed).integers(0, 4, (rows, 5)).astype(dtype)


def set_until_end(cleanup, **config):
    cleanup(dask.config.set(config).__exit__, None, None, None)


class Same(unittest.TestCase):
    def same(self, found, truth):
        distances, indices = dask.compute(*found)
        for part, lazy, array in zip((distances, indices), found, truth, strict=True):
            self.assertEqual((part.dtype, lazy.dtype, lazy.shape), (array.dtype, array.dtype, array.shape))
            self.assertEqual(part.tobytes(), array.tobytes())
        self.assertEqual((found.metric, found.exact), (truth.metric, True))

    def same_ranges(self, found, truth, sizes):
        chunks = dask.compute(*found)
        self.assertEqual([len(chunk) for chunk in chunks], list(sizes))
        counts = np.concatenate([np.diff(chunk.offsets) for chunk in chunks])
        np.testing.assert_array_equal(counts, np.diff(truth.offsets))
        for name in ("distances", "indices"):
            part = np.concatenate([getattr(chunk, name) for chunk in chunks])
            array = getattr(truth, name)
            self.assertEqual((part.dtype, part.tobytes()), (array.dtype, array.tobytes()))
        for chunk in chunks:
            self.assertEqual((chunk.n_points, chunk.metric), (truth.n_points, truth.metric))


@unittest.skipUnless(IN_OWN_PROCESS, "runs in a process of its own")
class Blocks(Same):
    def setUp(self):
        set_until_end(self.addCleanup, scheduler="threads", num_workers=2)

    def test_every_type_and_metric(self):
        """floats under each metric, other types under some, or with KITH_CASES=all under more: blocks know of neither"""
        for i, dtype in enumerate(("float32", "float64", "float16", "uint8", "int8", "int16", "int64", "bool")):
            x, q = with_ties(203, dtype), with_ties(57, dtype, 1)
            X = da.from_array(x, chunks=(UNEVEN, (2, 3)))  # columns in two chunks
            Q = da.from_array(q, chunks=((20, 0, 37), 5))
            metrics = METRICS if dtype in ("float32", "uint8") else METRICS[:4]
            if dtype != "float32" and not ALL:
                metrics = metrics[i % 4 : i % 4 + 1]
            for metric in (*metrics, "bit_hamming", "bit_jaccard") if dtype == "uint8" else metrics:
                with self.subTest(dtype=dtype, metric=metric):
                    found = kith.dask.knn(X, Q, 60, metric=metric)  # more than most chunks have
                    self.same(found, kith.knn(x, q, 60, metric=metric))
                    self.assertEqual(found.indices.chunks, ((20, 0, 37), (60,)))
                    self.same(kith.dask.knn_graph(X, 7, metric=metric), kith.knn_graph(x, 7, metric=metric))
                    radius = float(np.median(kith.knn(x, q, 9, metric=metric).distances[:, -1]))
                    words = {"metric": metric, "radius": radius}
                    ranges = kith.dask.radius_neighbors(X, Q, **words)
                    self.same_ranges(ranges, kith.radius_neighbors(x, q, **words), (20, 0, 37))

    def test_every_k_and_chunking(self):
        x = with_ties(12, "float32")
        for chunks in (1, 5, 12, (1, 0, 11), (0, 6, 6, 0)):
            X = da.from_array(x, chunks=(chunks, 5))
            for k in (1, 6, 11):
                self.same(kith.dask.knn_graph(X, k), kith.knn_graph(x, k))
            self.same(kith.dask.knn_graph(X, 12, include_self=True), kith.knn_graph(x, 12, include_self=True))
            self.same(kith.dask.knn(X, x[:3], 12), kith.knn(x, x[:3], 12))
            self.same(kith.dask.knn(x, X, 5, algorithm="kd_tree"), kith.knn(x, x, 5))
            for itself in (True, False):
                words = {"radius": 1.0, "include_self": itself}
                ranges = kith.dask.radius_neighbors(X, **words)
                self.same_ranges(ranges, kith.radius_neighbors(x, **words), X.chunks[0])

    def test_order_is_that_of_squares(self):
        """two squares whose roots are one number: the nearer point comes first, though its id is higher"""
        x = np.array([[1, 2.0**-26], [1, 0], [-1, 0]])
        X = da.from_array(x, chunks=(1, 2))
        self.assertEqual(kith.knn(x, [[0.0, 0]], 3).indices.tolist(), [[1, 2, 0]])
        self.same(kith.dask.knn(X, np.zeros((1, 2)), 3), kith.knn(x, np.zeros((1, 2)), 3))
        for radius in (1.0, np.nextafter(1.0, 0), np.nextafter(1.0, 2), np.inf, 0):
            ranges = kith.dask.radius_neighbors(X, np.zeros((1, 2)), radius=radius)
            self.same_ranges(ranges, kith.radius_neighbors(x, np.zeros((1, 2)), radius=radius), (1,))

    def test_radii_of_all_sizes(self):
        """a radius in squares has exactly the rows that it has in distances"""
        rng = np.random.default_rng(5)
        x = rng.standard_normal((90, 3)) * 10.0 ** rng.uniform(-140, 140, (90, 1))
        q = rng.standard_normal((60, 3)) * 10.0 ** rng.uniform(-140, 140, (60, 1))
        radii = kith.knn(x, q, 20).distances[np.arange(60), np.arange(60) % 20]  # some row is just so far
        for each in (radii, np.nextafter(radii, 0), np.nextafter(radii, np.inf)):
            ranges = kith.dask.radius_neighbors(da.from_array(x, chunks=(40, 3)), da.from_array(q, chunks=(7, 3)),
                                                radius=each)  # fmt: skip
            self.same_ranges(ranges, kith.radius_neighbors(x, q, radius=each), (7,) * 8 + (4,))

    def test_few_queries_go_together(self):
        """the corpus is read once for chunks of queries that take no more than a block of it"""
        x, q, read = support.points(300, 4), support.points(40, 4, seed=1), []

        def load(block):
            read.append(len(block))
            return block

        X = da.from_array(x, chunks=(50, 4)).map_blocks(load, dtype=x.dtype, meta=np.empty((0, 4), x.dtype))
        Q = da.from_array(q, chunks=((10, 0, 9, 21), 4))
        for found in (kith.dask.knn(X, Q, 5), kith.dask.radius_neighbors(X, Q, radius=1.5)):
            self.assertLess(len(found[0].__dask_graph__()), 50)
            read.clear()
            if isinstance(found, list):
                self.same_ranges(found, kith.radius_neighbors(x, q, radius=1.5), (10, 0, 9, 21))
            else:
                self.same(found, kith.knn(x, q, 5))
            self.assertEqual(read, [50] * 6)
        few = da.from_array(x, chunks=(300, 4))  # no other tasks than one for each chunk of queries
        many = kith.dask.knn(few, Q, 5)
        self.assertEqual(sum(key[0].startswith("kith-lists") and len(key) == 4 for key in many[0].dask), 3)
        self.same(many, kith.knn(x, q, 5))

    def test_counts(self):
        x = with_ties(203, "uint8")
        X = da.from_array(x, chunks=(UNEVEN, 5))
        chunks = dask.compute(*kith.dask.radius_neighbors(X, radius=2, count_only=True))
        counts = np.concatenate([np.diff(chunk.offsets) for chunk in chunks])
        np.testing.assert_array_equal(counts, np.diff(kith.radius_neighbors(x, radius=2).offsets))

    def test_nothing_is_computed_before_its_time(self):
        def fail(block):
            raise AssertionError("computed")

        X = da.zeros((30, 2), chunks=(10, 2)).map_blocks(fail, dtype=float, meta=np.empty((0, 2)))
        for found in (*kith.dask.knn_graph(X, 3), *kith.dask.radius_neighbors(X, radius=1)):
            with self.assertRaisesRegex(AssertionError, "computed"):
                found.compute()

    def test_one_chunk_alone(self):
        """a part of the answer asks for its own tasks"""
        x = support.points(100, 4)
        X = da.from_array(x, chunks=(10, 4))
        some = kith.dask.knn_graph(X, 3).indices[20:30]
        self.assertLess(len(some.__dask_optimize__(some.dask, some.__dask_keys__())), 60)
        np.testing.assert_array_equal(some.compute(), kith.knn_graph(x, 3).indices[20:30])

    def test_function_as_metric(self):
        x = with_ties(60, "float64")
        X = da.from_array(x, chunks=(25, 5))
        words = {"metric": lambda a, b: np.abs(a - b).sum()}
        self.same(kith.dask.knn_graph(X, 30, **words), kith.knn_graph(x, 30, **words))
        with self.assertRaises(ZeroDivisionError):
            dask.compute(*kith.dask.knn_graph(X, 3, metric=lambda a, b: 1 / 0))

    def test_documents(self):
        self.assertEqual(doctest.testmod(kith.dask)[:], (0, 4))
        page = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"
        if not page.is_file():
            self.skipTest("no documents")
        names = {"np": np, "kith": kith}
        for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S):
            if "kith.dask" in block:
                exec(compile(block, str(page), "exec"), names)
        x, q = (names[name].compute() for name in ("corpus", "queries"))
        self.same(names["found"], kith.knn(x, q, 10))
        self.same(names["graph"], kith.knn_graph(x, 15))
        self.same_ranges(names["near"], kith.radius_neighbors(x, q, radius=0.9), (100,) * 5)

    def test_mistakes(self):
        x = support.points(40, 3)
        X, wrong = da.from_array(x, chunks=(15, 3)), x.copy()
        wrong[33, 1] = np.nan
        unknown = X[X[:, 0] > 0]
        knn, graph, within = kith.dask.knn, kith.dask.knn_graph, kith.dask.radius_neighbors
        for error, says, call in (
            (ValueError, r"queries has chunks of unknown size \(queries.compute_chunk", lambda: knn(X, unknown, 3)),
            (ValueError, "X has chunks of unknown size", lambda: graph(unknown, 3)),
            (ValueError, "k is 41, must be 1 to 40", lambda: knn(X, X, 41)),
            (ValueError, "k is 40, must be 1 to 39", lambda: graph(X, 40)),
            (ValueError, "k is 0", lambda: graph(X, 0)),
            (TypeError, "k is 1.5, must be a whole number", lambda: graph(X, 1.5)),
            (ValueError, "corpus has 3 columns and queries has 2", lambda: knn(X, X[:, :2], 1)),
            (ValueError, "X has 1 axis, must have 2", lambda: graph(X[:, 0], 1)),
            (ValueError, "Complex", lambda: graph(X.astype(complex), 1)),
            (ValueError, "metric 'nope' is not known", lambda: graph(X, 1, metric="nope")),
            (ValueError, "algorithm is nn_descent, which is not exact", lambda: graph(X, 1, algorithm="nn_descent")),
            (NotImplementedError, "metric is haversine", lambda: graph(X[:, :2], 1, metric="haversine")),
            (ValueError, "n_jobs is 0", lambda: graph(X, 1, n_jobs=0)),
            (ValueError, "device is 'tpu'", lambda: graph(X, 1, device="tpu")),
            (ValueError, "corpus has no rows", lambda: within(X[:0], radius=1)),
            (ValueError, r"radius is -1, must be a number of at least 0", lambda: within(X, radius=-1)),
            (ValueError, r"radius\[39\] is nan", lambda: within(X, radius=np.r_[np.ones(39), np.nan])),
            (ValueError, "radius must be one number, or 40", lambda: within(X, radius=[1, 2])),
        ):
            with self.assertRaisesRegex(error, says):
                call()
        bad = da.from_array(wrong, chunks=(15, 3))  # what only the values show is known when it is computed
        for says, call in (
            (r"X\[33, 1\] is NaN", lambda: graph(bad, 3)),
            (r"queries\[33, 1\] is NaN", lambda: knn(X, bad, 3)),
            (r"corpus\[33, 1\] is NaN", lambda: within(bad, X, radius=1)),
        ):
            with self.assertRaisesRegex(ValueError, says):
                dask.compute(*call())


@unittest.skipUnless(IN_OWN_PROCESS, "runs in a process of its own")
class Cluster(Same):
    """Two processes."""

    @classmethod
    def setUpClass(cls):
        from distributed import Client, LocalCluster

        # How long the others try to reach one that was killed.
        set_until_end(cls.addClassCleanup, **{"distributed.comm.timeouts.connect": "8s"})
        cls.cluster = LocalCluster(n_workers=4 if ALL else 2, threads_per_worker=1, dashboard_address=None, memory_limit=0)
        cls.addClassCleanup(cls.cluster.close)
        cls.client = Client(cls.cluster)
        cls.addClassCleanup(cls.client.close)

    def test_processes(self):
        x, q = support.points(1500, 12), support.points(300, 12, seed=1)
        X, Q = da.from_array(x, chunks=((700, 9, 400, 391), 12)), da.from_array(q, chunks=(90, 12))
        self.same(kith.dask.knn_graph(X, 30), kith.knn_graph(x, 30))
        self.same(kith.dask.knn(X, Q, 12, metric="cosine"), kith.knn(x, q, 12, metric="cosine"))
        ranges = kith.dask.radius_neighbors(X, Q, radius=3.5)
        self.same_ranges(ranges, kith.radius_neighbors(x, q, radius=3.5), (90, 90, 90, 30))
        with self.assertRaisesRegex(ValueError, r"X\[1402, 3\] is NaN"):
            wrong = da.where((da.arange(1500, chunks=X.chunks[0]) == 1402)[:, None] & (np.arange(12) == 3), np.nan, X)
            dask.compute(*kith.dask.knn_graph(wrong, 3))

    def test_killed_worker(self):
        """a worker is killed by the system in the middle of a task, with all that it holds"""
        x = with_ties(120, "float64")
        x[117, 0], x[111, 0] = 97, 89
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        died = pathlib.Path(folder.name, "died")

        def deadly(a, b):
            if a[0] == 97 and b[0] == 89 and not died.exists():
                died.write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
            return float(np.abs(a - b).sum())

        def harmless(a, b):
            return float(np.abs(a - b).sum())

        before = {worker.pid for worker in self.cluster.workers.values()}
        found = kith.dask.knn_graph(da.from_array(x, chunks=(15, 5)), 20, metric=deadly)
        self.same(found, kith.knn_graph(x, 20, metric=harmless))
        self.assertIn(int(died.read_text()), before)


if __name__ == "__main__":
    unittest.main()
