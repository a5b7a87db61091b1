# SPDX-License-Identifier: Apache-2.0
"""knn and knn_graph: what NumPy computes in double, and arrays of every kind."""

import importlib.util
import os
import sys
import tempfile
import unittest
from unittest import mock

import kith
import numpy as np
import support
from kith._arrays import as_matrix

try:
    import scipy.sparse
except ImportError:
    scipy = None
try:
    import torch
except ImportError:
    torch = None

DTYPES = (np.float32, np.float64, np.float16, np.uint8, np.int8)


class Answers(unittest.TestCase):
    def test_neighbours_are_those_of_numpy_for_every_type(self):
        for dtype in DTYPES:
            x, q = support.points(150, 6, dtype), support.points(20, 6, dtype, seed=1)
            truth = support.distances_between(q, x)
            distances, indices = kith.knn(x, q, 5)
            np.testing.assert_array_equal(indices, support.first(truth, 5), str(dtype))
            self.assertEqual(indices.dtype, np.int64)
            double = dtype == np.float64
            self.assertEqual(distances.dtype, np.float64 if double else np.float32)
            np.testing.assert_allclose(
                distances, np.take_along_axis(truth, indices, 1), rtol=1e-12 if double else 1e-6
            )
            np.testing.assert_array_equal(kith.knn_graph(x, 5).indices, support.graph(x, 5))

    def test_equal_points_stand_by_index_and_a_point_is_left_out_by_number(self):
        x = np.zeros((6, 3), np.float32)
        np.testing.assert_array_equal(kith.knn(x, x[:1], 4).indices, [[0, 1, 2, 3]])
        np.testing.assert_array_equal(
            kith.knn_graph(x, 2).indices[[0, 1, 5]], [[1, 2], [0, 2], [0, 1]]
        )
        self.assertEqual(
            kith.knn_graph(x, 6, include_self=True).indices[3].tolist(), list(range(6))
        )

    def test_algorithms_and_threads_give_the_same_bytes(self):
        x = support.points(3000, 4)
        first = kith.knn_graph(x, 7, algorithm="brute")
        for options in (
            {"algorithm": "kd_tree"},
            {"algorithm": "ball_tree"},
            {"n_jobs": 1},
            {"n_jobs": -2},
        ):
            for part, same in zip(first, kith.knn_graph(x, 7, **options)):
                self.assertEqual(part.tobytes(), same.tobytes(), options)

    def test_metrics_have_their_usual_names(self):
        x = np.abs(support.points(60, 5))
        for names in (
            ("l1", "cityblock", "manhattan", "L1"),
            ("l2", "euclidean", "L2", "Euclidean", "Minkowski"),
            ("linf", "chebyshev"),
            ("cosine", "cos", "Cosine", "COSINE"),
        ):
            answers = {kith.knn_graph(x, 3, metric=name).indices.tobytes() for name in names}
            self.assertEqual(len(answers), 1)
        for p, name in (1, "manhattan"), (2, "euclidean"), (np.inf, "chebyshev"):
            same = kith.knn_graph(x, 3, metric="minkowski", p=p), kith.knn_graph(x, 3, metric=name)
            self.assertEqual(same[0].distances.tobytes(), same[1].distances.tobytes())
        best = kith.knn(x, x, 1, metric="inner_product")
        np.testing.assert_array_equal(best.indices[:, 0], np.argmax(x @ x.T, axis=1))

    def test_a_function_may_be_the_metric_and_what_it_raises_arrives(self):
        x = support.points(40, 5)
        own = kith.knn_graph(x, 3, metric=lambda a, b: np.abs(a.astype(float) - b).sum())
        np.testing.assert_array_equal(own.indices, kith.knn_graph(x, 3, metric="l1").indices)

        def broken(a, b):
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            kith.knn_graph(x, 3, metric=broken)

        def careless(a, b):
            a[0] = 9  # of the caller's points, or of a file that is mapped

        with self.assertRaisesRegex(ValueError, "read-only"):
            kith.knn_graph(x, 3, metric=careless)
        np.testing.assert_array_equal(x, support.points(40, 5))

    def test_beyond_a_radius_there_is_nobody(self):
        x = np.array([[0.0], [1.0], [5.0], [1.0]])
        found = kith.knn_graph(x, 2, radius=1.0)
        np.testing.assert_array_equal(found.indices, [[1, 3], [3, 0], [-1, -1], [1, 0]])
        np.testing.assert_array_equal(found.distances[2], [np.inf, np.inf])
        np.testing.assert_array_equal(kith.knn(x, x, 2, radius=0).indices[:2], [[0, -1], [1, 3]])

    def test_a_radius_may_be_open(self):
        x = np.arange(12, dtype=np.float32)[:, None]
        index = kith.Index(x)
        radii = np.arange(1, 13) * 0.5
        for radius in (2.0, 2.5, radii):
            each = np.broadcast_to(radius, 12)
            far = np.abs(x - x.T)
            wanted = [np.flatnonzero(row < r).size - 1 for row, r in zip(far, each)]
            for found in (
                kith.radius_neighbors(x, radius=radius, closed=False),
                kith.radius_neighbors(x, radius=radius, closed=False, algorithm="kd_tree"),
                index.radius(x, radius, closed=False),
            ):
                own = found.offsets[-1] != sum(wanted)  # queries find themselves in an index
                np.testing.assert_array_equal(np.diff(found.offsets) - own, wanted)
        counts = [kith.pairs(x, radius=2, closed=closed).count() for closed in (True, False)]
        self.assertEqual(counts, [21, 11])
        products = kith.radius_neighbors(x, radius=9.0, closed=False, metric="inner_product")
        self.assertNotIn(3, products[3].indices)
        self.assertIn(4, products[3].indices)
        for error, text, options in (
            (ValueError, "no distance is less", {"radius": 0}),
            (TypeError, "closed is", {"radius": 1, "closed": "yes"}),
        ):
            with self.assertRaisesRegex(error, text):
                kith.radius_neighbors(x, **{"closed": False, **options})

    def test_one_row_may_be_excluded_for_each_query(self):
        x = support.points(50, 4)
        own = kith.knn(x, x, 3, exclude=np.arange(50))
        np.testing.assert_array_equal(own.indices, kith.knn_graph(x, 3).indices)
        none = kith.knn(x, x, 1, exclude=np.full(50, -1))
        np.testing.assert_array_equal(none.indices[:, 0], np.arange(50))

    def test_a_number_that_no_field_of_the_library_holds_is_an_error_not_another_number(self):
        x = support.points(50, 4)
        tree = kith.Index(x, method="tree")
        for call in (
            lambda: kith.knn(x, x, 2**64 + 3),  # as 64 bits: 3, and the answer would have no room
            lambda: kith.knn_graph(x, 2**64 + 3),
            lambda: kith.select_k(x, 2**64 + 1),
            lambda: kith.knn_graph(x, 3, candidates=2**32 + 5),
            lambda: kith.knn(x, x[:1], 1, exclude=[2**32]),
            lambda: kith.knn(x, x[:1], 1, exclude=[-2]),
            lambda: kith.knn(x, x, 1, memory_limit=-1),
            lambda: kith.knn(x, x, 1, n_jobs=2**32),
            lambda: tree.remove([2**32 + 1]),
            lambda: kith.Index(x, lambda a, b: 0.0),  # nor does it hold a function
        ):
            with self.assertRaises(ValueError):
                call()
        self.assertEqual(tree.shape, (50, 4))

    def test_approximate_graphs_repeat_and_have_the_recall_that_was_wanted(self):
        x = support.points(4000, 16)
        options = {"algorithm": "nn_descent", "recall": 0.9, "random_state": 3}
        first, again = kith.knn_graph(x, 10, **options), kith.knn_graph(x, 10, n_jobs=1, **options)
        self.assertEqual(first.indices.tobytes(), again.indices.tobytes())
        judged = kith.recall(first, kith.knn_graph(x, 10))
        self.assertGreater(judged.recall, 0.88)
        exact = kith.knn_graph(x[:500], 5, recall=0.9)  # where exact is as fast
        np.testing.assert_array_equal(exact.indices, kith.knn_graph(x[:500], 5).indices)

    def test_a_descent_begins_with_a_graph(self):
        x = support.points(9000, 24)  # fewer are exact all the same
        truth = kith.knn_graph(x, 8)
        graph = kith.Graph(truth)
        start = {"rounds": 0, "random_state": 1}
        for init in truth, graph, truth.indices, truth.indices.astype(np.uint32):
            same = kith.knn_graph(x, 8, init=init, **start)
            self.assertEqual(same.indices.tobytes(), truth.indices.tobytes())
            self.assertEqual(same.distances.tobytes(), truth.distances.tobytes())
        holes = truth.indices.copy()  # of fewer columns, with empty places
        holes[::3, 2:] = -1
        part = kith.recall(kith.knn_graph(x, 8, init=holes, **start), truth, at=8).recall
        self.assertLess(part, 0.95)
        better = kith.knn_graph(x, 8, init=holes[:, :6], recall=0.98, recall_at=8, candidates=12)
        self.assertGreater(kith.recall(better, truth, at=8).recall, 0.95)
        one = kith.knn_graph(x, 8, init=holes, delta=0.99, random_state=1)
        self.assertEqual(
            one.indices.tobytes(),
            kith.knn_graph(x, 8, init=holes, rounds=1, random_state=1).indices.tobytes(),
        )

    def test_what_only_a_descent_has_does_not_go_with_exact_graphs(self):
        x = support.points(50, 3)
        ids = kith.knn_graph(x, 3).indices
        for text, call in (
            (
                "init goes with nn_descent",
                lambda: kith.knn_graph(x, 3, init=ids, algorithm="brute"),
            ),
            ("rounds goes with", lambda: kith.knn_graph(x, 3, rounds=2, algorithm="kd_tree")),
            ("radius goes with exact", lambda: kith.knn_graph(x, 3, init=ids, radius=1.0)),
            ("graph of 50 rows", lambda: kith.knn_graph(x, 3, init=ids[:9])),
            ("init has id", lambda: kith.knn_graph(x, 3, init=ids + 90)),
            ("must be integers", lambda: kith.knn_graph(x, 3, init=ids.astype(float))),
            ("two axes", lambda: kith.knn_graph(x, 3, init=ids[0])),
        ):
            with self.assertRaisesRegex(ValueError, text):
                call()


class Memory(unittest.TestCase):
    def assert_in_place(self, x):
        self.assertEqual(as_matrix(x, "x").struct.data, x.__array_interface__["data"][0])

    def test_contiguous_rows_are_read_where_they_lie(self):
        for dtype in DTYPES:
            x = support.points(30, 8, dtype)
            for view in x, x[5:], x[::2], x[:, 1:6], x[3:4, 2:]:
                self.assert_in_place(view)
                copy = np.ascontiguousarray(view)
                q = copy[:1]
                same = kith.knn(view, q, 1), kith.knn(copy, q, 1)
                self.assertEqual(same[0].distances.tobytes(), same[1].distances.tobytes())
            x.flags.writeable = False
            self.assert_in_place(x)

    def test_files_are_mapped_and_copied_only_where_they_must_be_and_fit(self):
        x = support.points(100, 8)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.npy")
            np.save(path, x)
            mapped = np.load(path, mmap_mode="r")
            self.assert_in_place(mapped)
            np.testing.assert_array_equal(kith.knn_graph(mapped, 3).indices, support.graph(x, 3))
            np.save(path, np.asfortranarray(x))
            odd = {
                "Fortran": np.asfortranarray(x),
                "big-endian": x.astype(">f4"),
                "int32": (1000 * x).astype(np.int32),
                "int64": (1000 * x).astype(np.int64),
                "strided": np.repeat(x, 2, axis=1),
            }
            for name, array in odd.items():
                np.save(path, array)
                mapped = np.load(path, mmap_mode="r")
                mapped, array = (
                    (mapped[:, ::2], array[:, ::2]) if name == "strided" else (mapped, array)
                )
                found = kith.knn_graph(mapped, 3, memory_limit=64 << 20).indices
                np.testing.assert_array_equal(found, kith.knn_graph(array, 3).indices, name)
                with self.assertRaisesRegex(MemoryError, "X .*takes .* KB, more than the memory_l"):
                    kith.knn_graph(mapped, 3, memory_limit=2000)
                with (
                    mock.patch("kith._memory._SURE", 0),
                    mock.patch("kith._memory.free_bytes", return_value=2000),
                    self.assertRaisesRegex(MemoryError, "takes .*and 2 KB are free .write it"),
                ):
                    if name not in ("Fortran", "strided"):
                        kith.knn_graph(mapped, 3)
                    else:
                        kith.Index(mapped)

    def test_what_cannot_be_read_in_place_is_converted(self):
        x = support.points(40, 5)
        truth = kith.knn_graph(x, 3).indices
        wide = np.zeros((40, 10), np.float32)
        wide[:, ::2] = x
        for other in np.asfortranarray(x), x.astype(">f4"), x.tolist(), wide[:, ::2], x[::-1][::-1]:
            np.testing.assert_array_equal(kith.knn_graph(other, 3).indices, truth)

        class Own(np.ndarray):
            pass

        mirrored = x[::-1, ::-1].copy()[::-1, ::-1]
        for other in mirrored, x.view(Own), np.ma.array(x), x.astype(np.longdouble), memoryview(x):
            np.testing.assert_array_equal(kith.knn_graph(other, 3).indices, truth)
        one = np.broadcast_to(x[7], (4, 5))
        np.testing.assert_array_equal(kith.knn(x, one, 1).indices, [[7]] * 4)
        whole = support.points(40, 5, np.int8)
        truth = kith.knn_graph(whole, 3).indices
        for dtype in np.int16, np.uint32, np.int64, object:
            shifted = (whole.astype(int) + 128).astype(dtype)
            np.testing.assert_array_equal(kith.knn_graph(shifted, 3).indices, truth)
        bits = np.random.default_rng(0).random((20, 30)) < 0.5
        same = (
            kith.knn_graph(bits, 2, metric="hamming"),
            kith.knn_graph(bits * 1.0, 2, metric="hamming"),
        )
        np.testing.assert_array_equal(same[0].indices, same[1].indices)

    def test_results_are_written_where_the_caller_wants_them(self):
        x = support.points(50, 4)
        found = kith.knn_graph(x, 3, radius=1.0)
        for real in np.float32, np.float64:
            for whole in np.int64, np.uint32:
                out = np.empty((50, 3), real), np.empty((50, 3), whole)
                given = kith.knn_graph(x, 3, radius=1.0, out=out)
                self.assertIs(given.distances, out[0])
                self.assertIs(given.indices, out[1])
                np.testing.assert_allclose(out[0], found.distances, rtol=1e-7)
                np.testing.assert_array_equal(out[1], found.indices.astype(whole))
        for wrong in (
            (np.empty((50, 2), np.float32), np.empty((50, 3), np.int32)),
            (out[0].T, out[1].T),
        ):
            with self.assertRaisesRegex(ValueError, "^out: "):
                kith.knn_graph(x, 3, out=wrong)

    @unittest.skipIf(torch is None, "PyTorch is missing")
    def test_tensors_give_tensors(self):
        x = support.points(60, 8)
        truth = kith.knn_graph(x, 3)
        for dtype in (
            torch.float32,
            torch.float64,
            torch.float16,
            torch.bfloat16,
            torch.uint8,
            torch.int8,
        ):
            tensor = torch.from_numpy(x * 20).abs().to(dtype)
            found = kith.knn_graph(tensor, 3)
            self.assertIsInstance(found.indices, torch.Tensor)
            same = kith.knn_graph(tensor.to(torch.float64).numpy(), 3)
            np.testing.assert_array_equal(found.indices.numpy(), same.indices, str(dtype))
        tensor = torch.from_numpy(x).requires_grad_()
        self.assertEqual(as_matrix(tensor, "x").struct.data, tensor.data_ptr())
        np.testing.assert_array_equal(kith.knn_graph(tensor, 3).indices.numpy(), truth.indices)
        low = torch.from_numpy(x).to(torch.bfloat16)
        chosen = kith.select_k(low, 2, largest=True)
        self.assertTrue(torch.equal(chosen.values, torch.topk(low, 2).values))

    def test_anything_with_dlpack_is_read_in_place(self):
        x = support.points(30, 4)

        class Other:
            def __dlpack__(self, **options):
                return x.__dlpack__(**options)

            def __dlpack_device__(self):
                return x.__dlpack_device__()

        self.assertEqual(as_matrix(Other(), "x").struct.data, x.ctypes.data)

    @unittest.skipIf(scipy is None, "SciPy is missing")
    def test_sparse_matrices_are_made_dense_block_by_block(self):
        from kith import _arrays

        x = support.points(90, 12)
        x[x < 0.5] = 0
        x[40:52] = x[:12]
        sparse = scipy.sparse.csr_matrix(x)
        block, _arrays.BLOCK_BYTES = _arrays.BLOCK_BYTES, 12 * 4 * 16  # 16 rows
        try:
            for metric in "euclidean", "cosine", "inner_product":
                for pair in (sparse, x[:30]), (x, sparse[:30]), (sparse.tocoo(), sparse[:30]):
                    found = kith.knn(*pair, 20, metric=metric)
                    truth = kith.knn(x, x[:30], 20, metric=metric)
                    self.assertEqual(found.distances.tobytes(), truth.distances.tobytes())
                    self.assertEqual(found.indices.tobytes(), truth.indices.tobytes())
                own, truth = (
                    kith.knn_graph(sparse, 5, metric=metric),
                    kith.knn_graph(x, 5, metric=metric),
                )
                self.assertEqual(own.indices.tobytes(), truth.indices.tobytes())
        finally:
            _arrays.BLOCK_BYTES = block
        for dtype in np.bool_, np.int16, np.uint16, np.int32, np.int64, np.longdouble:
            dense = (x * 9).astype(dtype)
            found = kith.knn(scipy.sparse.csr_matrix(dense), dense[:30], 20)
            truth = kith.knn(dense, dense[:30], 20)
            self.assertEqual(found.distances.dtype, truth.distances.dtype)
            self.assertEqual(found.distances.tobytes(), truth.distances.tobytes())
            self.assertEqual(found.indices.tobytes(), truth.indices.tobytes())
        halves = scipy.sparse.csr_matrix(x)
        halves.data = halves.data.astype(np.float16)  # SciPy keeps them, and computes with none
        found = kith.knn(halves, x[:30].astype(np.float16), 20)
        truth = kith.knn(x.astype(np.float16), x[:30].astype(np.float16), 20)
        self.assertEqual(found.distances.dtype, truth.distances.dtype)
        self.assertEqual(found.distances.tobytes(), truth.distances.tobytes())
        large = scipy.sparse.csr_matrix(np.array([[0, 2**53 + 1]]))
        with self.assertRaisesRegex(ValueError, "the sparse matrix has whole numbers up to 9007"):
            kith.knn(large, large, 1)


@unittest.skipIf(scipy is None, "SciPy is missing")
class Sparse(unittest.TestCase):
    def random(self, random, dtype, kind):
        """A sparse matrix: with equal rows, ones alone, rows of zeros, or values of all sizes."""
        shape = random.integers(5, 50), random.integers(1, 200)
        x = random.standard_normal(shape) * (random.random(shape) < random.choice([0.02, 0.1, 0.4]))
        if np.dtype(dtype).kind in "iu":
            x = np.abs(3 * x).round()
        if kind == "ones":
            x = (x != 0).astype(float)
        if kind == "twins":
            x = np.concatenate([x, x[:4], 2 * x[:4]])
        if kind == "scales" and dtype == "f8":
            x *= 10.0 ** random.integers(-200, 140, x.shape)
        return scipy.sparse.csr_matrix(x.astype(dtype))

    def test_products_find_candidates_and_the_bytes_are_those_of_dense_rows(self):
        random, compared = np.random.default_rng(5), 0
        with mock.patch("kith._sparse._MOST_TIMES", 0):  # for any
            for turn in range(30):
                dtype = ("f4", "f8", "u1", "i4", "f8")[turn % 5]
                x = self.random(random, dtype, ("ones", "twins", "scales", "plain")[turn % 4])
                q, k = x[::3], int(random.integers(1, x.shape[0]))
                dense = x.toarray(), q.toarray()
                for metric in "euclidean", "sqeuclidean", "cosine", "inner_product":
                    for ours, truth in (
                        (kith.knn(x, q, k, metric=metric), kith.knn(*dense, k, metric=metric)),
                        (
                            kith.knn_graph(x, k, metric=metric, algorithm="brute"),
                            kith.knn_graph(dense[0], k, metric=metric),
                        ),
                    ):
                        for one, other in zip(ours, truth, strict=True):
                            self.assertEqual(one.dtype, other.dtype)
                            self.assertEqual(one.tobytes(), other.tobytes(), (turn, metric))
                        compared += 1
            for wrong, text in (np.nan, "NaN"), (-np.inf, "infinite"), (1e200, "beyond 2.500"):
                bad = scipy.sparse.csr_matrix(np.array([[0, 1.0], [0, 0], [2, wrong]]))
                with self.assertRaisesRegex(ValueError, rf"^X\[2, 1\] is .*{text}"):
                    kith.knn_graph(bad, 1)
            told = []
            kith.knn_graph(x, 2, progress=lambda *each: told.append(each))
            self.assertEqual(told[-1][1:], (x.shape[0], x.shape[0]))
        print(f"{compared} sparse products: the bytes of dense rows", file=sys.stderr)

    def wide(self, rows, cols, values):
        """So many values in each row, without a random number for each place."""
        random = np.random.default_rng(0)
        places = random.integers(0, cols, rows * values)
        entries = random.random(rows * values, np.float32), places, np.arange(rows + 1) * values
        return scipy.sparse.csr_matrix(entries, shape=(rows, cols))

    def test_rows_are_not_made_dense_where_that_takes_long(self):
        x = self.wide(1500, 200000, 100)
        found = kith.knn(x, x[:40], 3, metric="cosine")
        np.testing.assert_array_equal(found.indices[:, 0], np.arange(40))
        rows = x[found.indices[7]]
        near = rows[:, np.unique(rows.indices)].toarray().astype(np.float64)
        near /= np.sqrt((near**2).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(found.distances[7], 1 - near @ near[0], atol=1e-6)
        calls = [lambda: kith.knn_graph(x, 3, metric="manhattan")]
        if "sklearn" in sys.modules or importlib.util.find_spec("sklearn"):
            nearest = kith.NearestNeighbors(n_neighbors=3, metric="l1").fit(x)
            calls.append(nearest.kneighbors)
        for call in calls:
            text = "metric manhattan has no sparse product: made dense .*TruncatedSVD; or give X.to"
            with self.assertRaisesRegex(ValueError, text):
                call()
        with self.assertRaisesRegex(ValueError, "points are as near to a sparse row as its 15-th"):
            kith.knn_graph(self.wide(6000, 300000, 3), 15, metric="cosine")

    def test_what_is_made_dense_is_told_with_its_size_and_refused_above_the_limit(self):
        x = scipy.sparse.random(500, 700, 0.05, format="csr", random_state=0)
        for call in (
            lambda **options: kith.radius_neighbors(x, radius=0.1, **options),
            lambda **options: kith.Index(x, **options),
            lambda **options: kith.knn_graph(x, 3, algorithm="nn_descent", **options),
        ):
            with self.assertWarnsRegex(UserWarning, "is sparse and is made dense: 2.8 MB"):
                call()
            with self.assertRaisesRegex(
                MemoryError, "all its zeros takes 2.8 MB, more than the mem"
            ):
                call(memory_limit=1 << 20)
        with self.assertWarnsRegex(UserWarning, "made dense block by block, 2.8 MB in all"):
            kith.knn_graph(x, 3, metric="manhattan")
        with self.assertRaisesRegex(ValueError, "corpus has 700 columns and queries has 2"):
            kith.knn(x, [[1, 2]], 1)
        self.assertEqual(kith.knn(x, x[:0], 3).indices.shape, (0, 3))


class Errors(unittest.TestCase):
    def test_they_are_pythons_with_the_librarys_sentence(self):
        x = support.points(20, 3)
        bad = x.copy()
        bad[4, 1] = np.nan
        for error, text, call in (
            (ValueError, "k is 20, must be at most 19", lambda: kith.knn_graph(x, 20)),
            (ValueError, "k is -1, must be at least 1", lambda: kith.knn_graph(x, -1)),
            (ValueError, r"^X\[4, 1\] is NaN", lambda: kith.knn_graph(bad, 3)),
            (ValueError, "3 columns and queries has 2", lambda: kith.knn(x, x[:, :2], 3)),
            (ValueError, "must have 2", lambda: kith.knn(x, x[0], 3)),
            (
                ValueError,
                "metric 'nearest' is not known",
                lambda: kith.knn_graph(x, 3, metric="nearest"),
            ),
            (ValueError, "p is 0.5", lambda: kith.knn_graph(x, 3, metric="minkowski", p=0.5)),
            (ValueError, "p is nan", lambda: kith.knn_graph(x, 3, metric="minkowski", p=np.nan)),
            (ValueError, "algorithm is 'best'", lambda: kith.knn_graph(x, 3, algorithm="best")),
            (ValueError, "recall is 2", lambda: kith.knn_graph(x, 3, recall=2)),
            (ValueError, "n_jobs is 0", lambda: kith.knn_graph(x, 3, n_jobs=0)),
            (ValueError, "Complex data", lambda: kith.knn_graph(x * 1j, 3)),
            (MemoryError, "limit", lambda: kith.knn_graph(x, 3, memory_limit=100)),
            (ValueError, "device is 'tpu', must be", lambda: kith.knn_graph(x, 3, device="tpu")),
        ):
            with self.assertRaisesRegex(error, text):
                call()

    def test_what_is_no_number_is_named_by_row_and_column(self):
        rows = [[1.0, 2.0], [3.0, None], ["a", 4.0]]
        for x, text in (
            (rows, r"^X\[1, 1\] is missing .fill it, or leave its row out.$"),
            (rows[::2], r"^X\[1, 0\] is 'a', must be a number .encode it as one.$"),
        ):
            with self.assertRaisesRegex(ValueError, text):
                kith.knn_graph(np.array(x, object), 1)
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is missing")
        frame = pandas.DataFrame({"size": [1.5, 2, 3, 4], "count": [1, 2, 3, 4]})
        np.testing.assert_array_equal(
            kith.knn_graph(frame, 2).indices, kith.knn_graph(frame.to_numpy(), 2).indices
        )
        for kind, missing in ("Int64", "missing"), ("Float64", "missing"), ("object", "missing"):
            holes = frame.astype({"count": kind})
            holes.loc[2, "count"] = pandas.NA
            text = rf"^X\[2, 1\] \(column 'count'\) is {missing} .fill it, or leave its row out.$"
            with self.assertRaisesRegex(ValueError, text):
                kith.knn_graph(holes, 1)
        holes = frame.astype("float64")
        holes.loc[1, "size"] = float("nan")
        with self.assertRaisesRegex(ValueError, r"^X\[1, 0\] is NaN"):
            kith.knn_graph(holes, 1)
        words = frame.assign(count=list("abcd"))
        with self.assertRaisesRegex(ValueError, r"^queries\[0, 1\] \(column 'count'\) is 'a'"):
            kith.knn(frame, words, 1)

    def test_without_scipy_it_is_said_who_needs_it(self):
        graph = kith.Graph(*kith.knn_graph(support.points(9, 2), 2), metric="euclidean")
        ranges = kith.radius_neighbors(support.points(9, 2), radius=1.0)
        with mock.patch.dict(sys.modules, {"scipy": None, "scipy.sparse": None}):
            for what, call in ("Graph", graph.to_csr), ("Ranges", ranges.to_csr):
                text = rf"^{what}.to_csr needs SciPy \(pip install scipy\)$"
                with self.assertRaisesRegex(ImportError, text):
                    call()

    def test_memory_is_spoken_of_in_the_words_of_the_call(self):
        x = support.points(2000, 20)
        graph, flat = kith.knn_graph(x, 5), x[:, :3].copy()
        parts = kith.knn_graph(x[:1000], 5), kith.knn_graph(x[1000:], 5)
        said = 0
        for limit in 100, 5000, 20000, 100000, 300000, 1000000:
            for call in (
                lambda: kith.knn_graph(x, 5, memory_limit=limit),
                lambda: kith.knn_graph(x, 5, memory_limit=limit, algorithm="nn_descent"),
                lambda: kith.knn(x, x, 5, memory_limit=limit, metric="manhattan"),
                lambda: kith.Index(flat, memory_limit=limit, method="tree"),
                lambda: kith.Index(x, graph=graph, memory_limit=limit),
                lambda: kith.radius_neighbors(x, radius=1, memory_limit=limit),
                lambda: kith.recall(graph, X=x, memory_limit=limit),
                lambda: kith.merge(x, *parts, memory_limit=limit),
                lambda: kith.select_k(x, 5, memory_limit=limit),
            ):
                try:
                    call()
                except MemoryError as error:
                    said += 1
                    text = (
                        rf"^memory_limit is {limit} bytes, and the call takes \d+ or more "
                        r"\(raise it, or ask for less at once\)$"
                    )
                    self.assertRegex(str(error), text)
        self.assertGreater(said, 20)

    def test_a_wrong_library_says_what_to_do(self):
        import _ctypes
        import subprocess
        import sys

        other = _ctypes.__file__  # a library, and none of kith
        for path, text in (
            ("/nowhere/libkith.so", "let KITH_LIBRARY name libkith.so"),
            (other, f"ImportError: {other} is not the library of this package: it lacks kith_"),
        ):
            environment = dict(os.environ, KITH_LIBRARY=path)
            words = [sys.executable, "-c", "import kith"]
            ran = subprocess.run(words, env=environment, capture_output=True, text=True)
            self.assertIn(text, ran.stderr)


if __name__ == "__main__":
    unittest.main()
