#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A graph of points in a file, at once and from shards (kith graph --shards); rows go to bench/results/shards.csv.

    bench/whole/bench_shards.py --build build --rows 20000000 --columns 96 -k 32 --device cuda \\
        --tune gpu-memory=16G --memory 24G --method descent --recall 0.95@10

    bench/whole/bench_shards.py --build build --rows 1000000000 --type u8 --clusters 1000000 -k 10 --device cuda:all \\
        --work /dev/shm/billion --results /tmp/billion --memory 64G --recall 0.95@10 --parts 8 --skip-at-once

Points are clusters of about a thousand, in twelve directions each (shard_points.py), made once and kept as
WORK/points-ROWS-COLUMNS.fbin, bytes as .u8bin. Their pages are given back to the disk before each run, so that both
are read from there (files in /dev/shm stay in memory). The run at once has no limits. The shards' folder lies beside
the points, the results in --results.

  ratio    seconds of all shards / seconds at once, of the whole command
  overlap  seconds in engines / seconds of the job, from the report of the shards; an approximate graph's sample and
           groups count as engines
  same     exact graphs: whether both files have the same bytes
  disk     bytes a second that the folder takes, after a sync, by one thread into one file, and by four into one each
           (--measure-disk, the better of two); least_seconds: what the result takes at the first rate, and lists at
           the second
"""
import argparse
import datetime
import filecmp
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import bench_rows
import shard_points

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = ["date", "commit", "machine", "backend", "gpu", "rows", "columns", "k", "method", "memory", "gpu_memory",
           "shards", "steps", "seconds", "seconds_at_once", "ratio", "overlap", "compute_seconds", "wait_seconds",
           "result_seconds", "sample_seconds", "group_seconds", "groups", "groups_cover", "groups_overlap",
           "bytes_read", "bytes_written", "wait_for_rows", "wait_for_lists", "check_seconds", "copy_seconds",
           "rest_seconds", "result_bytes", "disk_one", "disk_four", "least_seconds", "peak_mib", "gpu_peak_mib",
           "recall", "recall_low", "recall_high", "recall_at_once", "same", "type", "clusters", "point_seconds",
           "planned_mib", "gpu_planned_mib", "command"]
REPORTED = ("compute_seconds", "wait_seconds", "result_seconds", "sample_seconds", "group_seconds", "groups",
            "groups_cover", "groups_overlap", "bytes_read", "bytes_written")
STAGES = {"wait_for_rows": "wait_for_rows", "wait_for_lists": "wait_for_lists", "check_seconds": "check",
          "copy_seconds": "result", "rest_seconds": "rest"}
DISK_BYTES = 4 << 30


def forget(path):
    """The file's pages leave the memory."""
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def run(words, path):
    forget(path)
    start = time.monotonic()
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, text=True, check=False)
    seconds = time.monotonic() - start
    if done.returncode != 0:
        sys.exit(f"bench_shards: {' '.join(map(str, words))}: exit code {done.returncode}")
    return json.loads(done.stdout), seconds


def fill(path, data, count):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for _ in range(count):
        os.write(file, data)
    os.fsync(file)
    os.close(file)
    os.unlink(path)


def disk_rate(work, threads):
    """Bytes a second: so many threads, a file each, 4 GiB in all; os.write lets other threads run."""
    data = os.urandom(1 << 20) * 16
    each = DISK_BYTES // len(data) // threads
    team = [threading.Thread(target=fill, args=(work / f"rate-{i}", data, each)) for i in range(threads)]
    start = time.monotonic()
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    return each * threads * len(data) / (time.monotonic() - start)


def read_rate(path, threads):
    """Bytes a second of a file that is not in memory: so many threads read a part each, 4 GiB in all at most."""
    forget(path)
    each = min(DISK_BYTES, path.stat().st_size) // threads

    def read(first):
        file = os.open(path, os.O_RDONLY)
        for at in range(first, first + each, 1 << 24):
            os.pread(file, min(1 << 24, first + each - at), at)
        os.close(file)
    team = [threading.Thread(target=read, args=(i * each,)) for i in range(threads)]
    start = time.monotonic()
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    return each * threads / (time.monotonic() - start)


def recall_of(said, name="estimate"):
    return said.get("recall", {}).get(name, 1.0 if said["exact"] else "")


def planned(words):
    """What the command says beforehand, mebibytes of the host and of a GPU."""
    done = subprocess.run([str(word) for word in words] + ["--dry-run"], stdout=subprocess.PIPE, text=True, check=True)
    plan = json.loads(done.stdout)["shards"]
    return plan["peak_bytes"] >> 20, plan["gpu_bytes"] >> 20


def measure(options, points, work, results):
    kith = options.build / "kith"
    common = [kith, "graph", points, "-k", options.k, "--json", "--device", options.device]
    common += ["--method", options.method] if options.method else []
    common += ["--recall", options.recall] if options.recall else []
    row = {"date": datetime.date.today().isoformat(), "machine": options.machine, "rows": options.rows,
           "columns": options.columns, "k": options.k, "memory": options.memory,
           "gpu_memory": options.gpu_memory, "type": options.type, "clusters": options.clusters, "command": "bench/whole/bench_shards.py " + " ".join(sys.argv[1:])}
    at_once = None
    if not options.skip_at_once:
        at_once, row["seconds_at_once"] = run(common + ["-o", results / "once.kith"], points)
        row["recall_at_once"] = recall_of(at_once)
        print(f"at once: {row['seconds_at_once']:.1f} s, recall {row['recall_at_once']}", flush=True)
    if options.skip_shards:
        return row | {"commit": at_once["commit"], "backend": at_once["backend"], "gpu": at_once["gpu"] or "",
                      "method": at_once["method"]}
    words = common + ["-o", results / "shards.kith", "--shards", work / "shards", "--memory", options.memory]
    words += ["--tune", f"gpu-memory={options.gpu_memory}"] if options.gpu_memory else []
    words += ["--tune", f"shard-count={options.shard_count}"] if options.shard_count else []
    words += ["--tune", f"parts={options.parts}"] if options.parts else []
    row["planned_mib"], row["gpu_planned_mib"] = planned(words)
    said, row["seconds"] = run(words, points)
    shards = said["shards"]
    row |= {"commit": said["commit"], "backend": said["backend"], "gpu": said["gpu"] or "", "method": said["method"],
            "shards": shards["count"], "steps": shards["steps"], "overlap": shards["compute_share"],
            "peak_mib": said["peak_bytes"]["host"] >> 20, "gpu_peak_mib": said["peak_bytes"]["gpu"] >> 20,
            "recall": recall_of(said), "recall_low": recall_of(said, "low"), "recall_high": recall_of(said, "high")}
    for name in REPORTED:
        row[name] = shards[name]
    for name, stage in STAGES.items():
        row[name] = shards["stages"][stage]
    row["result_bytes"] = sum(part.stat().st_size for part in results.glob("shards*.kith"))
    if options.measure_disk:
        row["disk_one"], row["disk_four"] = (max(disk_rate(work, threads) for _ in range(2)) for threads in (1, 4))
        one, four = (read_rate(points, threads) / 1e9 for threads in (1, 4))
        print(f"cold reads: {one:.2f} GB/s by one thread, {four:.2f} by four", flush=True)
        row["least_seconds"] = row["bytes_written"] / row["disk_four"] + row["result_bytes"] / row["disk_one"]
    if at_once is not None:
        row["ratio"] = row["seconds"] / row["seconds_at_once"]
        if said["exact"] and at_once["exact"]:
            row["same"] = int(filecmp.cmp(results / "once.kith", results / "shards.kith", shallow=False))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/kith-shards"))
    parser.add_argument("--results", type=pathlib.Path, help="where the answers go (default: --work)")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--columns", type=int, default=96)
    parser.add_argument("--type", choices=["f32", "u8"], default="f32")
    parser.add_argument("--clusters", type=int, default=0, help="of bytes (default: one for 1,000 rows)")
    parser.add_argument("-k", type=int, default=32)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--memory", default="24G")
    parser.add_argument("--gpu-memory", default="")
    parser.add_argument("--method", default="")
    parser.add_argument("--recall", default="")
    parser.add_argument("--shard-count", type=int, default=0)
    parser.add_argument("--parts", default="", help="of the result: a number, or auto")
    parser.add_argument("--skip-at-once", action="store_true")
    parser.add_argument("--skip-shards", action="store_true")
    parser.add_argument("--measure-disk", action="store_true")
    parser.add_argument("--machine", default=bench_rows.processor_name())
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    options.results = options.results or options.work
    options.clusters = options.clusters or max(1, options.rows // shard_points.CLUSTER)
    for folder in (options.work, options.results):
        folder.mkdir(parents=True, exist_ok=True)
    points = options.work / f"points-{options.rows}-{options.columns}.{shard_points.SUFFIX[options.type]}"
    start = time.monotonic()
    shard_points.make_points(points, options.rows, options.columns, options.type, options.clusters)
    made = time.monotonic() - start
    print(f"points: {made:.1f} s", flush=True)
    row = measure(options, points, options.work, options.results)
    row["point_seconds"] = made
    for name, value in row.items():
        print(f"{name:16} {value}")
    bench_rows.append(options.csv, COLUMNS, [{name: f"{value:.4g}" if isinstance(value, float) else value
                                              for name, value in row.items()}])


if __name__ == "__main__":
    main()
