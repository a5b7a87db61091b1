# SPDX-License-Identifier: Apache-2.0
"""Whether a graph is exact or a descent is chosen in one place: C, Python, the command and its plan
say the same of the same job."""

import ctypes as c
import json
import os
import subprocess
import tempfile
import unittest

import numpy as np

import kith
from kith import _structs as s
from kith._context import Settings, context
from kith._library import lib
from kith._metrics import code

PROGRAM = os.environ.get("KITH_PROGRAM")
K = 5
EXACT, DESCENT = "exact", "descent"


def jobs():
    """Points, metric, recall, method; named ones leave nothing to choose."""
    small = np.random.default_rng(1).random((300, 4), np.float32)
    wide = np.random.default_rng(2).random((9000, 16), np.float32)
    flat = np.random.default_rng(3).random((5000, 2), np.float32)
    for recall in (None, 0.9, 1.0):
        yield small, "euclidean", recall, "auto"
        yield wide, "euclidean", recall, "auto"
        yield flat, "manhattan", recall, "auto"
    for recall in (0.6, 0.9):  # every pair of this metric is a canonical distance
        yield wide, "chi2", recall, "auto"
    yield wide, "cosine", 0.9, "descent"
    yield wide, "euclidean", None, "descent"
    yield wide, "euclidean", None, "exact"


def of_c(points, metric, recall, method):
    """What kith_graph did, and what kith_plan_search said that it would do."""
    ids = np.empty((len(points), K), np.uint32)
    matrix = s.Matrix(points.ctypes.data, *points.shape[:1], 0, points.shape[1], s.F32)
    table = s.Neighbors(ids.ctypes.data, None, None, len(points), K)
    params = s.sized(s.SearchParams, metric=code(metric, 2), k=K, recall=recall or 0.0)
    params.method = {"auto": s.METHOD_AUTO, "exact": s.METHOD_EXACT, "descent": s.METHOD_DESCENT}[
        method
    ]
    plan, report = s.sized(s.Plan), s.sized(s.Report)
    own = context(Settings())
    at = c.byref(matrix), c.byref(params)
    own.call(lib.kith_plan_search, at[0], None, at[1], c.byref(plan))
    own.call(lib.kith_graph, *at, c.byref(table), c.byref(report))
    did = DESCENT if report.exact == s.APPROXIMATE else EXACT
    return did, DESCENT if plan.method == b"descent" else EXACT


def of_python(points, metric, recall, method):
    algorithm = {"auto": "auto", "exact": "brute", "descent": "nn_descent"}[method]
    found = kith.knn_graph(points, K, metric=metric, recall=recall, algorithm=algorithm)
    return EXACT if found.exact else DESCENT


def of_command(folder, points, metric, recall, method):
    """What it did, and what --dry-run said."""
    path = os.path.join(folder, "points.npy")
    np.save(path, points)
    words = [PROGRAM, "graph", path, "-k", str(K), "--metric", metric, "--method", method, "--json"]
    if recall is not None:
        words += ["--recall", str(recall)]
    did, planned = (
        json.loads(subprocess.run(more, capture_output=True, check=True, timeout=120).stdout)
        for more in (words, [*words, "--dry-run"])
    )
    told = DESCENT if did["method"] == "descent" else EXACT
    assert told == (EXACT if did["exact"] else DESCENT), did
    return told, DESCENT if planned["method"] == "descent" else EXACT


class One(unittest.TestCase):
    """place chooses."""

    @unittest.skipUnless(PROGRAM, "KITH_PROGRAM does not name the program kith")
    def test_for_c_python_and_the_command(self):
        seen = {EXACT: 0, DESCENT: 0}
        with tempfile.TemporaryDirectory() as folder:
            for points, metric, recall, method in jobs():
                with self.subTest(rows=points.shape, metric=metric, recall=recall, method=method):
                    chosen = {
                        *of_c(points, metric, recall, method),
                        of_python(points, metric, recall, method),
                        *of_command(folder, points, metric, recall, method),
                    }
                    self.assertEqual(len(chosen), 1)
                    if method == "auto":
                        seen[chosen.pop()] += 1
        self.assertGreater(min(seen.values()), 0)
        print(f"chosen alike: {seen[EXACT]} exact graphs, {seen[DESCENT]} descents", end=" ... ")


if __name__ == "__main__":
    unittest.main()
