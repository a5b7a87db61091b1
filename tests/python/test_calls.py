# SPDX-License-Identifier: Apache-2.0
"""How calls behave: Ctrl-C, progress, threads, forks, imports, the structs of the header."""

import ctypes
import doctest
import importlib
import os
import pathlib
import pkgutil
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import types
import unittest
from unittest import mock

import kith
import numpy as np
import support
from kith import _header

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(code):
    """What another Python prints."""
    command = [sys.executable, "-c", textwrap.dedent(code)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return ran.stdout + ran.stderr


LONG = support.points(60000, 64)


def long_call(**options):
    """Takes seconds, unless it is stopped."""
    kith.knn_graph(LONG, 10, metric="manhattan", n_jobs=1, **options)


def threads_of_a_worker():
    from kith._context import settings

    return settings().threads


def graph_of_a_map(x):
    return isinstance(x, np.memmap), kith.knn_graph(x, 3).indices


class Stopping(unittest.TestCase):
    def test_ctrl_c_ends_a_call_soon(self):
        handler = signal.getsignal(signal.SIGINT)
        pressed = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        pressed.start()
        begin = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            long_call()
        self.assertLess(time.monotonic() - begin, 2.0)
        self.assertIs(signal.getsignal(signal.SIGINT), handler)
        kith.knn_graph(LONG[:100], 3)  # the context is as good as before

    def test_a_handler_that_does_not_raise_lets_the_call_go_on(self):
        seen = []
        handler = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
        try:
            pressed = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
            pressed.start()
            kith.knn_graph(LONG[:8000], 10, metric="manhattan", n_jobs=1)
            pressed.join()
            self.assertEqual(seen, [signal.SIGINT])
        finally:
            signal.signal(signal.SIGINT, handler)

    def test_progress_is_told_and_may_stop_a_call(self):
        told = []
        kith.knn_graph(
            LONG[:8000], 10, metric="manhattan", progress=lambda *each: told.append(each)
        )
        self.assertTrue(told)
        for phase, done, total in told:
            self.assertIsInstance(phase, str)
            self.assertLessEqual(done, total)

        def enough(phase, done, total):
            kith.knn_graph(LONG[:50], 2)  # a call within a call has a context of its own
            raise RuntimeError("enough")

        with self.assertRaisesRegex(RuntimeError, "enough"):
            long_call(progress=enough)

    def test_progress_true_shows_a_bar(self):
        try:
            import tqdm  # noqa: F401
        except ImportError:
            with self.assertRaisesRegex(ImportError, "pip install tqdm"):
                kith.knn_graph(LONG[:50], 2, progress=True)
            self.skipTest("tqdm is missing")
        with tempfile.TemporaryFile("w+") as file, mock.patch("sys.stderr", file):
            kith.knn_graph(LONG[:8000], 10, metric="manhattan", n_jobs=1, progress=True)
            file.seek(0)
            self.assertIn("kith: ", file.read())


class Together(unittest.TestCase):
    def test_python_goes_on_while_a_call_computes(self):
        worker = threading.Thread(
            target=kith.knn_graph,
            args=(LONG[:8000], 10),
            kwargs={"metric": "manhattan", "n_jobs": 1},
        )
        worker.start()
        count = 0
        while worker.is_alive():
            count += 1
            time.sleep(0.001)
        self.assertGreater(count, 20)

    def test_threads_do_not_disturb_each_other(self):
        truth = kith.knn_graph(LONG[:2000], 5)
        found = [None] * 6

        def ask(slot):
            found[slot] = kith.knn_graph(LONG[:2000], 5)

        threads = [threading.Thread(target=ask, args=(slot,)) for slot in range(6)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        for each in found:
            self.assertEqual(each.indices.tobytes(), truth.indices.tobytes())

    def test_threads_are_those_that_a_worker_is_meant_to_take(self):
        import kith._context as contexts

        with mock.patch.object(os, "sched_getaffinity", return_value=set(range(8))):
            for environ, threads in (
                ({}, 0),
                ({"OMP_NUM_THREADS": "2"}, 2),
                ({"OMP_NUM_THREADS": "3,1"}, 3),
                ({"OMP_NUM_THREADS": "64"}, 8),
                ({"OMP_NUM_THREADS": "many"}, 0),
                ({"OMP_NUM_THREADS": "2", "KITH_THREADS": "5"}, 0),  # which the library reads
            ):
                with mock.patch.dict(os.environ, environ):
                    self.assertEqual(contexts.settings().threads, threads, environ)
                    self.assertEqual(contexts.settings(n_jobs=-1).threads, 0)
                    self.assertEqual(contexts.settings(n_jobs=4).threads, 4)
        try:
            import joblib
        except ImportError:
            self.skipTest("joblib is missing")
        with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
            told = joblib.Parallel(n_jobs=2)(joblib.delayed(threads_of_a_worker)() for _ in "12")
        self.assertEqual(told, [1, 1])

    def test_joblibs_memory_maps_are_read_whatever_they_hold(self):
        try:
            import joblib
        except ImportError:
            self.skipTest("joblib is missing")
        x = (100 * support.points(900, 8)).astype(np.int64)
        kinds = x, x.astype(np.int32), x.astype(">f8"), np.asfortranarray(x, np.float32), x[:, ::2]
        truths = [kith.knn_graph(each, 3).indices for each in kinds]
        with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
            found = joblib.Parallel(n_jobs=2, max_nbytes=1000)(
                joblib.delayed(graph_of_a_map)(each) for each in kinds
            )
        for (mapped, indices), truth in zip(found, truths, strict=True):
            self.assertTrue(mapped)
            np.testing.assert_array_equal(indices, truth)

    def test_a_forked_process_computes(self):
        x = LONG[:3000]
        corpus = kith.Index(x)
        truth = kith.knn_graph(x, 5), corpus.search(x[:50], 5)
        child = os.fork()
        if child == 0:
            same = kith.knn_graph(x, 5), corpus.search(x[:50], 5)
            equal = all((a.indices == b.indices).all() for a, b in zip(same, truth))
            os._exit(0 if equal else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


class Package(unittest.TestCase):
    def test_importing_takes_little_beyond_numpy_and_brings_nothing_else(self):
        out = run(
            """
            import sys, time, numpy
            begin = time.process_time()
            import kith
            print(time.process_time() - begin)
            heavy = {"scipy", "sklearn", "torch", "tqdm", "cupy", "dask"} & set(sys.modules)
            print(sorted(heavy))
            """
        ).splitlines()
        print(f"import kith: {float(out[0]) * 1e3:.0f} ms beyond NumPy's", file=sys.stderr)
        self.assertLess(float(out[0]), 0.5)  # 0.1 to 0.2, whatever else the machine does
        self.assertEqual(out[1], "[]")

    def test_without_scikit_learn_the_functions_are_there(self):
        out = run(
            """
            import sys
            sys.modules["sklearn"] = None
            import kith
            print(kith.knn_graph([[0.0], [1.0]], 1).indices.tolist())
            try:
                kith.NearestNeighbors
            except ImportError as error:
                print(error)
            """
        )
        self.assertEqual(out.splitlines()[0], "[[1], [0]]")
        self.assertIn("needs scikit-learn", out)

    def test_everything_public_is_documented_and_the_examples_hold(self):
        names = [name for name in kith.__all__ if not name.startswith("_")]
        for name in names:
            try:
                self.assertTrue(getattr(kith, name).__doc__, name)
            except ImportError as error:
                self.assertIn("scikit-learn", str(error))
        self.assertLessEqual(set(kith.__all__), set(dir(kith)))
        tried = 0
        for module in pkgutil.iter_modules(kith.__path__):
            if module.name.startswith("lib"):
                continue  # an installed package holds libkith.so, which is no module
            try:
                found = importlib.import_module(f"kith.{module.name}")
            except ModuleNotFoundError:
                continue  # scikit-learn, CuPy
            except ImportError as error:
                self.assertRegex(str(error), r"^kith\.dask needs Dask \(pip install ")
                continue
            result = doctest.testmod(found)
            self.assertEqual(result.failed, 0, module.name)
            tried += result.attempted
        shown = doctest.testmod(kith)  # what is public is at home there
        self.assertEqual(shown.failed, 0)
        self.assertGreater(tried + shown.attempted, 30)

    def test_types_are_announced(self):
        self.assertTrue(pathlib.Path(kith.__file__).with_name("py.typed").exists())

    def test_structs_are_those_of_the_header(self):
        compiler = shutil.which("cc")
        if compiler is None:
            self.skipTest("no C compiler")
        names = {
            name: "kith" + re.sub("[A-Z]", lambda found: "_" + found[0].lower(), name)
            for name, found in vars(_header).items()
            if isinstance(found, type) and issubclass(found, ctypes.Structure)
        }
        self.assertGreater(len(names), 30)
        headers = "".join(f"#include <kith/kith{name}.h>\n" for name in ("", "_papers", "_cuda"))
        lines = [f"{headers}#include <stdio.h>", "int main(void) {"]
        expected = []
        for name, value in vars(_header).items():
            if isinstance(value, int):
                lines.append(f'printf("%lld\\n", (long long)KITH_{name});')
                expected.append(str(value))
        self.assertGreater(len(expected), 100)
        for ours, theirs in names.items():
            struct = getattr(_header, ours)
            lines.append(f'printf("%zu\\n", sizeof({theirs}));')
            expected.append(f"{ctypes.sizeof(struct)}")
            for field, *_ in struct._fields_:
                lines.append(
                    f'printf("%zu %zu\\n", offsetof({theirs}, {field}), sizeof((({theirs} *)0)->{field}));'
                )
                at = getattr(struct, field)
                expected.append(f"{at.offset} {at.size}")
        with tempfile.TemporaryDirectory() as folder:
            source, program = os.path.join(folder, "a.c"), os.path.join(folder, "a")
            pathlib.Path(source).write_text("\n".join([*lines, "}"]))
            subprocess.run([compiler, f"-I{ROOT}/include", source, "-o", program], check=True)
            printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
        self.assertEqual(printed.split("\n")[:-1], expected)

    def test_a_small_call_costs_little_more_than_the_librarys(self):
        x = support.points(1000, 64)
        nothing = types.SimpleNamespace(kith_search=lambda *arguments: 0)
        with mock.patch("kith._small.lib", nothing):
            times = []
            for _ in range(7):
                begin = time.perf_counter()
                for _ in range(200):
                    kith.knn(x, x[:10], 10)
                times.append((time.perf_counter() - begin) / 200)
        print(
            f"knn(1000 x 64) without the library's part: {min(times) * 1e6:.0f} us", file=sys.stderr
        )
        self.assertLess(min(times), 250e-6)  # 50 on a machine that does nothing else


if __name__ == "__main__":
    unittest.main()
