#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tree of the processor beside pykdtree, cKDTree and scikit-learn's KDTree, in one run.

  patches    100,000 queries among 800,000 8 x 8 grey patches of the photographs that scikit-image
             ships (no download), drawn with a fixed seed from all places, their mean removed, on the
             first d principal axes, float32
  colour     300,000 among 1,000,000: a 4-dimensional Gaussian, mapped linearly into d columns, 5 % noise
  uniform    100,000 among 1,000,000 of the unit cube
  catalogue  every base and query file of the folder KITH_DATA with at most 30 columns;
             --queries M: M rows of the base, jittered by a hundredth of each column's deviation

--rows, --queries, --columns and --k change the sizes. Of kith `tree` answers all queries; `auto` and
`exact` the first --few of them as well, beside each other (auto should never be slower by more than
10 %); runs of all methods alternate. All ids must be the same.

Search time is what counts, and the building of the tree stands beside it. For kith the search is the
phases screen and rescore of its report, the building its phases check and prepare (values checked,
equal rows found, the tree, queries sorted). For a peer both are the times of its calls, points in
memory. Whole is a process from its start, kith's alone.

  recall   share of all neighbours whose distance is at most kith's k-th, computed in double

  python3 -m venv peers && peers/bin/pip install numpy scipy pykdtree scikit-learn scikit-image
  peers/bin/python bench/whole/bench_tree.py --kith build/kith --csv bench/results/tree.csv
  KITH_DATA=... peers/bin/python bench/whole/bench_tree.py --work catalogue --csv bench/results/tree.csv
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import bench_rows
import tree_peers
import tree_work

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = ["date", "commit", "machine", "threads", "work", "rows", "queries", "columns", "dtype", "k",
           "engine", "version", "isa", "runs", "seconds", "seconds_min", "seconds_max", "whole_seconds",
           "build_seconds", "ratio", "recall", "pairs_share", "command"]
CHECKED = 10_000  # queries at a time, when neighbours are looked at in double


def save_points(path, points):
    import numpy

    with open(path, "wb") as file:
        numpy.array(points.shape, dtype="<u4").tofile(file)
        numpy.ascontiguousarray(points).tofile(file)
    return path


# ---- kith -------------------------------------------------------------------------------------------


class Job:
    """One method of kith on files: runs, and what they said."""

    def __init__(self, options, method, files, k):
        self.method = method
        self.output = files[0].with_name(f"{method}.npz")
        self.words = [str(options.kith), "search", str(files[0]), str(files[1]), "-k", str(k),
                      "--method", method, "--device", "cpu", "--threads", str(options.threads),
                      "--json", "--quiet", "-o", str(self.output)]
        self.files = files
        self.result = {"seconds": [], "build": [], "whole": []}

    def run(self):
        start = time.perf_counter()
        done = subprocess.run(self.words, check=True, capture_output=True, text=True)
        self.result["whole"].append(time.perf_counter() - start)
        said = json.loads(done.stdout)
        times = said["seconds"]
        self.result["seconds"].append(times["screen"] + times["rescore"])
        self.result["build"].append(times["check"] + times["prepare"])
        took = f":{said['method']}" if self.method == "auto" else ""
        self.result.update(engine=f"kith-{self.method}{took}", version=said["version"],
                           isa=said["isa"], pairs_share=1.0 - said["skipped_share"],
                           queries=said["queries"])

    def finish(self):
        import numpy

        with numpy.load(self.output) as answer:
            self.result["ids"] = answer["ids"]
        shown = [pathlib.Path(word).name if word in map(str, self.files) else word
                 for word in self.words[1:-2]]
        self.result["command"] = " ".join(["kith", *shown])
        return self.result


def run_kith(work, k, options, folder):
    """Results, and whether all ids were the same."""
    suffix = ".u8bin" if work.corpus.dtype.itemsize == 1 else ".fbin"
    asked = ".u8bin" if work.queries.dtype.itemsize == 1 else ".fbin"
    name, columns = work.name.replace(" ", "_"), work.corpus.shape[1]
    corpus = save_points(folder / f"{name}_{columns}{suffix}", work.corpus)
    all_of = save_points(folder / f"asked_{columns}{asked}", work.queries)
    few_of = save_points(folder / f"few_{columns}{asked}", work.queries[:options.few])
    jobs = [Job(options, "tree", (corpus, all_of), k)]
    jobs += [Job(options, method, (corpus, few_of), k) for method in options.methods if method != "tree"]
    for turn in range(options.runs):
        for job in jobs:
            if turn == 0 or job.result["whole"][0] < options.long:
                job.run()
    found = [job.finish() for job in jobs]
    same = all((each["ids"] == found[0]["ids"][:len(each["ids"])]).all() for each in found)
    for path in (corpus, all_of, few_of):
        path.unlink()
    return found, same


# ---- Rows -------------------------------------------------------------------------------------------


def recall(ids, truth, work, k):
    """Ties are no misses: a neighbour is right whose distance is at most the true k-th."""
    import numpy

    right = 0
    count = len(ids)
    for first in range(0, count, CHECKED):
        part = slice(first, min(first + CHECKED, count))
        asked = work.queries[part, None, :].astype(numpy.float64)
        limit = ((asked - work.corpus[truth[part]]) ** 2).sum(axis=2).max(axis=1)
        found = ((asked - work.corpus[numpy.asarray(ids[part], dtype=numpy.int64)]) ** 2).sum(axis=2)
        right += (found <= limit[:, None]).sum()
    return right / (count * k)


def row_of(result, work, k, options, best_peer, truth):
    seconds = statistics.median(result["seconds"])
    compared = best_peer and result["queries"] == len(work.queries)
    return {"date": datetime.date.today().isoformat(), "commit": bench_rows.commit_name(),
            "machine": bench_rows.processor_name(), "threads": options.threads, "work": work.name,
            "rows": len(work.corpus), "queries": result["queries"], "columns": work.corpus.shape[1],
            "dtype": "u8" if work.corpus.dtype.itemsize == 1 else "f32", "k": k,
            "engine": result["engine"], "version": result["version"], "isa": result["isa"],
            "runs": len(result["seconds"]), "seconds": f"{seconds:.4f}",
            "seconds_min": f"{min(result['seconds']):.4f}",
            "seconds_max": f"{max(result['seconds']):.4f}",
            "whole_seconds": f"{statistics.median(result['whole']):.4f}" if result["whole"] else "",
            "build_seconds": f"{statistics.median(result['build']):.4f}",
            "ratio": f"{best_peer / seconds:.2f}" if compared else "",
            "recall": f"{recall(result['ids'], truth, work, k):.5f}",
            "pairs_share": result["pairs_share"] and f"{result['pairs_share']:.6f}",
            "command": result["command"]}


def bench(work, k, options, folder):
    found, same = run_kith(work, k, options, folder)
    peers = [tree_peers.run(name, work, k, options) for name in options.peers]
    peers = [each for each in peers if each is not None]
    best = min((statistics.median(each["seconds"]) for each in peers), default=0.0)
    truth = found[0]["ids"].astype("int64")
    rows = [row_of(each, work, k, options, best, truth) for each in found + peers]
    for row in rows:
        print(f"{'' if work.name == 'patches' else work.name + '  '}d {row['columns']:2d}  "
              f"{'' if k == 10 else f'k {k}  '}{row['engine']:10s} search {row['seconds']} s  build "
              f"{row['build_seconds']} s  {row['ratio'] or '-'} x  recall {row['recall']}"
              f"{'' if row['queries'] == len(work.queries) else '  of ' + format(row['queries'], ',')}",
              flush=True)
    if not same:
        print(f"{work.name}: DIFFERENT ids of kith's methods")
    if options.csv:
        bench_rows.append(options.csv, COLUMNS, rows)
    return same


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kith", type=pathlib.Path, default=ROOT / "build" / "kith")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", default="patches", choices=tree_work.MAKERS)
    parser.add_argument("--only", default="", help="works whose name holds this")
    parser.add_argument("--rows", type=int, help="points of the corpus")
    parser.add_argument("--queries", type=int)
    parser.add_argument("--columns", type=int, nargs="+")
    parser.add_argument("--k", type=int, nargs="+", default=[10])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--few", type=int, default=20_000, help="queries of auto and exact")
    parser.add_argument("--methods", nargs="*", choices=["tree", "auto", "exact"],
                        help="of kith beside tree; auto and exact, for patches none")
    parser.add_argument("--exact", action="store_true", help="the same as --methods exact")
    parser.add_argument("--peers", nargs="*", default=list(tree_peers.PEERS), choices=tree_peers.PEERS)
    parser.add_argument("--patience", type=float, default=120.0,
                        help="seconds that a peer may take, estimated from its first queries")
    parser.add_argument("--long", type=float, default=10.0, help="seconds; what takes longer runs once")
    parser.add_argument("--csv", type=pathlib.Path, help="append rows to this file")
    options = parser.parse_args()
    if options.methods is None:
        options.methods = [] if options.work == "patches" else ["auto", "exact"]
    if options.exact and "exact" not in options.methods:
        options.methods.append("exact")
    return options


def main():
    options = parse_options()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # read when pykdtree is loaded
    same = True
    with tempfile.TemporaryDirectory() as folder:
        for work in tree_work.make(options.work, options.rows, options.queries, options.columns):
            for k in options.k if options.only in work.name else []:
                same = bench(work, k, options, pathlib.Path(folder)) and same
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
