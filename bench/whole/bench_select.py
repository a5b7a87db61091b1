#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Selection as three papers measured it, measured again: methods of kith beside today's peers.

    bench_select.py [--side cpu|cuda] [--build build] [--only goals,queue,sizes,quick,heap,updates,today]
                    [--quick] [--csv bench/results/select.csv]

--side cpu: matrices of NumPy, the peers are NumPy and std::nth_element. --side cuda: matrices of PyTorch
in device memory. Which figure is made of which rows stands in select_queue.py, select_quick.py,
select_heap.py (a paper each) and select_goals.py; plot_select.py draws them. Answers are compared with a
full sort before anything is timed. Parts of works can be named, too: heap.parts (figures 6 and 8), quick.5 (and 6),
quick.7 (and 8), quick.9, quick.10, quick.table2. --quick: small sizes, to see that everything runs.
"""
import argparse
import datetime
import os
import pathlib
import statistics
import sys
import time

import numpy

import bench_rows
import select_goals
import select_heap
import select_peers
import select_queue
import select_quick
from bench_gpu import ROOT, torch
from select_kith import Kith

COLUMNS = ["date", "commit", "machine", "side", "threads", "load", "work", "method", "buffer", "group",
           "aligned", "sample", "rows", "cols", "k", "at", "quantity", "value", "low", "high", "deviation",
           "runs", "command"]
WORKS = {"goals": select_goals.measure, "queue": select_queue.measure,
         "sizes": select_queue.measure_sizes, "quick": select_quick.measure,
         "heap": select_heap.measure, "updates": select_queue.count_updates, "today": select_goals.measure_today}
PARTS = {"heap.parts": select_heap.measure_parts, **select_quick.PARTS}
SLOW, PATIENCE = 0.2, 5.0  # seconds: what takes longer runs once; what is estimated to is not run


class Bench:
    """Where it is measured, how, and the rows so far."""

    def __init__(self, options):
        self.side = options.side
        self.quick = options.quick
        self.build = options.build
        self.peers = options.peers.split(",")
        self.kith = Kith(options.build, options.side)
        self.threads = self.kith.threads() if options.side == "cpu" else 0
        self.csv = options.csv
        self.rows = []
        self.written = 0
        flags = f"--side {options.side}" + (" --quick" if options.quick else "")
        self.command = f"bench_select.py {flags} --only {options.only}"

    # ---- Matrices -------------------------------------------------------------------------------

    def uniform(self, rows, cols, seed=1):
        if self.side == "cuda":
            random = torch.Generator(device="cuda").manual_seed(seed)
            return torch.rand(rows, cols, generator=random, device="cuda")
        return numpy.random.default_rng(seed).random((rows, cols), dtype=numpy.float32)

    def distances(self, queries, points):
        """|p|^2 - 2 qp, in single precision: the order of Euclidean distances."""
        if self.side == "cuda":
            return torch.addmm((points * points).sum(dim=1), queries, points.T, alpha=-2.0)
        found = queries @ points.T
        found *= -2.0
        found += numpy.einsum("ij,ij->i", points, points)
        return found

    def wait(self):
        if self.side == "cuda":
            torch.cuda.synchronize()

    # ---- Time -----------------------------------------------------------------------------------

    def once(self, call):
        self.wait()
        start = time.perf_counter()
        call()
        self.wait()
        return time.perf_counter() - start

    def seconds(self, call, runs=3):
        """Of each run after one to warm up; what is slow has run already."""
        first = self.once(call)
        return [first] if first > SLOW else [self.once(call) for _ in range(runs)]

    def try_kith(self, work, matrix, k, runs=3, kth=False, at="", threads=0, **switches):
        """Seconds of one method as a row; a processor that would take too long is spared."""
        rows = matrix.shape[0]
        if self.side == "cpu" and rows >= 64 and not kth:
            few = matrix[:rows // 32]
            estimate = 32 * self.once(self.kith.selecting(few, k, threads, kth, **switches))
            if estimate > PATIENCE:
                print(f"  not run, about {estimate:.0f} s: {work} {switches} {matrix.shape} k {k}")
                return None
        taken = self.seconds(self.kith.selecting(matrix, k, threads, kth, **switches), runs)
        self.add(work, taken, matrix.shape, k, at, threads=threads or self.threads, **switches)
        return statistics.median(taken)

    def try_peers(self, work, matrix, k, peers, at=""):
        for name, threads, call in peers:
            if self.side == "cpu" and matrix.size > 1 << 26 and threads == 1:
                continue  # minutes
            self.add(work, self.seconds(call), matrix.shape, k, at, threads=threads, method=name)

    # ---- Rows -----------------------------------------------------------------------------------

    def add(self, work, values, shape, k, at="", quantity="seconds", threads=0, **switches):
        row = {"work": work, "rows": shape[0], "cols": shape[1], "k": k, "at": at, "quantity": quantity,
               "value": f"{statistics.median(values):.6g}", "low": f"{min(values):.6g}",
               "high": f"{max(values):.6g}", "runs": len(values), "threads": threads,
               "load": f"{os.getloadavg()[0]:.1f}", "method": "", "buffer": "none", "group": 0,
               "aligned": 0, "sample": 0}
        row["deviation"] = f"{statistics.stdev(values):.6g}" if len(values) > 1 else ""
        row.update({name: int(v) if isinstance(v, bool) else v for name, v in switches.items()})
        self.rows.append(row)

    def write(self):
        """Rows since the last time, to the file: what was measured stays when the rest is cut short."""
        fresh = self.rows[self.written:]
        for row in fresh:
            row.update(date=datetime.date.today().isoformat(), commit=self.kith.commit(),
                       machine=machine_name(self.side), side=self.side, command=self.command)
        bench_rows.append(self.csv, COLUMNS, [{name: row[name] for name in COLUMNS} for row in fresh])
        self.written = len(self.rows)


def check(bench):
    """Every method against a stable full sort, on data with ties."""
    matrix = numpy.floor(numpy.random.default_rng(3).random((50, 3000)) * 1000).astype(numpy.float32)
    order = numpy.argsort(matrix, axis=1, kind="stable")[:, :100]
    given = torch.from_numpy(matrix).cuda() if bench.side == "cuda" else matrix
    for method in ("auto", "scan", "insertion", "heap", "merge_queue", "quick", "bitonic", "radix",
                   "threshold_heap"):
        ids = bench.kith.selecting(given, 100, method=method)()[1]
        ids = ids.cpu().numpy() if bench.side == "cuda" else ids
        if not (ids == order).all():
            sys.exit(f"bench_select: {method} is WRONG")


def machine_name(side):
    return torch.cuda.get_device_name(0) if side == "cuda" else bench_rows.processor_name()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--only", default=",".join(WORKS), help="of " + ", ".join([*WORKS, *PARTS]))
    parser.add_argument("--peers", default=",".join(select_peers.TODAY), help="of today; default: all, %(default)s")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--csv", type=pathlib.Path, help="rows are appended to it")
    options = parser.parse_args()
    works = WORKS | PARTS
    unknown = [name for name in options.only.split(",") if name not in works]
    if unknown:
        parser.error("no such work: " + ", ".join(unknown))
    if options.side == "cuda":
        if torch is None or not torch.cuda.is_available():
            sys.exit("bench_select: --side cuda needs PyTorch and a GPU")
        torch.backends.cuda.matmul.allow_tf32 = False
    bench = Bench(options)
    check(bench)
    for name in options.only.split(","):
        start = time.perf_counter()
        works[name](bench)
        if bench.side == "cuda":
            torch.cuda.empty_cache()
        bench.write()
        print(f"{name}: {time.perf_counter() - start:.1f} s, {len(bench.rows)} rows so far", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
