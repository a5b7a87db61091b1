#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two graphs made one, beside a descent of all points; rows go to bench/results/graph_merge.csv.

  --side cuda   points and graphs stay on the device (PyTorch alone is needed): mixture1m, blob1m and sift
                of bench_descent.py, cut in the middle
  --side cpu    kith graph and kith merge on files: the first rows of sift and fashion of the folder
                KITH_DATA, cut in the middle

Ways: direct (a descent of all), halves (both graphs that are merged, one after the other), merge, the same of at
most 5 rounds, merge of lists that are filled by chance (start=random, as the paper's), merge of all pairs across
(exact). Time: on a GPU that of a call, median of --runs, the first one not counted; on the processor what the program
says of descending or merging, reading and writing left out. recall@10: on a GPU of 1,000 rows solved by PyTorch in
double; on the processor that of the program's own sample of 1,000 rows.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile

import bench_rows

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = ["date", "commit", "machine", "side", "threads", "work", "rows", "columns", "k", "way", "start_share", "runs",
           "seconds", "seconds_min", "seconds_max", "share_of_direct", "start_seconds", "rounds_seconds", "rounds",
           "evaluations", "recall", "loss", "command"]
FILES = {"sift": ("sift_imagenet400k_base.u8bin", 200_000), "fashion": ("fashion_mnist_base.u8bin", 60_000)}


def finish(rows, options):
    """Shares and losses against the direct build of the same points."""
    direct = next((row for row in rows if row["way"] == "direct"), None)
    for row in rows:
        if direct is not None:
            row["share_of_direct"] = f"{float(row['seconds']) / float(direct['seconds']):.3f}"
            if row["recall"]:
                row["loss"] = f"{float(direct['recall']) - float(row['recall']):.5f}"
        print(f"  {row['way']:7} {row['start_share']:>8} {float(row['seconds']):10.4f} s  "
              f"share {row['share_of_direct']}  start {row['start_seconds']}  {row['rounds']} rounds "
              f"{row['rounds_seconds']}  recall {row['recall']}  loss {row['loss']}", flush=True)
    bench_rows.append(options.csv, COLUMNS, rows)


def timed_row(base, way, share, seconds, recall):
    return base | {"way": way, "start_share": share, "runs": len(seconds),
                   "seconds": f"{statistics.median(seconds):.5f}", "seconds_min": f"{min(seconds):.5f}",
                   "seconds_max": f"{max(seconds):.5f}",
                   "recall": f"{recall:.5f}" if recall is not None else ""}


# ---- GPU --------------------------------------------------------------------------------------------


def bench_cuda(options):
    import torch
    import descent_gpu
    from bench_gpu import Kith

    kith = Kith(options.build)
    for work in descent_gpu.WORKS:
        if work.name in options.work:
            bench_work(kith, work, options)
            torch.cuda.empty_cache()


def bench_work(kith, work, options):
    import ctypes
    import torch
    import descent_gpu
    from bench_gpu import merge_sets, stream, timed

    points = descent_gpu.make(work, options.rows)
    if points is None:
        print(f"{work.name}: absent, KITH_DATA names no folder that has it")
        return
    half, k = len(points) // 2, options.k
    print(f"\n{work.name}: 2 x {half:,} x {points.shape[1]}, k = {k}", flush=True)
    truth = descent_gpu.Truth(work, points)
    whole = descent_gpu.Solver(kith, work, points, k)
    halves = [descent_gpu.Solver(kith, work, each, k) for each in (points[:half], points[half:])]
    sets = merge_sets(whole.points, half, [each.out for each in halves])
    torch.cuda.empty_cache()
    base = dict.fromkeys(COLUMNS, "") | {
        "date": datetime.date.today().isoformat(), "commit": kith.commit(), "side": "cuda", "work": work.name,
        "machine": torch.cuda.get_device_name(0), "rows": len(points), "columns": points.shape[1], "k": k,
        "command": f"bench_merge.py --side cuda --work {work.name}"}
    told = []

    def merge(setting):
        params = descent_gpu.params_of(work, k, setting, -1)
        report = descent_gpu.DescentReport(struct_size=ctypes.sizeof(descent_gpu.DescentReport))
        search = descent_gpu.search_of(params, report)
        kith.must(kith.lib.kith_cuda_graph_merge(
            kith.ctx, ctypes.byref(sets), ctypes.byref(search), ctypes.byref(whole.out), None, stream()))
        told[:] = [report]

    def add(way, share, call, checked=True):
        told.clear()
        seconds = timed(options.runs, call)
        row = timed_row(base, way, share, seconds, truth.recall(whole.ids) if checked else None)
        for report in told:
            row |= {"start_seconds": f"{report.seconds_start:.5f}", "rounds": report.rounds,
                    "rounds_seconds": f"{report.seconds_rounds:.5f}", "evaluations": f"{report.evaluations:.6g}"}
        rows.append(row)

    rows = []
    add("direct", "", lambda: told.__setitem__(slice(None), [whole.descend({}, -1)]))
    add("halves", "", lambda: [each.descend({}, -1) for each in halves], checked=False)
    for share in options.share:
        setting = {"start_share": share / len(points)} if share else {}
        add("merge", f"{share:g}" if share else "", lambda setting=setting: merge(setting))
    add("merge, 5 rounds", "", lambda: merge({"rounds": 5}))
    add("chance", "", lambda: merge({"start": "random"}))
    finish(rows, options)


# ---- Processor --------------------------------------------------------------------------------------


def cut(path, first, last, to):
    with open(path, "rb") as file:
        _, columns = struct.unpack("<II", file.read(8))
        file.seek(8 + first * columns)
        to.write_bytes(struct.pack("<II", last - first, columns) + file.read((last - first) * columns))
    return columns


def bench_cpu(options):
    folder = os.environ.get("KITH_DATA", "")
    program = str(options.build / "kith")

    def run(*words):
        done = subprocess.run([program, *map(str, words), "--device", "cpu", "--json"], check=True, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return json.loads(done.stdout)

    for work in options.work:
        name, rows = FILES.get(work, ("", 0))
        path = pathlib.Path(folder) / name
        if not folder or not path.is_file():
            print(f"{work}: absent, KITH_DATA names no folder that has it")
            continue
        rows = min(options.rows or rows, rows)
        with tempfile.TemporaryDirectory() as work_folder:
            here = pathlib.Path(work_folder)
            columns = cut(path, 0, rows, here / "all.u8bin")
            cut(path, 0, rows // 2, here / "a.u8bin")
            cut(path, rows // 2, rows, here / "b.u8bin")
            bench_files(options, run, here, work, rows, columns)


def bench_files(options, run, here, work, rows, columns):
    graph = ["-k", options.k, "--method", "descent"]
    merge = ["merge", here / "a.kith", here / "a.u8bin", here / "b.kith", here / "b.u8bin", "-o", here / "m.kith"]
    halves = [run("graph", here / f"{side}.u8bin", *graph, "-o", here / f"{side}.kith") for side in "ab"]
    base = dict.fromkeys(COLUMNS, "") | {
        "date": datetime.date.today().isoformat(), "commit": halves[0]["commit"], "side": "cpu", "work": work,
        "machine": bench_rows.processor_name(), "threads": halves[0]["threads"], "rows": rows, "columns": columns,
        "k": options.k, "command": f"bench_merge.py --side cpu --work {work}"}
    print(f"\n{work}: 2 x {rows // 2:,} x {columns}, k = {options.k}", flush=True)

    def of_graph(said):
        return said["seconds"]["total"] - said["seconds"]["read"] - said["seconds"]["write"]

    def add(way, share, calls, seconds_of):
        said = [[run(*call) for call in calls] for _ in range(options.runs)]
        last = said[-1][-1]
        seconds = [sum(map(seconds_of, each)) for each in said]
        recall = 1.0 if last["exact"] else last["recall"]["estimate"]
        row = timed_row(base, way, share, seconds, recall if len(calls) == 1 else None)
        if "rounds" in last and len(calls) == 1:
            row |= {"rounds": len(last["rounds"]) - 1, "evaluations": f"{last['evaluations']:.6g}"}
        table.append(row)

    table = []
    add("direct", "", [["graph", here / "all.u8bin", *graph]], of_graph)
    add("halves", "", [["graph", here / f"{side}.u8bin", *graph] for side in "ab"], of_graph)
    for share in options.share:
        more = ["--tune", f"start-share={share / rows}"] if share else []
        add("merge", f"{share:g}" if share else "", [merge + more], lambda said: said["seconds"]["merge"])
    add("merge, 5 rounds", "", [merge + ["--tune", "rounds=5"]], lambda said: said["seconds"]["merge"])
    add("chance", "", [merge + ["--tune", "start=random"]], lambda said: said["seconds"]["merge"])
    add("exact", "", [merge + ["--exact"]], lambda said: said["seconds"]["merge"])
    finish(table, options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--work", action="append", help="default: mixture1m blob1m sift; cpu: sift fashion")
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--share", type=float, action="append",
                        help="points that the start looks at for each point; 0: the default")
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    options.share = options.share or [0]
    if options.side == "cuda":
        options.work = options.work or ["mixture1m", "blob1m", "sift"]
        bench_cuda(options)
    else:
        options.work = options.work or list(FILES)
        bench_cpu(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
