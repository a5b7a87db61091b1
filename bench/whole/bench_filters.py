#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Groups, filters and pairs, exact: kith beside what one would write without it, and beside its own unfiltered job.

    bench_filters.py --device cpu [--part 0.05] [--runs 3] [--only groups larger filters across pairs] [--csv FILE]
    bench_filters.py --device cuda --csv bench/results/filters.csv

groups    a graph of 1,000,000 rows in 32 columns within 10,000 groups, rows of a group standing anywhere; beside
          it a loop over the groups with scikit-learn's brute force, and one with NumPy's products
larger    the same in 128 columns within 1,000 groups
filters   10,000 queries among 1,000,000 rows in 128 columns: no filter, a bitmap that allows all, a tenth, a
          thousandth of them; beside it scikit-learn's brute force among the rows that are allowed, copied by hand
across    a graph of 200,000 rows in 64 columns in two groups, neighbours of the other one; beside it the plain graph
pairs     1,000,000 rows in 768 columns whose spectrum is i^-0.5, about as many pairs as rows, counted, and made
          into components; beside it the exact graph of the same rows. On the processor a hundredth of the rows
crowded   100,000 rows in 64 columns and a fiftieth of all pairs, 10^8, which come in chunks; beside it the exact graph.
          On the processor a tenth of the rows

--part takes a share of all rows, queries and groups. Whoever is not installed, or would take more than --most seconds
by the pairs that it compares, is left out. Answers are compared before anything is timed. Median, least and greatest.
"""
import argparse
import datetime
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy

import bench_rows

ROOT = bench_rows.ROOT
COLUMNS = ["date", "commit", "machine", "device", "threads", "load", "work", "who", "seconds", "low", "high", "ratio",
           "runs", "command"]
K = 10
PEER_PAIRS_A_SECOND = 2e8  # of two cores, below 200 columns: who is left out, not what is told;
SKLEARN_CALL_PAIRS = 2e6  # and what a call takes besides


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--part", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--most", type=float, default=120.0)
    parser.add_argument("--only", nargs="+", choices=list(WORKS), default=list(WORKS))
    parser.add_argument("--csv", type=pathlib.Path)
    return parser.parse_args()


def machine(options):
    if not options.device.startswith("cuda"):
        return bench_rows.processor_name()
    asked = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()[0]


def scaled(options, count):
    return max(1, round(options.part * count))


def same(found, truth, who):
    """Squares of float32 rows in one order of addition or another."""
    if not numpy.allclose(found, truth, rtol=1e-3, atol=1e-2):
        sys.exit(f"{who} finds other neighbours")


# ---- Within groups ----------------------------------------------------------------------------------------------


def members(groups):
    order = numpy.argsort(groups, kind="stable")
    return numpy.split(order, numpy.flatnonzero(numpy.diff(groups[order])) + 1)


def loop_numpy(points, groups):
    distances = numpy.empty((len(points), K), numpy.float32)
    for rows in members(groups):
        own = points[rows]
        squares = numpy.einsum("ij,ij->i", own, own)
        far = squares[:, None] + squares - 2 * (own @ own.T)
        numpy.fill_diagonal(far, numpy.inf)
        nearest = numpy.argpartition(far, K, axis=1)[:, :K]
        distances[rows] = numpy.sqrt(numpy.maximum(numpy.sort(numpy.take_along_axis(far, nearest, 1), axis=1), 0))
    return distances


def loop_sklearn(points, groups):
    from sklearn.neighbors import NearestNeighbors

    distances = numpy.empty((len(points), K), numpy.float32)
    for rows in members(groups):
        model = NearestNeighbors(n_neighbors=K, algorithm="brute").fit(points[rows])
        distances[rows] = model.kneighbors()[0]
    return distances


def within(options, random, count, size, cols):
    import kith

    count = scaled(options, count)
    rows = size * count
    points = random.standard_normal((rows, cols), dtype=numpy.float32)
    numbers = random.permutation(numpy.repeat(numpy.arange(count), size))
    work = f"groups {rows} x {cols} in {count}"
    yield work, "kith", 0, lambda: kith.knn_graph(points, K, groups=numbers, device=options.device).distances
    yield work, "numpy, a loop", size * rows, lambda: loop_numpy(points, numbers)
    yield work, "scikit-learn, a loop", size * rows + SKLEARN_CALL_PAIRS * count, lambda: loop_sklearn(points, numbers)


def groups(options, random):
    yield from within(options, random, 10000, 100, 32)


def larger(options, random):
    yield from within(options, random, 1000, 1000, 128)


# ---- Under a bitmap ---------------------------------------------------------------------------------------------


def search_sklearn(corpus, queries):
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=K, algorithm="brute").fit(corpus).kneighbors(queries)[0]


def filters(options, random):
    import kith

    rows, asked = scaled(options, 1000000), scaled(options, 10000)
    corpus = random.standard_normal((rows, 128), dtype=numpy.float32)
    queries = random.standard_normal((asked, 128), dtype=numpy.float32)
    work = f"filters {rows} x 128, {asked} queries"
    yield work, "kith, no filter", 0, lambda: kith.knn(corpus, queries, K, device=options.device).distances
    place = random.random(rows)
    for share in 1.0, 0.1, 0.001:
        allowed = place < share
        allowed[:K] = True
        case = f"{work}, {share:.1%} allowed"
        yield case, "kith", 0, lambda allow=allowed: kith.knn(corpus, queries, K, allow=allow,
                                                              device=options.device).distances
        yield case, "scikit-learn, copied", asked * int(allowed.sum()), lambda allow=allowed: search_sklearn(
            corpus[allow], queries)


# ---- Across two groups, and pairs -------------------------------------------------------------------------------


def across(options, random):
    import kith

    rows = scaled(options, 200000)
    points = random.standard_normal((rows, 64), dtype=numpy.float32)
    batch = random.integers(0, 2, rows)
    yield (f"plain graph {rows} x 64", "kith", 0,
           lambda: kith.knn_graph(points, K, algorithm="brute", device=options.device).distances)
    yield (f"across two groups {rows} x 64", "kith", 0,
           lambda: kith.knn_graph(points, K, groups=batch, rule="other", algorithm="brute",
                                  device=options.device).distances)


def pairs(options, random):
    import kith

    rows = scaled(options, 10000 if options.device == "cpu" else 1000000)
    centres = 2 * random.standard_normal((2000, 768), dtype=numpy.float32)
    points = random.standard_normal((rows, 768), dtype=numpy.float32)
    points += centres[random.integers(0, 2000, rows)]
    points *= numpy.arange(1, 769, dtype=numpy.float32) ** -0.5
    graph = kith.knn_graph(points, K, algorithm="brute", device=options.device)
    radius = float(numpy.partition(graph.distances.ravel(), 2 * rows)[2 * rows])
    yield (f"exact graph {rows} x 768", "kith", 0,
           lambda: kith.knn_graph(points, K, algorithm="brute", device=options.device).distances)
    near = kith.pairs(points, radius=radius, device=options.device)
    yield f"pairs {rows} x 768, about {rows}", "kith", 0, lambda: numpy.array(near.count())
    yield f"components {rows} x 768, about {rows} pairs", "kith", 0, near.components


def crowded(options, random):
    import kith

    rows = scaled(options, 10000 if options.device == "cpu" else 100000)
    points = random.standard_normal((rows, 64), dtype=numpy.float32)
    some = points[:1000]
    squares = numpy.einsum("ij,ij->i", some, some)
    far = (squares[:, None] + squares - 2 * (some @ some.T))[numpy.triu_indices(len(some), 1)]
    radius = float(numpy.sqrt(numpy.partition(far, len(far) // 50)[len(far) // 50]))
    near = kith.pairs(points, radius=radius, device=options.device)
    work = f"{rows} x 64, a fiftieth of all pairs"
    yield (f"exact graph {rows} x 64", "kith", 0,
           lambda: kith.knn_graph(points, K, algorithm="brute", device=options.device).distances)
    yield f"pairs {work}", "kith", 0, lambda: numpy.array(near.count())
    yield f"components {work}", "kith", 0, near.components


WORKS = {"groups": groups, "larger": larger, "filters": filters, "across": across, "pairs": pairs, "crowded": crowded}


def timed(call):
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


def measure(options, work):
    """Ratios are to the first row."""
    random = numpy.random.default_rng(23)
    truths, first = {}, None
    for name, who, compared, call in WORKS[work](options, random):
        if compared / PEER_PAIRS_A_SECOND > options.most:
            print(f"{name}: {who} is left out")
            continue
        try:
            _, found = timed(call)
        except ImportError:
            print(f"{who} is not installed")
            continue
        same(found, truths.setdefault(name, found), who)
        times = [timed(call)[0] for _ in range(options.runs)]
        first = first or statistics.median(times)
        yield {"work": name, "who": who, "seconds": f"{statistics.median(times):.4f}", "low": f"{min(times):.4f}",
               "high": f"{max(times):.4f}", "ratio": f"{statistics.median(times) / first:.3f}", "runs": options.runs}


def main():
    options = parse_options()
    os.environ.setdefault("KITH_LIBRARY", str(options.build / "libkith.so"))
    sys.path.insert(0, str(ROOT / "python"))
    about = {"date": datetime.date.today().isoformat(), "commit": bench_rows.commit_name(),
             "machine": machine(options), "device": options.device,
             "threads": len(os.sched_getaffinity(0)),
             "command": f"bench_filters.py --device {options.device} --part {options.part:g}"}
    print(f"{'work':52} {'who':22} {'seconds':>9} {'ratio':>7}  (least to greatest)")
    for work in options.only:
        rows = []
        for row in measure(options, work):
            rows.append(about | {"load": f"{os.getloadavg()[0]:.1f}"} | row)
            print(f"{row['work']:52} {row['who']:22} {row['seconds']:>9} {row['ratio']:>7}  "
                  f"({row['low']} to {row['high']})", flush=True)
        bench_rows.append(options.csv, COLUMNS, rows)


if __name__ == "__main__":
    main()
