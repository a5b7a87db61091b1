# SPDX-License-Identifier: Apache-2.0
"""Errors speak of the arguments of the Python call, not of those of the C function behind it."""

import copy
import os
import pickle
import re
import tempfile
import unittest

import kith
import numpy as np
import support

X = np.abs(support.points(50, 4))
Q = np.abs(support.points(7, 4, seed=1))
BAD, BAD_Q = X.copy(), Q.copy()
BAD[3, 2] = BAD_Q[5, 1] = np.nan
MASKED = np.ma.masked_less(X, 0.1)
FEW = Q[:, :2].copy()
BYTES = (X * 50).astype(np.uint8)
G = kith.knn_graph(X, 5)
BEYOND, SHORT = (kith.Neighbors(G.distances, G.indices.copy()) for _ in range(2))
BEYOND.indices[0, 3] = 50
SHORT.indices[0, 4] = -1
TWICE = np.concatenate([X, X])

# What a C programmer reads.
FOREIGN = re.compile(
    r"kith_|KITH_|NULL|params|meta\.|points\[|points has|graph[12]|radii|\.rows|\.cols|tree_height|"
    r"method is (tree|descent)|threads is|seed is|custom|caller|neighbors has"
)

SAID = (
    (lambda: kith.knn(BAD, Q, 3), "corpus[3, 2] is NaN"),
    (lambda: kith.knn(X, BAD_Q, 3), "queries[5, 1] is NaN"),
    (lambda: kith.knn(X, FEW, 3), "the corpus has 4 columns and queries has 2"),
    (lambda: kith.knn(X, FEW[:0], 3), "corpus has 4 columns and queries has 2"),
    (lambda: kith.knn(X, Q[:0], 51), "k is 51, must be 1 to 50"),
    (lambda: kith.knn(X, Q, 3, device="gpu"), "device is 'gpu', must be auto, cpu, cuda, cuda:0"),
    (lambda: kith.knn(X[:, :0], Q, 3), "corpus.shape[1] is 0, must be 1"),
    (lambda: kith.knn(X, Q, 51), "k is 51, must be at most 50"),
    (lambda: kith.knn(X, Q, 3.5), "k is 3.5, must be a whole number"),
    (lambda: kith.knn(X, Q, "3"), "k is '3', must be a whole number"),
    (lambda: kith.knn(X, 5, X), "k is of type ndarray, must be a whole number"),
    (lambda: kith.knn(X, Q[0], 3), "queries has 1 axis, must have 2: a row for each point (x.resh"),
    (lambda: kith.knn(X[None], Q, 3), "corpus has 3 axes, must have 2: a row for each point"),
    (
        lambda: kith.Index(X, method="tree").remove(X[:, 0] > 1),
        "ids are a mask, must be whole numbers (numpy.flatn",
    ),
    (lambda: kith.knn(X, Q, 3, algorithm="kd_tree", metric=max), "metric is a function, which has"),
    (
        lambda: kith.knn(X, Q, 3, metric="Euclidian"),
        "metric 'Euclidian' is not known (the nearest name is 'euclidean'; there are: euclidean, sq",
    ),
    (lambda: kith.knn(X, Q, 3, radius="a"), "radius is 'a', must be a number"),
    (lambda: kith.knn(X, Q, 3, n_jobs=1.5), "n_jobs is 1.5, must be a whole number"),
    (lambda: kith.knn(X, Q, 3, n_jobs=10**12), "n_jobs is 1000000000000, which is out of range"),
    (lambda: kith.knn(X, Q, 3, memory_limit="8G"), "memory_limit is '8G', must be a number of"),
    (lambda: kith.knn(X, Q, 3, memory_limit=-1), "memory_limit is -1, which is out of range"),
    (lambda: kith.knn(X, Q, 3, device=0), "device is 0, must be a name"),
    (lambda: kith.knn(X, Q, 3, out=Q), "out must be two arrays"),
    (
        lambda: kith.knn(X, Q, 3, algorithm="kd_tree", metric="cosine"),
        "metric is cosine, which has no tree",
    ),
    (
        lambda: kith.knn(X, Q, 3, metric=lambda a, b: np.nan, n_jobs=1),
        "metric gave NaN for query 0",
    ),
    (lambda: kith.knn(None, Q, 3), "corpus is of type NoneType"),
    (lambda: kith.knn([[1, 2], [3]], Q, 3), "corpus is no matrix: "),
    (lambda: kith.knn(X, [["a"]], 3), "queries is of type <U1"),
    (lambda: kith.knn(X, np.array([["a"]], object), 3), "queries[0, 0] is 'a', must be a number"),
    (lambda: kith.knn(MASKED, Q, 3), "corpus has masked values"),
    (lambda: kith.knn([[2**53 + 1]], [[1]], 1), "corpus has whole numbers up to 9007199254740993"),
    (
        lambda: kith.knn([[-(2**63)]], [[1]], 1),
        "corpus has whole numbers up to 9223372036854775808",
    ),
    (lambda: kith.knn(X, Q, 3, metric="minkowski", p="3"), "p is '3', must be a number"),
    (lambda: kith.knn(X, Q, 3, metric="minkowski", p=None), "p is None, must be a number"),
    (lambda: kith.knn(X, Q, 3, progress=1), "progress is 1, must be True or a function"),
    (lambda: kith.knn(X, Q, 3, groups=[1] * 50), "query_groups is None, and the rule compares"),
    (lambda: kith.knn(X, Q, 3, tune={"batch": 5}), "batch is 5, and the pipeline hybrid alone has"),
    (lambda: kith.knn(X, Q, 3, tune={"select": "heap"}), "select is "),
    (
        lambda: kith.knn(X, Q, 3, tune={"leaf_buffer": 4}),
        "leaf_buffer is 4, and the pipeline buffer_tree alone has",
    ),
    (lambda: kith.truth(X, Q, 3, ties_path="t.npy"), "ties_path is set, and path is None"),
    (lambda: kith.knn_graph(BAD, 3), "X[3, 2] is NaN"),
    (lambda: kith.knn_graph(BAD, 3, progress=lambda *told: None), "X[3, 2] is NaN"),
    (lambda: kith.knn_graph(BAD, 3, algorithm="nn_descent"), "X[3, 2] is NaN"),
    (lambda: kith.knn_graph(X[:0], 3), "X.shape[0] is 0, must be 1"),
    (lambda: kith.knn_graph(X, 3, rounds=-3), "rounds is -3, must be at least 0"),
    (
        lambda: kith.knn_graph(X, 3, candidates=-3),
        "candidates is -3, must be 1 to 1048576 (left out: by k)",
    ),
    (lambda: kith.knn_graph(X, 3, delta="a"), "delta is 'a', must be a number"),
    (lambda: kith.knn_graph(X, 3, recall="a"), "recall is 'a', must be a number"),
    (lambda: kith.knn_graph(X, 3, rounds=1, random_state=1.5), "random_state is 1.5, must be a"),
    (lambda: kith.knn_graph(X, 3, init=G.distances), "init: indices are float32"),
    (lambda: kith.radius_neighbors(BAD, radius=1), "corpus[3, 2] is NaN"),
    (lambda: kith.radius_neighbors(X, BAD_Q, radius=1), "queries[5, 1] is NaN"),
    (lambda: kith.radius_neighbors(X, Q[:2], radius=[1, -1]), "radius[1] is -1, must be"),
    (lambda: kith.radius_neighbors(X, radius="a"), "radius is 'a', must be a number"),
    (lambda: kith.radius_neighbors(X, radius=None), "radius is None, must be a number"),
    (lambda: kith.radius_neighbors(X, radius=1, algorithm="nn_descent"), "algorithm is nn_descent"),
    (lambda: kith.Index(BAD), "X[3, 2] is NaN"),
    (lambda: kith.Index(X).search(BAD_Q), "queries[5, 1] is NaN"),
    (lambda: kith.Index(X).search(Q, None), "k is None, must be a whole number"),
    (lambda: kith.Index(X, "cosine", method="tree"), "metric is cosine, which has no tree"),
    (lambda: pickle.dumps(kith.Index(X)), "an Index cannot be pickled or copied (save it"),
    (
        lambda: copy.copy(kith.Index(X, method="tree")),
        "an Index cannot be pickled or copied (save it",
    ),
    (lambda: kith.Index(X).save("a.kith\0b"), "path is 'a.kith\\x00b', must have no null"),
    (lambda: kith.Index.open("a.kith\0b"), "path is 'a.kith\\x00b', must have no null"),
    (lambda: kith.Index(X, height=99, method="tree"), "height is 99, must be 0 to 1"),
    (lambda: kith.Index(X, method="tree").add(BAD), "Y[3, 2] is NaN"),
    (lambda: kith.Index(X, method="tree").add(FEW), "the index has 4 columns and Y has 2"),
    (lambda: kith.Index(X, method="tree").add(FEW[:0]), "the index has 4 columns and Y has 2"),
    (lambda: kith.Index(X, method="tree").add(BAD.astype(float) / 3), "Y[3, 2] is NaN"),
    (lambda: kith.Index(X, method="tree").remove([50]), "ids[0] is 50, must be below 50"),
    (lambda: kith.Index(X, method="tree").remove(np.arange(50)), "ids name all 50 rows"),
    (lambda: kith.Index(BAD, graph=tuple(G)), "X[3, 2] is NaN"),
    (lambda: kith.Index(X[1:], graph=G), "graph has 50 rows and there are 49 points"),
    (lambda: kith.Index(X, graph=BEYOND), "graph[0, 3] is id 50, must be below 50"),
    (lambda: kith.Index(X, graph=G.indices), "graph must be (distances, indices), or a kith.Graph"),
    (lambda: kith.Index(X, graph=G).search(BAD_Q), "queries[5, 1] is NaN"),
    (lambda: kith.Index(X, graph=G).search(FEW), "the index has 4 columns and queries has 2"),
    (
        lambda: kith.Index(X, graph=G, width=2).search(Q, 3),
        "width is 2, must be at least k, 3 (left out: by k",
    ),
    (lambda: kith.Index(X, graph=G, width=2.5).search(Q), "width is 2.5, must be a whole number"),
    (
        lambda: kith.Index(X, graph=G).search(Q, random_state="a"),
        "random_state is 'a', must be a whole",
    ),
    (lambda: kith.Index(X).search(FEW), "the index has 4 columns and queries has 2"),
    (lambda: kith.Index(X).radius(FEW, 1), "the index has 4 columns and queries has 2"),
    (lambda: kith.Index(X).search(FEW[:0]), "the index has 4 columns and queries has 2"),
    (lambda: kith.Index(X, graph=G).search(Q, 51), "k is 51, must be at most 50"),
    (lambda: kith.Index(X, method="brute"), "method is 'brute', must be one of auto, exact, tree,"),
    (lambda: kith.Index(X, method=3), "method is 3, must be one of auto, exact, tree, graph"),
    (lambda: kith.Index(X, max, method="graph"), "metric is <built-in function max>, must be a n"),
    (
        lambda: kith.Index(X, height=3),
        "height is for an index by method 'tree', and this one is by 'e",
    ),
    (
        lambda: kith.Index(X, method="tree", graph=G),
        "graph is for an index by method 'graph', and this one is by 'tree' (leave it out)",
    ),
    (lambda: kith.Index(X, k=3), "k is for an index by method 'graph'"),
    (lambda: kith.Index(X, recall=0.9), "recall is for an index by method 'graph'"),
    (lambda: kith.Index(X, random_state=1), "random_state is for an index by method 'graph'"),
    (lambda: kith.Index(X, width=9), "width is for an index by method 'graph'"),
    (lambda: kith.Index(X, meets=9), "meets is for an index by method 'graph'"),
    (lambda: kith.Index(X, graph=G, k=3), "k is of a graph that is made, and graph is given"),
    (lambda: kith.Index(X, method="graph", k=0), "k is 0, must be at least 1"),
    (lambda: kith.Index(X, method="graph", recall=2), "recall is 2, must be above 0"),
    (lambda: kith.Index(X[:1], method="graph"), "X has 1 row, and an index by graph has at least 2"),
    (lambda: kith.Index(X).search(Q, width=9), "width is for an index by method 'graph'"),
    (lambda: kith.Index(X).search(Q, random_state=9), "random_state is for an index by method 'gr"),
    (
        lambda: kith.Index(X, graph=G).search(Q, radius=1),
        "radius is for an index by method 'exact' or 'tree', and this one is by 'graph'",
    ),
    (
        lambda: kith.Index(X, graph=G).search(Q, exclude=[1]),
        "exclude must be 7 integers, one for each query",
    ),
    (
        lambda: kith.Index(X, graph=G).radius(Q, 1),
        "radius is for an index by method 'exact' or 'tr",
    ),
    (lambda: kith.Index(X).tune(Q), "tune is for an index by method 'graph'"),
    (lambda: kith.Index(X, graph=G).tune(Q[:0]), "queries are none (give some hundred like those"),
    (lambda: kith.Index(X, graph=G).add(X.astype(float) / 3), "Y has values that float32, the typ"),
    (lambda: kith.Index(X, graph=G).add(BAD), "Y[3, 2] is NaN"),
    (lambda: kith.Index(X, graph=G).add(FEW), "the index has 4 columns and Y has 2"),
    (lambda: kith.Index(X, graph=G).remove(np.arange(49)), "X has 1 row, and an index by graph has at least 2"),
    (lambda: kith.Index(abs(X), "kl").add(-X), "Y[0, "),
    (lambda: kith.Index(abs(X), "kl").add(-X.astype(float) / 3), "Y[0, "),
    (lambda: kith.merge(TWICE[1:], G, G), "the graphs are of 50 and 50 points, X has 99 rows"),
    (lambda: kith.merge(np.concatenate([X, BAD]), tuple(G), tuple(G)), "X[53, 2] is NaN"),
    (lambda: kith.merge(TWICE, BEYOND, G), "first[0, 3] is id 50"),
    (lambda: kith.merge(TWICE, G, BEYOND, algorithm="nn_descent"), "second[0, 3] is id 50"),
    (lambda: kith.merge(TWICE, G, SHORT), "second has 4 different neighbours in row 0"),
    (lambda: kith.merge(TWICE, G, G, 9), "first has lists of 5 and k is 9"),
    (lambda: kith.merge(TWICE, G.indices, G), "first must be (distances, indices)"),
    (lambda: kith.merge(TWICE, G, G, recall=2), "recall is 2, must be above 0"),
    (lambda: kith.recall(G, X=X[1:]), "found has 50 rows and there are 49 points"),
    (lambda: kith.recall(BEYOND, X=X), "found[0, 3] is id 50"),
    (lambda: kith.recall(tuple(G), X=BAD), "X[3, 2] is NaN"),
    (lambda: kith.recall(G, G, at=2.5), "at is 2.5, must be a whole number"),
    (lambda: kith.select_k(X, 9), "k is 9, must be at most 4"),
    (lambda: kith.select_k(X, 2, method=None), "method is None, must be one of auto"),
    (
        lambda: kith.Graph(*BEYOND, metric="l2"),
        "indices hold 50, must be below 50, the number of points",
    ),
    (lambda: kith.Graph(*G, n_points=-1, metric="l2"), "n_points is -1, must be 1 to"),
    (lambda: kith.Graph(G.indices, G.distances, metric="l2"), "a Graph: indices are float32"),
    (lambda: kith.Graph(G).save("g.npz\0"), "path is 'g.npz\\x00', must have no null"),
    (lambda: kith.Graph.load("g.npz\0"), "path is 'g.npz\\x00', must have no null"),
    (lambda: kith.Graph(G).save("g.npz", format=3), "format is 3, must be one of npz, csr"),
)


class Words(unittest.TestCase):
    def check(self, said):
        for number, (call, text) in enumerate(said):
            with self.subTest(number=number), self.assertRaises((ValueError, TypeError)) as caught:
                call()
            self.assertRegex(str(caught.exception), "^" + re.escape(text))
            self.assertNotRegex(str(caught.exception), FOREIGN)

    def test_of_functions_and_objects(self):
        self.check(SAID)

    def test_a_name_that_is_nearly_right_is_known_to_be_one(self):
        with self.assertRaises(AttributeError) as caught:
            kith.knn_grap  # noqa: B018
        self.assertEqual((caught.exception.name, caught.exception.obj), ("knn_grap", kith))
        self.assertIn("knn_graph", dir(caught.exception.obj))

    def test_of_estimators(self):
        try:
            import sklearn  # noqa: F401
        except ImportError:
            self.skipTest("scikit-learn is missing")
        nearest = kith.NearestNeighbors
        descent = {"algorithm": "nn_descent"}
        said = (
            (lambda: nearest(metric="chi2").fit(X - 9).kneighbors(Q), "the fitted X[0, 0] is -"),
            (lambda: nearest(metric="chi2").fit(X).kneighbors(Q - 9), "X[0, 0] is -"),
            (lambda: nearest(metric="chi2", **descent).fit(X).kneighbors(Q - 9), "X[0, 0] is -"),
            (lambda: nearest(metric="chi2").fit(X).radius_neighbors(Q - 9), "X[0, 0] is -"),
            (lambda: nearest(radius="a").fit(X).radius_neighbors(Q), "radius is 'a'"),
            (lambda: nearest(0, **descent).fit(X), "Expected n_neighbors > 0. Got 0"),
            (lambda: nearest(2.5, **descent).fit(X), "n_neighbors does not take"),
            (lambda: nearest(**descent).fit(X[:1]), "n_samples = 1, a graph by nn_descent"),
            (lambda: nearest().fit(MASKED), "X has masked values"),
            (lambda: nearest().fit(X).kneighbors(MASKED), "X has masked values"),
            (lambda: nearest().fit(X).radius_neighbors(MASKED), "X has masked values"),
            (lambda: kith.KNeighborsClassifier().fit(MASKED, X[:, 0] > 1), "X has masked values"),
            (lambda: nearest(recall=2).fit(X), "recall is 2, must be above 0"),
        )
        self.check(said)

    def test_of_files(self):
        with tempfile.TemporaryDirectory() as folder:
            names = ("g.kith", "exact.kith", "tree.kith", "graph.kith")
            graph, *indexes = (os.path.join(folder, name) for name in names)
            kith.Graph(G).save(graph)
            for path, method in zip(indexes, ("exact", "tree", "graph")):
                kith.Index(X, method=method).save(path)
            for call, text in (
                (lambda: kith.Index.open(graph), "g.kith: is no index .make one of poi"),
                *(
                    (lambda at=at: kith.Graph.load(at), "holds points, not k neighbours")
                    for at in indexes
                ),
            ):
                with self.assertRaisesRegex((ValueError, NotImplementedError), text) as caught:
                    call()
                self.assertNotRegex(str(caught.exception), FOREIGN)

    def test_a_file_that_is_named_like_an_argument_keeps_its_name(self):
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                with open("points.kith", "w") as file:
                    file.write("none")
                with self.assertRaisesRegex(ValueError, "^points.kith: "):
                    kith.Index.open("points.kith")
            finally:
                os.chdir(before)

    def test_of_what_is_missing(self):
        try:
            import pandas
            import sklearn  # noqa: F401
        except ImportError:
            self.skipTest("pandas or scikit-learn is missing")
        nearest = kith.NearestNeighbors
        frame = pandas.DataFrame(BAD, columns=list("abcd"))
        some = pandas.DataFrame({"a": [1.0, 2.0], "b": pandas.array([1, None], dtype="Int64")})
        said = [
            (lambda: nearest().fit(BAD), "X[3, 2] is NaN (remove"),
            (lambda: nearest().fit(-BAD / 0.0), "X[0, 0] is -infinite (remove"),
            (lambda: nearest().fit(frame), "X[3, 2] (column 'c') is NaN (remove"),
            (lambda: nearest().fit(some), "X[1, 1] (column 'b') is missing (fill it"),
            (lambda: nearest().fit(X).kneighbors(BAD_Q), "X[5, 1] is NaN (remove"),
            (lambda: nearest().fit(X).radius_neighbors(BAD_Q), "X[5, 1] is NaN (remove"),
            (lambda: kith.KNeighborsClassifier().fit(BAD, X[:, 0] > 1), "X[3, 2] is NaN"),
            (lambda: kith.KNeighborsRegressor().fit(X, BAD[:, 2]), "y[3] is NaN"),
            (lambda: kith.KNeighborsRegressor().fit(X, BAD[:, 1:]), "y[3, 1] is NaN"),
            (lambda: kith.knn_graph(frame, 3), "X[3, 2] is NaN"),
            (lambda: kith.knn_graph(some, 1), "X[1, 1] (column 'b') is missing"),
        ]
        try:
            from scipy.sparse import csr_matrix

            said.append((lambda: nearest().fit(csr_matrix(BAD)), "X[3, 2] is NaN (remove"))
        except ImportError:
            pass
        with np.errstate(divide="ignore"):
            self.check(said)


class Registries(unittest.TestCase):
    """What the library has is what Python names: no list is kept by hand."""

    def test_every_name_is_told(self):
        from kith import _graph, _metrics, _options, _tune

        metrics = _metrics.names()
        self.assertEqual(len(metrics), 14)
        for name in metrics:
            self.assertEqual(_metrics.name(_metrics.code(name)), name)
            self.assertIn(f"``{name}``", kith.knn.__doc__)
        methods = _tune.selections()
        self.assertEqual((len(methods), methods[0]), (9, "auto"))
        for name in methods:
            self.assertIn(f"``{name}``", kith.select_k.__doc__)
        formats = _graph.formats()
        self.assertEqual(len(formats), 10)
        for name in formats:
            self.assertRegex(kith.Graph.save.__doc__, rf"\b{name}\b")
            with self.assertRaisesRegex(ValueError, rf"\b{name}\b"):
                kith.Graph(G).save("g.npz", format="none")
        for name in "auto", "brute", "kd_tree":
            self.assertIn(f'"{name}"', kith.knn.__doc__)
            _options.method(name)
        with self.assertRaisesRegex(ValueError, ", ".join(metrics)):
            kith.knn(X, Q, 3, metric="none")


if __name__ == "__main__":
    unittest.main()
