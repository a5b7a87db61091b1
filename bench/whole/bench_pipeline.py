#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two papers' whole systems on a GPU, beside kith's own way and PyTorch, in one run.

    bench_pipeline.py [--build build] [--runs N] [--csv bench/results/pipeline.csv]

  matrix   Komarov, Dashti, D'Souza 2014: k-NN graphs by a product in memory, then quick multi-select by row
  hybrid   Matsumoto, Yiu 2015: a GPU computes and prunes, the processor's heaps select; beside the GPU alone
           (the matrix, then the threshold heap, or truncated bitonic sort as their rival has it)
  hybrid/N the same by batches of N queries, the paper's size_qbatch. Where all queries are one batch, neither
           half has anything to do beside the other: its phases are what each half takes alone
  fused    kith's own: nothing but candidates is written
  torch    PyTorch: addmm of a batch of rows in fp32, then topk
  cores    would distances, too, be worth dividing? The exact graph of points in host memory by all cores, and by the
           GPU (host): the cores' share of the work would be host / (host + cores)

Points and queries lie on the device and are uniform in [0, 1], the second work's in the shape of NUS-WIDE.
Seconds are medians of calls, one before them not counted. kith's ids must be the same by all ways. About
50 seconds on an H100.
"""
import argparse
import ctypes
import datetime
import pathlib
import statistics
import sys
import time

import bench_rows
from bench_gpu import ROOT, Kith, Neighbors, SearchParams, matrix, stream, torch, torch_search

PHASES = ["seconds_screen", "seconds_select", "seconds_rescore"]  # of the report
COLUMNS = ["date", "commit", "machine", "work", "rows", "queries", "columns", "k", "way", "runs", "seconds",
           "seconds_min", "seconds_max", "same", "command", *PHASES, "cpu_rows"]
PIPELINES = {"fused": 0, "matrix": 1, "hybrid": 2}
SELECTS = {"": 0, "quick": 2, "bitonic": 7, "threshold_heap": 8}
GRAPHS = [(rows, k) for rows in (8192, 32768, 131072) for k in (16, 64, 256)]
GRAPH_COLUMNS = 128
SEARCHES = [(queries, k) for queries in (512, 2048) for k in (32, 64, 256)]
SEARCH_ROWS, SEARCH_COLUMNS = 269648, 500
BATCHES = [256, 512, 1024, 2048, 4096, 8192]  # of the last of these queries: the hybrid's figure 9
BATCHED, BATCHED_KS = 8192, (32, 64, 256)
CORES = [("uint8", 60_000, 784), ("float32", 262_144, 128)]  # clusters in the shapes of Fashion-MNIST and of descriptors
TORCH_CELLS = 1 << 29  # of a matrix of costs


def uniform(rows, columns, seed):
    random = torch.Generator(device="cuda").manual_seed(seed)
    return torch.rand(rows, columns, generator=random, device="cuda", dtype=torch.float32)


def timed(call, runs, report=lambda: None):
    """Seconds and report of each call, by seconds, and what the last one gave."""
    found = []
    for _ in range(runs + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = call()
        torch.cuda.synchronize()
        found.append((time.perf_counter() - start, report()))
    return sorted(found[1:], key=lambda each: each[0]), result


def kith_call(kith, points, queries, k, way):
    way, _, batch = way.partition("/")
    pipeline, _, select = way.partition("+")
    asked = len(points) if queries is None else len(queries)
    ids = torch.empty(asked, k, dtype=torch.int32, device="cuda")
    distances = torch.empty(asked, k, dtype=torch.float32, device="cuda")
    out = Neighbors(ids.data_ptr(), distances.data_ptr(), None, asked, k)
    params = SearchParams(struct_size=ctypes.sizeof(SearchParams), k=k, method=EXACT,
                          pipeline=PIPELINES[pipeline], select=SELECTS[select], batch=int(batch or 0))

    def call():
        tail = ctypes.byref(params), ctypes.byref(out)
        if queries is None:
            kith.must(kith.lib.kith_cuda_graph(kith.ctx, ctypes.byref(matrix(points)), *tail, None, stream()))
        else:
            kith.must(kith.lib.kith_cuda_search(kith.ctx, ctypes.byref(matrix(points)),
                                                ctypes.byref(matrix(queries)), *tail, stream()))
        return ids

    call.keeps = distances  # its address alone would not
    return call


EXACT = 1  # of methods


class Bench:
    def __init__(self, options):
        self.options = options
        self.kith = Kith(options.build)
        self.same = True

    def add(self, work, points, queries, k, way, runs, same):
        """Phases are those of the median run."""
        asked = len(points) if queries is None else len(queries)
        seconds, report = [each for each, _ in runs], runs[len(runs) // 2][1]
        phases = {name: f"{getattr(report, name):.6f}" for name in PHASES} if report else {}
        self.same = self.same and same
        print(f"{work:<7} {len(points):>7} x {points.shape[1]} queries {asked:>7} k {k:>4} {way:<22}"
              f"{1e3 * statistics.median(seconds):10.3f} ms  {'same' if same else 'DIFFERENT'}", flush=True)
        bench_rows.append(self.options.csv, COLUMNS, [{
            "date": datetime.date.today().isoformat(), "commit": self.kith.commit(),
            "machine": torch.cuda.get_device_name(0), "work": work, "rows": len(points), "queries": asked,
            "columns": points.shape[1], "k": k, "way": way, "runs": len(seconds),
            "seconds": f"{statistics.median(seconds):.6f}", "seconds_min": f"{seconds[0]:.6f}",
            "seconds_max": f"{seconds[-1]:.6f}", "same": "same" if same else "DIFFERENT",
            "command": "bench_pipeline.py", **phases, "cpu_rows": report.select_cpu_rows if report else ""}])

    def compare(self, work, points, queries, k, ways):
        truth = None
        for way in ways:
            runs, ids = timed(kith_call(self.kith, points, queries, k, way), self.options.runs, self.kith.report)
            truth = ids if truth is None else truth
            self.add(work, points, queries, k, way, runs, bool((ids == truth).all()))
        asked = points if queries is None else queries
        batch = max(1, min(len(asked), TORCH_CELLS // len(points)))
        wanted = k + (queries is None)
        runs, _ = timed(lambda: torch_search(points, asked, wanted, batch), self.options.runs)
        self.add(work, points, queries, k, "torch", runs, True)

    def cores(self, dtype, rows, columns):
        """The same points by the cores alone and by the GPU alone, from host memory and to it."""
        random = torch.Generator(device="cuda").manual_seed(rows)
        centres = torch.randn(200, columns, generator=random, device="cuda")
        points = centres[torch.randint(200, (rows,), generator=random, device="cuda")]
        points += 0.5 * torch.randn(rows, columns, generator=random, device="cuda")
        points = points if dtype == "float32" else (128 + 25 * points).clamp(0, 255).to(torch.uint8)
        there = points.cpu().numpy()
        sys.path.insert(0, str(ROOT / "python"))
        import kith  # pylint: disable=import-outside-toplevel
        truth = None
        for way, device in (("host", "cuda"), ("cores", "cpu")):
            runs, found = timed(lambda device=device: kith.knn_graph(there, 10, algorithm="brute", device=device),
                                self.options.runs)
            truth = found if truth is None else truth
            self.add("cores", points, None, 10, way, runs, bool((found.indices == truth.indices).all()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help="graph, search, batch or cores")
    parser.add_argument("--csv", type=pathlib.Path, help="rows are appended to it")
    options = parser.parse_args()
    if torch is None or not torch.cuda.is_available():
        print("bench_pipeline: absent (no PyTorch, or no GPU)")
        return 77
    bench = Bench(options)
    points = uniform(SEARCH_ROWS, SEARCH_COLUMNS, 1)
    if options.only in ("", "graph"):
        for rows, k in GRAPHS:
            bench.compare("graph", uniform(rows, GRAPH_COLUMNS, rows), None, k, ["fused", "matrix+quick"])
    if options.only in ("", "search"):
        for asked, k in SEARCHES:
            bench.compare("search", points, uniform(asked, SEARCH_COLUMNS, asked), k,
                          ["fused", "hybrid", "matrix+threshold_heap", "matrix+bitonic"])
    if options.only in ("", "batch"):
        for k in BATCHED_KS:
            bench.compare("search", points, uniform(BATCHED, SEARCH_COLUMNS, BATCHED), k,
                          ["fused"] + [f"hybrid/{batch}" for batch in BATCHES] + ["matrix+threshold_heap"])
    if options.only in ("", "cores"):
        for shape in CORES:
            bench.cores(*shape)
    return 0 if bench.same else 1


if __name__ == "__main__":
    sys.exit(main())
