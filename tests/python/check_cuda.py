#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package on a GPU: what lies there stays there, and the bytes are the processor's.

usage: check_cuda.py LIBKITH.SO        beside libkith_cuda.so; exits with 77 where PyTorch has no GPU
"""

import os
import pathlib
import sys

os.environ["KITH_LIBRARY"] = str(pathlib.Path(sys.argv[1]).resolve())
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

try:
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
if not torch.cuda.is_available():
    print("skipped: PyTorch has no GPU")
    sys.exit(77)

import kith
import numpy as np
import support

try:
    import cupy
except ImportError:
    cupy = None


def same(found, truth):
    """The bytes of the processor, in tensors on the GPU."""
    for part, other in zip(found, truth):
        assert part.is_cuda, part.device
        np.testing.assert_array_equal(part.cpu().numpy(), other)


def refused(error, text, call):
    try:
        call()
    except error as told:
        assert text in str(told), told
    else:
        raise AssertionError(f"not refused: {text}")


def check_types():
    for dtype in (np.float32, np.float64, np.float16, np.uint8, np.int8):
        x, q = support.points(3000, 32, dtype), support.points(100, 32, dtype, seed=1)
        tensors = torch.from_numpy(x).cuda(), torch.from_numpy(q).cuda()
        same(kith.knn(*tensors, 10), kith.knn(x, q, 10, device="cpu"))
        same(kith.knn_graph(tensors[0], 10), kith.knn_graph(x, 10, device="cpu"))
    low = torch.from_numpy(support.points(500, 16)).to(torch.bfloat16)
    same(
        kith.knn_graph(low.cuda(), 5),
        (part.numpy() for part in kith.knn_graph(low, 5, device="cpu")),
    )


def check_views_and_streams():
    x = torch.from_numpy(support.points(2000, 40)).cuda()
    view = x[::2, 8:24]
    same(kith.knn_graph(view, 5), kith.knn_graph(view.cpu().numpy(), 5, device="cpu"))
    refused(ValueError, "contiguous rows", lambda: kith.knn_graph(x.T, 5))
    with torch.cuda.stream(torch.cuda.Stream()):
        late = torch.zeros_like(x)
        for _ in range(50):
            late = late * 0 + x  # still under way when kith is called
        same(kith.knn_graph(late, 5), kith.knn_graph(x.cpu().numpy(), 5, device="cpu"))
    needs_grad = x.clone().requires_grad_()
    same(kith.knn_graph(needs_grad, 5), kith.knn_graph(x.cpu().numpy(), 5, device="cpu"))


def check_searches_that_do_not_wait():
    x, q = support.points(20000, 40), support.points(300, 40, seed=1)
    there, asked = torch.from_numpy(x).cuda(), torch.from_numpy(q).cuda()
    truth = kith.knn(x, q, 10, device="cpu")
    index = kith.Index(there)
    for stream in torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream():
        with torch.cuda.stream(stream):
            for few in 300, 1:
                late = torch.zeros_like(asked[:few])
                for _ in range(50):
                    late = late * 0 + asked[:few]  # still under way when kith is called
                found = index.search(late, 10, wait=False)
                late *= 0  # comes behind
                same(found, (part[:few] for part in truth))
    index.wait()
    asked[7, 3] = float("nan")
    found = index.search(asked, 10, wait=False)
    assert (found.indices[7] == -1).all() and found.distances[7].isnan().all()
    same((part[8:] for part in found), (part[8:] for part in truth))
    refused(ValueError, "queries[7, 3]", index.wait)
    refused(ValueError, "NaN", lambda: index.search(asked, 10))
    index.wait()
    del index, there  # while it works
    found = kith.Index(torch.from_numpy(x).cuda()).search(asked[:5], 10, wait=False)
    same(found, (part[:5] for part in truth))


def manhattan(one, other):
    return float(np.abs(one - other).sum())


def lists_are_same(found, truth):
    same(
        (found.distances, found.indices, found.offsets),
        (truth.distances, truth.indices, truth.offsets),
    )


def check_radius():
    for dtype in np.float32, np.float64, np.uint8:
        x, q = support.points(4000, 24, dtype), support.points(300, 24, dtype, seed=1)
        there, asked = torch.from_numpy(x).cuda(), torch.from_numpy(q).cuda()
        radius = float(np.median(kith.knn(x, q, 9, device="cpu").distances[:, 8]))
        radii = np.linspace(0.9, 1.1, 300) * radius
        groups = {"groups": np.arange(4000) % 5, "query_groups": np.arange(300) % 5}
        for how in (
            {"radius": radius},
            {"radius": radii},
            {"radius": radius, **groups},
            {"radius": radius, "rule": "other", **groups},
            {"radius": radius, "allow": np.arange(4000) > 999},
            {"radius": 3 * radius, "metric": "manhattan"},
        ):
            truth = kith.radius_neighbors(x, q, device="cpu", **how)
            lists_are_same(kith.radius_neighbors(there, asked, **how), truth)
        own = {"radius": radius, "include_self": True}
        lists_are_same(
            kith.radius_neighbors(there, **own), kith.radius_neighbors(x, device="cpu", **own)
        )
        lists_are_same(
            kith.radius_neighbors(there, asked, radius=torch.from_numpy(radii).cuda()),
            kith.radius_neighbors(x, q, radius=radii, device="cpu"),
        )
    with torch.cuda.stream(torch.cuda.Stream()):
        late = torch.zeros_like(there)
        for _ in range(50):
            late = late * 0 + there  # still under way when kith is called
        truth = kith.radius_neighbors(x, radius=radius, device="cpu")
        lists_are_same(kith.radius_neighbors(late, radius=radius), truth)
    refused(ValueError, "must lie where", lambda: kith.radius_neighbors(there, q, radius=1.0))
    refused(ValueError, "contiguous", lambda: kith.radius_neighbors(there.T, radius=1.0))


def check_by_way_of_the_host():
    x, q = support.points(3000, 12), support.points(100, 12, seed=1)
    there, asked = torch.from_numpy(x).cuda(), torch.from_numpy(q).cuda()
    groups = np.arange(3000) % 5
    for how in (
        {"groups": groups, "query_groups": np.arange(100) % 5},
        {"groups": groups, "rule": "each"},
        {"allow": groups > 2, "radius": 3.0},
    ):
        truth = kith.knn(x, q, 4, device="cpu", **how)
        same(kith.knn(there, asked, 4, **how), truth)
        given = {
            n: torch.from_numpy(v).cuda() if hasattr(v, "shape") else v for n, v in how.items()
        }
        same(kith.knn(there, asked, 4, **given), truth)
    graph = kith.knn_graph(x, 8, device="cpu")
    lists = kith.knn_graph(there, 8)
    gone = np.arange(0, 3000, 60)
    rest = kith.remove(x, tuple(graph), gone, device="cpu")
    same(kith.remove(there, lists, torch.from_numpy(gone).cuda()), rest)
    assert kith.recall(lists, lists).recall == 1.0
    assert kith.recall(lists, X=there).recall == 1.0
    same(kith.pairs(there, radius=1.5).all(), kith.pairs(x, radius=1.5, device="cpu").all())
    same(kith.truth(there, asked, 5), kith.truth(x, q, 5, device="cpu"))
    halves = [kith.knn_graph(there[rows], 8) for rows in (slice(1000), slice(1000, None))]
    same(kith.merge(there, *halves, algorithm="brute"), kith.knn_graph(x, 8, device="cpu"))
    for call in (
        lambda: kith.remove(there, graph, gone),
        lambda: kith.recall(lists, graph),
        lambda: kith.pairs(there, q, radius=1.0),
        lambda: kith.truth(x, asked, 3),
        lambda: kith.knn(there, q, 3, allow=groups > 2),
    ):
        refused(ValueError, "must lie where", call)


def check_estimators():
    try:
        import sklearn  # noqa: F401
    except ImportError:
        return print("  scikit-learn is missing")
    x, q = support.points(3000, 12), support.points(100, 12, seed=1)
    there, asked = torch.from_numpy(x).cuda(), torch.from_numpy(q).cuda()
    labels = (x[:, 0] > 0).astype(np.int64)
    for algorithm in "auto", "brute", "kd_tree", "nn_descent":
        how = {"n_neighbors": 6, "algorithm": algorithm, "random_state": 1}
        found = kith.NearestNeighbors(**how).fit(there)
        truth = kith.NearestNeighbors(**how, device="cpu").fit(x)
        if algorithm == "nn_descent":  # of another device it is another graph, as good
            near = kith.knn(x, q, 6, device="cpu").indices
            met = (found.kneighbors(asked)[1].cpu().numpy()[:, :, None] == near[:, None]).any(2)
            assert met.mean() > 0.95, met.mean()
            continue
        for _ in range(3):
            same(found.kneighbors(asked), truth.kneighbors(q))
        same(found.kneighbors(), truth.kneighbors())
        assert (found.kneighbors_graph(asked) != truth.kneighbors_graph(q)).nnz == 0
    near = kith.NearestNeighbors(radius=2.0).fit(there)
    wanted = kith.NearestNeighbors(radius=2.0, device="cpu").fit(x).radius_neighbors(q)
    for part, other in zip(near.radius_neighbors(asked), wanted):
        for row, right in zip(part, other):
            same([row], [right])
    for model in kith.KNeighborsClassifier, kith.KNeighborsRegressor:
        truth = model(device="cpu").fit(x, labels)
        made = model().fit(there, torch.from_numpy(labels).cuda())
        same([made.predict(asked)], [truth.predict(q)])
        right = truth.predict(q)
        assert made.score(asked, torch.from_numpy(right).cuda()) == truth.score(q, right)
    wanted = kith.KNeighborsTransformer(device="cpu").fit_transform(x)
    assert (kith.KNeighborsTransformer().fit_transform(there) != wanted).nnz == 0
    refused(ValueError, "X must lie where the fitted X does", lambda: near.kneighbors(q))


def check_options():
    x = support.points(1500, 24)
    tensor = torch.from_numpy(x).cuda()
    for metric in "cosine", "inner_product", "manhattan":
        same(
            kith.knn(tensor, tensor, 4, metric=metric),
            kith.knn(x, x, 4, metric=metric, device="cpu"),
        )
    own = kith.knn(tensor, tensor, 3, exclude=np.arange(1500))
    same(own, kith.knn_graph(x, 3, device="cpu"))
    out = (
        torch.empty(1500, 3, device="cuda"),
        torch.empty(1500, 3, dtype=torch.int32, device="cuda"),
    )
    given = kith.knn_graph(tensor, 3, out=out)
    assert given.distances is out[0] and given.indices is out[1]
    same(given, kith.knn_graph(x, 3, device="cpu"))
    approximate = kith.knn_graph(tensor, 10, algorithm="nn_descent", recall=0.9, random_state=1)
    judged = kith.recall([part.cpu().numpy() for part in approximate], kith.knn_graph(x, 10))
    assert judged.recall > 0.88, judged
    near = {"radius": 5.5}
    same(kith.knn_graph(tensor, 30, **near), kith.knn_graph(x, 30, device="cpu", **near))
    same(kith.knn(tensor, tensor, 30, **near), kith.knn(x, x, 30, device="cpu", **near))
    assert (kith.knn_graph(tensor, 30, **near).indices == -1).any()
    seen = []
    kith.knn_graph(tensor, 3, progress=lambda *told: seen.append(told))
    few = x[:50]
    same(kith.knn_graph(tensor[:50], 3, metric=manhattan), kith.knn_graph(few, 3, metric=manhattan))
    refused(ValueError, "must lie where", lambda: kith.knn(tensor, x, 3))
    refused(ValueError, "k is 1500", lambda: kith.knn_graph(tensor, 1500))


def check_select():
    for dtype in torch.float32, torch.float64, torch.float16, torch.bfloat16:
        x = torch.from_numpy(support.points(200, 500)).to(dtype).cuda()
        values, indices = kith.select_k(x, 7, largest=True)
        assert values.is_cuda and values.dtype == dtype
        assert torch.equal(values, torch.topk(x, 7).values)
        assert torch.equal(torch.gather(x, 1, indices), values)


def check_index():
    x, q = support.points(20000, 48), support.points(60, 48, seed=1)
    on_gpu, asked = torch.from_numpy(x).cuda(), torch.from_numpy(q).cuda()
    truth = kith.knn(x, q, 10, device="cpu")
    for index in kith.Index(on_gpu), kith.Index(x, device="cuda"):
        same(index.search(asked, 10), truth)
        same(index.search(asked[:1], 10), (part[:1] for part in truth))
        same(index.search(on_gpu, 5, exclude=np.arange(20000)), kith.knn_graph(x, 5, device="cpu"))
        for part, other in zip(index.search(q, 10), truth):
            np.testing.assert_array_equal(part, other)
        lists = index.radius(q, 7.0)
        np.testing.assert_array_equal(
            lists.indices, kith.radius_neighbors(x, q, radius=7.0, device="cpu").indices
        )
        lists_are_same(
            index.radius(asked, 7.0), kith.radius_neighbors(x, q, radius=7.0, device="cpu")
        )
        same(index.search(asked, 10, radius=7.0), kith.knn(x, q, 10, radius=7.0, device="cpu"))
        allow = np.arange(20000) % 3 > 0
        same(index.search(asked, 10, allow=allow), kith.knn(x, q, 10, allow=allow, device="cpu"))
        index.add(asked)
        index.remove(torch.arange(100).cuda())
        rows = np.concatenate([x, q])[100:]
        same(index.search(asked, 10), kith.knn(rows, q, 10, device="cpu"))
    thin, few = on_gpu[:, :4].contiguous(), asked[:, :4].contiguous()
    truth = kith.knn(x[:, :4].copy(), q[:, :4].copy(), 10, device="cpu")
    for index in (
        kith.Index(thin, method="tree"),
        kith.Index(x[:, :4].copy(), method="tree", device="cuda"),
    ):
        same(index.search(few, 10), truth)
        thin_lists = kith.radius_neighbors(
            x[:, :4].copy(), q[:, :4].copy(), radius=0.5, device="cpu"
        )
        lists_are_same(index.radius(few, 0.5), thin_lists)
        for part, other in zip(index.search(q[:, :4].copy(), 10), truth):
            np.testing.assert_array_equal(part, other)
    walks = kith.Index(on_gpu, method="graph", k=16, random_state=1)
    found, near = walks.search(asked, 5), kith.knn(x, q, 5, device="cpu")
    pairs = zip(found.indices.cpu().numpy(), near.indices, strict=True)
    assert np.mean([np.isin(*pair).mean() for pair in pairs]) > 0.8
    same(walks.search(asked, 5), (part.cpu().numpy() for part in found))
    for width in None, 32:  # the short way and, because of random_state, the long one
        slowly = walks.search(asked, 5, width=width, random_state=0)
        same(walks.search(asked, 5, width=width), (part.cpu().numpy() for part in slowly))
    on_host = kith.Index(x, device="cpu")
    same(on_host.search(asked, 5), kith.knn(x, q, 5, device="cpu"))


def check_merge():
    x = support.points(40000, 24)
    how = {"algorithm": "nn_descent", "random_state": 5}
    parts = [kith.knn_graph(x[rows], 12) for rows in (slice(25000), slice(25000, None))]
    there = [[torch.from_numpy(part).cuda() for part in graph] for graph in parts]
    tensor = torch.from_numpy(x).cuda()
    for tune in {}, {"start": "random"}, {"start": "ggm"}:
        truth = kith.merge(x, *map(tuple, parts), 10, tune=tune, device="cuda", **how)
        found = kith.merge(tensor, *there, 10, tune=tune, **how)
        same(found, truth)
        assert found.exact == truth.exact
        narrow = [(distances, ids.int()) for distances, ids in there]
        same(kith.merge(tensor, *narrow, 10, tune=tune, **how), truth)
    made = [kith.knn_graph(tensor[rows], 12) for rows in (slice(25000), slice(25000, None))]
    same(
        kith.merge(tensor, *made, 10, **how),
        kith.merge(x, *map(tuple, parts), 10, device="cuda", **how),
    )
    refused(
        ValueError, "first must lie where X does", lambda: kith.merge(tensor, parts[0], there[1])
    )
    refused(ValueError, "in host memory", lambda: kith.merge(x, *there))


def check_host_arrays():
    x = support.points(20000, 64)
    on_gpu, on_cpu = (kith.knn_graph(x, 10, device=device) for device in ("cuda", "cpu"))
    assert isinstance(on_gpu.indices, np.ndarray)
    for part, other in zip(on_gpu, on_cpu):
        assert part.tobytes() == other.tobytes()


def check_pool():
    """PyTorch's memory: all of it is given back, and work of its own beside kith's loses nothing."""
    x, q = support.points(40000, 32), support.points(500, 32, seed=1)
    truth, graph = kith.knn(x, q, 10, device="cpu"), kith.knn_graph(x, 10, device="cpu")
    there, asked = torch.from_numpy(x).cuda(), torch.from_numpy(q).cuda()
    product = (there @ there[:1000].T).argmin()  # what PyTorch itself keeps for products
    del product
    kith.set_device_allocator("torch")
    try:
        begun = torch.cuda.memory_allocated()
        index = kith.Index(there, method="exact")
        assert torch.cuda.memory_allocated() > begun
        torch.cuda.reset_peak_memory_stats()
        for _ in range(20):
            other = (there @ there[:1000].T).argmin()  # blocks come and go on PyTorch's stream
            same(index.search(asked, 10), truth)
            same(kith.knn_graph(there, 10), graph)
            del other
        assert torch.cuda.max_memory_allocated() > begun
        del index
        assert torch.cuda.memory_allocated() == begun, (torch.cuda.memory_allocated(), begun)
        for part, other in zip(kith.knn_graph(x, 10, device="cuda"), graph):
            np.testing.assert_array_equal(part, other)
    finally:
        kith.set_device_allocator(None)
    same(kith.knn_graph(there, 10), graph)


def check_cupy():
    if cupy is None:
        return print("  CuPy is missing")
    x = support.points(1000, 16)
    found = kith.knn_graph(cupy.asarray(x), 5)
    assert isinstance(found.indices, cupy.ndarray)
    np.testing.assert_array_equal(found.indices.get(), kith.knn_graph(x, 5, device="cpu").indices)
    x = support.points(40000, 24)
    parts = kith.knn_graph(x[:25000], 5), kith.knn_graph(x[25000:], 5)
    there = [tuple(cupy.asarray(part) for part in graph) for graph in parts]
    how = {"algorithm": "nn_descent", "random_state": 5}
    lists = kith.radius_neighbors(cupy.asarray(x[:900]), radius=4.0)
    truth = kith.radius_neighbors(x[:900], radius=4.0, device="cpu")
    assert isinstance(lists.indices, cupy.ndarray)
    np.testing.assert_array_equal(lists.indices.get(), truth.indices)
    chunk = kith.pairs(cupy.asarray(x[:900]), radius=3.0).all()
    assert isinstance(chunk.i, cupy.ndarray)
    np.testing.assert_array_equal(chunk.j.get(), kith.pairs(x[:900], radius=3.0).all().j)
    merged = kith.merge(cupy.asarray(x), *there, **how)
    assert isinstance(merged.indices, cupy.ndarray)
    truth = kith.merge(x, *map(tuple, parts), device="cuda", **how)
    np.testing.assert_array_equal(merged.indices.get(), truth.indices)


print(kith.devices())
for check in (
    check_types,
    check_views_and_streams,
    check_searches_that_do_not_wait,
    check_options,
    check_radius,
    check_by_way_of_the_host,
    check_estimators,
    check_select,
    check_index,
    check_merge,
    check_host_arrays,
    check_pool,
    check_cupy,
):
    check()
    print(f"{check.__name__[6:]}: as on the processor")
