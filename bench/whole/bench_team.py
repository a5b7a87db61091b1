#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One, two, four GPUs of one host on the same points in host memory; rows go to bench/results/team.csv.

  exact     the exact graph of 10,000,000 x 96, k = 10
  descent   NN-Descent of 40,000,000 x 96, k = 32 (--rows for fewer)
  merge     two graphs by NN-Descent, of 5,000,000 x 96 each, k = 10, made one
  search    100,000 queries against 10,000,000 x 96, k = 10
  tree      10,000,000 queries against 2,000,000 x 4 (or --columns 10), which are among them, by the tree, k = 10

Points are a mixture in the manner of bench_descent.py, bytes one in the manner of shard_points.py, made on the first
GPU by PyTorch and brought to the host, where kith begins: its time is that of a call, upload and download with it,
the first one not counted (but with --runs 0, which makes no other).
same: whether the ids and distances have the bytes of one GPU. recall of a descent: of rows drawn at random,
solved exactly by PyTorch in double on the first GPU.
"""
import argparse
import ctypes
import datetime
import hashlib
import os
import pathlib
import statistics
import sys
import time

import torch

import bench_rows
import descent_gpu
import descent_types
import shard_points
from bench_gpu import CtxParams, EUCLIDEAN, Matrix, Neighbors, Report, SearchParams, merge_sets

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = ["date", "commit", "machine", "work", "rows", "columns", "k", "gpus", "backend", "runs", "seconds",
           "seconds_min", "seconds_max", "speedup", "prepare_seconds", "screen_seconds", "rescore_seconds",
           "rounds", "recall", "same", "peak_mib", "command"]
WORKS = {"exact": (10_000_000, 10), "descent": (40_000_000, 32), "merge": (10_000_000, 10),
         "search": (10_000_000, 10), "tree": (2_000_000, 10)}
QUERIES = {"search": 100_000, "tree": 10_000_000}
METHOD_TREE = 2
CLUSTER = 1000  # points of one cluster, about
HASHED = 1 << 26


class Team:
    """A context on some GPUs."""

    def __init__(self, build, count):
        self.lib = ctypes.CDLL(str(build / "libkith.so"))
        for name in ("kith_ctx_detail", "kith_commit"):
            getattr(self.lib, name).restype = ctypes.c_char_p
        self.ctx = ctypes.c_void_p()
        device = "cuda:" + ",".join(str(i) for i in range(count))
        params = CtxParams(struct_size=ctypes.sizeof(CtxParams), device=device.encode())
        self.must(self.lib.kith_ctx_create(ctypes.byref(params), ctypes.byref(self.ctx)))

    def must(self, status):
        if status != 0:
            sys.exit("bench_team: " + self.lib.kith_ctx_detail(self.ctx).decode())

    def report(self):
        report = Report(struct_size=ctypes.sizeof(Report))
        self.must(self.lib.kith_ctx_report(self.ctx, ctypes.byref(report)))
        return report

    def free(self):
        self.lib.kith_ctx_free(self.ctx)


class Answer:
    """Ids and distances in host memory that is touched before the clock starts."""

    def __init__(self, rows, k):
        self.ids = torch.zeros(rows, k, dtype=torch.int32)
        self.distances = torch.zeros(rows, k, dtype=torch.float32)
        self.out = Neighbors(self.ids.data_ptr(), self.distances.data_ptr(), None, rows, k)

    def digest(self):
        sum_ = hashlib.blake2b()
        for part in (self.ids, self.distances):
            flat = part.view(-1).numpy()
            for first in range(0, len(flat), HASHED):
                sum_.update(flat[first:first + HASHED].tobytes())
        return sum_.hexdigest()


def matrix(points):
    return Matrix(points.data_ptr(), points.shape[0], 0, points.shape[1], descent_gpu.DTYPES[str(points.dtype)])


def make_floats(rows, columns):
    """Blocks of 10,000,000 points, each a mixture of its own."""
    for first in range(0, rows, 10_000_000):
        count = min(10_000_000, rows - first)
        work = descent_gpu.Work("team", count, columns, clusters=max(1, count // CLUSTER))
        yield descent_gpu.clustered(work, count, 1 + first)


def make_bytes(rows, columns):
    maker = shard_points.ByteMaker(0, max(1, rows // CLUSTER), columns)
    for number in range(-(-rows // shard_points.ROWS_AT_ONCE)):
        yield torch.from_numpy(maker.make(number))


def make_points(rows, columns, dtype):
    points = torch.empty(rows, columns, dtype=dtype)
    first = 0
    for some in (make_bytes if dtype == torch.uint8 else make_floats)(rows, columns):
        count = min(len(some), rows - first)
        points[first:first + count] = some[:count].cpu()
        first += count
        del some
        torch.cuda.empty_cache()
    return points


def merge_of(team, points, k, answer, descends):
    """Graphs of both halves are made first, by the same GPUs."""
    of_points = matrix(points)
    halves = points[:len(points) // 2], points[len(points) // 2:]
    graphs = [Answer(len(half), k) for half in halves]
    for half, graph in zip(halves, graphs):
        of_half = matrix(half)
        team.must(team.lib.kith_graph(team.ctx, ctypes.byref(of_half), ctypes.byref(descends),
                                      ctypes.byref(graph.out), None))
    sets = merge_sets(of_points, len(halves[0]), [graph.out for graph in graphs])
    answer.kept = of_points, graphs
    return lambda: team.must(team.lib.kith_graph_merge(
        team.ctx, ctypes.byref(sets), ctypes.byref(descends), ctypes.byref(answer.out), None))


def call_of(team, work, points, k, answer, options):
    search = SearchParams(struct_size=ctypes.sizeof(SearchParams), metric=EUCLIDEAN, k=k)
    of_points = matrix(points)
    if work == "exact":
        return lambda: team.must(team.lib.kith_graph(
            team.ctx, ctypes.byref(of_points), ctypes.byref(search), ctypes.byref(answer.out), None))
    if work in QUERIES:
        if work == "tree":
            of_points = matrix(points[:options.rows or WORKS[work][0]])
            search.method = METHOD_TREE
        queries = matrix(points[:len(answer.ids)])
        return lambda: team.must(team.lib.kith_search(
            team.ctx, ctypes.byref(of_points), ctypes.byref(queries), ctypes.byref(search),
            ctypes.byref(answer.out), None))
    setting = {"recall": options.recall} if options.recall > 0 else {}
    params = descent_gpu.params_of(descent_gpu.Work("team", len(points), points.shape[1]), k, setting,
                                   0 if options.recall > 0 else -1)
    report = descent_gpu.DescentReport(struct_size=ctypes.sizeof(descent_gpu.DescentReport))
    answer.report = report
    descends = descent_types.search_of(params, report)
    if work == "merge":
        return merge_of(team, points, k, answer, descends)
    return lambda: team.must(team.lib.kith_graph(
        team.ctx, ctypes.byref(of_points), ctypes.byref(descends), ctypes.byref(answer.out), None))


def recall_of(points, ids):
    """In pieces, as points that fill the host do not fit the first GPU in double."""
    random = torch.Generator().manual_seed(77)
    rows = torch.randperm(len(points), generator=random)[:descent_gpu.CHECKED]
    asked = points[rows].cuda().double()
    best = torch.empty(len(rows), 0, device="cuda", dtype=torch.float64)
    places = torch.arange(len(rows), device="cuda")
    own_rows = rows.cuda()
    for first in range(0, len(points), descent_gpu.COMPARED):
        some = points[first:first + descent_gpu.COMPARED].cuda().double()
        found = torch.cdist(asked, some, compute_mode="use_mm_for_euclid_dist")
        own = own_rows - first
        inside = (own >= 0) & (own < len(some))
        found[places[inside], own[inside]] = float("inf")
        best = torch.cat([best, found], dim=1)
        best = best.topk(min(descent_gpu.AT, best.shape[1]), dim=1, largest=False).values
    limit = best.max(dim=1).values
    chosen = ids[rows, :descent_gpu.AT].long() & 0xFFFFFFFF
    near = points[chosen.flatten()].cuda().double().view(*chosen.shape, -1)
    found = (asked[:, None, :] - near).pow_(2).sum(dim=2).sqrt()
    return (found <= limit[:, None] * (1 + 1e-7)).double().mean().item()


def timed(runs, call):
    seconds = []
    for _ in range(1 + runs):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds[1:] or seconds


def bench(options, work, rows, k):
    dtype = torch.uint8 if options.bytes else torch.float32
    columns = options.columns or (4 if work == "tree" else 96)
    asked = QUERIES.get(work, rows)
    points = make_points(max(rows, asked), columns, dtype)
    print(f"\n{work}: {rows:,} x {columns}, k = {k}", flush=True)
    first, digest, found = None, None, []
    for count in options.gpus:
        if count > torch.cuda.device_count():
            print(f"  {count} GPUs: there are {torch.cuda.device_count()}")
            continue
        team = Team(options.build, count)
        answer = Answer(asked, k)
        seconds = timed(options.runs, call_of(team, work, points, k, answer, options))
        report = team.report()
        middle = statistics.median(seconds)
        own = answer.digest()
        first, digest = first or middle, digest or own
        row = {"date": datetime.date.today().isoformat(), "commit": team.lib.kith_commit().decode(),
               "machine": torch.cuda.get_device_name(0), "work": work, "rows": rows,
               "columns": columns, "k": k, "gpus": count, "backend": report.backend.decode(),
               "runs": len(seconds), "seconds": f"{middle:.4f}", "seconds_min": f"{min(seconds):.4f}",
               "seconds_max": f"{max(seconds):.4f}", "speedup": f"{first / middle:.3f}",
               "prepare_seconds": f"{report.seconds_check + report.seconds_prepare:.4f}",
               "screen_seconds": f"{report.seconds_screen:.4f}",
               "rescore_seconds": f"{report.seconds_rescore:.4f}", "same": int(own == digest),
               "peak_mib": f"{report.gpu_peak_bytes / 2**20:.0f}",
               "command": " ".join(["bench_team.py"] + sys.argv[1:])}
        if work in ("descent", "merge"):
            row |= {"rounds": answer.report.rounds}
            if options.check:
                row |= {"recall": f"{recall_of(points, answer.ids):.5f}"}
        team.free()
        print(f"  {row['backend']:14} {middle:9.3f} s  x {row['speedup']}  prepare {row['prepare_seconds']}  screen "
              f"{row['screen_seconds']}  rescore {row['rescore_seconds']}  same {row['same']}  recall "
              f"{row.get('recall', '')}  device {row['peak_mib']} MiB", flush=True)
        found.append(row)
        bench_rows.append(options.csv, COLUMNS, [row])
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="folder of libkith.so")
    options.add_argument("--work", nargs="*", default=["exact", "descent"], choices=list(WORKS))
    options.add_argument("--gpus", nargs="*", type=int, default=[1, 2, 4])
    options.add_argument("--rows", type=int, default=0, help="fewer or more than usual")
    options.add_argument("--columns", type=int, default=0, help="0: 96, by the tree 4")
    options.add_argument("--bytes", action="store_true", help="points of 8 bits")
    options.add_argument("-k", type=int, default=0)
    options.add_argument("--recall", type=float, default=0.0, help="descent: stop there; 0: all rounds")
    options.add_argument("--runs", type=int, default=2, help="after the first, or 0: the first counts")
    options.add_argument("--check", action="store_true", help="recall of descents")
    options.add_argument("--csv", type=pathlib.Path)
    options = options.parse_args()
    if not torch.cuda.is_available():
        print("bench_team: no GPU")
        return 77
    os.environ.setdefault("KITH_CUDA_MODULE", str(options.build / "libkith_cuda.so"))
    for work in options.work:
        rows, k = WORKS[work]
        bench(options, work, options.rows or rows, options.k or k)
    return 0


if __name__ == "__main__":
    sys.exit(main())
