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
    refused(NotImplementedError, "radius", lambda: kith.knn_graph(tensor, 3, radius=1.0))
    refused(
        NotImplementedError, "a function as metric", lambda: kith.knn_graph(tensor, 3, metric=min)
    )
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
        index.add(q)
        index.remove(np.arange(100))
        rows = np.concatenate([x, q])[100:]
        same(index.search(asked, 10), kith.knn(rows, q, 10, device="cpu"))
    thin, few = on_gpu[:, :4].contiguous(), asked[:, :4].contiguous()
    truth = kith.knn(x[:, :4].copy(), q[:, :4].copy(), 10, device="cpu")
    for index in (
        kith.Index(thin, method="tree"),
        kith.Index(x[:, :4].copy(), method="tree", device="cuda"),
    ):
        same(index.search(few, 10), truth)
        for part, other in zip(index.search(q[:, :4].copy(), 10), truth):
            np.testing.assert_array_equal(part, other)
    refused(NotImplementedError, "by 'graph'", lambda: kith.Index(on_gpu, method="graph"))
    refused(NotImplementedError, "in host memory", lambda: index.radius(asked, 1.0))
    refused(NotImplementedError, "X.cpu", lambda: kith.NearestNeighbors().fit(on_gpu))


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
    refused(
        NotImplementedError,
        "an exact merge",
        lambda: kith.merge(tensor, *there, algorithm="brute"),
    )


def check_host_arrays():
    x = support.points(20000, 64)
    on_gpu, on_cpu = (kith.knn_graph(x, 10, device=device) for device in ("cuda", "cpu"))
    assert isinstance(on_gpu.indices, np.ndarray)
    for part, other in zip(on_gpu, on_cpu):
        assert part.tobytes() == other.tobytes()


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
    merged = kith.merge(cupy.asarray(x), *there, **how)
    assert isinstance(merged.indices, cupy.ndarray)
    truth = kith.merge(x, *map(tuple, parts), device="cuda", **how)
    np.testing.assert_array_equal(merged.indices.get(), truth.indices)


print(kith.devices())
for check in (
    check_types,
    check_views_and_streams,
    check_options,
    check_select,
    check_index,
    check_merge,
    check_host_arrays,
    check_cupy,
):
    check()
    print(f"{check.__name__[6:]}: as on the processor")
