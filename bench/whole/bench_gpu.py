#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kith beside PyTorch on one GPU: the same points, resident on the device, in one run.

PyTorch multiplies batches of rows by all others in fp32 (no tf32) and takes topk of |c|^2 - 2qc. The
rows of 100 sampled queries are compared with distances that PyTorch computes in double. Where there is
no PyTorch the program bench_gpu (bench/micro/gpu.c) makes the same kind of points and times kith alone.

    bench_gpu.py [--build build] [--file POINTS.u8bin] [--only TEXT] [--csv bench/results/gpu.csv]

mixture, floor and share are defined in bench/micro/gpu.c.
"""
import argparse
import ctypes
import pathlib
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

try:
    import numpy
    import torch
except ImportError:
    torch = None

import bench_rows

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = ["work", "engine", "seconds", "seconds_min", "seconds_max", "runs", "floor", "share",
           "survivors", "rerun", "skipped", "checked", "device", "commit"]
F16_RATE, S8_RATE, READ_RATE = 790e12, 1580e12, 4.3e12
SLICE = 128  # bytes that rounded rows are a multiple of
CLUSTERS, INTRINSIC = 1000, 12
CHECKED = 100
PATIENCE = 60.0  # seconds that PyTorch may take for one run, estimated from its products
TORCH_RATE = 30e12
LONG = 4.0  # seconds


@dataclass
class Work:
    """One job; asked 0 is a graph."""

    name: str
    rows: int
    cols: int
    k: int = 10
    asked: int = 0
    origin: str = "mixture"
    prepared: bool = False


WORKS = [
    Work("graph 100000x128 k10", 100000, 128),
    Work("graph 262144x128 k10", 262144, 128),
    Work("graph 262144x128 k64", 262144, 128, k=64),
    Work("graph 262144x128 k10 gauss", 262144, 128, origin="gauss"),
    Work("100000 in 1000000x128", 1000000, 128, asked=100000),
    Work("1 in 1000000x128 prepared", 1000000, 128, asked=1, prepared=True),
    Work("10 in 1000000x128 prepared", 1000000, 128, asked=10, prepared=True),
    Work("graph 1000000x128 k10", 1000000, 128),
    Work("graph 1000000x128 k10 gauss", 1000000, 128, origin="gauss"),
    Work("graph of the file k10", 0, 0, origin="file"),
    Work("graph 10000000x96 k10", 10000000, 96),
]


# ---- libkith ----------------------------------------------------------------------------------------


class CtxParams(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("threads", ctypes.c_int32),
                ("memory_limit", ctypes.c_uint64), ("isa", ctypes.c_char_p),
                ("progress", ctypes.c_void_p), ("progress_arg", ctypes.c_void_p),
                ("log", ctypes.c_void_p), ("log_arg", ctypes.c_void_p),
                ("allocate", ctypes.c_void_p), ("release", ctypes.c_void_p),
                ("allocate_arg", ctypes.c_void_p), ("device", ctypes.c_char_p),
                ("gpu_memory_limit", ctypes.c_uint64)]


class Matrix(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("rows", ctypes.c_int64), ("stride_bytes", ctypes.c_int64),
                ("cols", ctypes.c_int32), ("dtype", ctypes.c_int)]


class Neighbors(ctypes.Structure):
    _fields_ = [("ids", ctypes.c_void_p), ("distances", ctypes.c_void_p),
                ("distances64", ctypes.c_void_p), ("rows", ctypes.c_int64), ("k", ctypes.c_int64),
                ("meta", ctypes.c_void_p)]


class MergeSets(ctypes.Structure):
    _fields_ = [("points", ctypes.POINTER(Matrix)), ("first_rows", ctypes.c_int64),
                ("graph1", ctypes.POINTER(Neighbors)), ("graph2", ctypes.POINTER(Neighbors))]


def merge_sets(points, first, graphs):
    """Of points and both graphs as they are passed to a call."""
    return MergeSets(ctypes.pointer(points), first, *(ctypes.pointer(each) for each in graphs))


class SearchParams(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("metric", ctypes.c_int), ("k", ctypes.c_int64),
                ("flags", ctypes.c_uint32), ("leaf_buffer", ctypes.c_int32),
                ("exclude", ctypes.c_void_p), ("custom", ctypes.c_void_p),
                ("custom_arg", ctypes.c_void_p), ("pipeline", ctypes.c_int), ("select", ctypes.c_int),
                ("method", ctypes.c_int), ("sample", ctypes.c_int32), ("tree_height", ctypes.c_int32),
                ("batch", ctypes.c_int32), ("radius", ctypes.c_double), ("recall", ctypes.c_double), ("recall_at", ctypes.c_int64),
                ("seed", ctypes.c_uint64), ("descent", ctypes.c_void_p), ("descent_report", ctypes.c_void_p),
                ("walk", ctypes.c_void_p), ("walk_report", ctypes.c_void_p)]


class IndexParams(ctypes.Structure):
    """The first fields, as far as an exact index has any."""
    _fields_ = [("struct_size", ctypes.c_uint32), ("metric", ctypes.c_int), ("method", ctypes.c_int),
                ("tree_height", ctypes.c_int32)]


class Report(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("exact", ctypes.c_int32),
                ("seconds_total", ctypes.c_double), ("seconds_check", ctypes.c_double),
                ("seconds_prepare", ctypes.c_double), ("seconds_screen", ctypes.c_double),
                ("seconds_rescore", ctypes.c_double), ("rerun_share", ctypes.c_double),
                ("skipped_share", ctypes.c_double), ("looked_share", ctypes.c_double),
                ("candidates", ctypes.c_double),
                ("distinct_rows", ctypes.c_int64), ("peak_bytes", ctypes.c_uint64),
                ("isa", ctypes.c_char * 16), ("screen", ctypes.c_char * 16),
                ("backend", ctypes.c_char * 16), ("gpu", ctypes.c_char * 64),
                ("gpu_peak_bytes", ctypes.c_uint64), ("seconds_select", ctypes.c_double),
                ("select_cpu_rows", ctypes.c_int64), ("select_gpu_rows", ctypes.c_int64)]


EUCLIDEAN, F32, U8 = 1, 1, 5


class Kith:
    """A context, on the first GPU unless it is told otherwise; threads 0: all."""

    def __init__(self, build, device=b"cuda:0", threads=0):
        self.lib = ctypes.CDLL(str(build / "libkith.so"))
        for name in ("kith_ctx_detail", "kith_commit", "kith_version"):
            getattr(self.lib, name).restype = ctypes.c_char_p
        self.ctx = ctypes.c_void_p()
        params = CtxParams(struct_size=ctypes.sizeof(CtxParams), threads=threads, device=device)
        if self.lib.kith_ctx_create(ctypes.byref(params), ctypes.byref(self.ctx)) != 0:
            sys.exit("bench_gpu: no context")

    def must(self, status):
        if status != 0:
            sys.exit("bench_gpu: " + self.lib.kith_ctx_detail(self.ctx).decode())

    def commit(self):
        return self.lib.kith_commit().decode()

    def report(self):
        report = Report(struct_size=ctypes.sizeof(Report))
        self.must(self.lib.kith_ctx_report(self.ctx, ctypes.byref(report)))
        return report

    def prepare(self, points):
        """Of points on the host; they must stay."""
        index, params = ctypes.c_void_p(), IndexParams(struct_size=ctypes.sizeof(IndexParams))
        self.must(self.lib.kith_index_create(self.ctx, ctypes.byref(matrix(points)), ctypes.byref(params),
                                             ctypes.byref(index)))
        return index

    def release(self, index):
        self.lib.kith_index_free(index)

    def run(self, work, points, queries, index, out):
        params = SearchParams(struct_size=ctypes.sizeof(SearchParams), k=work.k)
        asked = [ctypes.byref(matrix(queries))] if queries is not None else []
        asked += [ctypes.byref(params), ctypes.byref(out)]
        if index is not None:
            self.must(self.lib.kith_index_search(self.ctx, index, *asked, None))
        else:
            call = self.lib.kith_cuda_search if queries is not None else self.lib.kith_cuda_graph
            asked += [] if queries is not None else [None]
            self.must(call(self.ctx, ctypes.byref(matrix(points)), *asked, stream()))


def stream():
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


def matrix(points):
    return Matrix(points.data_ptr(), points.shape[0], 0, points.shape[1],
                  U8 if points.dtype == torch.uint8 else F32)


# ---- Points -----------------------------------------------------------------------------------------


def make_points(work, rows, seed, path):
    if work.origin == "file":
        shape = numpy.fromfile(path, dtype="<u4", count=2)
        values = numpy.fromfile(path, dtype=numpy.uint8, offset=8).reshape(shape)
        return torch.from_numpy(values).cuda()
    clusters = torch.Generator(device="cuda").manual_seed(11)
    random = torch.Generator(device="cuda").manual_seed(seed)
    options = {"device": "cuda", "dtype": torch.float32}
    points = torch.empty(rows, work.cols, **options)
    if work.origin == "gauss":
        return points.normal_(generator=random)
    centres = torch.randn(CLUSTERS, work.cols, generator=clusters, **options)
    frames = torch.randn(CLUSTERS, INTRINSIC, work.cols, generator=clusters, **options)
    label = torch.randint(CLUSTERS, (rows,), generator=random, device="cuda")
    for cluster in range(CLUSTERS):
        mine = (label == cluster).nonzero().flatten()
        place = torch.randn(len(mine), INTRINSIC, generator=random, **options) @ frames[cluster]
        noise = torch.randn(len(mine), work.cols, generator=random, **options)
        points[mine] = centres[cluster] + 0.5 / INTRINSIC**0.5 * place + 0.01 * noise
    return points


def floor_seconds(work, points):
    size = 1 if points.dtype == torch.uint8 else 2
    row_bytes = -(-points.shape[1] * size // SLICE) * SLICE
    rows = points.shape[0]
    pairs = rows * work.asked if work.asked else rows * (rows - 1) / 2
    product = 2 * pairs * (row_bytes / size) / (S8_RATE if size == 1 else F16_RATE)
    return max(product, rows * row_bytes / READ_RATE)


# ---- PyTorch ----------------------------------------------------------------------------------------


def torch_search(points, queries, k, batch):
    """ids of the k (a graph: k + 1, with the row itself) smallest |c|^2 - 2qc."""
    squares = (points * points).sum(dim=1)
    ids = torch.empty(len(queries), k, dtype=torch.int64, device="cuda")
    for first in range(0, len(queries), batch):
        some = queries[first:first + batch]
        costs = torch.addmm(squares, some, points.T, alpha=-2.0)
        ids[first:first + batch] = costs.topk(k, dim=1, largest=False).indices
    return ids


def true_rows(points, rows, queries, k, is_graph):
    """Distances in double of the k nearest of some rows, and a function for those of given ids."""
    asked = (points if is_graph else queries)[rows].double()

    def squares(ids):
        return ((asked[:, None, :] - points[ids].double()) ** 2).sum(dim=2)

    best = torch.empty(len(rows), 0, device="cuda", dtype=torch.float64)
    for first in range(0, len(points), 1 << 16):
        some = points[first:first + (1 << 16)].double()
        found = torch.cdist(asked, some, compute_mode="donot_use_mm_for_euclid_dist") ** 2
        if is_graph:
            own = rows - first
            inside = ((own >= 0) & (own < len(some))).nonzero().flatten()
            found[inside, own[inside]] = float("inf")
        best = torch.cat([best, found], dim=1)
        best = best.topk(min(k, best.shape[1]), dim=1, largest=False, sorted=True).values
    return best, squares


def check(work, points, queries, ids):
    """Sampled rows: distances of the ids that were found are those of the k nearest, in order."""
    is_graph = work.asked == 0
    rows = torch.randint(len(ids), (CHECKED,), device="cuda") if len(ids) > CHECKED else \
        torch.arange(len(ids), device="cuda")
    best, squares = true_rows(points, rows, queries, work.k, is_graph)
    chosen = ids[rows].long() & 0xFFFFFFFF
    found = squares(chosen)
    repeated = (chosen.sort(dim=1).values.diff(dim=1) == 0).any(dim=1)
    own = (chosen == rows[:, None]).any(dim=1) if is_graph else torch.zeros_like(repeated)
    far = ((found - best).abs() > 1e-10 * best + 1e-30).any(dim=1)
    wrong = int((far | repeated | own).sum())
    return "same" if wrong == 0 else f"WRONG {wrong}"


# ---- Timing -----------------------------------------------------------------------------------------


def timed(runs, call, cold=False):
    """Seconds of each run after one for warming up; what takes long runs once. cold: of the first run alone."""

    def once():
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    first = once()
    return [first] if cold else [once() for _ in range(1 if first > LONG else runs)]


def row_of(work, engine, seconds, floor, **more):
    median = statistics.median(seconds)
    row = {"work": work.name, "engine": engine, "seconds": f"{median:.6f}", "runs": len(seconds),
           "seconds_min": f"{min(seconds):.6f}", "seconds_max": f"{max(seconds):.6f}",
           "floor": f"{floor:.6f}", "share": f"{floor / median:.3f}"}
    row.update(more)
    return row


def measure_kith(kith, work, points, queries, floor, runs):
    """A prepared corpus is made of points on the host; its few queries and answers are there, too."""
    rows = work.asked or len(points)
    side = "cpu" if work.prepared else "cuda"
    ids = torch.empty(rows, work.k, dtype=torch.int32, device=side)
    distances = torch.empty(rows, work.k, dtype=torch.float32, device=side)
    out = Neighbors(ids.data_ptr(), distances.data_ptr(), None, rows, work.k)
    asked = queries.to(side) if queries is not None else None
    source = points.to(side)
    corpus = kith.prepare(source) if work.prepared else None
    seconds = timed(runs, lambda: kith.run(work, source, asked, corpus, out))
    report = kith.report()
    if corpus is not None:
        kith.release(corpus)
    return row_of(work, "kith", seconds, floor, survivors=f"{report.candidates:.1f}",
                  rerun=f"{report.rerun_share:.5f}", skipped=f"{report.skipped_share:.4f}",
                  checked=check(work, points, queries, ids.cuda()), commit=kith.commit())


def measure_torch(work, points, queries, floor, runs):
    asked = work.asked or len(points)
    products = 2.0 * asked * len(points) * points.shape[1]
    if products / TORCH_RATE > PATIENCE:
        print(f"{work.name}: PyTorch would take more than {PATIENCE:.0f} s, not run")
        return None
    source = points.float()
    wanted = source if queries is None else queries.float()
    batch = max(1, (1 << 31) // (4 * len(points)))
    seconds = timed(runs, lambda: torch_search(source, wanted, work.k + (queries is None), batch))
    return row_of(work, "torch", seconds, floor, checked="-", commit=torch.__version__)


def print_table(rows):
    print(f"\n{'work':<28} {'kith ms':>10} {'torch ms':>10} {'times':>7} {'floor ms':>9} {'share':>6} "
          f"{'survivors':>9} {'rerun':>7} {'skipped':>8} {'rows':>6}")
    for row in (r for r in rows if r["engine"] == "kith"):
        peer = next((r for r in rows if r["engine"] == "torch" and r["work"] == row["work"]), None)
        mine = 1e3 * float(row["seconds"])
        other = 1e3 * float(peer["seconds"]) if peer else None
        print(f"{row['work']:<28} {mine:>10.3f} {f'{other:.1f}' if other else '-':>10} "
              f"{f'{other / mine:.1f}' if other else '-':>7} {1e3 * float(row['floor']):>9.3f} "
              f"{100 * float(row['share']):>5.0f}% {row['survivors']:>9} "
              f"{100 * float(row['rerun']):>6.2f}% {100 * float(row['skipped']):>7.1f}% {row['checked']:>6}")


def run_all(options):
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    kith = Kith(options.build)
    rows = []
    for work in WORKS:
        if options.only not in work.name or (work.origin == "file" and options.file is None):
            continue
        points = make_points(work, work.rows, 1, options.file)
        queries = make_points(work, work.asked, 2, None) if work.asked else None
        torch.cuda.synchronize()
        floor = floor_seconds(work, points)
        torch.cuda.empty_cache()
        rows.append(measure_kith(kith, work, points, queries, floor, options.runs))
        print(f"{work.name}: kith {rows[-1]['seconds']} s, {rows[-1]['checked']}", flush=True)
        peer = measure_torch(work, points, queries, floor, options.runs)
        rows += [peer] if peer else []
    for row in rows:
        row["device"] = torch.cuda.get_device_name(0)
    print_table(rows)
    bench_rows.append(options.csv, COLUMNS, rows)
    return any(row["checked"].startswith("WRONG") for row in rows)


def run_without_torch(options):
    print("torch: absent; kith alone")
    command = [options.build / "bench_gpu", "--runs", str(options.runs), "--only", options.only]
    command += ["--file", options.file] if options.file else []
    command += ["--csv", options.csv] if options.csv else []
    return subprocess.run(command, check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--file", type=pathlib.Path, help="points of bytes, such as Fashion-MNIST")
    parser.add_argument("--only", default="", help="works whose name holds this")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--csv", type=pathlib.Path, help="rows are appended to it")
    options = parser.parse_args()
    if torch is None or not torch.cuda.is_available():
        return run_without_torch(options)
    return 1 if run_all(options) else 0


if __name__ == "__main__":
    sys.exit(main())
