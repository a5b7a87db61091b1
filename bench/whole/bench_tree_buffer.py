#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The paper's buffer k-d tree on a GPU and on the processor, beside kith's own tree on both, in one run.

    bench_tree_buffer.py [--build build] [--points 1000000] [--queries 1000000] [--columns 10 ...] [--heights H ...]
                         [--buffers B ...] [--runs N] [--engines NAME ...] [--csv bench/results/tree_buffer.csv]

Gieseke, Heinermann, Oancea, Igel 2014, "Buffer k-d trees": 1,000,000 points, k = 10.

  figure 2    seconds by height of the tree: buffer trees of both machines by B, the tree of both
  figure 3b   the share of finding leaves, and of buffers against leaves: select and screen of the report
  figure 4    the buffer tree on a GPU beside the same program on one core, at the best height of each
  the claim   5 to 34 times a tree of all cores, each at its best height
  table 2     the same for its six sets of columns, 10,000,000 queries:
              --columns 4 5 10 12 15 27 --queries 10000000 --heights 8 10 12 14 --buffers 131072 --runs 1

Seconds are those of the queries (select, screen and rescore of the report): the tree is not among
them, as in the paper. One core gets CORE_QUERIES of the queries, all cores CORES_QUERIES; rows say how
many, and ratios at the end are of seconds a query. Ids must be the same for all engines. Points are
`colour` of bench_tree_gpu.py. Less than two minutes for 10 columns on an H100 with 16 cores.
"""
import argparse
import ctypes
import datetime
import math
import pathlib
import statistics
import sys

import bench_rows
from bench_gpu import ROOT, Kith, Neighbors, SearchParams, matrix, stream, torch
from bench_tree_gpu import Work, make

COLUMNS = ["date", "commit", "machine", "threads", "work", "rows", "queries", "columns", "dtype", "k", "height",
           "buffer", "engine", "version", "isa", "runs", "seconds", "seconds_min", "seconds_max", "select_seconds",
           "screen_seconds", "rescore_seconds", "build_seconds", "pairs_share", "same", "command"]
HEIGHTS = (6, 8, 10, 12, 13, 14)
BUFFERS = (512, 8192, 131072)  # beside the library's choice, 0, and the paper's, 2^(22 - height)
CORE_QUERIES, CORES_QUERIES = 20_000, 200_000
BUFFER_TREE, TREE = 3, 2  # of pipelines, of methods
# Device, threads (0: all), whether it is the paper's tree.
ENGINES = {"tree-gpu": ("cuda:0", 0, False), "buffer-gpu": ("cuda:0", 0, True), "tree-all-cores": ("cpu", 0, False),
           "buffer-one-core": ("cpu", 1, True)}


class Engine:
    """A way to answer on a device."""

    def __init__(self, options, name, device, threads, buffers):
        self.name, self.buffers, self.device = name, buffers, device
        self.kith = Kith(options.build, device.encode(), threads)
        self.threads = threads
        self.queries = {"cuda:0": options.queries, "cpu": CORE_QUERIES if threads == 1 else CORES_QUERIES}[device]
        self.queries = min(self.queries, options.queries)

    def call(self, points, queries, height, buffer, k):
        """The report of one call, and the ids."""
        where = "cuda" if self.device != "cpu" else "cpu"
        ids = torch.empty(len(queries), k, dtype=torch.int32, device=where)
        distances = torch.empty(len(queries), k, dtype=torch.float32, device=where)
        out = Neighbors(ids.data_ptr(), distances.data_ptr(), None, len(queries), k)
        params = SearchParams(struct_size=ctypes.sizeof(SearchParams), k=k, tree_height=height, leaf_buffer=buffer,
                              pipeline=BUFFER_TREE if self.buffers else 0, method=0 if self.buffers else TREE)
        sets = ctypes.byref(matrix(points)), ctypes.byref(matrix(queries))
        lib, ctx = self.kith.lib, self.kith.ctx
        if where == "cuda":
            self.kith.must(lib.kith_cuda_search(ctx, *sets, ctypes.byref(params), ctypes.byref(out), stream()))
        else:
            self.kith.must(lib.kith_search(ctx, *sets, ctypes.byref(params), ctypes.byref(out), None))
        return self.kith.report(), ids


def seconds_of(report):
    return report.seconds_select + report.seconds_screen + report.seconds_rescore


def row_of(engine, work, height, buffer, reports, same):
    """Phases are those of the median run."""
    ranked = sorted(reports, key=seconds_of)
    seconds = [seconds_of(report) for report in ranked]
    report = ranked[len(ranked) // 2]
    on_gpu = engine.device != "cpu"
    return {"date": datetime.date.today().isoformat(), "commit": engine.kith.commit(),
            "machine": torch.cuda.get_device_name(0) if on_gpu else bench_rows.processor_name(),
            "threads": "" if on_gpu else engine.threads or torch.get_num_threads(), "work": work.name,
            "rows": work.n, "queries": engine.queries, "columns": work.d, "dtype": "f32", "k": work.k,
            "height": height, "buffer": buffer, "engine": engine.name,
            "version": engine.kith.lib.kith_version().decode(), "isa": report.isa.decode(), "runs": len(reports),
            "seconds": f"{statistics.median(seconds):.5f}", "seconds_min": f"{seconds[0]:.5f}",
            "seconds_max": f"{seconds[-1]:.5f}", "select_seconds": f"{report.seconds_select:.5f}",
            "screen_seconds": f"{report.seconds_screen:.5f}", "rescore_seconds": f"{report.seconds_rescore:.5f}",
            "build_seconds": f"{report.seconds_check + report.seconds_prepare:.5f}",
            "pairs_share": f"{1.0 - report.skipped_share:.6f}", "same": "same" if same else "DIFFERENT",
            "command": "bench_tree_buffer.py"}


def ways_of(engine, options):
    """Heights and buffers that an engine is asked for; one core with its own buffers alone."""
    for height in (height for height in options.heights if height <= int(math.log2(options.points)) - 4):
        buffers = [0]
        if engine.buffers and engine.device != "cpu":
            buffers += options.buffers or sorted({1 << (22 - height), *BUFFERS})
        for buffer in buffers:
            yield height, buffer


class Bench:
    def __init__(self, options, columns):
        self.options, self.rows = options, []
        self.work = Work("buffer", options.points, options.queries, columns)
        self.sets = {"cuda:0": (make(self.work, self.work.n, 1), make(self.work, self.work.m, 2))}
        self.sets["cpu"] = tuple(each.cpu() for each in self.sets["cuda:0"])
        self.truth = None

    def run(self, engine, height, buffer):
        points, queries = self.sets[engine.device]
        queries = queries[:engine.queries]
        runs = self.options.runs if engine.device != "cpu" else 1
        calls = [engine.call(points, queries, height, buffer, self.work.k)
                 for _ in range(runs + (engine.device != "cpu"))]
        ids = calls[-1][1].cpu()
        self.truth = ids if self.truth is None else self.truth
        same = bool((ids == self.truth[:len(ids)]).all())
        row = row_of(engine, self.work, height, buffer, [report for report, _ in calls[-runs:]], same)
        print(f"{engine.name:<16} height {height:>2} buffer {buffer:>7}  "
              f"{1e9 * float(row['seconds']) / engine.queries:10.1f} ns a query  "
              + "  ".join(f"{name} {1e3 * float(row[name + '_seconds']):9.2f} ms"
                          for name in ("select", "screen", "rescore", "build"))
              + f"  pairs {100 * float(row['pairs_share']):.3f} %  {row['same']}", flush=True)
        self.rows.append(row)
        bench_rows.append(self.options.csv, COLUMNS, [row])

    def best(self, name):
        """Seconds a query, and the row, of an engine's best height and buffer."""
        rows = [row for row in self.rows if row["engine"] == name]
        return min((float(row["seconds"]) / row["queries"], row["height"], row["buffer"], row["select_seconds"],
                    row["screen_seconds"]) for row in rows)

    def tell(self, names):
        best = {name: self.best(name) for name in names}
        for name, (seconds, height, buffer, select, screen) in best.items():
            whole = float(select) + float(screen)
            print(f"{name:<16} best: {1e9 * seconds:9.1f} ns a query, height {height}, buffer {buffer}; finding leaves "
                  f"{100 * float(select) / whole:.1f} % of both kernels")
        if set(names) != set(ENGINES):
            return
        gpu = best["buffer-gpu"][0]
        print(f"figure 4: {best['buffer-one-core'][0] / gpu:.0f} times one core; "
              f"the claim: {best['tree-all-cores'][0] / gpu:.1f} times a tree of all cores; "
              f"beside kith's tree on the same GPU: {best['tree-gpu'][0] / gpu:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, nargs="+", default=[10])
    parser.add_argument("--heights", type=int, nargs="+", default=HEIGHTS)
    parser.add_argument("--buffers", type=int, nargs="+", help="of a GPU, beside the library's choice")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES), help="default: all")
    parser.add_argument("--runs", type=int, default=3, help="of a GPU, after one that does not count")
    parser.add_argument("--csv", type=pathlib.Path, help="rows are appended to it")
    options = parser.parse_args()
    if torch is None or not torch.cuda.is_available():
        print("bench_tree_buffer: absent (no PyTorch, or no GPU)")
        return 77
    engines = [Engine(options, name, *ENGINES[name]) for name in options.engines]
    right = True
    for columns in options.columns:
        print(f"{columns} columns", flush=True)
        bench = Bench(options, columns)
        for engine in engines:
            for height, buffer in ways_of(engine, options):
                bench.run(engine, height, buffer)
        bench.tell([engine.name for engine in engines])
        right = right and all(row["same"] == "same" for row in bench.rows)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
