# SPDX-License-Identifier: Apache-2.0
"""Small searches go a way of their own (kith/_small.py): same bytes, same errors, nothing lost."""

import ctypes
import os
import signal
import sys
import threading
import time
import unittest
from unittest import mock

import kith
import numpy as np
import support
from kith import _small

X = support.points(300, 16)


def long_way():
    """A context in which no search is small."""
    return mock.patch.object(_small, "MOST_STEPS", -1)


def counted():
    """A context in which searches that go the short way are counted."""
    return mock.patch.object(_small._Seat, "call", autospec=True, side_effect=_small._Seat.call)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


class BothWays(unittest.TestCase):
    def same(self, call):
        with counted() as short:
            found = call()
        self.assertEqual(short.call_count, 1)
        with long_way(), counted() as short:
            expected = call()
        self.assertEqual(short.call_count, 0)
        self.assertIs(type(found), kith.Neighbors)
        for ours, theirs in zip(found, expected, strict=True):
            self.assertEqual((ours.dtype, ours.shape), (theirs.dtype, theirs.shape))
            self.assertEqual(ours.tobytes(), theirs.tobytes())
            self.assertTrue(ours.flags.owndata and ours.flags.writeable)

    def test_give_the_same_bytes(self):
        tried = 0
        for dtype in "f2", "f4", "f8", "u1", "i1":
            x = support.points(200, 9, dtype)
            for asked in "f4", dtype:
                q = support.points(7, 9, asked, seed=1)
                self.same(lambda: kith.knn(x, q, 5))
                tried += 1
        names = "euclidean sqeuclidean inner_product cosine correlation manhattan chebyshev chi2"
        for metric in [*names.split(), "hamming", "jaccard", "minkowski"]:
            x = np.abs(X[:150])
            for algorithm in "auto", "brute", "ball_tree":
                options = dict(metric=metric, p=1, algorithm=algorithm, n_jobs=1)
                self.same(lambda: kith.knn(x, x[:3], 4, **options))
                self.same(lambda: kith.knn_graph(x, 4, **options))
                tried += 2
        for k in 1, 299, 300:
            self.same(lambda: kith.knn_graph(X, k, include_self=True, algorithm="kd_tree"))
            self.same(
                lambda: kith.knn(X, X[:1], k, n_jobs=None, device="cpu", memory_limit=1 << 28)
            )
            tried += 2
        for points in (
            kith.Index(X),
            kith.Index(X[:, :3].copy(), method="tree"),
            kith.Index(X.astype("f8")),
        ):
            cols = points.shape[1]
            for q in X[:1, :cols].copy(), X[:, :cols].astype("f2"), X[:9, :cols].astype("f8"):
                self.same(lambda: points.search(q, 7))
                self.same(lambda: points.search(q, 300, n_jobs=2))
                tried += 2
        for kind in "f4", "f8", "u1":
            rows = support.points(2000, 12, kind)
            walks = kith.Index(rows, method="graph", k=8)
            for width in None, 9, 40:
                self.same(lambda: walks.search(rows[:5], 7, width=width))
                walks.width, walks.meets = width, 64
                self.same(lambda: walks.search(rows[:1].astype("f4"), 3))
                tried += 2
        print(f"{tried} searches: the short way's bytes are the long one's", file=sys.stderr)

    def test_say_the_same_about_what_is_wrong(self):
        kinds = ValueError, MemoryError, NotImplementedError
        walks = kith.Index(X, method="graph", k=8)
        bad = X.copy()
        bad[7, 3] = np.nan
        for call in (
            lambda: kith.knn_graph(bad, 3),
            lambda: kith.knn(bad, X, 3),
            lambda: kith.knn(X, X[:, :5].copy(), 3),
            lambda: kith.knn(X, X, 301),
            lambda: kith.knn(X, None, 3),
            lambda: kith.knn(X, X[:0], 301),
            lambda: kith.knn(X, X[:0, :5].copy(), 3),
            lambda: kith.knn(X[:, :0], X[:, :0], 3),
            lambda: kith.knn(X, X, 3, metric="minkowski", p=0.5),
            lambda: kith.knn_graph(X, 0),
            lambda: kith.knn_graph(X[:1], 1),
            lambda: kith.knn_graph(X, 300),
            lambda: kith.knn_graph(X, 3, metric="no such"),
            lambda: kith.knn_graph(X, 3, device="no such"),
            lambda: kith.knn_graph(X, 3, memory_limit=1000),
            lambda: kith.knn(X, X[0], 3),
            lambda: kith.knn_graph(X, 3, n_jobs=0),
            lambda: kith.Index(X).search(bad, 3),
            lambda: kith.Index(X).search(X, 301),
            lambda: kith.Index(X).search(X[:, :5].copy(), 3),
            lambda: walks.search(X, 5, width=4),
            lambda: walks.search(bad, 3),
            lambda: walks.search(X, 301),
        ):
            said = []
            for way in long_way, counted:
                with way(), self.assertRaises(kinds) as caught:
                    call()
                said.append((type(caught.exception), str(caught.exception)))
            self.assertEqual(*said)
        self.same(lambda: kith.knn_graph(X, 3))  # a context is as good as before

    def test_the_long_one_has_all_that_is_not_plain_or_not_small(self):
        fixed = X.copy()
        fixed.flags.writeable = False
        self.same(lambda: kith.knn_graph(fixed, 3))  # read-only is plain
        self.same(lambda: kith.knn_graph(X, np.int64(3)))
        wide, out = support.points(2000, 64), (np.empty((300, 3), "f4"), np.empty((300, 3), "i8"))
        with counted() as short:
            kith.knn_graph(X[:, ::2], 3)
            kith.knn_graph(np.asfortranarray(X), 3)
            kith.knn_graph(X.tolist(), 3)
            kith.knn_graph(X.astype(">f4"), 3)
            kith.knn_graph(np.abs(X), 3, metric="kl")
            kith.knn_graph(X[:40], 3, metric=lambda a, b: float(abs(a - b).sum()))
            kith.knn_graph(X, 3, n_jobs=-2)
            kith.knn_graph(X, 3, progress=lambda *told: None)
            kith.knn_graph(X, 3, recall=0.9)
            kith.knn_graph(X, 3, radius=1.0)
            kith.knn_graph(X, 3, out=out)
            kith.knn_graph(X, 3, algorithm="nn_descent")
            kith.knn(X, X, 3, exclude=np.arange(300))
            kith.knn_graph(wide, 3)
            kith.Index(X).search(X, 3, radius=1.0)
            kith.Index(np.abs(X), metric="kl").search(np.abs(X), 3)
            kith.Index(wide).search(wide, 3)
            self.assertEqual(short.call_count, 0)

    def test_write_the_structs_that_ctypes_reads(self):
        layout = _small.packed(*(kind for _, kind in _small.Frame._fields_))
        self.assertEqual(layout.size, ctypes.sizeof(_small.Frame))
        frame = _small.Frame()
        kinds = [kind for _, part in _small.Frame._fields_ for _, kind in part._fields_]
        values = [i + 0.5 * (kind is ctypes.c_double) for i, kind in enumerate(kinds, 1)]
        values = [value if value % 1 else int(value) for value in values]
        layout.pack_into(frame, 0, *values)
        read = []
        for part, _ in _small.Frame._fields_:
            for field, kind in getattr(frame, part)._fields_:
                value = getattr(getattr(frame, part), field)
                pointer = issubclass(kind, ctypes._CFuncPtr)
                read.append(ctypes.cast(value, ctypes.c_void_p).value if pointer else value)
        self.assertEqual(read, values)


class Nothing(unittest.TestCase):
    """is lost."""

    def test_of_ctrl_c(self):
        handler = signal.getsignal(signal.SIGINT)
        pressed = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
        pressed.start()
        begin = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            while time.monotonic() - begin < 30:
                kith.knn_graph(X, 5)
        self.assertLess(time.monotonic() - begin, 5.0)
        self.assertIs(signal.getsignal(signal.SIGINT), handler)
        with counted() as short:
            kith.knn_graph(X, 5)
        self.assertEqual(short.call_count, 1)

    def test_since_small_calls_end_soon_and_hold_no_gil(self):
        rows = 1
        while _small.steps(rows + 1, 64, rows + 1, 10) <= _small.MOST_STEPS:
            rows += 1
        self.assertGreater(rows, 1000)
        x = np.abs(support.points(rows, 64))
        worker = threading.Thread(  # which has a context of its own, for the slowest code
            target=kith.knn_graph, args=(x, 10), kwargs={"metric": "jaccard", "n_jobs": 1}
        )
        turns = 0
        with mock.patch.dict(os.environ, KITH_ISA="portable"), counted() as short:
            begin = time.perf_counter()
            worker.start()
            while worker.is_alive():
                turns += 1
                time.sleep(0.001)
            took = time.perf_counter() - begin
        self.assertEqual(short.call_count, 1)
        self.assertGreater(turns, 5)
        print(f"{rows} x 64 is small: {took * 1e3:.0f} ms at the slowest", file=sys.stderr)
        self.assertLess(took, 10.0)  # half a second on a machine that does nothing else

    def test_where_a_signal_handler_searches(self):
        truth = kith.knn_graph(X, 5)
        other = kith.knn(X[:90], X, 4)
        heard = []

        def search(number, frame):
            found = kith.knn(X[:90], X, 4)
            heard.append(found.indices.tobytes() == other.indices.tobytes())

        before = signal.signal(signal.SIGALRM, search)
        try:
            begin = time.monotonic()
            while len(heard) < 50 and time.monotonic() - begin < 3:
                # Once, and at another moment each time: handlers are not to interrupt themselves.
                signal.setitimer(signal.ITIMER_REAL, 1e-4 * (1 + len(heard) % 9))
                found = kith.knn_graph(X, 5)
                self.assertEqual(found.indices.tobytes(), truth.indices.tobytes())
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertTrue(heard and all(heard))

    def test_among_threads(self):
        wrong = []

        def ask(rows):
            x = X[:rows]
            truth = support.graph(x, 3)
            for _ in range(30):
                if (kith.knn_graph(x, 3, n_jobs=1).indices != truth).any():
                    wrong.append(rows)

        threads = [threading.Thread(target=ask, args=(50 + each,)) for each in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual(wrong, [])

    def test_in_a_forked_process(self):
        truth = kith.knn_graph(X, 5)
        child = os.fork()
        if child == 0:
            same = kith.knn_graph(X, 5).indices.tobytes() == truth.indices.tobytes()
            os._exit(0 if same else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_not_even_memory(self):
        bad = X.copy()
        bad[0] = np.nan

        def all_kinds():
            for jobs in range(1, 12):  # more than are kept
                kith.knn(X[:9], X[:5], 3, n_jobs=jobs)
            for _ in range(8):
                kith.knn_graph(X, 250, n_jobs=1)  # more ids than a seat keeps room for
                with self.assertRaises(ValueError):
                    kith.knn_graph(bad, 3)

        for _ in range(3):
            all_kinds()
        before = resident()
        for _ in range(12):
            all_kinds()
        grown = resident() - before
        print(f"324 more small searches: {grown >> 10} KiB more", file=sys.stderr)
        self.assertLess(grown, 4 << 20)
        seats = _small._seats.free
        self.assertLessEqual(len(seats), 8)
        self.assertLessEqual(max(seat.ids.nbytes for seat in seats.values()), 1 << 18)


if __name__ == "__main__":
    unittest.main()
