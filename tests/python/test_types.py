# SPDX-License-Identifier: Apache-2.0
"""Type hints, as mypy sees them in a user's script; and what help() shows."""

import importlib.util
import os
import pathlib
import pydoc
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

import kith

RIGHT = """
    import kith
    import numpy as np

    X = np.zeros((20, 3), np.float32)
    k = np.int64(4)
    found = kith.knn_graph(X, k, random_state=np.random.default_rng(0), n_jobs=np.int32(1))
    distances, indices = found
    reveal_type(found.indices)
    reveal_type(distances)
    nearest: int = int(indices[0, 0])
    mean = float(found.distances.mean())
    kith.knn(X.tolist(), [[1, 2.5, 3]], 2, metric="cosine", memory_limit=2e9)
    kith.knn(X, X, 2, metric=lambda a, b: float(abs(a - b).sum()), exclude=np.arange(20))
    with kith.Index(X, method="tree") as tree, kith.Index(X, device="cpu") as corpus:
        tree.add([[1, 2, 3]])
        tree.remove([0])
        reveal_type(tree.search(X, k))
        reveal_type(corpus.shape)
    ranges = kith.radius_neighbors(X, radius=[0.5] * 20)
    for row in ranges:
        reveal_type(row)
    reveal_type(ranges[0].distances)
    reveal_type(kith.recall(found, X=X).recall)
    index = kith.Index(X, graph=found, width=k)
    graph = kith.Graph(*found, metric="euclidean")
    reveal_type(graph.edges())
    reveal_type(kith.select_k(X, np.uint8(2)).indices)
"""
REVEALED = (
    r"ndarray\[.*dtype\[.*(int64|_64Bit)",
    r"ndarray\[.*dtype\[.*floating",
    r"Neighbors",
    r"tuple\[.*int, .*int\]",
    r"Neighbors",
    r"ndarray\[.*floating",
    r"float",
    r"tuple\[.*ndarray.*ndarray.*ndarray",
    r"ndarray\[.*dtype\[.*(int64|_64Bit)",
)
WRONG = """
    import kith
    import numpy as np

    X = np.zeros((20, 3))
    kith.knn_graph(X, "3")
    kith.knn_graph(X, 3.5)
    kith.knn_graph(None, 3)
    kith.knn(X, X, 3, metric=3)
    kith.knn_graph(X, 3).indexes
    kith.Index(X, n_jobs="all", method="tree")
    kith.NearestNeighbours(3)
    words: str = kith.knn_graph(X, 3).indices
"""


class Types(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if importlib.util.find_spec("mypy") is None:
            raise unittest.SkipTest("mypy is missing")
        package = pathlib.Path(kith.__file__).parents[1]
        cache = os.path.join(tempfile.gettempdir(), f"kith-mypy-{os.getuid()}")
        command = [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", cache]
        with tempfile.TemporaryDirectory() as folder:
            for name, script in ("right", RIGHT), ("wrong", WRONG):
                pathlib.Path(folder, f"{name}.py").write_text(textwrap.dedent(script))
            cls.said = subprocess.run(
                [*command, "--ignore-missing-imports", "right.py", "wrong.py"],
                capture_output=True,
                text=True,
                cwd=folder,
                env={**os.environ, "MYPYPATH": str(package)},
            ).stdout.splitlines()

    def test_a_right_script_has_no_error_and_results_have_their_types(self):
        said = [line for line in self.said if not line.startswith("wrong.py:")]
        self.assertFalse([line for line in said if ": error:" in line])
        told = [line for line in said if "Revealed type" in line]
        self.assertEqual(len(told), len(REVEALED))
        for line, pattern in zip(told, REVEALED, strict=True):
            self.assertRegex(line, pattern)

    def test_each_line_of_a_wrong_one_has(self):
        wrong = re.findall(r"^wrong.py:(\d+): error:", "\n".join(self.said), re.M)
        for number, line in enumerate(textwrap.dedent(WRONG).splitlines()[5:], 6):
            self.assertIn(str(number), wrong, line)


class Help(unittest.TestCase):
    def test_it_shows_what_a_user_may_use(self):
        inside = re.compile(r"HostMatrix|Settings|_structs|Pointer|Handle|InWords|NeighborTable")
        for name in kith.__all__:
            if name == "__version__":
                continue
            try:
                thing = getattr(kith, name)
            except ImportError:
                continue  # scikit-learn is missing
            text = pydoc.plain(pydoc.render_doc(thing))
            self.assertNotRegex(text, inside, name)
            self.assertEqual(thing.__module__, "kith", name)
            if isinstance(thing, type):
                for base in thing.__mro__:
                    if base.__module__.partition(".")[0] == "kith":
                        public = [each for each in vars(base) if not each.startswith("_")]
                        for each in public:
                            about = getattr(thing, each)
                            if callable(about) and not isinstance(about, str):
                                self.assertTrue(about.__doc__, f"{name}.{each}")


if __name__ == "__main__":
    unittest.main()
