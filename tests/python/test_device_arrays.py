# SPDX-License-Identifier: Apache-2.0
"""Arrays on a GPU, where there is none: host memory that calls itself a device's, and calls of the
library for device memory that are those for host memory. check_cuda.py has the true ones."""

import os
import pathlib
import unittest
from unittest import mock

import kith
import numpy as np
import support
from kith import _cuda, _kept, _places, _radius, _small
from kith import _structs as s
from kith._library import lib
from support import Maker, Pretended


streams = []
enqueued = []


def host_call(name):
    def call(context, *arguments):
        if name == "kith_index_search" and arguments[1] is None:  # it asks nothing
            return lib.kith_cuda_index_search(context, *arguments)
        streams.append(getattr(arguments[-1], "value", arguments[-1]))
        if name == "kith_index_search":
            params = arguments[2]
            params = s.SearchParams.from_address(params) if type(params) is int else params._obj
            enqueued.append(bool(params.flags & s.ENQUEUE))
            params.flags &= ~s.ENQUEUE
        if name in ("kith_radius", "kith_index_radius"):  # memory of the host, which is the device
            arguments[2]._obj.flags &= ~0x10
        report = (None,) if name in ("kith_search", "kith_index_search") else ()
        return getattr(lib, name)(context, *arguments[:-1], *report)

    call.__name__ = name

    return call


NAMES = (
    "search",
    "graph",
    "select",
    "index_create",
    "index_search",
    "graph_merge",
    "radius",
    "index_radius",
)


class Library:
    """The library, whose calls for device memory are those for the host's."""

    def __init__(self):
        for name in NAMES:
            setattr(self, f"kith_cuda_{name}", host_call(f"kith_{name}"))

    def __getattr__(self, name):
        return getattr(lib, name)


LIBRARY = Library()


def pretended(test):
    for module in _cuda, _radius, _kept, _small:
        test = mock.patch.object(module, "lib", LIBRARY)(test)
    return mock.patch.object(_places, "maker", Maker)(test)


class OnDevice(unittest.TestCase):
    """Points that pretend to lie on a GPU, and what is found of them compared with the host's."""

    def setUp(self):
        self.x, self.q = support.points(400, 8), support.points(30, 8, seed=1)
        self.on_gpu = Pretended(self.x)

    def assert_same(self, found, truth):
        for part, other in zip(found, truth, strict=True):
            self.assertEqual(part.array.tobytes(), other.tobytes())


@pretended
class DeviceArrays(OnDevice):
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
        for other in Pretended(self.q.astype(np.float64)), Pretended(self.x[:60:2, :]):
            index.add(other)  # of another type, and rows that stand apart: by way of the host
            index.remove(np.arange(429, 459))
        index.add(Pretended(self.q[:0]))
        rows = np.delete(np.concatenate([self.x, self.q]), 3, axis=0)
        self.assert_same(index.search(Pretended(self.q), 4), kith.knn(rows, self.q, 4))
        with self.assertRaisesRegex(ValueError, "does not hold|columns"):
            index.add(Pretended(self.x[:, :3].copy()))

    def test_an_index_within_a_radius_and_under_a_filter(self):
        index, asked = kith.Index(self.on_gpu, device="cpu"), Pretended(self.q)
        tree = kith.Index(self.on_gpu, method="tree", device="cpu")
        some, of = np.arange(400) % 3 > 0, np.arange(30) % 4
        filters = {"allow": some}, {"groups": np.arange(400) % 4, "query_groups": of}
        for each in index, tree:
            Maker.copies.clear()
            truth = kith.knn(self.x, self.q, 6, radius=2.5)
            self.assertTrue((truth.indices == -1).any() and (truth.indices >= 0).any())
            self.assert_same(each.search(asked, 6, radius=2.5), truth)
            seen = []
            each.search(asked, 6, progress=lambda *told: seen.append(told))
            self.assert_ranges(
                each.radius(asked, 2.5), kith.radius_neighbors(self.x, self.q, radius=2.5)
            )
            self.assertEqual((streams[-1], Maker.copies), (7, []))
            for given in filters:
                found = each.radius(asked, 2.5, **given)
                self.assert_ranges(
                    found, kith.radius_neighbors(self.x, self.q, radius=2.5, **given)
                )
                self.assertIsNone(found.exact)
                self.assert_same(
                    each.search(asked, 6, **given), kith.knn(self.x, self.q, 6, **given)
                )
            self.assertEqual(Maker.copies, [])
        host = kith.Index(self.x, device="cpu")
        self.assert_same(host.search(asked, 3), kith.knn(self.x, self.q, 3))
        self.assert_ranges(
            host.radius(asked, 2.0), kith.radius_neighbors(self.x, self.q, radius=2.0)
        )

    def test_an_index_is_changed_by_rows_there(self):
        for method in "exact", "tree", "graph":
            how = {"k": 20} if method == "graph" else {}
            index, truth = (
                kith.Index(self.on_gpu, method=method, device="cpu", **how),
                kith.Index(self.x, method=method, device="cpu", **how),
            )
            for each, rows, ids in (
                (index, Pretended(self.q), Pretended(np.array([3, 401]))),
                (truth, self.q, [3, 401]),
            ):
                each.add(rows)
                each.remove(ids)
            found = index.search(Pretended(self.q), 4)
            self.assert_same(found, truth.search(self.q, 4))
            self.assertEqual(index.shape, (428, 8))

    def assert_ranges(self, found, truth):
        self.assertEqual(found.offsets.array.tobytes(), truth.offsets.tobytes())
        self.assertEqual(found.indices.array.tobytes(), truth.indices.tobytes())
        self.assertEqual(found.distances.array.tobytes(), truth.distances.tobytes())
        self.assertEqual(found.metric, truth.metric)

    def test_all_within_a_radius(self):
        asked, cpu = Pretended(self.q), {"device": "cpu"}
        radii = np.linspace(1.0, 3.0, 30)
        groups = {"groups": np.arange(400) % 4, "query_groups": np.arange(30) % 4}
        Maker.copies.clear()
        for options in (
            {"radius": 2.0},
            {"radius": radii, "metric": "manhattan"},
            {"radius": 2.5, **groups},
            {"radius": 2.5, "rule": "other", **groups},
            {"radius": 2.5, "allow": np.arange(400) < 200},
        ):
            found = kith.radius_neighbors(self.on_gpu, asked, **options, **cpu)
            self.assert_ranges(found, kith.radius_neighbors(self.x, self.q, **options))
            self.assertEqual(streams[-1], 7)
        own = kith.radius_neighbors(self.on_gpu, radius=2.0, include_self=True, **cpu)
        self.assert_ranges(own, kith.radius_neighbors(self.x, radius=2.0, include_self=True))
        counted = kith.radius_neighbors(self.on_gpu, asked, radius=2.0, count_only=True, **cpu)
        truth = kith.radius_neighbors(self.x, self.q, radius=2.0)
        self.assertEqual(counted.offsets.array.tobytes(), truth.offsets.tobytes())
        none = kith.radius_neighbors(self.on_gpu, Pretended(self.q[:0]), radius=2.0, **cpu)
        self.assertEqual((len(none), none.indices.array.size), (0, 0))
        self.assertEqual(Maker.copies, [])
        there = kith.radius_neighbors(self.on_gpu, asked, radius=Pretended(radii), **cpu)
        self.assert_ranges(there, kith.radius_neighbors(self.x, self.q, radius=radii))
        self.assertEqual(
            there[3].indices.array.tolist(),
            there.indices.array[slice(*there.offsets.array[3:5])].tolist(),
        )
        self.assertEqual(
            (there.to_csr() != kith.radius_neighbors(self.x, self.q, radius=radii).to_csr()).nnz, 0
        )
        for error, text, call in (
            (
                ValueError,
                "queries must lie where corpus does, on the GPU",
                lambda **o: kith.radius_neighbors(self.on_gpu, self.q, **o),
            ),
            (
                ValueError,
                "queries must lie where corpus does, in host",
                lambda **o: kith.radius_neighbors(self.x, asked, **o),
            ),
            (
                ValueError,
                "queries lies on cuda:1 and corpus on cuda:0",
                lambda **o: kith.radius_neighbors(self.on_gpu, Pretended(self.q, 1), **o),
            ),
            (
                ValueError,
                "contiguous rows",
                lambda **o: kith.radius_neighbors(Pretended(self.x.T), **o),
            ),
            (
                ValueError,
                "type <i4",
                lambda **o: kith.radius_neighbors(Pretended(self.x.astype("i4")), **o),
            ),
        ):
            with self.assertRaisesRegex(error, text):
                call(radius=1.0)

    def test_filters_stay_there(self):
        Maker.copies.clear()
        asked, groups = Pretended(self.q), np.arange(400) % 4
        for where in (lambda x: x), Pretended:
            for given in (
                {"groups": groups, "query_groups": np.arange(30) % 4},
                {"groups": groups, "rule": "each"},
                {"allow": groups > 0, "radius": 2.5, "exclude": np.arange(30)},
            ):
                there = {
                    name: where(each) if isinstance(each, np.ndarray) else each
                    for name, each in given.items()
                }
                found = kith.knn(self.on_gpu, asked, 3, device="cpu", **there)
                self.assert_same(found, kith.knn(self.x, self.q, 3, **given))
        others = {"groups": Pretended(groups), "rule": "other"}
        found = kith.knn_graph(self.on_gpu, 3, device="cpu", **others)
        self.assert_same(found, kith.knn_graph(self.x, 3, groups=groups, rule="other"))
        with self.assertRaisesRegex(ValueError, "queries must lie where corpus does"):
            kith.knn(self.on_gpu, self.q, 3, allow=groups > 0)
        self.assertEqual(set(Maker.copies), {groups.nbytes, 30 * 8, 400})  # numbers and bits
        self.assertEqual(Maker.copies.count(groups.nbytes), 1)  # by rule each
        Maker.copies.clear()
        narrow = Pretended(groups.astype(np.uint8))
        of = {"query_groups": Pretended(np.arange(30) % 4), "rule": "other"}
        found = kith.knn(self.on_gpu, asked, 3, groups=narrow, device="cpu", **of)
        of["query_groups"] = of["query_groups"].array
        self.assert_same(found, kith.knn(self.x, self.q, 3, groups=groups, **of))
        self.assertEqual(Maker.copies, [])
        for wrong in groups[1:], groups.astype(float), groups > 0, groups.reshape(20, 20):
            with self.assertRaisesRegex(ValueError, "groups must be 400 integers"):
                kith.knn_graph(self.on_gpu, 3, groups=Pretended(wrong), device="cpu")
        with self.assertRaisesRegex(ValueError, r"groups\[0\] is -1, must be at least 0"):
            kith.knn_graph(self.on_gpu, 3, groups=Pretended(groups - 1), device="cpu")
        out = Pretended(np.empty((30, 3))), Pretended(np.empty((30, 3), np.uint32))
        found = kith.knn(self.on_gpu, asked, 3, allow=groups > 0, out=out, device="cpu")
        self.assertIs(found.distances, out[0])
        truth = kith.knn(self.x, self.q, 3, allow=groups > 0)
        np.testing.assert_array_equal(out[1].array, truth.indices)
        self.assertIsNone(found.exact)
        with self.assertRaisesRegex(ValueError, "corpus must lie where the other matrix does"):
            kith.knn(self.x, asked, 3, allow=groups > 0)
        with self.assertRaises(MemoryError):
            kith.knn(
                self.on_gpu, asked, 3, allow=groups > 0, memory_limit=1000, device="cpu"
            )

    def test_within_a_radius_there(self):
        Maker.copies.clear()
        for how in {}, {"metric": "cosine"}, {"metric": "inner_product"}:
            radius = 0.4 if how.get("metric") == "cosine" else 2.0
            truth = kith.knn(self.x, self.q, 40, radius=radius, **how)
            self.assertTrue((truth.indices == -1).any())
            found = kith.knn(self.on_gpu, Pretended(self.q), 40, radius=radius, device="cpu", **how)
            self.assert_same(found, truth)
        self.assert_same(
            kith.knn_graph(self.on_gpu, 9, radius=2.0, device="cpu"),
            kith.knn_graph(self.x, 9, radius=2.0),
        )
        seen = []
        kith.knn_graph(self.on_gpu, 9, device="cpu", progress=lambda *told: seen.append(told))
        self.assertTrue(seen)
        self.assertEqual(Maker.copies, [])
        with self.assertRaisesRegex(ValueError, "radius"):
            kith.knn_graph(self.on_gpu, 5, radius=-1.0, device="cpu")

    def test_what_is_done_on_the_host_is_given_back(self):
        there = [Pretended(each) for each in kith.knn_graph(self.x, 5)]
        truth = kith.knn_graph(self.x, 5)
        gone = np.array([3, 17])
        for ids in gone, Pretended(gone), Pretended(np.isin(np.arange(400), gone)):
            rest = kith.remove(self.on_gpu, there, ids)
            self.assert_same(rest, kith.remove(self.x, tuple(truth), gone))
        self.assertEqual(kith.recall(there, there), kith.recall(truth, tuple(truth)))
        self.assertEqual(kith.recall(there, X=self.on_gpu), kith.recall(tuple(truth), X=self.x))
        near, same = kith.pairs(self.on_gpu, radius=2.0), kith.pairs(self.x, radius=2.0)
        self.assert_same(near.all(), same.all())
        for chunk, other in zip(near, same, strict=True):
            self.assert_same(chunk, other)
        self.assertEqual(near.keep().array.tolist(), same.keep().tolist())
        self.assertEqual(near.components().array.tolist(), same.components().tolist())
        self.assertEqual(near.count(), same.count())
        self.assert_same(
            kith.pairs(self.on_gpu, Pretended(self.q), radius=2.0).all(),
            kith.pairs(self.x, self.q, radius=2.0).all(),
        )
        found = kith.truth(self.on_gpu, Pretended(self.q), radius=2.0)
        self.assert_same_ranges(found, kith.truth(self.x, self.q, radius=2.0))
        parts = [self.x[:150], self.x[150:]]
        for corpus in self.on_gpu, [Pretended(part) for part in parts]:
            self.assert_same(kith.truth(corpus, Pretended(self.q), 4), kith.truth(parts, self.q, 4))
        halves = kith.knn_graph(self.x[:250], 8), kith.knn_graph(self.x[250:], 6)
        lists = [tuple(Pretended(each) for each in half) for half in halves]
        for how in {"algorithm": "brute"}, {"verify": True}:
            self.assert_same(
                kith.merge(self.on_gpu, *lists, **how),
                kith.merge(self.x, *map(tuple, halves), **how),
            )

    def assert_same_ranges(self, found, wanted):
        for part in "distances", "indices", "offsets":
            self.assert_same([getattr(found, part)], [getattr(wanted, part)])
        self.assertEqual(found.exact, wanted.exact)

    def test_periodic_boxes_stay_there(self):
        inside = np.abs(self.x) % 9
        there, box = Pretended(inside), {"period": 9.0, "device": "cpu"}
        for method in "auto", "kd_tree":
            how = {"algorithm": method, **box}
            found = kith.knn(there, there, 4, **how)
            self.assert_same(found, kith.knn(inside, inside, 4, **how))
            self.assertIsNone(found.exact)
            found = kith.knn_graph(there, 4, **how)
            self.assert_same(found, kith.knn_graph(inside, 4, **how))
            self.assertIsNone(found.exact)
            near = kith.radius_neighbors(there, radius=2.5, **how)
            self.assert_same_ranges(near, kith.radius_neighbors(inside, radius=2.5, **how))
        found = kith.Index(there, method="tree", **box).search(there, 4)
        self.assert_same(found, kith.knn(inside, inside, 4, **box))
        self.assertIsNone(found.exact)

    def test_functions_and_first_graphs_go_by_way_of_the_host(self):
        def far(one, other):
            return float(np.abs(one - other).sum())

        x, q = self.x[:60], self.q[:5]
        there, asked = Pretended(x), Pretended(q)
        how = {"metric": far}
        self.assert_same(kith.knn(there, asked, 3, **how), kith.knn(x, q, 3, **how))
        self.assert_same(kith.knn_graph(there, 3, **how), kith.knn_graph(x, 3, **how))
        self.assert_ranges(
            kith.radius_neighbors(there, asked, radius=4.0, **how),
            kith.radius_neighbors(x, q, radius=4.0, **how),
        )
        nearest = kith.NearestNeighbors(3, metric=far)
        truth = nearest.fit(x).kneighbors(q)
        self.assert_same(nearest.fit(there).kneighbors(asked), truth)
        first = kith.knn_graph(self.x, 6)
        descent = {"algorithm": "nn_descent", "random_state": 2}
        truth = kith.knn_graph(self.x, 6, init=first, **descent)
        for init in tuple(Pretended(each) for each in first), Pretended(first.indices):
            self.assert_same(kith.knn_graph(self.on_gpu, 6, init=init, **descent), truth)

    def test_both_sides_are_refused(self):
        there = [Pretended(each) for each in kith.knn_graph(self.x, 5)]
        graph = kith.knn_graph(self.x, 5)
        other = [Pretended(each.array, 1) for each in there]
        asked = Pretended(self.q)
        for text, call in (
            (
                "graph must lie where X does, on the GPU",
                lambda: kith.remove(self.on_gpu, graph, [1]),
            ),
            ("graph must lie where X does, in host", lambda: kith.remove(self.x, there, [1])),
            ("graph lies on cuda:1 and X on cuda:0", lambda: kith.remove(self.on_gpu, other, [1])),
            ("truth must lie where found does, on", lambda: kith.recall(there, graph)),
            ("truth must lie where found does, in", lambda: kith.recall(graph, there)),
            ("found must lie where found does", lambda: kith.recall((graph[0], there[1]), graph)),
            ("X must lie where found does, on the GPU", lambda: kith.recall(there, X=self.x)),
            ("truth lies on cuda:1 and found on", lambda: kith.recall(there, other)),
            ("Y must lie where X does", lambda: kith.pairs(self.on_gpu, self.q, radius=1.0)),
            ("Y must lie where X does, in", lambda: kith.pairs(self.x, asked, radius=1.0)),
            ("corpus must lie where queries does, on", lambda: kith.truth(self.x, asked, 3)),
            ("corpus.1. must lie where", lambda: kith.truth([self.on_gpu, self.x], asked, 3)),
        ):
            with self.assertRaisesRegex(ValueError, text):
                call()

    def test_estimators_keep_what_lies_there(self):
        asked, cpu = Pretended(self.q), {"device": "cpu"}
        for algorithm in "auto", "brute", "kd_tree":
            how = {"n_neighbors": 4, "algorithm": algorithm, "radius": 2.0, **cpu}
            found = kith.NearestNeighbors(**how).fit(self.on_gpu)
            truth = kith.NearestNeighbors(**how).fit(self.x)
            Maker.copies.clear()
            self.assertEqual((found.n_features_in_, found.n_samples_fit_), (8, 400))
            for _ in range(3):  # from the second search on there is an index
                self.assert_same(found.kneighbors(asked), truth.kneighbors(self.q))
            self.assert_same(found.kneighbors(), truth.kneighbors())
            if algorithm != "kd_tree":
                for rows, others in (None, None), (asked, self.q):
                    lists, right = found.radius_neighbors(rows), truth.radius_neighbors(others)
                    for one, two in zip(lists, right):
                        self.assertEqual(
                            [each.array.tolist() for each in one], [each.tolist() for each in two]
                        )
            self.assertLessEqual(sum(Maker.copies), 8 * (401 + 31))  # offsets of lists
            for rows, others in (None, None), (asked, self.q):
                self.assertEqual(
                    (found.kneighbors_graph(rows) != truth.kneighbors_graph(others)).nnz, 0
                )
        found.fit(self.x)
        self.assertIsInstance(found.kneighbors(self.q).indices, np.ndarray)
        with self.assertRaisesRegex(
            ValueError, "X must lie where the fitted X does, in host memory"
        ):
            found.kneighbors(asked)
        found.fit(self.on_gpu)
        for text, call in (
            ("X must lie where the fitted X does, on", lambda: found.kneighbors(self.q)),
            ("X must lie where the fitted X does, on", lambda: found.radius_neighbors(self.q)),
            (
                "X lies on cuda:1 and the fitted X on",
                lambda: found.kneighbors(Pretended(self.q, 1)),
            ),
            (
                "X has 3 features, but NearestNeigh",
                lambda: found.kneighbors(Pretended(self.q[:, :3].copy())),
            ),
            ("X has 0 rows", lambda: found.fit(Pretended(self.x[:0]))),
            ("X is of type <i4", lambda: found.fit(Pretended(self.x.astype("i4")))),
            ("contiguous rows", lambda: found.fit(Pretended(self.x.T))),
            ("Expected n_neighbors <=", lambda: found.kneighbors(asked, 401)),
        ):
            with self.assertRaisesRegex(ValueError, text):
                call()

    def test_estimators_by_descent(self):
        how = {"n_neighbors": 5, "algorithm": "nn_descent", "random_state": 3, "device": "cpu"}
        found = kith.NearestNeighbors(**how).fit(self.on_gpu)
        truth = kith.NearestNeighbors(**how).fit(self.x)
        self.assert_same(found.kneighbors(), truth.kneighbors())
        for _ in range(2):
            self.assert_same(found.kneighbors(Pretended(self.q)), truth.kneighbors(self.q))

    def test_estimators_of_labels_and_transformers(self):
        cpu, asked = {"device": "cpu"}, Pretended(self.q)
        labels = (self.x[:, 0] > 0).astype(np.int64) + (self.x[:, 1] > 1)
        for model, y in (
            (kith.KNeighborsClassifier, labels),
            (kith.KNeighborsRegressor, self.x[:, :2].copy()),
        ):
            for weights in "uniform", "distance", lambda distances: distances + 1:
                truth = model(3, weights=weights, **cpu).fit(self.x, y)
                host = model(3, weights=weights, **cpu).fit(self.on_gpu, y)
                there = model(3, weights=weights, **cpu).fit(self.on_gpu, Pretended(y))
                right = truth.predict(self.q)
                turned = right[::-1].copy()
                np.testing.assert_array_equal(host.predict(asked), right)
                np.testing.assert_array_equal(there.predict(asked).array, right)
                score = truth.score(self.q, turned)
                self.assertEqual(host.score(asked, turned), score)
                self.assertEqual(there.score(asked, Pretended(turned)), score)
                if model is kith.KNeighborsClassifier:
                    np.testing.assert_array_equal(
                        there.predict_proba(asked), truth.predict_proba(self.q)
                    )
            for wrong, text in (y[:7], "inconsistent"), (None, "requires y"):
                with self.assertRaisesRegex(ValueError, text):
                    model().fit(self.on_gpu, wrong)
        for made in (
            kith.KNeighborsTransformer(n_neighbors=4, **cpu),
            kith.KNeighborsTransformer(n_neighbors=4, mode="connectivity", **cpu),
            kith.KNeighborsTransformer(n_neighbors=4, metric="inner_product", **cpu),
            kith.RadiusNeighborsTransformer(radius=2.0, **cpu),
        ):
            truth = made.fit_transform(self.x), made.transform(self.q)
            self.assertEqual((made.fit_transform(self.on_gpu) != truth[0]).nnz, 0)
            self.assertEqual((made.transform(asked) != truth[1]).nnz, 0)

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
            (ValueError, "250 and 250 points, X has 400", lambda x: kith.merge(x, one, one)),
            (ValueError, "second: indices must be -1 to", lambda x: kith.merge(x, one, beyond)),
            (ValueError, "second: indices are <f4", lambda x: kith.merge(x, one, floats)),
            (ValueError, "both must have the same", lambda x: kith.merge(x, one, narrow)),
            (TypeError, "first must be .distances", lambda x: kith.merge(x, 5, two)),
        ):
            with self.assertRaisesRegex(error, text):
                call(self.on_gpu)
        self.assertEqual(streams, [])
        with self.assertRaisesRegex(ValueError, "second lies on cuda:1 and X on cuda:0"):
            kith.merge(self.on_gpu, one, (two[0], Pretended(two[1].array, 1)))

    def test_what_cannot_be_is_said(self):
        for error, text, call in (
            (
                ValueError,
                "init must lie where X does, on the GPU",
                lambda: kith.knn_graph(self.on_gpu, 5, init=kith.knn_graph(self.x, 5)),
            ),
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


@pretended
class Page(unittest.TestCase):
    """The table of docs/where.md of arrays on a GPU; KITH_WRITE_PAGES in the environment: it is written."""

    def works(self):
        x, q = support.points(400, 8), support.points(30, 8, seed=1)
        there, asked = Pretended(x), Pretended(q)
        box = Pretended(np.abs(x) % 9)
        parts = [
            tuple(Pretended(np.asarray(each)) for each in kith.knn_graph(part, 5))
            for part in (x[:200], x[200:])
        ]
        whole = tuple(Pretended(np.asarray(each)) for each in kith.knn_graph(x, 5))
        groups = {"groups": np.zeros(400, int), "query_groups": np.zeros(30, int)}
        allow = np.arange(400) > 7
        cpu = {"device": "cpu"}  # what pretends to be a GPU's library computes there
        numbers = Pretended(np.arange(400) % 3)

        def index(**how):
            return kith.Index(there, **how, **cpu)

        def changed(name, rows):
            made = index()
            getattr(made, name)(rows)
            return made.search(asked, 3)

        def fitted(model, *labels, **how):
            return model(**how, **cpu).fit(there, *labels)

        def far(one, other):
            return float(np.abs(one - other).sum())

        def tree_of_points():
            return kith.knn(there, asked, 4, algorithm="kd_tree", **cpu)

        classes, values = kith.KNeighborsClassifier, kith.KNeighborsRegressor
        descent = {"algorithm": "nn_descent"}
        return [
            ("knn", lambda: kith.knn(there, asked, 4, **cpu)),
            ("knn(algorithm='kd_tree')", tree_of_points),
            ("knn(radius=)", lambda: kith.knn(there, asked, 4, radius=1.0, **cpu)),
            ("knn(groups=), of small groups", lambda: kith.knn(there, asked, 4, **groups, **cpu)),
            ("knn(allow=), of few rows", lambda: kith.knn(there, asked, 4, allow=allow, **cpu)),
            ("knn(period=)", lambda: kith.knn(box, box, 4, period=9.0, **cpu)),
            ("knn_graph", lambda: kith.knn_graph(there, 4, **cpu)),
            ("knn_graph(radius=)", lambda: kith.knn_graph(there, 4, radius=1.0, **cpu)),
            (
                "knn_graph(algorithm='nn_descent')",
                lambda: kith.knn_graph(there, 4, **descent, **cpu),
            ),
            ("knn_graph(init=)", lambda: kith.knn_graph(there, 4, init=whole, **cpu)),
            ("radius_neighbors", lambda: kith.radius_neighbors(there, asked, radius=1.0, **cpu)),
            (
                "radius_neighbors(groups=, allow=)",
                lambda: kith.radius_neighbors(
                    there, asked, radius=1.0, allow=allow, **groups, **cpu
                ),
            ),
            (
                "radius_neighbors(period=)",
                lambda: kith.radius_neighbors(box, radius=2.0, period=9.0, **cpu),
            ),
            (
                "radius_neighbors(algorithm='kd_tree')",
                lambda: kith.radius_neighbors(there, radius=1.0, algorithm="kd_tree", **cpu),
            ),
            ("a function as metric", lambda: kith.knn(there, asked, 4, metric=far)),
            ("Index, Index.search", lambda: index().search(asked, 3)),
            ("Index(method='tree')", lambda: index(method="tree").search(asked, 3)),
            ("Index(method='graph')", lambda: index(method="graph").search(asked, 3)),
            ("Index.search(radius=)", lambda: index().search(asked, 3, radius=1.0)),
            (
                "Index.search(groups=, allow=), of small groups or one bitmap",
                lambda: index().search(asked, 3, allow=allow, **groups),
            ),
            ("Index.radius", lambda: index().radius(asked, 1.0)),
            ("Index.add, to an exact one of their type", lambda: changed("add", asked)),
            ("Index.remove", lambda: changed("remove", Pretended(np.array([3, 7])))),
            ("merge(algorithm='nn_descent')", lambda: kith.merge(there, *parts, 5, **cpu)),
            ("merge(algorithm='brute')", lambda: kith.merge(there, *parts, 5, algorithm="brute")),
            ("remove", lambda: kith.remove(there, whole, [3])),
            ("recall", lambda: kith.recall(whole, whole)),
            ("pairs", lambda: kith.pairs(there, radius=1.0).all()),
            ("truth", lambda: kith.truth(there, asked, 3)),
            ("truth(radius=)", lambda: kith.truth(there, asked, radius=1.0)),
            ("select_k", lambda: kith.select_k(there, 3, **cpu)),
            ("select_kth", lambda: kith.select_kth(there, 3, **cpu)),
            ("NearestNeighbors", lambda: fitted(kith.NearestNeighbors).kneighbors(asked)),
            (
                "NearestNeighbors(algorithm='nn_descent')",
                lambda: fitted(kith.NearestNeighbors, **descent).kneighbors(asked),
            ),
            ("KNeighborsClassifier", lambda: fitted(classes, numbers).predict(asked)),
            ("KNeighborsRegressor", lambda: fitted(values, numbers).predict(asked)),
            ("KNeighborsTransformer", lambda: fitted(kith.KNeighborsTransformer).transform(asked)),
        ]

    @staticmethod
    def went(answer):
        """How it went: where the answer lies, and what came to the host on the way."""
        parts = answer if isinstance(answer, tuple) else (answer,)
        if isinstance(answer, kith.Ranges):
            parts = answer.distances, answer.indices, answer.offsets
        by_host = "yes, by way of host memory" if Maker.copies else "yes"
        if all(isinstance(part, Pretended) for part in parts):
            return by_host
        if any(isinstance(part, Pretended) for part in parts):
            raise AssertionError("parts of the answer lie elsewhere")
        what = "SciPy's matrix" if hasattr(answer, "tocsr") else "numbers"
        return f"{by_host}; the answer, {what}, is the host's"

    def test_it_says_what_works(self):
        lines = ["| arrays on a GPU | |", "|---|---|"]
        for name, call in self.works():
            Maker.copies.clear()
            try:
                lines.append(f"| `{name}` | {self.went(call())} |")
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
