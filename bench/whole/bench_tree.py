#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tree beside pykdtree and cKDTree: 100,000 queries among 800,000 patches, k = 10, in one run.

The patches are 8 x 8 grey patches of the photographs that scikit-image ships (SHIPPED; no download),
drawn with a fixed seed from all places, their mean removed, on the first d principal axes, float32.
The first 800,000 of them are the corpus, the others the queries.

Search time is what counts, and the building of the tree stands beside it. For kith the search is the
phases screen and rescore of its report, the building its phases check and prepare (values checked,
equal rows found, the tree, queries sorted). For a peer both are the times of its calls, points in
memory. Whole is a process from its start, kith's alone.

  recall   share of all neighbours whose distance is at most kith's k-th, computed in double

  python3 -m venv peers && peers/bin/pip install numpy scipy pykdtree scikit-image
  peers/bin/python bench/whole/bench_tree.py --kith build/kith --csv bench/results/tree.csv
"""
import argparse
import csv
import datetime
import importlib.metadata
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import bench_graph

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHIPPED = ["astronaut", "camera", "chelsea", "coffee", "coins", "rocket", "hubble_deep_field",
           "retina", "brick", "grass", "gravel", "moon"]
CORPUS, QUERIES, K, SIDE = 800_000, 100_000, 10, 8
COLUMNS = ["date", "commit", "machine", "threads", "work", "rows", "queries", "columns", "dtype", "k",
           "engine", "version", "isa", "runs", "seconds", "seconds_min", "seconds_max", "whole_seconds",
           "build_seconds", "ratio", "recall", "pairs_share", "command"]


def photographs():
    import numpy
    from skimage import data

    for name in SHIPPED:
        try:
            image = numpy.asarray(getattr(data, name)(), dtype=numpy.float64)
        except (AttributeError, ModuleNotFoundError, ConnectionError, OSError) as error:
            print(f"{name}: left out, {error}", file=sys.stderr)
            continue
        yield image[..., :3].mean(axis=2) if image.ndim == 3 else image


def patches():
    """CORPUS + QUERIES of them, on all principal axes, widest first."""
    import numpy

    random = numpy.random.default_rng(5)
    windows = [numpy.lib.stride_tricks.sliding_window_view(image, (SIDE, SIDE))
               for image in photographs()]
    places = [view.shape[0] * view.shape[1] for view in windows]
    chosen = random.choice(sum(places), size=CORPUS + QUERIES, replace=False)
    start = numpy.concatenate([[0], numpy.cumsum(places)])
    rows = numpy.empty((len(chosen), SIDE * SIDE))
    for i, view in enumerate(windows):
        mine = (chosen >= start[i]) & (chosen < start[i + 1])
        y, x = numpy.divmod(chosen[mine] - start[i], view.shape[1])
        rows[mine] = view[y, x].reshape(-1, SIDE * SIDE)
    rows -= rows.mean(axis=1, keepdims=True)
    values, axes = numpy.linalg.eigh(numpy.cov(rows.T))
    return (rows @ axes[:, ::-1]).astype(numpy.float32)


def save_points(path, points):
    import numpy

    with open(path, "wb") as file:
        numpy.array(points.shape, dtype="<u4").tofile(file)
        numpy.ascontiguousarray(points).tofile(file)


def run_kith(options, method, files, runs):
    output = files[0].with_suffix(".npz")
    command = [str(options.kith), "search", str(files[0]), str(files[1]), "-k", str(K), "--method",
               method, "--device", "cpu", "--threads", str(options.threads), "--json", "--quiet", "-o",
               str(output)]
    result = {"seconds": [], "build": [], "whole": []}
    for _ in range(runs):
        start = time.perf_counter()
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        result["whole"].append(time.perf_counter() - start)
        said = json.loads(done.stdout)
        times = said["seconds"]
        result["seconds"].append(times["screen"] + times["rescore"])
        result["build"].append(times["check"] + times["prepare"])
    result.update(engine=f"kith-{said['method']}", version=said["version"], isa=said["isa"],
                  pairs_share=1.0 - said["skipped_share"])
    import numpy

    with numpy.load(output) as answer:
        result["ids"] = answer["ids"]
    result["command"] = " ".join(["kith", *command[1:3], files[1].name, *command[4:-2]]).replace(
        str(files[0]), files[0].name)
    return result


def run_peer(name, corpus, queries, threads, runs):
    from pykdtree.kdtree import KDTree
    from scipy.spatial import cKDTree

    result = {"seconds": [], "build": [], "whole": [], "isa": "", "pairs_share": "", "engine": name,
              "version": importlib.metadata.version("pykdtree" if name == "pykdtree" else "scipy")}
    for _ in range(runs):
        start = time.perf_counter()
        tree = KDTree(corpus) if name == "pykdtree" else cKDTree(corpus)
        built = time.perf_counter()
        if name == "pykdtree":
            result["ids"] = tree.query(queries, k=K)[1]
        else:
            result["ids"] = tree.query(queries, k=K, workers=threads)[1]
        result["seconds"].append(time.perf_counter() - built)
        result["build"].append(built - start)
    result["command"] = (f"KDTree(corpus).query(queries, k={K})" if name == "pykdtree" else
                         f"cKDTree(corpus).query(queries, k={K}, workers={threads})")
    return result


def recall(ids, truth, corpus, queries):
    """Ties are no misses: a neighbour is right whose distance is at most the true k-th."""
    import numpy

    right = 0
    for first in range(0, len(queries), 10_000):
        part = slice(first, first + 10_000)
        asked = queries[part, None, :].astype(numpy.float64)
        limit = ((asked - corpus[truth[part]]) ** 2).sum(axis=2).max(axis=1)
        found = ((asked - corpus[numpy.asarray(ids[part], dtype=numpy.int64)]) ** 2).sum(axis=2)
        right += (found <= limit[:, None]).sum()
    return right / (len(queries) * K)


def row_of(result, options, columns, best_peer, truth, corpus, queries):
    seconds = statistics.median(result["seconds"])
    return {"date": datetime.date.today().isoformat(), "commit": bench_graph.commit_name(),
            "machine": bench_graph.machine_name(), "threads": options.threads, "work": "patches",
            "rows": len(corpus), "queries": len(queries), "columns": columns, "dtype": "f32", "k": K,
            "engine": result["engine"], "version": result["version"], "isa": result["isa"],
            "runs": len(result["seconds"]), "seconds": f"{seconds:.4f}",
            "seconds_min": f"{min(result['seconds']):.4f}",
            "seconds_max": f"{max(result['seconds']):.4f}",
            "whole_seconds": f"{statistics.median(result['whole']):.4f}" if result["whole"] else "",
            "build_seconds": f"{statistics.median(result['build']):.4f}",
            "ratio": f"{best_peer / seconds:.2f}",
            "recall": f"{recall(result['ids'], truth, corpus, queries):.5f}",
            "pairs_share": result["pairs_share"] and f"{result['pairs_share']:.6f}",
            "command": result["command"]}


def write_rows(path, rows):
    new = not path.exists()
    with open(path, "a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kith", type=pathlib.Path, default=ROOT / "build" / "kith")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--columns", type=int, nargs="+", default=[3, 5, 10])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--exact", action="store_true", help="all pairs, too")
    parser.add_argument("--csv", type=pathlib.Path, help="append rows to this file")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # read when pykdtree is loaded

    points = patches()
    with tempfile.TemporaryDirectory() as folder:
        for columns in options.columns:
            corpus, queries = points[:CORPUS, :columns].copy(), points[CORPUS:, :columns].copy()
            files = [pathlib.Path(folder, f"{name}_{columns}.fbin") for name in ("patches", "asked")]
            save_points(files[0], corpus)
            save_points(files[1], queries)
            found = [run_kith(options, "tree", files, options.runs)]
            if options.exact:
                found.append(run_kith(options, "exact", files, 1))
            found += [run_peer(name, corpus, queries, options.threads, 1 if columns > 5 else
                               options.runs) for name in ("pykdtree", "cKDTree")]
            best = min(statistics.median(each["seconds"]) for each in found[-2:])
            rows = [row_of(each, options, columns, best, found[0]["ids"], corpus, queries)
                    for each in found]
            for row in rows:
                print(f"d {columns:2d}  {row['engine']:10s} search {row['seconds']} s  build "
                      f"{row['build_seconds']} s  {row['ratio']} x  recall {row['recall']}", flush=True)
            if options.csv:
                write_rows(options.csv, rows)


if __name__ == "__main__":
    main()
