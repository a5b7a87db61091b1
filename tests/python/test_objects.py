# SPDX-License-Identifier: Apache-2.0
"""Radius search, selection, recall, corpora, trees, graphs and their files."""

import copy
import os
import pickle
import tempfile
import threading
import unittest

import kith
import numpy as np
import support

try:
    import scipy.sparse
except ImportError:
    scipy = None


class Functions(unittest.TestCase):
    def test_a_radius_gives_all_within_it(self):
        x, q = support.points(120, 3), support.points(15, 3, seed=1)
        truth = support.distances_between(q, x)
        radii = np.linspace(0, 2, 15)
        found = kith.radius_neighbors(x, q, radius=radii)
        for i in range(15):
            order = np.argsort(truth[i], kind="stable")
            within = order[truth[i][order] <= radii[i]]
            part = slice(found.offsets[i], found.offsets[i + 1])
            np.testing.assert_array_equal(found.indices[part], within)
            np.testing.assert_allclose(found.distances[part], truth[i][within], rtol=1e-6)
        count = kith.radius_neighbors(x, q, radius=radii, count_only=True)
        np.testing.assert_array_equal(count.offsets, found.offsets)
        own = kith.radius_neighbors(x.astype(np.float64), radius=0, include_self=True)
        np.testing.assert_array_equal(own.indices, np.arange(120))
        self.assertEqual(own.distances.dtype, np.float64)
        with self.assertRaisesRegex(ValueError, "one for each query"):
            kith.radius_neighbors(x, q, radius=[1, 2])

    def test_prepared_points_have_a_radius(self):
        """the bytes of radius_neighbors"""
        x, q = support.points(120, 3), support.points(15, 3, seed=1)
        radii = np.linspace(0, 2, 15)
        for method, metric in (
            ("exact", "euclidean"),
            ("exact", "cosine"),
            ("tree", "manhattan"),
        ):
            for asked in q, q.astype(np.float64):
                made = kith.Index(x, metric, method=method)
                for radius in radii, 0.7:
                    truth = kith.radius_neighbors(x, asked, radius=radius, metric=metric)
                    found = made.radius(asked, radius)
                    np.testing.assert_array_equal(found.offsets, truth.offsets)
                    np.testing.assert_array_equal(found.indices, truth.indices)
                    np.testing.assert_array_equal(found.distances, truth.distances)
                    self.assertEqual(found.distances.dtype, asked.dtype)
                    self.assertEqual(found.n_points, 120)
                count = made.radius(asked, 0.7, count_only=True)
                np.testing.assert_array_equal(count.offsets, truth.offsets)
                self.assertEqual(len(made.radius(asked[:0], 1.0)), 0)
                with self.assertRaisesRegex(ValueError, "radius must be one number, or 15"):
                    made.radius(asked, [1, 2])
                with self.assertRaisesRegex(ValueError, "columns"):
                    made.radius(asked[:, :2], 1.0)
                with self.assertRaisesRegex(ValueError, "radius"):
                    made.radius(asked, -1.0)
                with self.assertRaisesRegex(TypeError, "radius is 'wide', must be a number"):
                    made.radius(asked, "wide")
                made.close()
                with self.assertRaisesRegex(ValueError, "is closed"):
                    made.radius(asked, 1.0)

    def test_ranges_have_a_row_for_each_query(self):
        x, q = support.points(120, 3), support.points(15, 3, seed=1)
        ranges = kith.radius_neighbors(x, q, radius=1.0)
        self.assertEqual((len(ranges), ranges.n_points), (15, 120))
        self.assertEqual(len(list(ranges)), 15)
        self.assertRegex(
            repr(ranges), r"^<kith.Ranges: \d+ neighbours of 15 queries among 120 points>$"
        )
        for i, (distances, indices) in enumerate(ranges):
            part = slice(ranges.offsets[i], ranges.offsets[i + 1])
            np.testing.assert_array_equal(indices, ranges.indices[part])
            np.testing.assert_array_equal(distances, ranges.distances[part])
        self.assertEqual(ranges[-1].indices.tolist(), ranges[np.int64(14)].indices.tolist())
        again = pickle.loads(pickle.dumps(ranges))
        np.testing.assert_array_equal(again.indices, ranges.indices)
        with self.assertRaisesRegex(IndexError, "row is 15, must be below 15"):
            ranges[15]
        with self.assertRaisesRegex(TypeError, "row is 'a', must be a whole number"):
            ranges["a"]
        counted = kith.radius_neighbors(x, q, radius=1.0, count_only=True)
        for use in lambda: counted[0], lambda: counted.indices, lambda: counted.distances:
            with self.assertRaisesRegex(ValueError, "counted only .leave out count_only"):
                use()
        if scipy is not None:
            for mode in "distance", "connectivity":
                matrix = ranges.to_csr(mode)
                self.assertEqual((matrix.shape, matrix.nnz), ((15, 120), len(ranges.indices)))
                row = matrix[4].toarray().ravel()
                truth = support.distances_between(q[4:5], x)[0]
                truth[truth > 1] = 0
                np.testing.assert_allclose(row, truth if mode == "distance" else truth > 0, 1e-6)
            with self.assertRaisesRegex(ValueError, "mode is 'x'"):
                ranges.to_csr("x")

    def test_selection_is_numpys_sort(self):
        for dtype in np.float16, np.float32, np.float64:
            x = support.points(30, 50, dtype)
            x[3, 7] = x[3, 9] = x[3].min()
            values, indices = kith.select_k(x, 6)
            np.testing.assert_array_equal(indices, np.argsort(x, axis=1, kind="stable")[:, :6])
            np.testing.assert_array_equal(values, np.take_along_axis(x, indices, 1))
            self.assertEqual(values.dtype, dtype)
            most = kith.select_k(x[:, ::-1][:, ::-1], 6, largest=True, method="radix").values
            np.testing.assert_array_equal(most, -np.sort(-x, axis=1)[:, :6])
            odd = np.frombuffer(b"." + x.tobytes(), dtype, offset=1).reshape(x.shape)  # not aligned
            np.testing.assert_array_equal(kith.select_k(odd, 6).indices, indices)
        self.assertTrue(np.isnan(kith.select_k(np.array([[np.nan, 1.0]]), 2).values[0, 1]))
        with self.assertRaisesRegex(ValueError, "values are uint8, must be floats"):
            kith.select_k(np.zeros((2, 2), np.uint8), 1)
        with self.assertRaisesRegex(ValueError, "k is 60, must be"):
            kith.select_k(x, 60)

    def test_recall_counts_distances_not_names(self):
        x = support.points(300, 5)
        truth = kith.knn_graph(x, 10)
        self.assertEqual(kith.recall(truth, truth).recall, 1.0)
        wrong = truth.indices.copy(), truth.distances.copy()
        wrong[0][:, 9] = -1
        wrong[1][:, 9] = np.inf
        judged = kith.recall((wrong[1], wrong[0]), truth)
        self.assertAlmostEqual(judged.recall, 0.9)
        self.assertEqual((judged.rows, judged.at), (300, 10))
        estimate = kith.recall((wrong[1], wrong[0]), X=x, sample=100, random_state=1)
        self.assertAlmostEqual(estimate.recall, 0.9)
        self.assertEqual(estimate.rows, 100)
        with self.assertRaisesRegex(ValueError, "either the truth or X"):
            kith.recall(truth)

    def test_two_graphs_are_made_one(self):
        x = support.points(900, 6)
        parts = kith.knn_graph(x[:600], 8), kith.knn_graph(x[600:], 8)
        truth = kith.knn_graph(x, 8)
        merged = kith.merge(x, *parts)
        self.assertEqual(merged.indices.tobytes(), truth.indices.tobytes())
        self.assertEqual(merged.distances.tobytes(), truth.distances.tobytes())
        near = kith.merge(x, *parts, 5, algorithm="nn_descent", recall=0.9)
        self.assertGreater(kith.recall(near, kith.knn_graph(x, 5)).recall, 0.85)
        with self.assertRaisesRegex(ValueError, "600 and 300 points, X has 899"):
            kith.merge(x[1:], *parts)

    def test_devices_are_listed(self):
        self.assertEqual(kith.devices()[0].name, "cpu")
        self.assertTrue(kith.devices()[0].available)


class Prepared(unittest.TestCase):
    def test_a_corpus_answers_as_knn_from_several_threads(self):
        x, q = support.points(2000, 20), support.points(64, 20, seed=1)
        for metric in "euclidean", "cosine", "inner_product", "manhattan":
            corpus = kith.Index(x, metric)
            truth = kith.knn(x, q, 5, metric=metric)
            found = [None] * 4

            def ask(slot):
                found[slot] = corpus.search(q, 5)

            threads = [threading.Thread(target=ask, args=(slot,)) for slot in range(4)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            for each in found:
                self.assertEqual(each.indices.tobytes(), truth.indices.tobytes())
                self.assertEqual(each.distances.tobytes(), truth.distances.tobytes())
        self.assertEqual(
            (corpus.shape, corpus.metric, len(corpus)), ((2000, 20), "manhattan", 2000)
        )

    def test_an_index_on_a_graph_answers_alone_as_together(self):
        x, q = support.points(3000, 12), support.points(40, 12, seed=1)
        truth = kith.knn(x, q, 10)
        index = kith.Index(x, graph=kith.knn_graph(x, 16))
        self.assertEqual(index.method, "graph")
        self.assertEqual((index.shape, len(index), index.metric), ((3000, 12), 3000, "euclidean"))
        self.assertGreater(index.nbytes, 3000 * 16 * 8)
        self.assertEqual(repr(index), "<kith.Index: 3000 x 12 float32, euclidean, graph>")
        told = index.tune(q, 10, 0.9)
        self.assertGreaterEqual(told.recall, 0.9)
        self.assertGreaterEqual(index.width, 10)
        together = index.search(q, 10)
        self.assertEqual(kith.recall(together, truth, at=10).recall, told.recall)
        alone = [None] * 4

        def ask(slot):
            alone[slot] = [index.search(each[None], 10) for each in q]

        threads = [threading.Thread(target=ask, args=(slot,)) for slot in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        for rows in alone:
            for part in "indices", "distances":
                found = np.concatenate([getattr(row, part) for row in rows])
                self.assertEqual(found.tobytes(), getattr(together, part).tobytes())
        self.assertEqual(
            index.search(q, 3, width=3000).indices.tolist(), truth.indices[:, :3].tolist()
        )
        distances, indices = index.search(
            q.astype(np.float64), 2, out=(np.empty((40, 2)), np.empty((40, 2), np.uint32))
        )
        self.assertEqual((distances.dtype, indices.dtype), (np.float64, np.uint32))

    def test_an_index_on_a_graph_says_what_is_wrong(self):
        x = support.points(300, 6)
        found = kith.knn_graph(x, 8, metric="cosine")
        index = kith.Index(x, graph=kith.Graph(found), width=20)
        self.assertEqual((index.metric, index.width), ("cosine", 20))
        with self.assertRaisesRegex(TypeError, "cannot be pickled"):
            pickle.dumps(index)
        with self.assertRaisesRegex(ValueError, "width is 20, must be at least k, 21"):
            index.search(x[:1], 21)
        with self.assertRaisesRegex(ValueError, "300 points"):
            kith.Index(x, graph=(found.distances[1:], found.indices[1:]))
        with self.assertRaisesRegex(ValueError, "recall is 1.5"):
            index.tune(x[:5], 3, 1.5)
        bytes_ = (x * 100).clip(0, 255).astype(np.uint8)
        graph = kith.knn_graph(bytes_, 8)
        mixed = kith.Index(bytes_, graph=graph, width=300)
        for asked in x[:9], bytes_[:9], x[:9].astype(np.float64), bytes_[:9].astype(int):
            truth = kith.knn(bytes_, asked, 3)
            self.assertEqual(mixed.search(asked, 3).indices.tobytes(), truth.indices.tobytes())

    def test_rows_come_and_go_in_a_tree_and_in_its_file(self):
        x, q = support.points(500, 3), support.points(20, 3, seed=1)
        tree = kith.Index(x[:400], method="tree")
        tree.add(x[400:])
        gone = [3, 499, 77, 3]
        tree.remove(gone)
        left = np.delete(x, gone, axis=0)
        truth = kith.knn(left, q, 4)
        self.assertEqual(tree.search(q, 4).indices.tobytes(), truth.indices.tobytes())
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tree.kith")
            tree.save(path)
            again = kith.Index.open(path)
            self.assertEqual(
                again.search(q, 4, radius=5).indices.tobytes(), truth.indices.tobytes()
            )
            self.assertIn("497 x 3 float32, euclidean, tree", repr(again))
        with self.assertRaisesRegex(ValueError, "0 or more"):
            tree.remove([-1])
        with self.assertRaises(FileNotFoundError):
            kith.Index.open("/nowhere/tree.kith")


class Graphs(unittest.TestCase):
    def setUp(self):
        self.x = support.points(80, 4)
        self.found = kith.knn_graph(self.x, 5, metric="cosine")
        self.graph = kith.Graph(self.found)

    def test_files_hold_what_was_saved(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in "g.npz", "g.kith", "g.knn", "g.ivecs":
                path = os.path.join(folder, name)
                self.graph.save(path)
                for graph in kith.Graph.load(path), kith.Graph.map(path):
                    np.testing.assert_array_equal(graph.indices, self.found.indices)
                    if name != "g.ivecs":
                        np.testing.assert_array_equal(graph.distances, self.found.distances)
                    if name in ("g.npz", "g.kith"):
                        self.assertEqual(
                            (graph.metric, graph.exact, graph.n_points), ("cosine", True, 80)
                        )
                same = pickle.loads(pickle.dumps(kith.Graph.map(path)))
                np.testing.assert_array_equal(same.indices, self.found.indices)
                kept = kith.Graph.map(path).distances  # outlives what it was taken from
                np.testing.assert_array_equal(np.isnan(kept) | (kept >= 0), True)
            path = os.path.join(folder, "wide.npz")
            wide = kith.Graph(kith.knn(self.x.astype(float), self.x[:7], 3), n_points=80)
            wide.save(path)
            self.assertEqual(kith.Graph.load(path).n_points, 80)
            with self.assertRaises(FileNotFoundError):
                kith.Graph.load(os.path.join(folder, "absent.npz"))
            with self.assertRaisesRegex(ValueError, "format is 'xml'"):
                self.graph.save(path, format="xml")
            self.graph.n_points = 7  # a file that says so could not be read
            for form in "npz", "csr", "kith", "knn", "ibin", "ivecs":
                with self.assertRaisesRegex(ValueError, "hold id 79, but the corpus has 7 rows"):
                    self.graph.save(path, format=form)
        with self.assertRaisesRegex(ValueError, "indices hold .*, must be below 7, the number of"):
            kith.Graph(kith.knn(self.x, self.x[:7], 3))

    @unittest.skipIf(scipy is None, "SciPy is missing")
    def test_matrices_and_edges_are_one_sided_united_or_mutual(self):
        plain = self.graph.to_csr()
        np.testing.assert_array_equal(plain.indices, self.found.indices.ravel())
        dense = plain.toarray()
        union, mutual = (self.graph.to_csr(symmetrize=how).toarray() for how in ("union", "mutual"))
        np.testing.assert_array_equal(union, np.maximum(dense, dense.T))
        both = (dense > 0) & (dense.T > 0)
        np.testing.assert_array_equal(mutual, np.where(both, dense, 0))
        ones = self.graph.to_csr(mode="connectivity", symmetrize="union").toarray()
        np.testing.assert_array_equal(ones, union > 0)
        for how, matrix in ("union", union), ("mutual", mutual):
            i, j, distance = self.graph.edges(how)
            self.assertTrue((i < j).all())
            self.assertEqual(len(i), np.count_nonzero(np.triu(matrix)))
            np.testing.assert_array_equal(distance, matrix[i, j])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "csr.npz")
            self.graph.save(path, format="csr")
            self.assertEqual((scipy.sparse.load_npz(path) != plain).nnz, 0)

    def test_empty_slots_are_no_edges(self):
        x = np.array([[0.0], [1.0], [5.0]])
        graph = kith.Graph(kith.knn_graph(x, 2, radius=2))
        i, j, _ = graph.edges()
        np.testing.assert_array_equal([i, j], [[0, 1], [1, 0]])
        np.testing.assert_array_equal(graph.indices[2], [-1, -1])
        self.assertEqual(copy.deepcopy(graph).shape, (3, 2))
        with self.assertRaisesRegex(ValueError, "must be union or mutual"):
            graph.edges("both")
        with self.assertRaisesRegex(ValueError, "distances come first"):
            kith.Graph(self.found.indices, self.found.distances)


if __name__ == "__main__":
    unittest.main()
