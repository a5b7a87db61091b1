# SPDX-License-Identifier: Apache-2.0
"""An index of each method: rows come and go, files are opened, threads search meanwhile."""

import gc
import os
import pathlib
import sys
import tempfile
import threading
import time
import unittest

import kith
import numpy as np
import support
from kith import _handle
from test_lives import run

METHODS = "exact", "tree", "graph"
ROUNDS = int(os.environ.get("KITH_ROUNDS", "100"))
WANTED = 0.95  # of the graph
WIDTH = 24


def same(test, found, truth):
    test.assertEqual(found.indices.tobytes(), truth.indices.tobytes())
    test.assertEqual(found.distances.tobytes(), truth.distances.tobytes())


def churn(index, x, rng, seconds):
    """Rounds in which 1 % of the rows go and as many come; yields the rows as they are. Slow builds
    end sooner."""
    share, ends = len(x) // 100, time.monotonic() + seconds
    for turn in range(ROUNDS):
        gone = rng.choice(len(x), share, replace=False)
        added = rng.standard_normal((share, x.shape[1])).astype(x.dtype)
        index.remove(gone)
        index.add(added)
        x = np.concatenate([np.delete(x, gone, axis=0), added])
        yield turn + 1, x
        if turn >= 9 and time.monotonic() > ends:
            return


class Churn(unittest.TestCase):
    def test_an_exact_index_and_a_tree_answer_with_the_bytes_of_new_ones(self):
        for method, metric, cols, dtype in (
            ("exact", "euclidean", 12, np.float32),
            ("exact", "cosine", 7, np.float64),
            ("tree", "euclidean", 3, np.float32),
            ("tree", "manhattan", 2, np.float64),
        ):
            rng = np.random.default_rng(3)
            x, q = support.points(1000, cols, dtype), support.points(20, cols, dtype, seed=1)
            index = kith.Index(x, metric, method=method)
            for turn, x in churn(index, x, rng, 20):
                new = kith.Index(x, metric, method=method)
                same(self, index.search(q, 5), new.search(q, 5))
                ours, theirs = index.radius(q, 1.0), new.radius(q, 1.0)
                np.testing.assert_array_equal(ours.offsets, theirs.offsets)
                np.testing.assert_array_equal(ours.indices, theirs.indices)
            same(self, index.search(q, 5), kith.knn(x, q, 5, metric=metric))
            self.assertEqual(index.shape, x.shape)
            print(f"{method} {metric}: {turn} rounds of 1 % churn", file=sys.stderr)

    def test_a_graph_keeps_its_recall(self):
        for given in False, True:
            rng = np.random.default_rng(4)
            x, q = support.points(900, 24), support.points(200, 24, seed=1)
            graph = kith.knn_graph(x, 24, recall=WANTED, algorithm="nn_descent")
            options = {"graph": graph} if given else {"method": "graph"}
            index = kith.Index(x, recall=WANTED, width=WIDTH, meets=16, **options)
            said = [kith.recall(index.search(q, 10), kith.knn(x, q, 10)).recall]
            for turn, x in churn(index, x, rng, 40):
                if turn % 10 == 0:
                    found, truth = index.search(q, 10), kith.knn(x, q, 10)
                    self.assertIs(found.exact, False)
                    self.assertEqual(found.fingerprint, truth.fingerprint)
                    said.append(kith.recall(found, truth).recall)
            self.assertGreaterEqual(min(said), WANTED - 0.01)
            self.assertEqual((len(index), index.width), (900, WIDTH))
            print(f"graph: recall {said[0]:.4f}, after {turn} rounds of 1 % churn {said[-1]:.4f}",
                  file=sys.stderr)  # fmt: skip

    def test_removed_and_added_rows_are_gone_and_there(self):
        x = support.points(600, 4)
        for method in METHODS:
            index = kith.Index(x, method=method)
            new = support.points(1, 4, seed=9) + 20
            index.add(new)
            found = index.search(new)
            self.assertEqual((found.indices[0, 0], found.distances[0, 0]), (600, 0))
            index.remove([600, 0, 600])
            self.assertEqual(index.shape, (599, 4))
            self.assertEqual(index.search(x[1:2]).indices[0, 0], 0)
            for nothing in [], np.empty(0, int):
                index.remove(nothing)
            index.add(x[:0])
            self.assertEqual(len(index), 599)

    def test_a_failed_change_leaves_all_as_it_was(self):
        x, q = support.points(400, 4), support.points(9, 4, seed=1)
        bad = x[:9].copy()
        bad[4, 1] = np.inf
        for method in METHODS:
            index = kith.Index(x, method=method)
            before = index.search(q, 5)
            for change in (
                lambda: index.add(bad),
                lambda: index.add(x[:, :3]),
                lambda: index.add(x[0]),
                lambda: index.add("abc"),
                lambda: index.add([["a"] * 4]),
                lambda: index.remove([400]),
                lambda: index.remove([-1]),
                lambda: index.remove([0.5]),
                lambda: index.remove(np.arange(400)),
                lambda: index.remove(x[:, 0] > 0),
                lambda: index.remove([[1]]),
            ):
                with self.assertRaises(ValueError):
                    change()
            self.assertEqual(len(index), 400)
            same(self, index.search(q, 5), before)

    def test_rows_of_a_wider_type_make_it_wider_but_for_a_graph(self):
        x, wide = support.points(300, 3), support.points(40, 3, np.float64, seed=5) / 3
        q, both = x[:20].copy(), np.concatenate([x, wide])
        for method in "exact", "tree":
            index = kith.Index(x, method=method, height=2 if method == "tree" else 0)
            index.add(np.rint(wide))
            self.assertEqual(index.dtype, np.float32)
            index.remove(np.arange(300, 340))
            index.add(wide)
            self.assertEqual((index.dtype, len(index)), (np.float64, 340))
            same(self, index.search(q, 4), kith.knn(both, q, 4))
        graph = kith.Index(x, method="graph")
        graph.add(np.rint(wide))
        with self.assertRaisesRegex(ValueError, "Y has values that float32, the type of the index"):
            graph.add(wide)
        self.assertEqual((graph.dtype, len(graph)), (np.float32, 340))

    def test_points_are_let_go_when_the_index_has_its_own(self):
        for method in METHODS:
            x = support.points(200, 3)
            count = sys.getrefcount(x)
            index = kith.Index(x, method=method)
            self.assertEqual(sys.getrefcount(x), count + 1)
            index.add(x[:2])
            gc.collect()
            self.assertEqual(sys.getrefcount(x), count)
            x[:] = 0  # which it does not see
            self.assertGreater(index.search(x[:1]).distances[0, 0], 0)


class Files(unittest.TestCase):
    def test_every_method_is_opened_as_it_was_saved(self):
        x, q = support.points(700, 4), support.points(30, 4, seed=1)
        with tempfile.TemporaryDirectory() as folder:
            for method in METHODS:
                for metric in "euclidean", "manhattan":
                    path = pathlib.Path(folder, f"{method}-{metric}.kith")
                    index = kith.Index(x, metric, method=method)
                    index.save(path)
                    again = kith.Index.open(path)
                    self.assertEqual(repr(again), repr(index))
                    known = again.method, again.metric, again.shape, again.dtype
                    self.assertEqual(known, (method, metric, (700, 4), np.float32))
                    same(self, again.search(q, 5), index.search(q, 5))
                    again.add(q)
                    again.remove([3])
                    index.add(q)
                    index.remove([3])
                    same(self, again.search(q, 5), index.search(q, 5))
                    again.save(path)
                    same(self, kith.Index.open(path).search(q, 5), index.search(q, 5))
            os.environ["KITH_DEVICE"], before = "cuda", os.environ.get("KITH_DEVICE")
            try:  # which trees and graphs are not for
                for method in "tree", "graph":
                    opened = kith.Index.open(f"{folder}/{method}-euclidean.kith")
                    self.assertEqual(opened.search(q, 5).indices.shape, (30, 5))
                    self.assertEqual(kith.Index(x, method=method).search(q).indices.shape, (30, 1))
            finally:
                del os.environ["KITH_DEVICE"]
                if before is not None:
                    os.environ["KITH_DEVICE"] = before
            with self.assertRaises(FileNotFoundError):
                kith.Index.open(os.path.join(folder, "absent.kith"))
            with self.assertRaises(FileNotFoundError):
                index.save(os.path.join(folder, "absent", "index.kith"))


class Searches(unittest.TestCase):
    def test_of_one_row(self):
        one, q = support.points(1, 5), support.points(7, 5, seed=1)
        for method in "exact", "tree":
            index = kith.Index(one, method=method)
            for asked in q, q[:1], q.astype(np.float64):
                same(self, index.search(asked), kith.knn(one, asked, 1))
            self.assertEqual(len(index.radius(q, 99.0).indices), 7)
            with self.assertRaisesRegex(ValueError, "ids name all 1 rows"):
                index.remove([0])
            index.add(q)
            index.remove([0])
            same(self, index.search(q, 3), kith.knn(q, q, 3))
        two = kith.Index(q[:2], method="graph")
        self.assertEqual(two.search(q, 2).indices.shape, (7, 2))
        two.add(q[2:3])
        two.remove([0])
        with self.assertRaisesRegex(ValueError, "has 1 row, and an index by graph has at least 2"):
            two.remove([0])
        same(self, two.search(q, 2), kith.knn(q[1:3], q, 2))

    def test_of_a_graph_that_is_made(self):
        x, q = support.points(2000, 8), support.points(100, 8, seed=1)
        truth = kith.knn(x, q, 10)
        made = kith.Index(x, method="graph", k=16, recall=1, random_state=7)
        given = kith.Index(x, graph=kith.knn_graph(x, 16))
        same(self, made.search(q, 10, width=40), given.search(q, 10, width=40))
        self.assertEqual((made.method, given.method), ("graph", "graph"))
        self.assertGreater(kith.recall(made.search(q, 10, width=99), truth).recall, 0.97)
        few = kith.Index(x[:9], method="graph")
        same(self, few.search(q, 9, width=9), kith.knn(x[:9], q, 9))

    def test_of_types_that_are_not_the_index(self):
        x = (abs(support.points(500, 6)) * 60).clip(0, 255).astype(np.uint8)
        for method in METHODS:
            index = kith.Index(x, method=method, **({"width": 500} if method == "graph" else {}))
            for dtype in np.uint8, np.int8, np.float16, np.float32, np.float64, int:
                asked = x[:9].clip(0, 127).astype(dtype)
                truth = kith.knn(x, asked, 3)
                same(self, index.search(asked, 3), truth)
                same(self, index.search(asked, 3, progress=lambda *told: None), truth)

    def test_of_wishes(self):
        x, q = support.points(500, 3), support.points(40, 3, seed=1)
        for method in "exact", "tree":
            index = kith.Index(x, method=method)
            for options in (
                {"radius": 0.3},
                {"exclude": np.arange(40)},
                {"radius": 0.4, "exclude": np.arange(40)},
            ):
                same(self, index.search(q, 5, **options), kith.knn(x, q, 5, **options))
        with self.assertRaises(MemoryError):
            kith.Index(x, memory_limit=1000)
        with self.assertRaisesRegex(
            NotImplementedError, "no GPU can be used"
        ):
            kith.Index(x, method="graph", device="cuda")


class Threads(unittest.TestCase):
    def test_search_while_another_changes_and_every_answer_is_one_of_its_states(self):
        x, q = support.points(1200, 3), support.points(30, 3, seed=1)
        for method in METHODS:
            options = {"width": 1000} if method == "graph" else {}
            states = [x[:1000], x]
            truths = {kith.knn(each, q, 4).indices.tobytes() for each in states}
            index, wrong, counts = kith.Index(states[0], method=method, **options), [], [0, 0]
            ends = time.monotonic() + 1.0

            def search():
                while time.monotonic() < ends:
                    found = index.search(q, 4)
                    counts[0] += 1
                    if found.indices.tobytes() not in truths:
                        wrong.append("an answer of no state")
                    if index.shape not in ((1000, 3), (1200, 3)) or index.nbytes < 0:
                        wrong.append(index.shape)

            def change():
                while time.monotonic() < ends:
                    index.add(x[1000:])
                    index.remove(np.arange(1000, 1200))
                    counts[1] += 1

            threads = [threading.Thread(target=each) for each in (search, search, change)]
            for each in threads:
                each.start()
            for each in threads:
                each.join(60)
                self.assertFalse(each.is_alive(), "a thread hangs")
            self.assertEqual(wrong, [])
            self.assertGreater(min(counts), 0)
            print(f"{method}: {counts[0]} searches beside {counts[1]} changes", file=sys.stderr)

    def test_many_begin_with_queries_of_another_type(self):
        x = (abs(support.points(3000, 8)) * 60).clip(0, 255).astype(np.uint8)
        index, found = kith.Index(x, method="graph", width=200), [None] * 6
        q = x[:50].astype(np.float32)

        def ask(slot):
            found[slot] = index.search(q, 3)

        threads = [threading.Thread(target=ask, args=(slot,)) for slot in range(6)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
        for each in found:
            same(self, each, found[0])

    def test_a_progress_function_searches_while_walks_are_made(self):
        ran = run(
            """
            import kith, numpy as np
            rng = np.random.default_rng(0)
            x = rng.integers(0, 255, (60000, 32)).astype(np.uint8)
            q = x[:20000].astype(np.float32)
            ids = rng.integers(0, 60000, (60000, 8))
            index, said = kith.Index(x, graph=(ids.astype(np.float32), ids)), []
            def tell(*told):
                if len(said) < 2:
                    said.append(index.search(q[:1]).indices.shape)
                    said.append(index.search(x[:1]).indices.shape)
            print(index.search(q, progress=tell).indices.shape, *said)
            """,
            60,
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stdout.strip(), "(20000, 1) (1, 1) (1, 1)")

    def test_what_is_freed_is_freed_once(self):
        x = support.points(300, 3)
        known = len(_handle._made)
        for method in METHODS:
            index = kith.Index(x, method=method)
            index.close()
            index.close()
            for use in (
                lambda: index.search(x),
                lambda: index.radius(x, 1.0),
                lambda: index.add(x),
                lambda: index.remove([0]),
                lambda: index.tune(x),
            ):
                with self.assertRaisesRegex(ValueError, "^the Index is closed$"):
                    use()
        self.assertLessEqual(len(_handle._made), known + 3)  # contexts of this thread


if __name__ == "__main__":
    unittest.main()
