#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Search on a graph: queries a second against recall, by the width of walks, beside kith's exact search; on
the processor beside hnswlib, usearch, FAISS (HNSW, and cells: IVF) and pynndescent, where they are installed.

    python3 bench/whole/bench_walk.py --device cpu --csv bench/results/walk.csv
    python3 bench/whole/bench_walk.py --device cuda --rows 1000000 --queries 100000 --csv bench/results/walk.csv
    python3 bench/whole/bench_walk.py --single --works sift --peers hnswlib --csv bench/results/walk_single.csv

  mixture  rows x columns float32 of clusters of intrinsic dimension 12, the queries of the same clusters
  blob     one Gaussian of intrinsic dimension 24
  sift     of the folder KITH_DATA: the last rows are the queries
  fashion  of the same folder, with its own queries

The graph is made once, by kith on the same device, and its time is told apart (build). seconds: of the walks,
or of the exact screen and what follows it, as the program tells them; total_seconds: of its whole process,
reading and preparing with it. A peer is timed in memory: the call that searches; building is told apart.
cpu_seconds: of all threads, of kith's whole process and of a peer's call: what can be compared on a machine
that others use. --recall adds searches whose width a wanted recall chooses.
--single asks one query after another, each in a call of its own on one thread, of what is kept in memory: kith's
indexes by graph and exact, and of the peers hnswlib. microseconds: of a call, the median of all, and 95 of 100 are below
p95; the wrappers of Python are part of it.

recall: share of all first K = 10 whose distance is at most that of the exact K-th (kith eval); of a peer by
distances in double from its ids. Runs alternate; the median counts.
"""
import argparse
import datetime
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

import bench_rows
from bench_data import shared_file, write_points
from peer import read_points

ROOT = pathlib.Path(__file__).resolve().parents[2]
K, LINKS = 10, 32
WORKS = ["mixture", "blob", "sift", "fashion"]
WIDTHS = (10, 16, 24, 32, 48, 64, 128, 256)
EFS = (10, 20, 40, 60, 80, 120, 200, 400)
RECALLS = (0.95, 0.99)
COLUMNS = ["date", "commit", "machine", "side", "threads", "work", "rows", "queries", "columns", "dtype", "k",
           "engine", "version", "setting", "runs", "seconds", "queries_a_second", "keys_a_query", "recall",
           "build_seconds", "total_seconds", "cpu_seconds", "command"]

SINGLE_WIDTHS = (16, 24, 32, 48, 64, 96, 128, 256)
SINGLE_QUERIES = 2000
SINGLE_COLUMNS = ["date", "commit", "machine", "work", "rows", "queries", "columns", "dtype", "k", "engine", "version",
                  "setting", "microseconds", "p95", "recall", "build_seconds"]


# ---- Data -------------------------------------------------------------------------------------------


def clustered(count, cols, clusters, inner, spread):
    """Rows around centres, each cluster on a plane of its own."""
    random = numpy.random.default_rng(7)
    centres = random.standard_normal((clusters, cols), dtype=numpy.float32)
    label = random.integers(clusters, size=count)
    rows = numpy.empty((count, cols), dtype=numpy.float32)
    order = numpy.argsort(label, kind="stable")
    bounds = numpy.searchsorted(label[order], numpy.arange(clusters + 1))
    for cluster in range(clusters):
        mine = order[bounds[cluster]:bounds[cluster + 1]]
        plane = random.standard_normal((inner, cols), dtype=numpy.float32) * (spread / inner**0.5)
        place = random.standard_normal((len(mine), inner), dtype=numpy.float32)
        rows[mine] = centres[cluster] + place @ plane
    return rows


def make_work(name, options):
    """Points and queries, or None where the data is missing."""
    if name == "sift":
        path = shared_file("sift_imagenet400k_base.u8bin")
        both = read_points(str(path)) if path else None
        count = min(options.queries, len(both) // 10) if path else 0
        return (both[:-count], both[-count:]) if path else None
    if name == "fashion":
        paths = [shared_file(f"fashion_mnist_{part}.u8bin") for part in ("base", "query")]
        return tuple(read_points(str(path)) for path in paths) if all(paths) else None
    clusters, inner, spread = (max(1, options.rows // 1000), 12, 0.5) if name == "mixture" else (1, 24, 1.0)
    both = clustered(options.rows + options.queries, options.columns, clusters, inner, spread)
    return both[:options.rows], both[options.rows:]


# ---- kith -------------------------------------------------------------------------------------------


class Kith:
    """The program, on one device."""

    def __init__(self, program, options):
        self.program = str(program)
        self.more = ["--device", options.device, "--threads", str(options.threads)]

    def run(self, *words):
        words = [self.program, *map(str, words)]
        device = [] if words[1] == "eval" else self.more
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([*words, *device, "--json", "--quiet"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"bench_walk.py: {' '.join(words)}: {done.stderr.strip()}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return json.loads(done.stdout) | {"cpu": after.ru_utime - before.ru_utime}


def time_of(told):
    phases = told["seconds"]
    return sum(phases.get(name, 0.0) for name in ("screen", "select"))


def repeat(runs, call):
    """What was told in the middle one of some runs."""
    told = sorted((call() for _ in range(runs)), key=time_of)
    return told[len(told) // 2]


def kith_rows(kith, files, options):
    exact = repeat(options.runs, lambda: kith.run("search", files["points"], files["queries"], "-k", K, "-o",
                                                  files["exact"]))
    graph = kith.run("graph", files["points"], "-k", LINKS, "--recall", "0.99", "-o", files["graph"])
    exact["seconds"]["screen"] += exact["seconds"].get("rescore", 0.0)
    yield {"engine": "kith exact", "setting": "", "told": exact, "recall": 1.0, "build": 0.0,
           "command": f"kith search points queries -k {K}"}
    settings = [(f"width {width}", ("--tune", f"width={width},sample=0")) for width in WIDTHS]
    settings += [(f"recall {recall}", ("--recall", recall)) for recall in (RECALLS if options.recall else ())]
    for setting, more in settings:
        words = ("search", files["graph"], files["points"], files["queries"], "-k", K, *more, "-o", files["found"])
        told = repeat(options.runs, lambda words=words: kith.run(*words))
        judged = kith.run("eval", files["found"], files["exact"], "-k", K)
        yield {"engine": "kith walk", "setting": setting, "told": told,
               "recall": judged["recall"]["estimate"], "build": graph["seconds"]["total"],
               "command": "kith search graph points queries " + " ".join(map(str, ("-k", K, *more)))}


# ---- Peers ------------------------------------------------------------------------------------------


def prepare_hnswlib(points, options):
    import hnswlib

    index = hnswlib.Index(space="l2", dim=points.shape[1])
    index.init_index(max_elements=len(points), M=16, ef_construction=200)
    index.set_num_threads(options.threads)
    index.add_items(points)

    def search(queries, setting):
        index.set_ef(setting)
        return index.knn_query(queries, k=K, num_threads=1 if len(queries) == 1 else -1)[0]

    return search, getattr(hnswlib, "__version__", ""), {f"M 16, ef {ef}": ef for ef in EFS}


def prepare_usearch(points, options):
    import usearch
    from usearch.index import Index

    index = Index(ndim=points.shape[1], metric="l2sq", dtype="f32", connectivity=16, expansion_add=200)
    index.add(numpy.arange(len(points)), points, threads=options.threads)

    def search(queries, setting):
        index.expansion_search = setting
        return index.search(queries, K, threads=options.threads).keys

    return search, usearch.__version__, {f"M 16, ef {ef}": ef for ef in EFS}


def prepare_faiss_hnsw(points, options):
    import faiss

    faiss.omp_set_num_threads(options.threads)
    index = faiss.IndexHNSWFlat(points.shape[1], 16)
    index.hnsw.efConstruction = 200
    index.add(points)

    def search(queries, setting):
        index.hnsw.efSearch = setting
        return index.search(queries, K)[1]

    return search, faiss.__version__, {f"M 16, ef {ef}": ef for ef in EFS}


def prepare_faiss_ivf(points, options):
    import faiss

    faiss.omp_set_num_threads(options.threads)
    lists = int(4 * len(points) ** 0.5)
    quantizer = faiss.IndexFlatL2(points.shape[1])
    index = faiss.IndexIVFFlat(quantizer, points.shape[1], lists)
    index.train(points)
    index.add(points)

    def search(queries, setting):
        index.nprobe = setting
        return index.search(queries, K)[1]

    return search, faiss.__version__, {f"{lists} cells, {probes} asked": probes for probes in (8, 16, 32, 64, 128)}


def prepare_pynndescent(points, options):
    import pynndescent

    index = pynndescent.NNDescent(points, n_neighbors=LINKS, n_jobs=options.threads, random_state=1)
    index.prepare()
    index.query(points[:100], k=K)
    return (lambda queries, epsilon: index.query(queries, k=K, epsilon=epsilon)[0], pynndescent.__version__,
            {f"epsilon {e}": e for e in (0.0, 0.05, 0.1, 0.2, 0.3)})


PEERS = {"hnswlib": prepare_hnswlib, "usearch": prepare_usearch, "faiss hnsw": prepare_faiss_hnsw,
         "faiss ivf": prepare_faiss_ivf, "pynndescent": prepare_pynndescent}


def recall_of(points, queries, ids, kth):
    hits = 0
    for first in range(0, len(queries), 1000):
        part = slice(first, first + 1000)
        near = points[ids[part].astype(numpy.int64)].astype(numpy.float64)
        far = numpy.sqrt(((near - queries[part, None].astype(numpy.float64)) ** 2).sum(axis=2))
        hits += int((far <= kth[part, None] * (1 + 1e-6)).sum())
    return hits / (len(queries) * K)


def peer_rows(name, points, queries, kth, options):
    points, queries = (numpy.ascontiguousarray(rows, dtype=numpy.float32) for rows in (points, queries))
    start = time.perf_counter()
    try:
        search, version, settings = PEERS[name](points, options)
    except ImportError:
        print(f"  {name}: not installed", file=sys.stderr)
        return
    build = time.perf_counter() - start
    for setting, value in settings.items():
        seconds, spent = [], []
        for _ in range(options.runs):
            start, used = time.perf_counter(), time.process_time()
            ids = search(queries, value)
            seconds.append(time.perf_counter() - start)
            spent.append(time.process_time() - used)
        told = {"seconds": {"screen": statistics.median(seconds)}, "cpu": statistics.median(spent)}
        yield {"engine": name, "version": version, "setting": setting, "told": told,
               "recall": recall_of(points, queries, ids, kth), "build": build, "command": name}


# ---- One query after another ------------------------------------------------------------------------


def single_kith(points, files, options):
    """What answers of kith's package on the library beside the program, with its settings."""
    os.environ["KITH_LIBRARY"] = str(options.program.resolve().parent / "libkith.so")
    sys.path.insert(0, str(ROOT / "python"))
    import kith

    start = time.perf_counter()
    walks = kith.Index(points, graph=kith.Graph.load(files["graph"]), n_jobs=options.threads)
    ready = time.perf_counter()
    exact = kith.Index(points, n_jobs=options.threads, device="cpu")
    done = time.perf_counter()
    for width in SINGLE_WIDTHS:
        yield ("kith walk", kith.__version__, f"width {width}", ready - start,
               lambda query, width=width: walks.search(query, K, width=width, n_jobs=1).indices)
    yield "kith exact", kith.__version__, "", done - ready, lambda query: exact.search(query, K, n_jobs=1).indices


def single_peers(points, options):
    if "hnswlib" not in options.peers:
        return
    start = time.perf_counter()
    try:
        search, version, settings = prepare_hnswlib(numpy.ascontiguousarray(points, dtype=numpy.float32), options)
    except ImportError:
        print("  hnswlib: not installed", file=sys.stderr)
        return
    build = time.perf_counter() - start
    for setting, value in settings.items():
        yield "hnswlib", version, setting, build, lambda query, value=value: search(query, value)


def run_single(name, kith, files, points, queries, base, options):
    """The graph's own time is part of building."""
    queries = queries[:SINGLE_QUERIES]
    graph = kith.run("graph", files["points"], "-k", LINKS, "--recall", "0.99", "-o", files["graph"])
    kith.run("search", files["points"], files["queries"], "-k", K, "-o", files["exact"])
    kth = numpy.load(files["exact"])["distances"][:len(queries), K - 1].astype(numpy.float64)
    floats = queries.astype(numpy.float32)
    for engine, version, setting, build, ask in [*single_kith(points, files, options), *single_peers(points, options)]:
        asked = floats if engine == "hnswlib" else queries
        ids = numpy.empty((len(queries), K), numpy.int64)
        spent = numpy.empty(len(queries))
        for _ in range(2):  # the first time warms caches
            for i in range(len(queries)):
                query = asked[i:i + 1]
                start = time.perf_counter()
                ids[i] = ask(query)[0]
                spent[i] = time.perf_counter() - start
        build += graph["seconds"]["total"] if engine == "kith walk" else 0.0
        out = {each: base[each] for each in SINGLE_COLUMNS if each in base} | {
            "machine": bench_rows.processor_name(), "queries": len(queries), "engine": engine, "version": version,
            "setting": setting, "microseconds": f"{1e6 * numpy.median(spent):.1f}",
            "p95": f"{1e6 * numpy.quantile(spent, 0.95):.1f}",
            "recall": f"{recall_of(points, queries, ids, kth):.5f}", "build_seconds": f"{build:.3f}"}
        print(f"  {engine:12} {setting:16} recall {out['recall']}  {out['microseconds']} us, p95 {out['p95']} us")
        sys.stdout.flush()
        bench_rows.append(options.csv, SINGLE_COLUMNS, [out])


# ---- The run ----------------------------------------------------------------------------------------


def write_row(options, base, row, queries):
    told = row["told"]
    seconds = time_of(told)
    base["machine"] = base["machine"] or told.get("gpu") or bench_rows.processor_name()
    out = base | {"engine": row["engine"], "version": row.get("version", told.get("version", "")),
                  "setting": row["setting"], "runs": options.runs, "seconds": f"{seconds:.5f}",
                  "queries_a_second": f"{queries / seconds:.0f}" if seconds > 0 else "",
                  "keys_a_query": f"{told['evaluations'] / queries:.0f}" if "evaluations" in told else "",
                  "recall": f"{row['recall']:.5f}", "build_seconds": f"{row['build']:.3f}",
                  "total_seconds": f"{told['seconds'].get('total', seconds):.4f}",
                  "cpu_seconds": f"{told['cpu']:.3f}", "command": row["command"]}
    print(f"  {out['engine']:12} {out['setting']:22} recall {out['recall']}  {out['seconds']} s, "
          f"{out['queries_a_second']} queries a second, cpu {out['cpu_seconds']} s, keys {out['keys_a_query'] or '-'}")
    sys.stdout.flush()
    bench_rows.append(options.csv, COLUMNS, [out])


def run_work(name, kith, folder, options):
    made = make_work(name, options)
    if made is None:
        print(f"{name}: no data (KITH_DATA)", file=sys.stderr)
        return
    points, queries = made
    ending = "u8bin" if points.dtype == numpy.uint8 else "fbin"
    files = {each: folder / f"{name}_{each}.{end}" for each, end in
             (("points", ending), ("queries", ending), ("graph", "kith"), ("exact", "npz"), ("found", "npz"))}
    write_points(files["points"], points)
    write_points(files["queries"], queries)
    base = {"date": datetime.date.today().isoformat(), "commit": bench_rows.commit_name(), "machine": "",
            "side": "cuda" if options.device.startswith("cuda") else "cpu", "threads": options.threads,
            "work": name, "rows": len(points), "queries": len(queries), "columns": points.shape[1],
            "dtype": "u8" if ending == "u8bin" else "f32", "k": K}
    print(f"{name}: {len(points)} x {points.shape[1]}, {len(queries)} queries")
    if options.single:
        run_single(name, kith, files, points, queries, base, options)
        return
    for row in kith_rows(kith, files, options):
        write_row(options, base, row, len(queries))
    if base["side"] == "cuda":
        return
    kth = numpy.load(files["exact"])["distances"][:, K - 1].astype(numpy.float64)
    for peer in options.peers:
        for row in peer_rows(peer, points, queries, kth, options):
            write_row(options, base, row, len(queries))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "kith")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--columns", type=int, default=128)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--works", nargs="*", choices=WORKS, default=WORKS)
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--recall", action="store_true")
    parser.add_argument("--single", action="store_true")
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    kith = Kith(options.program, options)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.works:
            run_work(name, kith, pathlib.Path(folder), options)


if __name__ == "__main__":
    main()
