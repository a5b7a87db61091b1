# SPDX-License-Identifier: Apache-2.0
"""What results say of themselves: of which points they are, by which metric, whether they are exact."""

import pickle
import tempfile
import unittest
import warnings

import kith
import numpy as np
import support

X = support.points(120, 4)
OTHER = X.copy()
OTHER[7, 2] += 1
Q = support.points(160, 4)[120:]
K = 6


class Claims(unittest.TestCase):
    """of results"""

    def test_of_the_calls_that_made_them(self):
        graph = kith.knn_graph(X, K, metric="cosine")
        self.assertEqual((graph.metric, graph.exact, graph.k), ("cosine", True, K))
        self.assertEqual(graph.fingerprint[:3], (120, 4, "float32"))
        long = kith.knn_graph(X, K, metric="cosine", progress=lambda *told: None)
        self.assertEqual(long.fingerprint, graph.fingerprint)
        self.assertEqual(kith.knn_graph(X[:, ::-1][:, ::-1], K).fingerprint, graph.fingerprint)
        self.assertNotEqual(kith.knn_graph(OTHER, K).fingerprint, graph.fingerprint)
        self.assertNotEqual(kith.knn_graph(X.astype(float), K).fingerprint, graph.fingerprint)
        found = kith.knn(X, Q, K)
        self.assertEqual((found.metric, found.exact), ("euclidean", True))
        self.assertEqual(found.fingerprint, graph.fingerprint)
        self.assertIsNone(kith.knn(X, Q[:1], K).fingerprint)  # it would take as long as the search
        descent = kith.knn_graph(support.points(9000, 4), K, algorithm="nn_descent")
        self.assertIs(descent.exact, False)
        bare = kith.Neighbors(*graph)
        self.assertEqual((bare.metric, bare.exact, bare.fingerprint), (None, None, None))
        again = pickle.loads(pickle.dumps(graph))
        self.assertEqual((again.metric, again.fingerprint), ("cosine", graph.fingerprint))

    def test_of_prepared_points(self):
        """corpora, trees and indexes know their points, also of one query, and after each change"""
        graph = kith.knn_graph(X, K)
        one = Q[:1]
        wider = kith.knn_graph(np.concatenate([X, OTHER]), K).fingerprint
        index = kith.Index(X, graph=graph)
        for queries in one, Q, Q.astype(float):
            corpus = kith.Index(X, metric="cosine").search(queries, K, progress=lambda *told: None)
            self.assertEqual(
                (corpus.metric, corpus.exact, corpus.k, corpus.fingerprint),
                ("cosine", True, K, graph.fingerprint),
            )
            walked = index.search(queries, K)
            self.assertEqual(
                (walked.metric, walked.exact, walked.k, walked.fingerprint),
                ("euclidean", False, K, graph.fingerprint),
            )
            tree = kith.Index(X, method="tree")
            self.assertEqual(tree.search(queries, K).fingerprint, graph.fingerprint)
            tree.add(OTHER)
            self.assertEqual(tree.search(queries, K).fingerprint, wider)
            tree.remove(np.arange(120, 240))
            self.assertEqual(tree.search(queries, K).fingerprint, graph.fingerprint)
            self.assertEqual(tree.radius(queries, 1.0).fingerprint, graph.fingerprint)
            tree.add(OTHER.astype(np.float64) + 0.1)  # of a wider type: made anew
            known = tree.search(queries, K).fingerprint
            self.assertEqual(known[:3], (240, 4, "float64"))
        with tempfile.TemporaryDirectory() as folder:
            kith.Index(X).save(f"{folder}/c.kith")
            opened = kith.Index.open(f"{folder}/c.kith")
            self.assertIsNone(opened.search(one, K).fingerprint)  # its rows are not read for it
            self.assertEqual(opened.search(Q, K).fingerprint, graph.fingerprint)
            self.assertEqual(opened.search(one, K).fingerprint, graph.fingerprint)
            del opened

    def test_of_ranges(self):
        graph = kith.knn_graph(X, K)
        for ranges in (
            kith.radius_neighbors(X, radius=1.0),
            kith.radius_neighbors(X, Q, radius=1.0),
            kith.Index(X).radius(Q, 1.0),
            kith.Index(X, method="tree").radius(Q, 1.0),
        ):
            said = "euclidean", True, graph.fingerprint
            self.assertEqual((ranges.metric, ranges.exact, ranges.fingerprint), said)
            self.assertEqual((ranges[3].metric, ranges[3].exact, ranges[3].fingerprint), said)
            again = pickle.loads(pickle.dumps(ranges))
            self.assertEqual((again.metric, again.exact, again.fingerprint), said)
        bare = kith.Ranges(None, None, ranges.offsets, 120)
        self.assertEqual((bare.metric, bare.exact, bare.fingerprint), (None, None, None))

    def test_of_sparse_matrices(self):
        """those that are made dense at once are the dense points; others are not known"""
        try:
            from scipy.sparse import csr_matrix, random
        except ImportError:
            self.skipTest("SciPy is missing")
        found = kith.knn_graph(csr_matrix(X), K)
        self.assertEqual((found.metric, found.exact, found.k), ("euclidean", True, K))
        self.assertEqual(found.fingerprint, kith.knn_graph(X, K).fingerprint)
        wide = random(200, 4000, 0.002, "csr", np.float32, random_state=3)
        found = kith.knn_graph(wide, K)
        self.assertEqual((found.metric, found.exact, found.k), ("euclidean", True, K))
        self.assertIsNone(found.fingerprint)
        bare = kith.Graph(found)
        self.assertEqual((bare.metric, bare.exact), ("euclidean", True))
        with tempfile.TemporaryDirectory() as folder:
            bare.save(f"{folder}/g.npz")  # a file certifies of stated points alone
            self.assertIsNone(kith.Graph.load(f"{folder}/g.npz").exact)

    def test_graphs_take_them_whole_and_arrays_claim_nothing(self):
        found = kith.knn_graph(X, K, metric="cosine")
        graph = kith.Graph(found)
        self.assertEqual((graph.metric, graph.exact), ("cosine", True))
        self.assertEqual(graph.neighbors.fingerprint, found.fingerprint)
        with self.assertRaisesRegex(ValueError, "metric is needed"):
            kith.Graph(*found)
        with self.assertRaisesRegex(
            ValueError, "metric is euclidean, the neighbours were found by cosine"
        ):
            kith.Graph(found, metric="euclidean")
        bare = kith.Graph(*found, metric="cosine")
        self.assertEqual((bare.exact, bare.fingerprint), (None, None))
        with tempfile.TemporaryDirectory() as folder:
            for name, keeps in (
                ("g.kith", True),
                ("g.npz", True),
                ("g.knn", False),
                ("g.ivecs", False),
            ):
                graph.save(f"{folder}/{name}")
                back = kith.Graph.load(f"{folder}/{name}")
                said = (back.metric, back.exact, back.fingerprint)
                self.assertEqual(
                    said, ("cosine", True, found.fingerprint) if keeps else (None, None, None)
                )
                back.save(f"{folder}/again.npz")
                self.assertIs(kith.Graph.load(f"{folder}/again.npz").exact, True if keeps else None)
            rng = np.random.default_rng(1)
            wild = kith.Graph(rng.random((120, 3)), rng.integers(0, 120, (120, 3)), metric="l2")
            wild.save(f"{folder}/wild.kith")
            self.assertIsNone(kith.Graph.load(f"{folder}/wild.kith").exact)

    def test_other_points_and_metrics_are_refused(self):
        graph, cosine = kith.knn_graph(X, K), kith.knn_graph(X, K, metric="cosine")
        both = np.concatenate([OTHER, X])
        for call in (
            lambda: kith.Index(OTHER, graph=graph),
            lambda: kith.Index(OTHER, graph=kith.Graph(graph)),
            lambda: kith.recall(graph, X=OTHER),
            lambda: kith.merge(both, graph, graph),
            lambda: kith.merge(both, graph, graph, algorithm="nn_descent"),
            lambda: kith.recall(graph, kith.knn_graph(OTHER, K)),
        ):
            with self.assertRaisesRegex(
                ValueError, "made of points 120 x 4 float32, .*120 x 4 float32"
            ):
                call()
        for call in (
            lambda: kith.Index(X, graph=cosine, metric="euclidean"),
            lambda: kith.recall(cosine, X=X, metric="euclidean"),
            lambda: kith.merge(np.concatenate([X, X]), cosine, graph),
            lambda: kith.recall(cosine, graph),
        ):
            with self.assertRaisesRegex(ValueError, "is of the metric"):
                call()
        self.assertEqual(kith.Index(X, graph=cosine).metric, "cosine")
        self.assertEqual(kith.recall(cosine, X=X).recall, 1.0)

    def test_merges_know_what_their_graphs_know(self):
        both = np.concatenate([X, OTHER])
        one, two = kith.knn_graph(X, K), kith.knn_graph(OTHER, K)
        truth = kith.knn_graph(both, K)
        merged = kith.merge(both, one, two)
        self.assertEqual((merged.exact, merged.fingerprint), (True, truth.fingerprint))
        np.testing.assert_array_equal(merged.indices, truth.indices)
        self.assertIsNone(kith.merge(both, tuple(one), two, algorithm="brute").exact)
        self.assertIs(kith.merge(both, tuple(one), two, verify=True).exact, True)
        wild = one.distances, np.roll(one.indices, 1, axis=0)
        wild[1][wild[1] == np.arange(120)[:, None]] = 119
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                self.assertIs(kith.merge(both, wild, two, 2, verify=True).exact, False)
            except ValueError as error:  # a row may have too few different neighbours
                self.assertIn("different neighbours", str(error))
        self.assertIn("lists are not the exact ones, the first of row 0", str(said[0].message))

    def test_lists_that_a_radius_cut_are_certified_in_no_file(self):
        near = kith.knn_graph(X, K, radius=float(np.median(kith.knn_graph(X, K).distances)))
        self.assertTrue((near.indices == -1).any())
        self.assertIsNone(kith.Graph(near).exact)
        whole = kith.knn_graph(X, K, radius=1e6)
        with tempfile.TemporaryDirectory() as folder:
            for graph, exact in ((near, None), (whole, True)):
                kith.Graph(graph).save(f"{folder}/g.kith")
                self.assertIs(kith.Graph.load(f"{folder}/g.kith").exact, exact)


if __name__ == "__main__":
    unittest.main()
