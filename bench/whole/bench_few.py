#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Few queries at a time, exact, on the processor: kith beside FAISS's flat index, scikit-learn's brute force and NumPy.

    bench_few.py [--threads 1] [--rows 390000] [--runs 15] [--csv bench/results/few.csv]

SIFT where KITH_DATA names a folder that has it, else a mixture of the same shape; as bytes and as float32.
"once": points and queries go in, the answer comes out. "kept": an index stands, and is asked again and again with
other queries. Whoever is not installed is left out. Neighbours are compared by their distances before anything is
timed. Medians of the runs, the least and the greatest beside them.
"""
import argparse
import datetime
import os
import pathlib
import statistics
import sys
import time

import numpy

import bench_data
import bench_rows
from peer import read_points

ROOT = bench_rows.ROOT
COLUMNS = ["date", "commit", "machine", "threads", "load", "work", "how", "who", "queries", "ms", "low", "high", "runs",
           "command"]
COUNTS = (1, 10, 100)
K = 10


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, default=390000)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--csv", type=pathlib.Path)
    return parser.parse_args()


def load(rows):
    if work := bench_data.make_sift(None):
        name, base, queries = "sift", read_points(str(work.corpus)), read_points(str(work.queries))
    else:
        all_rows = bench_data.make_mixture(rows + 2000, 128)
        name, base, queries = "mixture", all_rows[:rows], all_rows[rows:]
    for dtype in numpy.uint8, numpy.float32:
        yield f"{name} {dtype.__name__}", base[:rows].astype(dtype), queries.astype(dtype)


# ---- Who is measured: a call of queries -> squared distances, for either way ------------------------------------


def kith_calls(points, threads):
    import kith

    index = kith.Index(points, metric="sqeuclidean", n_jobs=threads, device="cpu")
    options = {"metric": "sqeuclidean", "n_jobs": threads, "device": "cpu"}
    return {"once": lambda q: kith.knn(points, q, K, **options).distances,
            "kept": lambda q: index.search(q, K, n_jobs=threads).distances}


def faiss_calls(points, threads):
    import faiss

    faiss.omp_set_num_threads(threads)
    rows = points.astype(numpy.float32)
    index = faiss.IndexFlatL2(rows.shape[1])
    index.add(rows)
    return {"once": lambda q: faiss.knn(q.astype(numpy.float32), points.astype(numpy.float32), K)[0],
            "kept": lambda q: index.search(q.astype(numpy.float32), K)[0]}


def sklearn_calls(points, threads):
    from sklearn.neighbors import NearestNeighbors

    def model(rows):
        return NearestNeighbors(n_neighbors=K, algorithm="brute", metric="sqeuclidean", n_jobs=threads).fit(rows)

    rows = points.astype(numpy.float32)
    kept = model(rows)
    return {"once": lambda q: model(points.astype(numpy.float32)).kneighbors(q.astype(numpy.float32))[0],
            "kept": lambda q: kept.kneighbors(q.astype(numpy.float32))[0]}


def numpy_calls(points, threads):
    del threads  # of its own
    rows = points.astype(numpy.float32)
    squares = numpy.einsum("ij,ij->i", rows, rows)

    def search(q):
        asked = q.astype(numpy.float32)
        found = asked @ rows.T
        found *= -2
        found += squares
        nearest = numpy.argpartition(found, K, axis=1)[:, :K]
        least = numpy.sort(numpy.take_along_axis(found, nearest, 1), axis=1)
        return least + numpy.einsum("ij,ij->i", asked, asked)[:, None]

    return {"kept": search}


WHO = {"kith": kith_calls, "faiss": faiss_calls, "scikit-learn": sklearn_calls, "numpy": numpy_calls}


def ask(calls, how, queries, count, runs):
    """Milliseconds of `runs` calls with other queries each."""
    times = []
    for run in range(runs + 1):
        first = run * count % (len(queries) - count + 1)
        start = time.perf_counter()
        calls[how](queries[first:first + count])
        times.append(1e3 * (time.perf_counter() - start))
    return times[1:]


def measure(options, work, points, queries):
    truth = None
    for who, make in WHO.items():
        try:
            calls = make(points, options.threads)
        except ImportError:
            print(f"{who} is not installed")
            continue
        for how, call in calls.items():
            found = call(queries[:20])
            truth = found if truth is None else truth
            if not numpy.allclose(found, truth, rtol=1e-4, atol=1e-2 * float(truth.max())):
                sys.exit(f"{who} ({how}) finds other neighbours")
            for count in COUNTS:
                times = ask(calls, how, queries, count, options.runs)
                yield {"work": f"{work} {len(points)} x {points.shape[1]}", "how": how, "who": who, "queries": count,
                       "ms": f"{statistics.median(times):.3f}", "low": f"{min(times):.3f}",
                       "high": f"{max(times):.3f}", "runs": options.runs}


def main():
    options = parse_options()
    if os.environ.get("OMP_NUM_THREADS") != str(options.threads):  # BLAS reads them when it is loaded
        for name in "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS":
            os.environ[name] = str(options.threads)
        os.execv(sys.executable, [sys.executable, *sys.argv])
    os.environ.setdefault("KITH_LIBRARY", str(options.build / "libkith.so"))
    sys.path.insert(0, str(ROOT / "python"))
    about = {"date": datetime.date.today().isoformat(), "commit": bench_rows.commit_name(),
             "machine": bench_rows.processor_name(), "threads": options.threads,
             "load": f"{os.getloadavg()[0]:.1f}", "command": f"bench_few.py --threads {options.threads}"}
    print(f"{'work':30} {'how':5} {'who':13} {'queries':>7} {'ms':>10}  (least to greatest)")
    for work, points, queries in load(options.rows):
        rows = []
        for row in measure(options, work, points, queries):
            rows.append(about | row)
            print(f"{row['work']:30} {row['how']:5} {row['who']:13} {row['queries']:7} {row['ms']:>10}  "
                  f"({row['low']} to {row['high']})", flush=True)
        bench_rows.append(options.csv, COLUMNS, rows)


if __name__ == "__main__":
    main()
