#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What two graphs made one cost in other ways: figure 7 of Wang, Zhao, Zeng 2021, and the shape of its table 2.
Rows go to bench/results/graph_merge_ways.csv; plot_merge.py makes pictures and tables of them.

    bench_merge_ways.py --device cpu  --csv bench/results/graph_merge_ways.csv
    bench_merge_ways.py --device cuda --csv bench/results/graph_merge_ways.csv
    bench_merge_ways.py --device cuda --ways published raw --sharded "" --work mixture:1000000:128 --csv ...

  direct   a descent of all points
  merge    kith_graph_merge, after 0, 1, 2, ... rounds, and its default
  published  the paper's merge (GGM, start=ggm), after 2, 3, 4, ... rounds, and until little changes
  raw      a descent of all points from random lists, as the paper's "raw set": the same rounds
  search   each set searched on the other's graph by walks of some widths, the nearer ones of both lists kept
  exact    kith_graph_merge with recall 1
  shards   of S shards each is built alone and each pair merged once (the paper's table 2)

All by libkith on points and graphs in host memory, since searches on graphs have no other; with a GPU what
moves there is in the time. Time: of the library's calls, median of --runs, the first one not counted where it is
short. Building the two graphs is left out, as in the paper, but for shards. Joining lists is numpy's here and left
out too, in favour of search and shards. recall@10: of 1,000 rows solved exactly by kith, ties no misses.

Works: mixture (clusters of 1,000 points, intrinsic dimension 12) and blob (one Gaussian, 24) as NAME:ROWS:COLUMNS,
sift and fashion of the folder KITH_DATA; NAME:ROWS:COLUMNS:FIRST cuts behind FIRST rows in place of the middle.
"""
import argparse
import ctypes
import datetime
import os
import pathlib
import statistics
import sys
import time

import numpy

import bench_rows
from bench_data import read_points, shared_file
from bench_gpu import CtxParams, EUCLIDEAN, Matrix, Neighbors, Report, SearchParams, merge_sets
from bench_walk import clustered
from descent_types import DescentParams, DescentReport, Recall, search_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = ["date", "commit", "machine", "side", "threads", "work", "rows", "first_rows", "columns", "k", "way",
           "setting", "runs", "seconds", "seconds_min", "seconds_max", "evaluations", "recall", "command"]
FILES = {"sift": "sift_imagenet400k_base.u8bin", "fashion": "fashion_mnist_base.u8bin"}
WORKS = {"cpu": ["sift:200000", "fashion:60000"],
         "cuda": ["mixture:1000000:128", "blob:1000000:128", "mixture:4000000:96", "mixture:5050000:96:5000000"]}
SHARDED = {"cpu": "sift:200000", "cuda": "mixture:4000000:96"}
ROUNDS = (-1, 1, 2, 3, 5)
PAPER_ROUNDS = (2, 3, 4, 5, 6, 7, 8, 10, 12)  # of published and raw
START_RANDOM, START_GGM = 1, 3
WAYS = ("direct", "merge", "published", "raw", "search", "exact")
WIDTHS = (10, 16, 32, 64, 128)
SHARDS = (2, 4, 8)
METHOD_GRAPH = 4
CHECKED, LONG = 1000, 4.0
TYPES = {"float32": 1, "uint8": 5}


class WalkParams(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("reserved", ctypes.c_int32), ("graph", ctypes.c_void_p),
                ("width", ctypes.c_int64), ("sample", ctypes.c_int64), ("meets", ctypes.c_int64)]


class WalkReport(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("exact", ctypes.c_int32), ("reached", ctypes.c_int32),
                ("reserved", ctypes.c_int32), ("width", ctypes.c_int64), ("parts", ctypes.c_int64),
                ("evaluations", ctypes.c_double), ("recall", Recall)]


def make_points(name):
    """Points and the rows of the first set, or None where the file is absent."""
    kind, rows, *more = name.split(":")
    rows = int(rows)
    first = int(more[1]) if len(more) > 1 else rows // 2
    if kind in FILES:
        path = shared_file(FILES[kind])
        return (numpy.ascontiguousarray(read_points(str(path))[:rows]), first) if path else (None, 0)
    clusters, inner, spread = (max(1, rows // 1000), 12, 0.5) if kind == "mixture" else (1, 24, 1.0)
    return clustered(rows, int(more[0]), clusters, inner, spread), first


# ---- libkith ----------------------------------------------------------------------------------------


class Graph:
    def __init__(self, rows, k):
        self.ids = numpy.empty((rows, k), numpy.uint32)
        self.distances = numpy.empty((rows, k), numpy.float32)
        self.out = Neighbors(self.ids.ctypes.data, self.distances.ctypes.data, None, rows, k)


def matrix(points):
    return Matrix(points.ctypes.data, len(points), 0, points.shape[1], TYPES[str(points.dtype)])


def sets_of(points, first, graphs):
    return merge_sets(matrix(points), first, [each.out for each in graphs])


class Kith:
    def __init__(self, options):
        self.lib = ctypes.CDLL(str(options.build / "libkith.so"))
        for name in ("kith_ctx_detail", "kith_commit"):
            getattr(self.lib, name).restype = ctypes.c_char_p
        self.ctx, self.k = ctypes.c_void_p(), options.k
        params = CtxParams(struct_size=ctypes.sizeof(CtxParams), threads=options.threads,
                           device=options.device.encode())
        self.must(self.lib.kith_ctx_create(ctypes.byref(params), ctypes.byref(self.ctx)))

    def must(self, status):
        if status != 0:
            why = self.lib.kith_ctx_detail(self.ctx).decode() if self.ctx else "no context"
            sys.exit(f"bench_merge_ways: {why}")

    def machine(self):
        report = Report(struct_size=ctypes.sizeof(Report))
        self.must(self.lib.kith_ctx_report(self.ctx, ctypes.byref(report)))
        return report.gpu.decode() or bench_rows.processor_name()

    def params(self, rounds=0, start=0):
        """Rounds that are asked for are run, whatever they bring."""
        return DescentParams(struct_size=ctypes.sizeof(DescentParams), metric=EUCLIDEAN, k=self.k, sample=-1,
                             rounds=rounds, delta=1e-9 if rounds > 0 else 0.0, start=start)

    def descend(self, points, graph, rounds=0, start=0):
        report = DescentReport(struct_size=ctypes.sizeof(DescentReport))
        params = self.params(rounds, start)
        search = search_of(params, report)
        self.must(self.lib.kith_graph(self.ctx, ctypes.byref(matrix(points)), ctypes.byref(search),
                                      ctypes.byref(graph.out), None))
        return report.evaluations

    def merge(self, points, first, graphs, out, rounds=0, start=0):
        report = DescentReport(struct_size=ctypes.sizeof(DescentReport))
        params = self.params(rounds, start)
        search = search_of(params, report)
        self.must(self.lib.kith_graph_merge(
            self.ctx, ctypes.byref(sets_of(points, first, graphs)), ctypes.byref(search),
            ctypes.byref(out.out), None))
        return report.evaluations

    def merge_exact(self, points, first, graphs, out):
        params = SearchParams(struct_size=ctypes.sizeof(SearchParams), metric=EUCLIDEAN, k=self.k, recall=1.0)
        self.must(self.lib.kith_graph_merge(
            self.ctx, ctypes.byref(sets_of(points, first, graphs)), ctypes.byref(params), ctypes.byref(out.out),
            None))

    def walk(self, points, graph, queries, width, out):
        walk = WalkParams(struct_size=ctypes.sizeof(WalkParams), width=width, graph=ctypes.addressof(graph.out))
        report = WalkReport(struct_size=ctypes.sizeof(WalkReport))
        params = SearchParams(struct_size=ctypes.sizeof(SearchParams), metric=EUCLIDEAN, k=self.k, method=METHOD_GRAPH,
                              walk=ctypes.addressof(walk), walk_report=ctypes.addressof(report))
        self.must(self.lib.kith_search(
            self.ctx, ctypes.byref(matrix(points)), ctypes.byref(matrix(queries)),
            ctypes.byref(params), ctypes.byref(out.out), None))
        return report.evaluations

    def limits(self, points, rows):
        """The distance of the K-th neighbour of some rows, their own left out."""
        found = Graph(len(rows), self.k)
        own = rows.astype(numpy.uint32)
        params = SearchParams(struct_size=ctypes.sizeof(SearchParams), metric=EUCLIDEAN, k=self.k,
                              exclude=own.ctypes.data)
        queries = numpy.ascontiguousarray(points[rows])
        self.must(self.lib.kith_search(self.ctx, ctypes.byref(matrix(points)), ctypes.byref(matrix(queries)),
                                          ctypes.byref(params), ctypes.byref(found.out), None))
        return found.distances[:, -1].copy()


# ---- Lists ------------------------------------------------------------------------------------------


def join(lists, k):
    """The k nearest of several lists side by side; ids differ."""
    ids = numpy.concatenate([ids for ids, _ in lists], axis=1)
    distances = numpy.concatenate([distances for _, distances in lists], axis=1)
    order = numpy.argpartition(distances, k - 1, axis=1)[:, :k]
    return numpy.take_along_axis(ids, order, axis=1), numpy.take_along_axis(distances, order, axis=1)


class Truth:
    def __init__(self, kith, points):
        self.rows = numpy.random.default_rng(77).permutation(len(points))[:CHECKED]
        self.limits = kith.limits(points, self.rows)

    def recall(self, distances):
        """Canonical distances: equal ones are equal."""
        return float((distances[self.rows] <= self.limits[:, None]).mean())


# ---- Ways -------------------------------------------------------------------------------------------


def timed(runs, call, long=LONG):
    """What takes longer than `long` seconds runs once."""
    def once():
        start = time.perf_counter()
        told = call()
        return time.perf_counter() - start, told

    seconds, told = once()
    if seconds > long:
        return [seconds], told
    several = [once() for _ in range(runs)]
    return [each for each, _ in several], several[-1][1]


class Bench:
    def __init__(self, kith, options, name, points, first):
        self.kith, self.options, self.points = kith, options, points
        self.truth = Truth(kith, points)
        self.part = [points[:first], points[first:]]
        self.out = Graph(len(points), kith.k)
        self.rows = []
        self.base = dict.fromkeys(COLUMNS, "") | {
            "date": datetime.date.today().isoformat(), "commit": kith.lib.kith_commit().decode(),
            "machine": kith.machine(), "side": options.device.partition(":")[0], "threads": options.threads,
            "work": name.partition(":")[0], "rows": len(points), "first_rows": first, "columns": points.shape[1],
            "k": kith.k, "command": f"bench_merge_ways.py --device {options.device} --work {name}"}

    def add(self, way, setting, seconds, evaluations, distances):
        row = self.base | {"way": way, "setting": setting, "runs": len(seconds),
                           "seconds": f"{statistics.median(seconds):.5f}", "seconds_min": f"{min(seconds):.5f}",
                           "seconds_max": f"{max(seconds):.5f}", "recall": f"{self.truth.recall(distances):.5f}",
                           "evaluations": f"{evaluations:.6g}" if evaluations else ""}
        self.rows.append(row)
        print(f"  {way:9} {setting:12} {statistics.median(seconds):9.4f} s  recall {row['recall']}", flush=True)

    def by_rounds(self, way, several, call):
        for rounds in (*several, 0):
            setting = "default" if rounds == 0 else f"rounds {max(rounds, 0)}"
            self.add(way, setting, *timed(self.options.runs, lambda rounds=rounds: call(rounds)), self.out.distances)

    def figure(self):
        kith, runs, out, ways = self.kith, self.options.runs, self.out, self.options.ways
        first = len(self.part[0])
        graphs = [Graph(len(part), kith.k) for part in self.part]
        for part, graph in zip(self.part, graphs):
            kith.descend(part, graph)
        if "direct" in ways:
            self.add("direct", "", *timed(runs, lambda: kith.descend(self.points, out)), out.distances)
        if "merge" in ways:
            self.by_rounds("merge", ROUNDS, lambda rounds: kith.merge(self.points, first, graphs, out, rounds))
        if "published" in ways:
            self.by_rounds("published", PAPER_ROUNDS,
                           lambda rounds: kith.merge(self.points, first, graphs, out, rounds, START_GGM))
        if "raw" in ways:
            self.by_rounds("raw", PAPER_ROUNDS, lambda rounds: kith.descend(self.points, out, rounds, START_RANDOM))
        if "search" in ways:
            self.searched(graphs)
        if "exact" in ways and len(self.points) <= self.options.exact:
            told = timed(runs, lambda: kith.merge_exact(self.points, first, graphs, out))
            self.add("exact", "", *told, out.distances)

    def searched(self, graphs):
        kith, runs = self.kith, self.options.runs
        across = [Graph(len(part), kith.k) for part in self.part]
        for width in WIDTHS:
            told = timed(runs, lambda width=width: sum(
                kith.walk(self.part[1 - i], graphs[1 - i], self.part[i], width, across[i]) for i in (0, 1)))
            both = [join([(graph.ids, graph.distances), (other.ids, other.distances)], kith.k)[1]
                    for graph, other in zip(graphs, across)]
            self.add("search", f"width {width}", *told, numpy.concatenate(both))

    def sharded(self, count):
        """Each shard alone, each pair once; lists of all shards are kept beside their own graphs."""
        kith, k = self.kith, self.kith.k
        bounds = [len(self.points) * i // count for i in range(count + 1)]
        parts = [self.points[bounds[i]:bounds[i + 1]] for i in range(count)]
        own = [Graph(len(part), k) for part in parts]
        start = time.perf_counter()
        evaluations = sum(kith.descend(part, graph) for part, graph in zip(parts, own))
        seconds = time.perf_counter() - start
        lists = [(graph.ids + numpy.uint32(bounds[i]), graph.distances) for i, graph in enumerate(own)]
        for i in range(count):
            for j in range(i + 1, count):
                pair = numpy.concatenate([parts[i], parts[j]])
                out, first = Graph(len(pair), k), len(parts[i])
                start = time.perf_counter()
                evaluations += kith.merge(pair, first, [own[i], own[j]], out)
                seconds += time.perf_counter() - start
                for side, mine, other in ((slice(0, first), i, j), (slice(first, None), j, i)):
                    ids, distances = out.ids[side].astype(numpy.int64), out.distances[side].copy()
                    across = (ids >= first) == (other == j)
                    ids += numpy.where(ids >= first, bounds[j] - first, bounds[i])
                    distances[~across] = numpy.inf
                    lists[mine] = join([lists[mine], (ids.astype(numpy.uint32), distances)], k)
        self.add("shards", f"shards {count}", [seconds], evaluations,
                 numpy.concatenate([distances for _, distances in lists]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--work", action="append")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, help="default: all")
    parser.add_argument("--sharded", help="work that is built from shards; empty: none")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--exact", type=int, default=1_100_000, help="most points of an exact merge")
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    side = options.device.partition(":")[0]
    works = options.work or WORKS[side]
    sharded = SHARDED[side] if options.sharded is None else options.sharded
    kith = Kith(options)
    for name in dict.fromkeys([*works, *([sharded] if sharded else [])]):
        points, first = make_points(name)
        if points is None:
            print(f"{name}: absent, KITH_DATA names no folder that has it")
            continue
        print(f"\n{name}: {first:,} and {len(points) - first:,} x {points.shape[1]}, k = {options.k}", flush=True)
        bench = Bench(kith, options, name, points, first)
        if name in works:
            bench.figure()
        for count in SHARDS if name == sharded else ():
            bench.sharded(count)
        if options.csv:
            bench_rows.append(options.csv, COLUMNS, bench.rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
