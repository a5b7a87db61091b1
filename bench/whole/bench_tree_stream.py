#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A whole catalogue from a file: the last experiment of Gieseke, Heinermann, Oancea, Igel 2014, end to end.

    bench_tree_stream.py [--queries 1180000000] [--device cuda] [--folder /dev/shm]
                         [--csv bench/results/tree_stream.csv]
    bench_tree_stream.py --queries 1000000 --device cpu --method tree      # does it run? seconds

Queries, generated, are written to a file; then `kith search --stream` reads them in chunks, finds for each its
nearest among the 2,000,000 points of another file, and writes the ids to a third. The row has the seconds of
generating (not part of the work), of the command, from its start to its end, and of its report's phases. Some
queries of the beginning, the middle and the end are compared with all points, in double.

Points are `colour` of bench_tree_gpu.py in 5 columns: a 4-dimensional Gaussian, mapped linearly, and 5 % noise. They
are the same for any number of threads. Needs NumPy alone, and room for a file of 20 bytes a query and one of 4 k.
1.18e9 queries: 24 GB and 5 GB.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # threads are ours: a piece of the queries each

import numpy  # noqa: E402  pylint: disable=wrong-import-position

import bench_rows  # noqa: E402  pylint: disable=wrong-import-position

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = ["date", "commit", "machine", "device", "threads", "work", "rows", "queries", "columns", "k", "method",
           "generate_seconds", "seconds", "phases", "report", "peak_host_mib", "peak_device_mib", "checked", "command"]
HIDDEN, PIECE, HEADER = 4, 1 << 20, 8
CHECKED = 16  # queries, in each of three places
SPARE = 1 << 30  # bytes of a folder that stay free


# ---- Files ------------------------------------------------------------------------------------------


def piece_of(rows, columns, seed, number):
    """So many points, the same wherever they are made."""
    axes = numpy.random.default_rng(7).standard_normal((HIDDEN, columns), dtype=numpy.float32)
    noise = numpy.float32(0.05 * numpy.sqrt((axes ** 2).sum() / columns))
    random = numpy.random.default_rng([seed, number])
    points = random.standard_normal((rows, HIDDEN), dtype=numpy.float32) @ axes
    spread = random.standard_normal((rows, columns), dtype=numpy.float32)
    spread *= noise
    points += spread
    return points


def generate(path, rows, columns, seed, threads):
    """A .fbin; the seconds that it took."""
    start = time.perf_counter()
    with open(path, "wb") as file:
        file.write(numpy.array([rows, columns], dtype="<u4").tobytes())
        file.truncate(HEADER + 4 * rows * columns)
        handle = file.fileno()

        def put(number):
            first = number * PIECE
            rest = memoryview(piece_of(min(PIECE, rows - first), columns, seed, number)).cast("B")
            at = HEADER + 4 * first * columns
            while rest:
                done = os.pwrite(handle, rest, at)
                rest, at = rest[done:], at + done

        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            list(pool.map(put, range((rows + PIECE - 1) // PIECE)))
    return time.perf_counter() - start


def folder_with_room(asked, wanted):
    for folder in [asked] if asked else ["/dev/shm", tempfile.gettempdir()]:
        if os.path.isdir(folder) and shutil.disk_usage(folder).free >= wanted + SPARE:
            return folder
    sys.exit(f"bench_tree_stream: no folder with {(wanted + SPARE) / 1e9:.1f} GB of room (name one with --folder, or "
             "ask for fewer --queries)")


# ---- The command ------------------------------------------------------------------------------------


def run_command(options, folder):
    """Its seconds, and what it printed as JSON."""
    words = [options.build / "kith", "search", folder / "points.fbin", folder / "queries.fbin", "-k", options.k,
             "--device", options.device, "--method", options.method, "--stream", "--restart", "--json", "--quiet",
             "-o", folder / "found.ibin"]
    if options.chunk:
        words += ["--chunk", options.chunk]
    start = time.perf_counter()
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"bench_tree_stream: {done.stderr.strip() or done.returncode}")
    return seconds, json.loads(done.stdout.strip().splitlines()[-1])


def check(options, folder):
    """Of a few queries: the k-th found is as near as the k-th of all points."""
    points = numpy.fromfile(folder / "points.fbin", numpy.float32, offset=HEADER).reshape(-1, options.columns)
    points = points.astype(numpy.float64)
    queries = numpy.memmap(folder / "queries.fbin", numpy.float32, "r", HEADER, (options.queries, options.columns))
    found = numpy.memmap(folder / "found.ibin", numpy.uint32, "r", HEADER, (options.queries, options.k))
    count = min(CHECKED, options.queries)
    for first in (0, (options.queries - count) // 2, options.queries - count):
        for row in range(first, first + count):
            squares = ((points - queries[row].astype(numpy.float64)) ** 2).sum(axis=1)
            best = numpy.partition(squares, options.k - 1)[:options.k]
            if not numpy.allclose(numpy.sort(best), numpy.sort(squares[found[row]]), rtol=1e-9, atol=0):
                return f"WRONG at query {row}"
    return "same"


def row_of(options, generated, seconds, said, checked):
    peak = said.get("peak_bytes", {})
    phases = {name: value for name, value in said.get("seconds", {}).items() if value}
    command = (f"bench_tree_stream.py --queries {options.queries} --device {options.device} --method {options.method} "
               f"-k {options.k}")
    return {"date": datetime.date.today().isoformat(), "commit": said.get("commit", ""),
            "machine": said.get("gpu") or bench_rows.processor_name(), "device": options.device,
            "threads": said.get("threads", ""), "work": "whole catalogue", "rows": options.points,
            "queries": options.queries, "columns": options.columns, "k": options.k, "method": options.method,
            "generate_seconds": f"{generated:.3f}", "seconds": f"{seconds:.3f}",
            "phases": " ".join(f"{name}={value:.3f}" for name, value in phases.items()),
            "report": json.dumps(said, separators=(",", ":")),
            "peak_host_mib": f"{peak.get('host', 0) / 2**20:.0f}",
            "peak_device_mib": f"{peak.get('gpu', peak.get('device', 0)) / 2**20:.0f}", "checked": checked,
            "command": command}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="folder of the program kith")
    parser.add_argument("--queries", type=int, default=1_180_000_000)
    parser.add_argument("--points", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=5)
    parser.add_argument("-k", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--method", default="tree")
    parser.add_argument("--chunk", type=int, help="queries; default: the command's")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="that generate")
    parser.add_argument("--folder", help="of the files; default: /dev/shm, or the usual folder, where there is room")
    parser.add_argument("--csv", type=pathlib.Path, help="a row is appended to it")
    options = parser.parse_args()
    wanted = 4 * options.columns * (options.queries + options.points) + 4 * options.k * options.queries
    with tempfile.TemporaryDirectory(prefix="kith-stream-", dir=folder_with_room(options.folder, wanted)) as name:
        folder = pathlib.Path(name)
        generate(folder / "points.fbin", options.points, options.columns, 1, options.threads)
        generated = generate(folder / "queries.fbin", options.queries, options.columns, 2, options.threads)
        print(f"{options.queries:,} queries generated in {generated:.1f} s, {folder}", flush=True)
        seconds, said = run_command(options, folder)
        row = row_of(options, generated, seconds, said, check(options, folder))
    print(f"kith search --stream: {seconds:.2f} s, {1e9 * seconds / options.queries:.2f} ns a query; {row['phases']}; "
          f"host {row['peak_host_mib']} MiB, device {row['peak_device_mib']} MiB; {row['checked']}", flush=True)
    bench_rows.append(options.csv, COLUMNS, [row])
    return 0 if row["checked"] == "same" else 1


if __name__ == "__main__":
    sys.exit(main())
