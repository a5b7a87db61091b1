#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ground truth from a file: `kith truth` beside one read of the same file.

    bench_truth.py --device cpu [--rows 1000000] [--queries 10000] [-k 100] [--runs 3] [--csv FILE]
    bench_truth.py --device cuda --rows 100000000 --folder /dev/shm --csv bench/results/truth.csv

Rows of bytes (a mixture of 1,000 clusters, made by all processors, in a big-ann file) and queries of the same. Both
read a file that was just written, so mostly from memory: a read is one process that takes 16 MiB at a time. Whole
processes, the answer written. Median, least and greatest.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy

import bench_rows

ROOT = bench_rows.ROOT
COLUMNS = ["date", "commit", "machine", "threads", "work", "how", "seconds", "low", "high", "runs", "command"]
PIECE_ROWS = 1 << 18
READ_BYTES = 16 << 20


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--cols", type=int, default=96)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("-k", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", type=pathlib.Path, help="of the files, which are removed in the end")
    parser.add_argument("--csv", type=pathlib.Path)
    return parser.parse_args()


def make_piece(path, first, rows, cols):
    """Rows from `first` on, the same whoever makes them and when."""
    centres = numpy.random.default_rng(0).integers(40, 216, (1000, cols), dtype=numpy.uint8)
    random = numpy.random.default_rng(first + 1)
    points = centres[random.integers(0, len(centres), rows)]
    points += numpy.frombuffer(random.bytes(rows * cols), numpy.uint8).reshape(rows, cols) & 31
    with open(path, "r+b") as file:
        file.seek(8 + first * cols)
        file.write(points.tobytes())


def make_points(path, rows, cols):
    with open(path, "wb") as file:
        file.write(numpy.array([rows, cols], "<u4").tobytes())
        file.truncate(8 + rows * cols)
    with concurrent.futures.ProcessPoolExecutor() as pool:
        pieces = [pool.submit(make_piece, path, first, min(PIECE_ROWS, rows - first), cols)
                  for first in range(0, rows, PIECE_ROWS)]
        for piece in pieces:
            piece.result()


def read(path):
    buffer = bytearray(READ_BYTES)
    start = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - start


def truth(options, base, asked, out):
    command = [options.build / "kith", "truth", base, asked, "-k", str(options.k), "--device", options.device, "-o", out,
               "--restart", "--json"]
    start = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    print("   ", json.dumps(json.loads(done.stdout).get("seconds")), flush=True)
    return seconds


def measure(options, folder):
    base, asked = folder / "base.u8bin", folder / "asked.u8bin"
    make_points(base, options.rows, options.cols)
    make_points(asked, options.queries, options.cols)
    ways = {"one read of the file": lambda: read(base), "truth": lambda: truth(options, base, asked, folder / "gt.knn")}
    for call in ways.values():
        call()  # a warm-up
    times = {how: [] for how in ways}
    for _ in range(options.runs):
        for how, call in ways.items():
            times[how].append(call())
    return times


def main():
    options = parse_options()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        times = measure(options, pathlib.Path(folder))
    work = f"uint8 {options.rows} x {options.cols} {options.queries} queries k {options.k}"
    machine = bench_rows.processor_name()
    if options.device.startswith("cuda"):
        asked = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        machine = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()[0]
    rows = []
    for how, seconds in times.items():
        middle = statistics.median(seconds)
        print(f"{work:50} {how:22} {middle:8.3f} s ({min(seconds):.3f} to {max(seconds):.3f})")
        rows.append({"date": datetime.date.today().isoformat(), "commit": bench_rows.commit_name(), "machine": machine,
                     "threads": len(os.sched_getaffinity(0)), "work": work, "how": how, "seconds": f"{middle:.3g}",
                     "low": f"{min(seconds):.3g}", "high": f"{max(seconds):.3g}", "runs": options.runs,
                     "command": f"bench_truth.py --device {options.device} --rows {options.rows}"})
    bench_rows.append(options.csv, COLUMNS, rows)


if __name__ == "__main__":
    main()
