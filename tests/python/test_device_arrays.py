# SPDX-License-Identifier: Apache-2.0
"""Arrays on a GPU, where there is none: host memory that calls itself a device's, and calls of the
library for device memory that are those for host memory. check_cuda.py has the true ones."""

import os
import pathlib
import types
import unittest
from unittest import mock

import kith
import numpy as np
import support
from kith import _cuda
from kith._library import lib


class Pretended:
    """A NumPy array that says that it lies on a GPU."""

    def __init__(self, array):
        self.array = array
        self.shape = array.shape
        contiguous = array.flags.c_contiguous
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, False),
            "strides": None if contiguous else array.strides,
            "version": 3,
            "stream": 7,
        }


class Maker:
    """What CuPy is for its arrays."""

    stream = 5

    def __init__(self, index=0):
        self.index = int(index)

    def empty(self, shape, name):
        return Pretended(np.empty(shape, name))

    def wide(self, ids):
        return Pretended(ids.array.astype(np.int64))

    def ends(self, ids):
        return int(ids.array.min()), int(ids.array.max())

    def narrow(self, ids):
        return Pretended(np.ascontiguousarray(ids.array.astype(np.uint32)))


streams = []


def host_call(name):
    def call(context, *arguments):
        streams.append(arguments[-1].value)
        report = (None,) if name in ("kith_search", "kith_index_search") else ()
        return getattr(lib, name)(context, *arguments[:-1], *report)

    return call


LIBRARY = types.SimpleNamespace(
    kith_cuda_search=host_call("kith_search"),
    kith_cuda_graph=host_call("kith_graph"),
    kith_cuda_select=host_call("kith_select"),
    kith_cuda_index_create=host_call("kith_index_create"),
    kith_cuda_index_search=host_call("kith_index_search"),
    kith_index_free=lib.kith_index_free,
    kith_cuda_graph_merge=host_call("kith_graph_merge"),
)


@mock.patch.object(_cuda, "lib", LIBRARY)
@mock.patch.object(_cuda, "_maker", lambda array: Maker())
class DeviceArrays(unittest.TestCase):
    def setUp(self):
        self.x, self.q = support.points(400, 8), support.points(30, 8, seed=1)
        self.on_gpu = Pretended(self.x)

    def assert_same(self, found, truth):
        for part, other in zip(found, truth, strict=True):
            self.assertEqual(part.array.tobytes(), other.tobytes())

    def test_neighbours_lie_where_the_points_do(self):
        for dtype in np.float32, np.float64, np.float16, np.uint8, np.int8:
            x, q = support.points(100, 6, dtype), support.points(9, 6, dtype, seed=1)
            found = kith.knn(Pretended(x), Pretended(q), 4, device="cpu")
            self.assert_same(found, kith.knn(x, q, 4))
        self.assertEqual(streams[-1], 7)
        none = kith.knn(self.on_gpu, Pretended(self.q[:0]), 4, device="cpu")
        self.assertEqual(none.indices.array.shape, (0, 4))
        self.assert_same(kith.knn_graph(self.on_gpu, 5, device="cpu"), kith.knn_graph(self.x, 5))
        view = Pretended(self.x[::2, 1:7])
        self.assert_same(kith.knn_graph(view, 3, device="cpu"), kith.knn_graph(self.x[::2, 1:7], 3))
        excluded = kith.knn(self.on_gpu, self.on_gpu, 5, exclude=np.arange(400), device="cpu")
        self.assert_same(excluded, kith.knn_graph(self.x, 5))
        found = kith.knn_graph(
            self.on_gpu, 5, algorithm="nn_descent", metric="cosine", random_state=4, device="cpu"
        )
        truth = kith.knn_graph(self.x, 5, algorithm="nn_descent", metric="cosine", random_state=4)
        self.assert_same(found, truth)

    def test_an_index_is_where_its_points_are(self):
        index = kith.Index(self.on_gpu, device="cpu")
        truth = kith.knn(self.x, self.q, 4)
        self.assert_same(index.search(Pretended(self.q), 4, n_jobs=1), truth)
        on_host = index.search(self.q, 4)
        np.testing.assert_array_equal(on_host.indices, truth.indices)
        self.assertIsNone(on_host.fingerprint)
        some = Pretended(self.q[:1])
        self.assert_same(index.search(some, 4), kith.knn(self.x, self.q[:1], 4))
        left_out = np.arange(400, dtype=np.uint32)
        found = index.search(self.on_gpu, 5, exclude=left_out)
        self.assert_same(found, kith.knn_graph(self.x, 5))
        self.assertEqual(index.search(Pretended(self.q[:0]), 4).indices.array.shape, (0, 4))
        self.assertEqual((index.shape, index.method), ((400, 8), "exact"))
        with self.assertRaisesRegex(ValueError, "does not hold"):
            index.add(self.x.astype(np.float64) + 1e-9)
        index.add(self.q)
        index.remove([3])
        rows = np.delete(np.concatenate([self.x, self.q]), 3, axis=0)
        self.assert_same(index.search(Pretended(self.q), 4), kith.knn(rows, self.q, 4))
        for error, text, call in (
            (NotImplementedError, "radius", lambda: index.search(self.on_gpu, 3, radius=1.0)),
            (NotImplementedError, "progress", lambda: index.search(self.on_gpu, 3, progress=True)),
            (NotImplementedError, "allow", lambda: index.search(self.on_gpu, 3, allow=left_out > 3)),
            (NotImplementedError, "in host memory", lambda: index.radius(self.on_gpu, 1.0)),
            (NotImplementedError, "by 'graph'", lambda: kith.Index(self.on_gpu, method="graph")),
            (
                NotImplementedError,
                "by 'graph'",
                lambda: kith.Index(self.x, method="graph").search(self.on_gpu),
            ),
        ):
            with self.assertRaisesRegex(error, text):
                call()

    def test_a_tree_is_where_its_points_are(self):
        index = kith.Index(self.on_gpu, method="tree", height=3, device="cpu")
        truth = kith.knn(self.x, self.q, 4)
        self.assert_same(index.search(Pretended(self.q), 4), truth)
        np.testing.assert_array_equal(index.search(self.q, 4).indices, truth.indices)
        found = index.search(self.on_gpu, 5, exclude=np.arange(400))
        self.assert_same(found, kith.knn_graph(self.x, 5))
        self.assertEqual((index.shape, index.method), ((400, 8), "tree"))
        with self.assertRaisesRegex(ValueError, "tree_height|height"):
            kith.Index(self.on_gpu, method="tree", height=30, device="cpu")

    def test_out_and_selection(self):
        out = Pretended(np.empty((400, 5))), Pretended(np.empty((400, 5), np.uint32))
        given = kith.knn_graph(self.on_gpu, 5, out=out, device="cpu")
        self.assertIs(given.indices, out[1])
        truth = kith.knn_graph(self.x, 5)
        np.testing.assert_array_equal(out[1].array, truth.indices)
        found = kith.select_k(self.on_gpu, 3, largest=True, device="cpu")
        self.assert_same(found, kith.select_k(self.x, 3, largest=True))

    def parts(self, *dtypes):
        """Graphs of the first 250 points and of the others, on the host and there."""
        host = kith.knn_graph(self.x[:250], 8), kith.knn_graph(self.x[250:], 6)
        return host, [
            tuple(Pretended(each) for each in (graph.distances, graph.indices.astype(dtype)))
            for graph, dtype in zip(host, dtypes, strict=True)
        ]

    def test_a_merge_stays_there(self):
        how = {"algorithm": "nn_descent", "random_state": 3}
        for dtypes in (np.int64, np.int64), (np.int32, np.uint32):
            host, there = self.parts(*dtypes)
            streams.clear()
            found = kith.merge(self.on_gpu, *there, **how, device="cpu")
            truth = kith.merge(self.x, *map(tuple, host), **how)
            self.assert_same(found, truth)
            self.assertEqual((streams, found.exact, found.fingerprint), ([7], truth.exact, None))
            self.assertEqual((found.metric, found.indices.shape), ("euclidean", (400, 6)))
        published = {"rounds": 4, "tune": {"start": "ggm"}, "metric": "cosine", "k": 4}
        found = kith.merge(self.on_gpu, *there, **published, device="cpu")
        truth = kith.merge(self.x, *map(tuple, host), **published)
        self.assert_same(found, truth)
        out = Pretended(np.empty((400, 6))), Pretended(np.empty((400, 6), np.uint32))
        given = kith.merge(self.on_gpu, *there, **how, out=out, device="cpu")
        self.assertIs(given.indices, out[1])
        np.testing.assert_array_equal(out[1].array, kith.merge(self.x, *host, **how).indices)
        view = there[0][0], Pretended(host[0].indices[:, ::-1])
        found = kith.merge(self.on_gpu, view, there[1], **how, device="cpu")
        turned = host[0].distances, host[0].indices[:, ::-1]
        self.assert_same(found, kith.merge(self.x, turned, tuple(host[1]), **how))

    def test_a_merge_that_is_approximate_says_so(self):
        x = support.points(20000, 4)
        parts = [kith.knn_graph(x[rows], 4) for rows in (slice(9000), slice(9000, None))]
        there = [[Pretended(part) for part in graph] for graph in parts]
        how = {"rounds": 1, "tune": {"start": "random"}, "random_state": 2}
        found = kith.merge(Pretended(x), *there, **how, device="cpu")
        self.assert_same(found, kith.merge(x, *parts, **how))
        self.assertIs(found.exact, False)

    def test_a_merge_knows_the_metric_of_its_graphs(self):
        there = [
            kith.knn_graph(Pretended(part), 5, metric="manhattan", device="cpu")
            for part in (self.x[:250], self.x[250:])
        ]
        how = {"algorithm": "nn_descent", "device": "cpu"}
        self.assertEqual(kith.merge(self.on_gpu, *there, **how).metric, "manhattan")
        with self.assertRaisesRegex(
            ValueError, "first is of the metric manhattan, asked for is cosine"
        ):
            kith.merge(self.on_gpu, *there, metric="cosine", **how)

    def test_what_a_merge_cannot_is_said(self):
        host, (one, two) = self.parts(np.int64, np.int64)
        beyond = two[0], Pretended(two[1].array + 2**32)
        floats = two[0], two[0]
        narrow = two[0], Pretended(two[1].array[:, :3])
        half = host[0].distances, one[1]
        streams.clear()
        for error, text, call in (
            (
                ValueError,
                "first must lie where X does, on the",
                lambda x: kith.merge(x, host[0], two),
            ),
            (
                ValueError,
                "second must lie where X does, on the",
                lambda x: kith.merge(x, one, host[1]),
            ),
            (ValueError, "first must lie where X does, on the", lambda x: kith.merge(x, half, two)),
            (
                ValueError,
                "first must lie where X does, on the",
                lambda x: kith.merge(x, kith.Graph(host[0]), two),
            ),
            (
                ValueError,
                "first must lie where X does, in host memory .copy",
                lambda x: kith.merge(self.x, one, two),
            ),
            (NotImplementedError, "verify", lambda x: kith.merge(x, one, two, verify=True)),
            (NotImplementedError, "progress", lambda x: kith.merge(x, one, two, progress=True)),
            (NotImplementedError, "a function", lambda x: kith.merge(x, one, two, metric=min)),
            (ValueError, "250 and 250 points, X has 400", lambda x: kith.merge(x, one, one)),
            (ValueError, "second: indices must be -1 to", lambda x: kith.merge(x, one, beyond)),
            (ValueError, "second: indices are <f4", lambda x: kith.merge(x, one, floats)),
            (ValueError, "both must have the same", lambda x: kith.merge(x, one, narrow)),
            (TypeError, "first must be .distances", lambda x: kith.merge(x, 5, two)),
        ):
            with self.assertRaisesRegex(error, text):
                call(self.on_gpu)
        self.assertEqual(streams, [])
        with mock.patch.object(_cuda, "_maker", lambda array: Maker(array is two[1])):
            with self.assertRaisesRegex(ValueError, "second lies on cuda:1 and X on cuda:0"):
                kith.merge(self.on_gpu, one, two)

    def test_what_cannot_be_is_said(self):
        for error, text, call in (
            (NotImplementedError, "radius", lambda: kith.knn_graph(self.on_gpu, 5, radius=1.0)),
            (
                NotImplementedError,
                "progress",
                lambda: kith.knn_graph(self.on_gpu, 5, progress=True),
            ),
            (NotImplementedError, "a function", lambda: kith.knn_graph(self.on_gpu, 5, metric=min)),
            (ValueError, "must lie where", lambda: kith.knn(self.on_gpu, self.q, 5)),
            (ValueError, "contiguous rows", lambda: kith.knn_graph(Pretended(self.x.T), 5)),
            (ValueError, "2 axes|must have 2", lambda: kith.knn_graph(Pretended(self.x[0]), 5)),
            (ValueError, "type <i4", lambda: kith.knn_graph(Pretended(self.x.astype("i4")), 5)),
            (
                ValueError,
                "^out: ",
                lambda: kith.knn_graph(self.on_gpu, 5, out=(self.on_gpu, self.on_gpu)),
            ),
            (NotImplementedError, "GPU", lambda: kith.knn_graph(self.on_gpu, 5, device="cuda:9")),
        ):
            with self.assertRaisesRegex(error, text):
                call()


class Page(unittest.TestCase):
    """The table of docs/where.md of arrays on a GPU; KITH_WRITE_PAGES in the environment: it is written."""

    def works(self):
        x, q = support.points(400, 8), support.points(30, 8, seed=1)
        there, asked = Pretended(x), Pretended(q)
        parts = [
            tuple(Pretended(np.asarray(each)) for each in kith.knn_graph(part, 5))
            for part in (x[:200], x[200:])
        ]
        whole = tuple(Pretended(np.asarray(each)) for each in kith.knn_graph(x, 5))
        groups = np.zeros(400, int), np.zeros(30, int)
        cpu = {"device": "cpu"}  # what pretends to be a GPU's library computes there
        return [
            ("knn", lambda: kith.knn(there, asked, 4, **cpu)),
            ("knn(algorithm='kd_tree')", lambda: kith.knn(there, asked, 4, algorithm="kd_tree", **cpu)),
            ("knn(radius=)", lambda: kith.knn(there, asked, 4, radius=1.0)),
            ("knn(groups=)", lambda: kith.knn(there, asked, 4, groups=groups[0], query_groups=groups[1])),
            ("knn_graph", lambda: kith.knn_graph(there, 4, **cpu)),
            (
                "knn_graph(algorithm='nn_descent')",
                lambda: kith.knn_graph(there, 4, algorithm="nn_descent", **cpu),
            ),
            ("radius_neighbors", lambda: kith.radius_neighbors(there, asked, radius=1.0)),
            ("Index, Index.search", lambda: kith.Index(there, **cpu).search(asked, 3)),
            ("Index(method='tree')", lambda: kith.Index(there, method="tree", **cpu).search(asked, 3)),
            ("Index.radius", lambda: kith.Index(there, **cpu).radius(asked, 1.0)),
            ("Index.add", lambda: kith.Index(there, **cpu).add(asked)),
            ("merge(algorithm='nn_descent')", lambda: kith.merge(there, *parts, 5, **cpu)),
            ("remove", lambda: kith.remove(there, whole, [3])),
            ("recall", lambda: kith.recall(whole, whole)),
            ("pairs", lambda: list(kith.pairs(there, radius=1.0))),
            ("truth", lambda: kith.truth(there, asked, 3)),
            ("select_k, select_kth", lambda: kith.select_k(there, 3, **cpu)),
            ("NearestNeighbors and other estimators", lambda: kith.NearestNeighbors().fit(there)),
        ]

    def test_it_says_what_works(self):
        lines = ["| arrays on a GPU | |", "|---|---|"]
        with (
            mock.patch.object(_cuda, "lib", LIBRARY),
            mock.patch.object(_cuda, "_maker", lambda array: Maker()),
        ):
            for name, call in self.works():
                try:
                    call()
                    lines.append(f"| `{name}` | yes |")
                except NotImplementedError as error:
                    lines.append(f"| `{name}` | {error} |")
        seen = "\n".join(lines) + "\n"
        page = pathlib.Path(__file__).resolve().parents[2] / "docs" / "where.md"
        if not page.exists():
            self.skipTest("the pages are not here")
        before, rest = page.read_text().split("<!-- begin device arrays -->\n")
        shown, after = rest.split("<!-- end device arrays -->")
        if os.environ.get("KITH_WRITE_PAGES"):
            marks = "<!-- begin device arrays -->\n", "<!-- end device arrays -->"
            page.write_text(before + marks[0] + seen + marks[1] + after)
        else:
            self.assertEqual(shown, seen)


if __name__ == "__main__":
    unittest.main()
