# SPDX-License-Identifier: Apache-2.0
"""What the library holds: used by many threads, changed by one, closed at any time, and freed once.

Whatever may end a process is tried in one of its own.
"""

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest

import kith
import numpy as np
import support
from kith import _handle

X = support.points(2000, 3)
Q = support.points(64, 3, seed=1)


def run(code, timeout=120):
    """Another Python that runs code, which ends with status 0."""
    command = [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def together(*functions):
    """Threads that end by themselves; what they raised."""
    raised = []

    def guarded(function):
        try:
            function()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(each,)) for each in functions]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
        assert not each.is_alive(), "a thread hangs"
    return raised


def holders(folder):
    """One of each kind, and a call that uses it."""
    path = os.path.join(folder, "g.kith")
    kith.Graph(kith.knn_graph(X, 4)).save(path)
    index = kith.Index(X, graph=kith.knn_graph(X, 12))
    return (
        (kith.Index(X), lambda each: each.search(Q, 3)),
        (kith.Index(X, method="tree"), lambda each: each.search(Q, 3)),
        (index, lambda each: each.search(Q, 3)),
        (kith.Graph.map(path), lambda each: each.indices),
    )


class Changing(unittest.TestCase):
    def test_a_tree_is_searched_and_changed_by_threads_and_every_answer_is_one_of_its_states(self):
        ran = run(
            """
            import threading, time, kith, numpy as np
            rng = np.random.default_rng(0)
            x = rng.random((4000, 3), dtype=np.float32)
            q = rng.random((50, 3), dtype=np.float32)
            states = [x[:2000], x]
            truths = {kith.knn(each, q, 5).distances.tobytes() for each in states}
            tree, wrong, done = kith.Index(states[0], method="tree"), [], threading.Event()
            counts = [0, 0]
            def search(options):
                while not done.is_set():
                    try:
                        if tree.search(q, 5, **options).distances.tobytes() not in truths:
                            wrong.append("an answer of no state")
                        if tree.shape not in ((2000, 3), (4000, 3)) or len(repr(tree)) < 9:
                            wrong.append(tree.shape)
                        counts[0] += 1
                    except Exception as error:
                        wrong.append(error)
            def change():
                try:
                    while not done.is_set():
                        tree.add(x[2000:])
                        tree.remove(np.arange(2000, 4000))
                        counts[1] += 1
                except Exception as error:
                    wrong.append(error)
            kinds = {}, {"n_jobs": 1}, {"progress": lambda *told: None}, {"radius": 9.0}
            threads = [threading.Thread(target=search, args=(each,)) for each in kinds]
            threads.append(threading.Thread(target=change))
            for each in threads: each.start()
            time.sleep(1.2)
            done.set()
            for each in threads: each.join()
            print(wrong[:3], *counts)
            """
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        wrong, searches, changes = ran.stdout.rsplit(maxsplit=2)
        self.assertEqual(wrong, "[]")
        self.assertGreater(int(searches), 5)
        self.assertGreater(int(changes), 1)
        print(f"{searches} searches beside {changes} changes", file=sys.stderr)

    def test_a_change_from_within_a_search_is_refused_and_a_search_goes_on(self):
        tree, said = kith.Index(X, method="tree"), []

        def tell(*told):
            said.append(tree.search(Q[:1]).indices.shape)
            for change in lambda: tree.add(X[:1]), lambda: tree.remove([0]), tree.close:
                try:
                    change()
                except RuntimeError as error:
                    said.append(str(error))

        big = support.points(60000, 3)
        tree = kith.Index(big, method="tree")
        found = tree.search(big, 30, n_jobs=1, progress=tell)
        self.assertEqual(found.indices.shape, (60000, 30))
        self.assertEqual(said[:1], [(1, 1)])
        self.assertRegex(said[1], "^the Index is in use by this thread .change or close it when")
        self.assertEqual(len(set(said)), 2)
        tree.add(big[:1])
        self.assertEqual(len(tree), 60001)

    def test_a_signal_handler_may_search_while_its_thread_does_or_changes(self):
        tree, heard = kith.Index(X, method="tree"), []

        def hear(number, frame):
            try:
                heard.append(tree.search(Q[:1], 2).indices.shape)
            except RuntimeError as error:
                heard.append(str(error))

        before = signal.signal(signal.SIGALRM, hear)
        try:
            begin = time.monotonic()
            while time.monotonic() - begin < 0.7:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 * (1 + len(heard) % 17))
                tree.search(Q, 3)
                tree.add(X[:50])
                tree.remove(np.arange(2000, 2050))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertIn((1, 2), heard)
        for each in set(heard) - {(1, 2)}:
            self.assertRegex(each, "^the Index is being changed by this thread .use it when that")

    def test_who_waits_for_a_tree_hears_ctrl_c_and_leaves_nothing_behind(self):
        handle, entered, leave = _handle.Handle("Index", 1), threading.Event(), threading.Event()

        def use():
            with handle:
                entered.set()
                leave.wait(30)

        user = threading.Thread(target=use)
        user.start()
        entered.wait()
        pressed = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
        pressed.start()
        with self.assertRaises(KeyboardInterrupt), handle.alone():
            pass
        leave.set()
        user.join()
        with handle.alone(), self.assertRaisesRegex(RuntimeError, "being changed by this thread"):
            with handle:
                pass
        self.assertEqual((handle._users, handle._alone, handle._waiting), ({}, None, 0))

    def test_neither_users_nor_changes_starve(self):
        handle, ends = _handle.Handle("Index", 1), time.monotonic() + 0.7
        counts = {"use": [0, 0, 0], "change": [0, 0]}

        def loop(kind, slot):
            while time.monotonic() < ends:
                with handle if kind == "use" else handle.alone():
                    counts[kind][slot] += 1
                    time.sleep(0.0005)

        jobs = [(kind, slot) for kind in counts for slot in range(len(counts[kind]))]
        self.assertEqual(together(*(lambda job=job: loop(*job) for job in jobs)), [])
        print(f"uses {counts['use']}, changes {counts['change']}", file=sys.stderr)
        self.assertGreater(min(counts["use"] + counts["change"]), 5)

    def test_types_mix_and_no_value_is_rounded(self):
        kinds = "f2", "f4", "f8", "u1", "i1"
        q = support.points(20, 3, seed=2)
        for first in kinds:
            for second in kinds:
                for whole in True, False:
                    parts = []
                    for kind, seed in (first, 3), (second, 4):
                        x = 40 * support.points(90, 3, seed=seed)
                        x = np.abs(x) if kind[0] == "u" else x.clip(-100, 100)
                        x = x.round() if whole or kind[1:] == "1" else x / 3
                        parts.append(x.astype(kind))
                    tree = kith.Index(parts[0], height=2, method="tree")
                    tree.add(parts[1])
                    both = np.concatenate([each.astype(np.float64) for each in parts])
                    found, truth = tree.search(q, 5), kith.knn(both, q, 5)
                    with self.subTest(first=first, second=second, whole=whole, now=tree.dtype):
                        np.testing.assert_array_equal(found.indices, truth.indices)
                        np.testing.assert_allclose(found.distances, truth.distances, rtol=1e-6)
                    if whole and first in ("f4", "f8"):
                        self.assertEqual(tree.dtype, first)
                    tree.remove(np.arange(90))
                    self.assertEqual(len(tree), 90)
        tree = kith.Index(X, method="tree")
        tree.add([[1, 2, 3]])
        self.assertEqual((tree.dtype, len(tree)), (np.float32, 2001))
        tree.add(np.array([[0.1, 2, 3]]))
        self.assertEqual((tree.dtype, len(tree)), (np.float64, 2002))
        self.assertEqual(tree.search([[0.1, 2, 3]]).distances[0, 0], 0)

    def test_nothing_to_add_to_remove_or_to_ask_is_no_error(self):
        tree = kith.Index(X, method="tree")
        tree.add(X[:0])
        tree.add(np.empty((0, 3)))
        tree.remove([])
        self.assertEqual(len(tree), 2000)
        index = kith.Index(X, graph=kith.knn_graph(X, 12))
        for call in (
            lambda: kith.knn(X, Q[:0], 3),
            lambda: kith.knn(X, Q[:0], 3, radius=1.0, algorithm="brute"),
            lambda: kith.Index(X).search(Q[:0], 3),
            lambda: tree.search(Q[:0], 3),
            lambda: tree.search(Q[:0].astype(np.float64), 3, progress=lambda *told: None),
            lambda: index.search(Q[:0], 3),
        ):
            found = call()
            self.assertEqual((found.distances.shape, found.indices.shape), ((0, 3), (0, 3)))
            self.assertEqual(found.indices.dtype, np.int64)
        for counted in False, True:
            ranges = kith.radius_neighbors(X, Q[:0], radius=1.0, count_only=counted)
            self.assertEqual((len(ranges), ranges.offsets.tolist()), (0, [0]))
        with self.assertRaisesRegex(ValueError, "columns"):
            index.search(Q[:0, :2], 3)
        with self.assertRaisesRegex(ValueError, "k is 2001, must be 1 to 2000"):
            tree.search(Q[:0], 2001)


class Closing(unittest.TestCase):
    def test_all_that_holds_memory_is_closed_once_and_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            for held, use in holders(folder):
                name = type(held).__name__
                with self.subTest(name), held as same:
                    self.assertIs(same, held)
                    use(held)
                for _ in range(2):
                    held.close()
                self.assertEqual(repr(held), f"<kith.{name}: closed>")
                uses = [lambda: use(held), lambda: held.__enter__(), lambda: len(held)]
                if name == "Index":
                    uses += [lambda: held.add(X), lambda: held.add(X[:0]), lambda: held.remove([])]
                    uses += [lambda: held.save("/nowhere/x"), lambda: held.dtype]
                    uses += [lambda: held.shape, lambda: held.metric, lambda: held.method]
                    uses += [lambda: held.tune(Q), lambda: held.nbytes]
                    uses += [lambda: held.radius(Q, 1.0)]
                if name == "Graph":
                    uses += [lambda: held.distances, lambda: held.save("/nowhere/x.npz")]
                for each in uses:
                    with self.assertRaisesRegex(ValueError, f"^the {name} is closed$"):
                        each()
            for kind in kith.Index, kith.Graph:
                empty = kind.__new__(kind)  # nobody made it
                with self.assertRaisesRegex(ValueError, "is closed"):
                    len(empty)
                empty.close()

    def test_memory_is_given_back_when_it_is_closed(self):
        x = support.points(5, 3)
        count = sys.getrefcount(x)
        with kith.Index(x) as corpus, kith.Index(x, graph=kith.knn_graph(x, 2)) as index:
            self.assertGreater(sys.getrefcount(x), count)
        known = len(_handle._made)
        del corpus
        self.assertEqual(len(_handle._made), known)
        self.assertEqual(sys.getrefcount(x), count)
        del index

    def test_closing_waits_for_searches_and_what_comes_later_is_refused(self):
        big = support.points(30000, 3)
        for method in "tree", "exact":
            held, inside, said = kith.Index(big, method=method), threading.Event(), []
            shapes = []

            def tell(*told):  # the library is still in there
                said.append("searched")
                inside.set()

            def search():
                shapes.append(held.search(big, 20, n_jobs=1, progress=tell).indices.shape)

            def close():
                inside.wait(30)
                held.close()
                said.append("closed")

            self.assertEqual(together(search, close, close), [])
            self.assertEqual(shapes, [(30000, 20)])
            self.assertGreater(said.count("searched"), 1)
            self.assertEqual(said, ["searched"] * (len(said) - 2) + ["closed"] * 2)
            with self.assertRaisesRegex(ValueError, "is closed"):
                held.search(Q)

    def test_threads_that_search_and_close_at_random_end_with_one_error(self):
        ran = run(
            """
            import threading, random, tempfile, os, kith, numpy as np
            rng = np.random.default_rng(0)
            x = rng.random((3000, 3), dtype=np.float32)
            q = rng.random((40, 3), dtype=np.float32)
            graph = kith.knn_graph(x, 8)
            path = os.path.join(tempfile.mkdtemp(), "g.kith")
            kith.Graph(graph).save(path)
            makers = (
                (lambda: kith.Index(x, method="tree"), lambda t: random.choice((
                    lambda: t.search(q, 3), lambda: t.add(x[:5]), lambda: t.remove([1, 2]),
                    lambda: t.save(path + str(threading.get_ident())), lambda: t.shape))()),
                (lambda: kith.Index(x), lambda t: t.search(q, 3)),
                (lambda: kith.Index(x, graph=graph), lambda t: t.search(q, 3)),
                (lambda: kith.Graph.map(path), lambda g: (g.indices.sum(), g.distances.sum())),
            )
            other, ended = [], []  # without Python's lock threads lose counts, never what they append
            def use(held, call):
                while True:
                    try:
                        call(held)
                    except ValueError as error:
                        if "is closed" not in str(error):
                            other.append(error)
                        ended.append(turn)
                        return
                    except Exception as error:
                        other.append(error)
                        return
            for turn in range(16):
                make, call = makers[turn % 4]
                held = make()
                threads = [threading.Thread(target=use, args=(held, call)) for _ in range(4)]
                for each in threads: each.start()
                threading.Event().wait(random.random() * 0.05)
                closers = [threading.Thread(target=held.close) for _ in range(2)]
                for each in closers: each.start()
                for each in threads + closers: each.join()
            print(other[:3], len(ended))
            """
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stdout.split(), ["[]", "64"])

    def test_arrays_of_a_mapped_file_outlive_its_closing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "g.kith")
            found = kith.knn_graph(X, 4)
            kith.Graph(found).save(path)
            with kith.Graph.map(path) as graph:
                kept = graph.distances[5:, 1:]
            gc.collect()
            np.testing.assert_array_equal(kept, found.distances[5:, 1:])

    def test_circles_of_garbage_are_freed_in_an_order_that_does_no_harm(self):
        ran = run(
            """
            import gc, os, tempfile, kith, numpy as np
            x = np.random.default_rng(0).random((500, 3), dtype=np.float32)
            path = os.path.join(tempfile.mkdtemp(), "g.kith")
            graph = kith.knn_graph(x, 5)
            kith.Graph(graph).save(path)
            from kith import _handle
            said = []
            class Last:  # of a caller, who looks once more
                def __del__(self):
                    said.append(float(self.graph.distances.sum()))
                    for each in self.others:
                        each.search(x[:3])
                        each.close()
                    said.append(self.array.sum())
            gc.disable()
            before = len(_handle._made)
            for turn in range(20):
                mapped = kith.Graph.map(path)
                last = Last()
                last.others = [kith.Index(x, method="tree"), kith.Index(x), kith.Index(x, graph=graph)]
                last.graph, last.array, last.me = mapped, mapped.distances[::2], last
                del last, mapped
            gc.collect()
            print(len(said), len(_handle._made) - before)
            """
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        count, left = map(int, ran.stdout.split())
        self.assertEqual(count, 40)
        self.assertLessEqual(left, 3)  # contexts of this thread, whatever the turns
        self.assertEqual(ran.stderr, "")

    def test_freeing_twice_does_nothing_and_a_pointer_is_nobodys_to_copy(self):
        tree = kith.Index(X, method="tree")
        with tree._handle as kept:
            pointer = kept.made
            with self.assertRaisesRegex(TypeError, "cannot be pickled or copied"):
                copy.deepcopy([pointer])
            with self.assertRaisesRegex(TypeError, "cannot be pickled or copied"):
                pickle.dumps(pointer)
        freed = []
        made = _handle.c.c_void_p(12345)
        one = _handle.Pointer.take(made, freed.append)
        one.__del__()
        one.__del__()
        del one
        self.assertEqual(freed, [12345])

    def test_beginning_anew_lets_the_first_go(self):
        tree = kith.Index(X, method="tree")
        tree.__init__(X[:10])
        self.assertEqual(tree.search(Q, 10).indices.max(), 9)


class Processes(unittest.TestCase):
    def test_a_process_ends_while_daemons_compute(self):
        for turn in range(2):
            ran = run(
                """
                import sys, threading, time, kith, numpy as np
                x = np.random.default_rng(0).random((40000, 3), dtype=np.float32)
                tree, corpus = kith.Index(x, method="tree"), kith.Index(x)
                index = kith.Index(x[:2000], graph=kith.knn_graph(x[:2000], 8))
                def work(call):
                    while True:
                        call()
                for call in (lambda: tree.search(x, 5), lambda: corpus.search(x[:50], 5),
                             lambda: index.search(x[:50], 3), lambda: kith.knn_graph(x[:2000], 5),
                             lambda: kith.knn_graph(x, 5, metric="manhattan", algorithm="brute",
                                                    progress=lambda *told: None)):
                    threading.Thread(target=work, args=(call,), daemon=True).start()
                time.sleep(0.3)
                """
            )
            self.assertEqual(ran.returncode, 0, ran.stderr[-2000:])

    def test_a_fork_in_the_middle_of_everything(self):
        ran = run(
            """
            import os, threading, time, kith, numpy as np
            x = np.random.default_rng(0).random((20000, 3), dtype=np.float32)
            q = x[:40].copy()
            tree, corpus = kith.Index(x, method="tree"), kith.Index(x)
            done = threading.Event()
            def loop(call):
                while not done.is_set():
                    call()
            def change():
                tree.add(x[:2000])
                tree.remove(np.arange(20000, 22000))
            threads = [threading.Thread(target=loop, args=(call,)) for call in
                       (lambda: tree.search(q, 5), change, lambda: corpus.search(q, 5))]
            for each in threads: each.start()
            said = set()
            for turn in range(12):
                time.sleep(0.01)
                child = os.fork()
                if child == 0:
                    status = 0
                    try:
                        corpus.search(q, 5)
                        kith.knn_graph(x[:100], 3)
                        tree.search(q, 5)
                        tree.add(x[:1])
                        corpus.close()
                        tree.close()
                        status = 1
                    except RuntimeError as error:
                        status = 2 if "when this process was forked" in str(error) else 3
                    except BaseException:
                        status = 4
                    os._exit(status)
                for _ in range(600):
                    pid, status = os.waitpid(child, os.WNOHANG)
                    if pid: break
                    time.sleep(0.05)
                else:
                    os.kill(child, 9)
                    status = "hangs"
                said.add(status if isinstance(status, str) else os.waitstatus_to_exitcode(status))
            done.set()
            for each in threads: each.join()
            print(sorted(said, key=str))
            """
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn(ran.stdout.strip(), ("[1]", "[1, 2]", "[2]"), ran.stderr)


if __name__ == "__main__":
    unittest.main()
