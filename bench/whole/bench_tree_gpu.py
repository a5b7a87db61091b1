#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tree on a GPU beside kith's own brute force and PyTorch's, in one run; points on the device.

    bench_tree_gpu.py [--build build] [--sweep NAME] [--only TEXT] [--runs N] [--csv bench/results/tree.csv]

A sweep is a figure or a table of docs/notes/tree.md: less than a minute each on an H200.

  goals      the works of docs/tree.md
  table2     10,000,000 queries among 1,000,000 points in the columns of the paper's six catalogues
  m n d k    one of them changes: queries, points, columns, neighbours; colour, d = 10 unless it changes
  crossover  uniform points, more and more columns: tree, all pairs and what auto takes, the same queries
  stream     200,000,000 queries, generated 10,000,000 at a time, each call with its own tree

  colour   a 4-dimensional Gaussian, mapped linearly into d dimensions, and 5 % noise
  uniform  the unit cube

Search is the phases screen and rescore of the report of one call, build its phases check and prepare
(values checked, equal rows found, the tree, queries sorted); whole is the call, outputs on the device.
Brute force of many queries is measured with fewer (the column `asked`) and not scaled in the rows.
Where a work is solved by two engines, their ids must be the same. PyTorch's distances are fp32.
"""
import argparse
import ctypes
import datetime
import pathlib
import statistics
import sys
import time
from dataclasses import dataclass

import bench_rows
from bench_gpu import (ROOT, Kith, Neighbors, SearchParams, check, matrix, stream, timed,
                       torch, torch_search)

COLUMNS = ["date", "commit", "machine", "threads", "work", "rows", "queries", "columns", "dtype", "k",
           "engine", "version", "isa", "runs", "seconds", "seconds_min", "seconds_max", "whole_seconds",
           "build_seconds", "ratio", "recall", "pairs_share", "command"]
METHODS = {"tree": 2, "exact": 1, "auto": 0}
BRUTE_QUERIES, TORCH_QUERIES = 1_000_000, 20_000  # unless a sweep says otherwise


@dataclass
class Work:
    """m queries among n points."""

    name: str
    n: int
    m: int
    d: int
    kind: str = "colour"
    k: int = 10
    asked: int = 1  # what bench_gpu.check looks at: a search
    brute: int = BRUTE_QUERIES
    torch: int = TORCH_QUERIES
    auto: bool = False
    calls: int = 1  # more: so many times m queries, seconds added up


def sweep(name, changes, **fixed):
    """Works of one figure, all of one name; the fixed ones change by what is listed."""
    usual = {"n": 2_000_000, "m": 1_000_000, "d": 10, "brute": 200_000, "torch": 0} | fixed
    return [Work(name, **(usual | change)) for change in changes]


GOALS = [Work(f"colour {d}", 2_000_000, 10_000_000, d) for d in (4, 8, 10, 15, 27)] + [
    Work("uniform 8", 1_000_000, 10_000_000, 8, "uniform"),
    Work("uniform 12", 1_000_000, 1_000_000, 12, "uniform"),
    Work("uniform 15", 1_000_000, 1_000_000, 15, "uniform"),
    Work("colour 10 k1", 2_000_000, 10_000_000, 10, k=1),
    Work("colour 10 k100", 2_000_000, 1_000_000, 10, k=100),
]
SWEEPS = {
    "goals": GOALS,
    "table2": sweep("table2", [{"d": d} for d in (4, 5, 10, 12, 15, 27)], n=1_000_000, m=10_000_000),
    "m": sweep("sweep m", [{"m": m} for m in (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)]),
    "n": sweep("sweep n", [{"n": n} for n in (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)],
               m=10_000_000, brute=100_000),
    "d": sweep("sweep d", [{"d": d} for d in (2, 3, 4, 6, 8, 10, 12, 15, 20, 24, 27, 30)]),
    "k": sweep("sweep k", [{"k": k} for k in (1, 3, 10, 30, 100, 300, 1000)]),
    "crossover": sweep("crossover", [{"d": d} for d in (2, 4, 6, 8, 10, 12, 13, 14, 15, 16, 18)],
                       n=1_000_000, m=200_000, kind="uniform", auto=True),
    "stream": [Work("stream 10", 2_000_000, 10_000_000, 10, calls=20)],
}


def make(work, rows, seed):
    random = torch.Generator(device="cuda").manual_seed(seed)
    options = {"device": "cuda", "dtype": torch.float32, "generator": random}
    if work.kind == "uniform":
        return torch.rand(rows, work.d, **options)
    shared = torch.Generator(device="cuda").manual_seed(7)
    axes = torch.randn(4, work.d, device="cuda", generator=shared)
    points = torch.randn(rows, 4, **options) @ axes
    return points + 0.05 * points.std() * torch.randn(rows, work.d, **options)


def once(call):
    """Seconds of one call, the first of its kind or not."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return [time.perf_counter() - start]


def solve(kith, work, points, queries, method, runs):
    """Seconds of calls, the last report, the ids."""
    ids = torch.empty(len(queries), work.k, dtype=torch.int32, device="cuda")
    distances = torch.empty(len(queries), work.k, dtype=torch.float32, device="cuda")
    out = Neighbors(ids.data_ptr(), distances.data_ptr(), None, len(queries), work.k)
    params = SearchParams(struct_size=ctypes.sizeof(SearchParams), k=work.k, method=METHODS[method])
    searches, builds = [], []

    def call():
        kith.must(kith.lib.kith_cuda_search(
            kith.ctx, ctypes.byref(matrix(points)), ctypes.byref(matrix(queries)),
            ctypes.byref(params), ctypes.byref(out), stream()))
        report = kith.report()
        searches.append(report.seconds_screen + report.seconds_rescore)
        builds.append(report.seconds_check + report.seconds_prepare)

    whole = timed(runs, call) if runs else once(call)
    return {"engine": f"kith-{method}", "seconds": searches[-len(whole):], "whole": whole,
            "build": builds[-len(whole):], "report": kith.report(), "ids": ids}


def command_of(work):
    name = next(name for name, works in SWEEPS.items() if work in works)
    return f"bench_tree_gpu.py --only '{work.name}'" if name == "goals" else f"bench_tree_gpu.py --sweep {name}"


def row_of(work, kith, found, queries, checked):
    seconds = found["seconds"]
    report = found.get("report")
    return {"date": datetime.date.today().isoformat(), "commit": kith.commit(),
            "machine": torch.cuda.get_device_name(0), "threads": "", "work": work.name,
            "rows": work.n, "queries": queries, "columns": work.d, "dtype": "f32", "k": work.k,
            "engine": found["engine"],
            "version": kith.lib.kith_version().decode() if report else torch.__version__,
            "isa": report.screen.decode() if report else "", "runs": len(seconds),
            "seconds": f"{statistics.median(seconds):.5f}", "seconds_min": f"{min(seconds):.5f}",
            "seconds_max": f"{max(seconds):.5f}",
            "whole_seconds": f"{statistics.median(found['whole']):.5f}",
            "build_seconds": f"{statistics.median(found['build']):.5f}" if report else "",
            "ratio": "", "recall": "1.00000" if checked == "same" else checked,
            "pairs_share": f"{1.0 - report.skipped_share:.6f}" if report else "",
            "command": command_of(work)}


def run_calls(kith, work):
    """Many calls as one row; the queries of the first and the last are checked."""
    points = make(work, work.n, 1)
    total = {"seconds": [0.0], "whole": [0.0], "build": [0.0]}
    checked = set()
    for call in range(work.calls):
        queries = make(work, work.m, 100 + call)
        found = solve(kith, work, points, queries, "tree", 0)
        for name in total:
            total[name][0] += found[name][0]
        if call in (0, work.calls - 1):
            checked.add(check(work, points, queries, found["ids"]))
    found.update(total)
    rows = [row_of(work, kith, found, work.calls * work.m, "same" if checked == {"same"} else "WRONG")]
    print_work(work, found["report"], rows)
    return rows


def run_work(kith, work, options):
    if work.calls > 1:
        return run_calls(kith, work)
    points, queries = make(work, work.n, 1), make(work, work.m, 2)
    rows = []
    tree = solve(kith, work, points, queries, "tree", options.runs)
    rows.append(row_of(work, kith, tree, work.m, check(work, points, queries, tree["ids"])))
    few = queries[:work.brute]
    for method in ("exact", "auto") if work.auto else ("exact",):
        found = solve(kith, work, points, few, method, options.runs if work.auto else 1)
        same = bool((found["ids"] == tree["ids"][:len(few)]).all())
        if method == "auto":
            found["engine"] = f"kith-auto:{'tree' if found['report'].screen == b'tree' else 'exact'}"
        rows.append(row_of(work, kith, found, len(few), "same" if same else "DIFFERENT"))
        del found
    torch.cuda.empty_cache()
    fewer = queries[:work.torch]
    if work.torch:
        batch = max(1, (1 << 31) // (4 * work.n))
        seconds = timed(2, lambda: torch_search(points, fewer, work.k, batch))
        rows.append(row_of(work, kith, {"engine": "torch", "seconds": seconds, "whole": seconds},
                           len(fewer), "same"))
        rows[-1]["recall"] = ""
    print_work(work, tree["report"], rows)
    return rows


def print_work(work, report, rows):
    """Of the tree's last run, and what a query takes by each engine."""
    tree = rows[0]
    print(f"{work.name:<16} n {work.n} m {work.m} d {work.d} k {work.k}  search "
          f"{1e3 * float(tree['seconds']):9.2f} ms  whole {1e3 * float(tree['whole_seconds']):9.2f}  "
          f"build {1e3 * float(tree['build_seconds']):8.2f}  screen {1e3 * report.seconds_screen:8.2f}  "
          f"rescore {1e3 * report.seconds_rescore:8.2f}  pairs/query "
          f"{(1 - report.skipped_share) * work.n:9.0f}  rerun {100 * report.rerun_share:.3f} %  device "
          f"{report.gpu_peak_bytes / (1 << 20):.0f} MiB  ns/query "
          + "  ".join(f"{row['engine']} {1e9 * float(row['seconds']) / row['queries']:.2f}" for row in rows)
          + f"  {' '.join(row['recall'] for row in rows)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--sweep", default="goals", choices=SWEEPS)
    parser.add_argument("--only", default="", help="works whose name holds this")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--csv", type=pathlib.Path, help="rows are appended to it")
    options = parser.parse_args()
    if torch is None or not torch.cuda.is_available():
        print("bench_tree_gpu: absent (no PyTorch, or no GPU)")
        return 77
    torch.backends.cuda.matmul.allow_tf32 = False
    kith = Kith(options.build)
    failed = False
    for work in (w for w in SWEEPS[options.sweep] if options.only in w.name):
        rows = run_work(kith, work, options)
        failed |= any(row["recall"] not in ("", "1.00000") for row in rows)
        bench_rows.append(options.csv, COLUMNS, rows)
        torch.cuda.empty_cache()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
