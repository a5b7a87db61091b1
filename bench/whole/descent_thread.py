#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One thread of the processor beside a GPU, the same points and the same calls: what stands for "100 to 250 times
single-thread NN-Descent" of Wang, Zhao, Zeng 2021. Rows go to bench/results/descent_thread.csv; plot_descent.py
makes the table of them.

    descent_thread.py --csv bench/results/descent_thread.csv
    descent_thread.py --side cpu           # where there is no GPU: the one thread alone

  random, all updates     NN-Descent as Dong, Moses, Li 2011: random lists, every pair that met is offered
  random, nearest         GNND's selective update: to each point the nearest that it met
  default                 what kith does by itself: near points first, by products

Points and graphs lie in host memory; with a GPU what moves there is in the time. No sample is solved. Of calls that
are shorter than a second the median of --runs, the first one not counted. recall@10: of 1,000 rows solved exactly by
kith, ties no misses. Works: mixture:ROWS:COLUMNS (clusters of 1,000 points, intrinsic dimension 12), sift:ROWS of the
folder KITH_DATA.
"""
import argparse
import datetime
import pathlib
import statistics
import sys

import bench_rows
from bench_merge_ways import ROOT, START_RANDOM, Graph, Kith, Truth, make_points, timed
from descent_rows import THREAD_COLUMNS

WORKS = ["mixture:100000:128", "sift:100000"]
SETTINGS = [("random, all updates", START_RANDOM, 1, (7, 10)), ("random, nearest", START_RANDOM, -1, (10,)),
            ("default", 0, 0, (0,))]


class OneThread(Kith):
    """kith on one thread of the processor, or on a GPU."""

    def __init__(self, options, side):
        self.side = side
        super().__init__(argparse.Namespace(build=options.build, k=options.k, device=side,
                                            threads=1 if side == "cpu" else options.threads))

    def build(self, points, out, rounds, start, updates):
        self.updates = updates
        return self.descend(points, out, rounds, start)

    def params(self, rounds=0, start=0):
        params = super().params(rounds, start)
        params.all_updates = self.updates
        return params


def measure(kith, truth, points, options, base):
    rows, out = [], Graph(len(points), kith.k)
    for name, start, updates, several in SETTINGS:
        for rounds in several:
            setting = f"{name}, {rounds} rounds" if rounds else name
            seconds, evaluations = timed(
                options.runs, lambda: kith.build(points, out, rounds, start, updates),  # pylint: disable=W0640
                options.long)
            row = base | {"side": kith.side, "threads": 1 if kith.side == "cpu" else options.threads,
                          "machine": kith.machine(), "setting": setting, "runs": len(seconds)}
            row |= {"seconds": f"{statistics.median(seconds):.5f}", "seconds_min": f"{min(seconds):.5f}",
                    "seconds_max": f"{max(seconds):.5f}", "evaluations": f"{evaluations:.6g}",
                    "recall": f"{truth.recall(out.distances):.5f}"}
            print(f"  {kith.side:5} {setting:30} {float(row['seconds']):9.4f} s  recall {row['recall']}", flush=True)
            rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", choices=["cpu", "cuda"], help="default: both")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--work", action="append")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--long", type=float, default=1.0, help="seconds; what takes longer runs once")
    parser.add_argument("--threads", type=int, default=16, help="of the host beside a GPU")
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    sides = [options.side] if options.side else ["cuda", "cpu"]
    kiths = [OneThread(options, side) for side in sides]
    for name in options.work or WORKS:
        points, _ = make_points(name)
        if points is None:
            print(f"{name}: absent, KITH_DATA names no folder that has it")
            continue
        print(f"\n{name}: {len(points):,} x {points.shape[1]}, k = {options.k}", flush=True)
        base = dict.fromkeys(THREAD_COLUMNS, "") | {
            "date": datetime.date.today().isoformat(), "commit": kiths[0].lib.kith_commit().decode(),
            "work": name.partition(":")[0], "rows": len(points), "columns": points.shape[1],
            "dtype": "u8" if points.dtype == "uint8" else "f32", "metric": "euclidean", "k": options.k,
            "command": f"descent_thread.py --work {name}"}
        truth = Truth(kiths[0], points)
        for kith in kiths:
            bench_rows.append(options.csv, THREAD_COLUMNS, measure(kith, truth, points, options, base))
    return 0


if __name__ == "__main__":
    sys.exit(main())
