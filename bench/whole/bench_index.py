#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Indexes on one GPU, points, queries and answers on the device, from Python; rows go to bench/results/index.csv.

    KITH_LIBRARY=build/libkith.so bench_index.py [--only NAME ...] [--csv bench/results/index.csv]

  few       1, 10, 64 and 1,024 queries of an exact index of 1,000,000 x 128: from Python, from Python with
            wait=False (until the call returned, until its stream was done), and the call in C alone
  long      4,000 queries of 1,000,000 x 3 and 128, k = 2,000, 2,100 and 10,000, all pairs, nothing kept
  many      1, 10 and 10,000 queries of an exact index of 10,000,000 x 96
  add       1 % more rows for an exact index of 1,000,000 x 128, beside making it anew
  tree      10,000,000 queries of a kept tree of 2,000,000 points in 4 and 10 columns, beside one call of kith.knn
  radius    all of 1,000,000 uniform points of 3 columns within a radius that 30 neighbours are in, by the tree
  uniform3  the exact graph of 10,000,000 uniform points of 3 columns, k = 8 and 30
  walks     10,000 queries of a graph index of 10,000,000 x 96 by the width of walks, and one query; beside it cuVS
            CAGRA where it can be imported

Queries of a few rows are compared with all points, in double, by PyTorch, walks told by their recall@10. Least and
median of --runs, the first not counted. Needs PyTorch; "mixture" is that of bench_descent.py.
"""
import argparse
import ctypes
import datetime
import os
import pathlib
import statistics
import sys
import time

import torch

import bench_rows
import descent_gpu

sys.path.insert(0, str(bench_rows.ROOT / "python"))
import kith  # noqa: E402

COLUMNS = ["date", "commit", "gpu", "work", "way", "ms", "low", "runs", "recall", "command"]
K, CHECKED, WALKED, PIECE = 10, 100, 1000, 1 << 18


class Bench:
    """What a measured row needs beside its work."""

    def __init__(self, options):
        self.options = options
        self.rows = []

    def times(self, call, runs=None):
        """Seconds of each run; the device is idle before and after."""
        found = []
        for _ in range((runs or self.options.runs) + 1):
            torch.cuda.synchronize()
            start = time.perf_counter()
            call()
            torch.cuda.synchronize()
            found.append(time.perf_counter() - start)
        return found[1:]

    def tell(self, work, way, seconds, recall=""):
        low, median = 1e3 * min(seconds), 1e3 * statistics.median(seconds)
        print(f"{work:45} {way:28} {median:9.3f} ms (least {low:.3f})" + (f"  recall {recall}" if recall else ""),
              flush=True)
        self.rows.append({"date": datetime.date.today().isoformat(), "commit": bench_rows.commit_name(),
                          "gpu": torch.cuda.get_device_name(), "work": work, "way": way, "ms": f"{median:.4g}",
                          "low": f"{low:.4g}", "runs": len(seconds), "recall": recall,
                          "command": "bench/whole/bench_index.py " + " ".join(sys.argv[1:])})

    def measure(self, work, way, call, runs=None):
        self.tell(work, way, self.times(call, runs))


def mixture(rows, cols, queries):
    """Points, and queries of the same clusters."""
    work = descent_gpu.Work("mixture", rows, cols, clusters=max(rows // 1000, 1))
    points = descent_gpu.clustered(work, rows + queries, 1)
    return points[:rows].contiguous(), points[rows:].contiguous()


def limits(points, queries, k=K):
    """The k-th distance of each query, in double."""
    if len(queries) > CHECKED:
        return torch.cat([limits(points, some, k) for some in queries.split(CHECKED)])
    best = torch.empty(len(queries), 0, device="cuda", dtype=torch.float64)
    for some in points.split(PIECE):
        found = torch.cdist(queries.double(), some.double(), compute_mode="donot_use_mm_for_euclid_dist")
        best = torch.cat([best, found], dim=1).topk(k, dim=1, largest=False).values
    return best.max(dim=1).values


def recall_of(points, queries, ids, limit):
    near = (points[ids.long()].double() - queries[:, None].double()).norm(dim=2) <= limit[:, None] * (1 + 1e-12)
    return near.double().mean().item()


def check(points, queries, found):
    """An exact answer has all neighbours."""
    asked = queries[:CHECKED]
    if recall_of(points, asked, found.indices[:CHECKED], limits(points, asked, found.indices.shape[1])) != 1.0:
        raise SystemExit("bench_index: an exact answer lacks neighbours")


# ---- Works ------------------------------------------------------------------------------------------


class CallInC:
    """kith_cuda_index_search with structs that stand already."""

    def __init__(self, index, queries, k, wait=True):
        from kith import _cuda, _structs as s
        from kith._library import lib

        self.function = lib.kith_cuda_index_search
        with index._handle as kept:
            self.made = kept.made
        params = s.CtxParams(struct_size=ctypes.sizeof(s.CtxParams), device=b"cuda")
        self.context = ctypes.c_void_p()
        if lib.kith_ctx_create(ctypes.byref(params), ctypes.byref(self.context)) != 0:
            raise SystemExit("bench_index: no context on the GPU")
        self.ids = torch.empty(len(queries), k, dtype=torch.int32, device="cuda")
        self.distances = torch.empty(len(queries), k, device="cuda")
        self.queries = _cuda.as_device_matrix(queries, "queries")
        self.params = s.SearchParams(struct_size=ctypes.sizeof(s.SearchParams), metric=1, k=k,
                                     flags=0 if wait else s.ENQUEUE)
        self.out = s.Neighbors(self.ids.data_ptr(), self.distances.data_ptr(), None, len(queries), k)

    def __call__(self):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        status = self.function(self.context, self.made, ctypes.byref(self.queries.struct), ctypes.byref(self.params),
                               ctypes.byref(self.out), stream)
        if status != 0:
            raise SystemExit(f"bench_index: kith_cuda_index_search returned {status}")


def until_returned(call, runs):
    """Seconds until each call came back; its work is waited for outside of them."""
    found = []
    for _ in range(runs + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return found[1:]


def few(bench):
    points, queries = mixture(1_000_000, 128, 1024)
    runs = 20 * bench.options.runs
    with kith.Index(points, method="exact") as index:
        check(points, queries, index.search(queries, K))
        for count in 1, 10, 64, 1024:
            asked, work = queries[:count].contiguous(), f"{count} in 1000000x128, exact index"
            check(points, asked, index.search(asked, K, wait=False))
            in_c = CallInC(index, asked, K)
            bench.measure(work, "C", in_c, runs)
            bench.measure(work, "Python", lambda: index.search(asked, K), runs)
            bench.measure(work, "C, enqueued", CallInC(index, asked, K, wait=False), runs)
            bench.measure(work, "Python, wait=False", lambda: index.search(asked, K, wait=False), runs)
            bench.tell(work, "Python, wait=False, returned",
                       until_returned(lambda: index.search(asked, K, wait=False), runs))
        index.wait()


def long(bench):
    for cols in 3, 128:
        points, queries = mixture(1_000_000, cols, 4000)
        for k in 2000, 2100, 10_000:
            check(points, queries[:10], kith.knn(points, queries[:10], k, algorithm="brute"))
            bench.measure(f"4000 in 1000000x{cols}, k = {k}", "all pairs",
                          lambda: kith.knn(points, queries, k, algorithm="brute"))


def many(bench):
    points, queries = mixture(10_000_000, 96, 10_000)
    with kith.Index(points, method="exact") as index:
        check(points, queries, index.search(queries, K))
        for count in 1, 10, 10_000:
            asked = queries[:count].contiguous()
            bench.measure(f"{count} in 10000000x96, exact index", "Python", lambda: index.search(asked, K))


def add(bench):
    points, more = mixture(1_000_000, 128, 10_000)
    times = []
    for _ in range(bench.options.runs + 1):
        with kith.Index(points, method="exact") as index:
            torch.cuda.synchronize()
            start = time.perf_counter()
            index.add(more)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
            found = index.search(more[:CHECKED], K)
    everything = torch.cat([points, more])
    check(everything, more[:CHECKED], found)
    work = "1 % of 1000000x128, exact index"
    bench.tell(work, "add", times[1:])
    bench.measure(work, "made anew", lambda: kith.Index(everything, method="exact").close())


def tree(bench):
    for cols in 4, 10:
        random = torch.Generator(device="cuda").manual_seed(cols)
        spread = torch.randn(4, cols, device="cuda", generator=random)
        drawn = [torch.randn(rows, 4, device="cuda", generator=random) @ spread for rows in (2_000_000, 10_000_000)]
        points, queries = (rows + 0.05 * torch.randn(rows.shape, device="cuda", generator=random) for rows in drawn)
        work = f"10000000 in 2000000x{cols}"
        with kith.Index(points, method="tree") as index:
            check(points, queries, index.search(queries, K))
            bench.measure(work, "kept tree", lambda: index.search(queries, K))
        bench.measure(work, "one call of knn, by the tree", lambda: kith.knn(points, queries, K, algorithm="kd_tree"))


def uniform(rows):
    return torch.rand(rows, 3, device="cuda", generator=torch.Generator(device="cuda").manual_seed(3))


def radius(bench):
    points = uniform(1_000_000)
    reach = (31 / len(points) * 3 / (4 * torch.pi)) ** (1 / 3)
    with kith.Index(points, method="tree") as index:
        lengths = torch.as_tensor(index.radius(points, reach).offsets).diff()
        print(f"neighbours in the mean: {lengths.double().mean().item():.2f}")
        bench.measure("all within a radius, 1000000x3", "kept tree", lambda: index.radius(points, reach))


def uniform3(bench):
    points = uniform(10_000_000)
    for k in 8, 30:
        bench.measure(f"graph of 10000000x3, k = {k}", "knn_graph", lambda: kith.knn_graph(points, k))


def cagra(bench, points, queries, limit, work):
    try:
        import cupy
        from cuvs.neighbors import cagra as peer
    except ImportError as error:
        print(f"cuVS CAGRA: absent ({error})")
        return
    data, asked = cupy.asarray(points), cupy.asarray(queries)
    start = time.perf_counter()
    index = peer.build(peer.IndexParams(metric="sqeuclidean"), data)
    torch.cuda.synchronize()
    bench.tell(work, "CAGRA: built", [time.perf_counter() - start])
    for width in 32, 64, 128, 256, 512:
        params = peer.SearchParams(itopk_size=width)
        _, found = peer.search(params, index, asked, K)
        ids = torch.as_tensor(cupy.asarray(found).astype(cupy.int64))
        bench.tell(work, f"CAGRA, itopk_size {width}", bench.times(lambda: peer.search(params, index, asked, K)),
                   f"{recall_of(points, queries[:WALKED], ids[:WALKED], limit):.4f}")


def walks(bench):
    rows = bench.options.rows
    points, queries = mixture(rows, 96, 10_000)
    limit = limits(points, queries[:WALKED])
    work = f"10000 in {rows}x96, graph index"
    start = time.perf_counter()
    with kith.Index(points, method="graph") as index:
        torch.cuda.synchronize()
        bench.tell(work, "built", [time.perf_counter() - start])
        for width in 12, 16, 24, 32, 64, 128:
            found = index.search(queries, K, width=width)
            bench.tell(work, f"width {width}", bench.times(lambda: index.search(queries, K, width=width)),
                       f"{recall_of(points, queries[:WALKED], found.indices[:WALKED], limit):.4f}")
        for width in 12, 64:
            bench.measure(f"1 in {rows}x96, graph index", f"width {width}",
                          lambda: index.search(queries[:1], K, width=width), 50)
    cagra(bench, points, queries, limit, work)


WORKS = {"few": few, "long": long, "many": many, "add": add, "tree": tree, "radius": radius, "uniform3": uniform3, "walks": walks}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(WORKS), default=list(WORKS))
    parser.add_argument("--rows", type=int, default=10_000_000, help="of walks")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--csv", type=pathlib.Path)
    bench = Bench(parser.parse_args())
    os.environ.setdefault("KITH_DEVICE", "cuda")
    for name in bench.options.only:
        WORKS[name](bench)
        bench_rows.append(bench.options.csv, COLUMNS, bench.rows)
        bench.rows = []
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
