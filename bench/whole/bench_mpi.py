#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kith-mpi on one machine: the same threads in one rank and in several; rows go to a file, bench/results/mpi.csv.

    bench/whole/bench_mpi.py --build build --points sift.u8bin --rows 100000 -k 10 --teams 1x1,1x2,2x1 \\
        --method exact,descent --csv bench/results/mpi.csv

A team is RANKSxTHREADS: ranks, and threads of each. The first rows of the file (.u8bin, .i8bin, .fbin) are copied, and
stay in memory, as the lists do. Each team runs --runs times after one that does not count; the median is told.

  seconds           of the graph, without the start of mpirun and the end of its ranks
  command_seconds   of the whole command
  speedup           of seconds, against the first team
  same              whether the file has the bytes of the first team's
"""
import argparse
import datetime
import filecmp
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import bench_rows

REPORTED = ["compute_seconds", "wait_seconds", "sample_seconds", "group_seconds", "result_seconds"]
COLUMNS = ["date", "commit", "machine", "method", "rows", "columns", "k", "shards", "steps", "ranks", "threads",
           "seconds", "command_seconds", "speedup", *REPORTED, "recall", "same", "command"]
ITEMS = {".u8bin": 1, ".i8bin": 1, ".fbin": 4}


def first_rows(path, rows, folder):
    """A file of its first rows; all of them where it has no more."""
    with open(path, "rb") as file:
        have, columns = (int.from_bytes(file.read(4), "little") for _ in range(2))
        rows = min(rows, have)
        copy = folder / f"points{path.suffix}"
        with open(copy, "wb") as out:
            out.write(rows.to_bytes(4, "little") + columns.to_bytes(4, "little"))
            out.write(file.read(rows * columns * ITEMS[path.suffix]))
    return copy, rows, columns


def mpirun(ranks):
    """Open MPI has to be told that there may be more ranks than cores, and that root may; MPICH knows no such words."""
    said = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False).stdout
    words = ["mpirun"]
    if "Open MPI" in said or "OpenRTE" in said:
        words += ["--oversubscribe", "--bind-to", "none"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])
    return words + ["-n", str(ranks)]


def run(options, points, folder, method, team):
    """Seconds of the job, seconds of the command, what it has said."""
    ranks, threads = team
    words = mpirun(ranks)
    words += [options.build.resolve() / "kith-mpi", "graph", points, "-k", options.k, "--threads", threads]
    words += ["--device", "cpu", "--shards", folder / "work", "--tune", f"shard-count={options.shard_count}"]
    words += ["-o", folder / f"{ranks}x{threads}.kith", "--json", "--quiet"]
    words += ["--method", "descent", "--recall", options.recall] if method == "descent" else []
    start = time.monotonic()
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, text=True, check=False)
    seconds = time.monotonic() - start
    if done.returncode != 0:
        sys.exit(f"bench_mpi: {' '.join(map(str, words))}: exit code {done.returncode}")
    said = json.loads(done.stdout)
    return said["shards"]["total_seconds"], seconds, said


def measure(options, points, folder, method):
    path, rows, columns = points
    first = None
    for team in options.teams:
        runs = [run(options, path, folder, method, team) for _ in range(options.runs + 1)][1:]
        seconds = statistics.median(each[0] for each in runs)
        said = min(runs, key=lambda each: abs(each[0] - seconds))[2]
        first = first or (seconds, team)
        files = [folder / f"{ranks}x{threads}.kith" for ranks, threads in (first[1], team)]
        row = {"date": datetime.date.today().isoformat(), "commit": said["commit"], "machine": options.machine,
               "method": method, "rows": rows, "columns": columns, "k": options.k, "shards": said["shards"]["count"],
               "steps": said["shards"]["steps"], "ranks": team[0], "threads": team[1], "seconds": f"{seconds:.3f}",
               "command_seconds": f"{statistics.median(each[1] for each in runs):.3f}",
               "speedup": f"{first[0] / seconds:.2f}", "recall": said.get("recall", {}).get("estimate", 1),
               "same": int(filecmp.cmp(*files, shallow=False)),
               "command": "bench_mpi.py " + " ".join(pathlib.Path(word).name if "/" in word else word
                                                     for word in sys.argv[1:])}
        row |= {name: f"{said['shards'][name]:.3f}" for name in REPORTED}
        print(f"{method}, {team[0]} x {team[1]}: {row['seconds']} s, {row['speedup']} times as fast, "
              f"recall {row['recall']}, {'the same bytes' if row['same'] else 'OTHER BYTES'}", flush=True)
        yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default="build")
    parser.add_argument("--points", type=pathlib.Path, required=True)
    parser.add_argument("--rows", type=int, default=100000)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--shard-count", type=int, default=4)
    parser.add_argument("--teams", default="1x1,1x2,2x1")
    parser.add_argument("--method", default="exact,descent")
    parser.add_argument("--recall", default="0.95")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--machine", default=bench_rows.processor_name())
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    options.teams = [tuple(int(number) for number in team.split("x")) for team in options.teams.split(",")]
    if shutil.which("mpirun") is None or options.points.suffix not in ITEMS:
        sys.exit(f"bench_mpi: needs mpirun, and points as one of {', '.join(ITEMS)}")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        folder = pathlib.Path(name)
        points = first_rows(options.points, options.rows, folder)
        for method in options.method.split(","):
            for row in measure(options, points, folder, method):
                bench_rows.append(options.csv, COLUMNS, [row])


if __name__ == "__main__":
    main()
