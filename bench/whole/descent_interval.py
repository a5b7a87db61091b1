#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often the 95 % interval that kith prints contains the true recall: one job with many seeds.

    descent_interval.py [--kith build/kith] [--seeds 100] [--csv bench/results/descent_interval.csv]

A seed draws the sample and what the descent tries, so that each graph is another one and has its own true
recall: that of all its rows, beside kith's exact graph, distances in double (bench_descent.py). Settings are
an end after one round, which is far from 1, an end by a wanted recall, where what was looked at until it was
good must not be what is printed, and the default, which is near 1. Fails when fewer than 90 of 100 intervals
contain it.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy

import bench_descent
import bench_rows
import descent_rows
import descent_work

SETTINGS = {"start alone": {"rounds": 0}, "1 round, random": {"rounds": 1, "start": "random"},
            "recall 0.95": {"recall": 0.95, "start": "random"}, "default": {}}
LEAST = 0.9


def graph(options, path, work, output, more):
    """What kith says, and the ids."""
    words = [options.kith, "graph", path, "-k", options.k, "--metric", work.metric, "--device", "cpu",
             "--threads", options.threads, "--json", "--quiet", "-o", output, *more]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True)
    with numpy.load(output) as found:
        return json.loads(done.stdout), found["ids"].astype(numpy.int64)


def count(options, path, work, truth, output, setting):
    """Seeds whose interval contains the truth, all true recalls, all widths."""
    inside, recalls, widths = 0, [], []
    for seed in range(1, options.seeds + 1):
        more = ["--method", "descent", "--tune", f"seed={seed},sample={options.sample}",
                *bench_descent.words_of(setting)]
        said, ids = graph(options, path, work, output, more)
        recall = bench_descent.recall(work, ids, truth)
        low, high = ((said["recall"]["low"], said["recall"]["high"]) if "recall" in said else (1.0, 1.0))
        inside += low - 1e-12 <= recall <= high + 1e-12
        recalls.append(recall)
        widths.append(high - low)
    return inside, recalls, widths


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kith", type=pathlib.Path, default=bench_descent.ROOT / "build" / "kith")
    parser.add_argument("--work", default="vectors", choices=descent_work.MAKERS)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="settings whose name holds this")
    parser.add_argument("--csv", type=pathlib.Path, help="rows are appended to it")
    return parser.parse_args()


def main():
    options = parse_options()
    work = descent_work.make(options.work, options.rows)
    if work is None:
        return 77
    enough = True
    with tempfile.TemporaryDirectory() as folder:
        path = bench_descent.save(work, pathlib.Path(folder))
        output = pathlib.Path(folder) / "graph.npz"
        exact, truth = graph(options, path, work, output, ["--method", "exact"])
        for name, setting in SETTINGS.items():
            if options.only not in name:
                continue
            inside, recalls, widths = count(options, path, work, truth, output, setting)
            print(f"{work.name} {options.rows}, {name}: {inside} of {options.seeds} intervals contain the true recall "
                  f"({min(recalls):.4f} to {max(recalls):.4f}; width {numpy.mean(widths):.4f})", flush=True)
            row = bench_descent.base_of(work, options, exact) | {
                "setting": name, "sample": options.sample, "seeds": options.seeds, "inside": inside,
                "recall_min": f"{min(recalls):.5f}", "recall_max": f"{max(recalls):.5f}",
                "width": f"{numpy.mean(widths):.5f}",
                "command": f"descent_interval.py --work {work.name} --rows {len(work.points)}"}
            bench_rows.append(options.csv, descent_rows.INTERVAL_COLUMNS, [row])
            enough = inside >= LEAST * options.seeds and enough
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
