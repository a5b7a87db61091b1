#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kith beside its peers, whole processes on the same data in one run; rows go to bench/results.

For kith the time is that of the whole process: start, read, search, certify, write. For a peer it is
that of its call alone, points in memory and code compiled: the comparison leans towards the peer. Its
whole process stands beside it.

  recall   share of a row's first K whose distance is at most the true K-th (ties are no misses),
           distances computed in double from the ids; the truth is kith's exact answer
  peak     multiply-accumulates of every pair once (a graph: each unordered pair once), by the time,
           as a share of what bench/micro/peak.c reached on the same threads in the same run
"""
import argparse
import csv
import datetime
import hashlib
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

import numpy

import bench_data
import bench_rows
import peer

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECALL_ROWS = 2000
DTYPE_NAMES = {".u8bin": "u8", ".fbin": "f32"}
LEVELS = {  # what an instruction set contains, highest first
    "amx": ["amx", "avx512vnni", "avx512", "avx2"],
    "avx512vnni": ["avx512vnni", "avx512", "avx2"],
    "avx512": ["avx512", "avx2"],
    "avx2vnni": ["avx2vnni", "avx2"],
    "avx2": ["avx2"],
    "portable": [],
    "": [],
}
COLUMNS = ["date", "commit", "machine", "threads", "work", "rows", "queries", "columns", "dtype", "k",
           "engine", "version", "isa", "runs", "seconds", "seconds_min", "seconds_max", "whole_seconds",
           "ratio", "peak_mib", "recall", "screen_seconds", "unit", "unit_gmacs", "share_whole",
           "share_screen", "command"]


@dataclass
class Engine:
    """What is timed, and what came out of it."""

    name: str
    command: list
    output: pathlib.Path
    isa: str = ""
    seconds: list = field(default_factory=list)
    whole: list = field(default_factory=list)
    peak_mib: float = 0.0
    said: dict = field(default_factory=dict)
    screens: list = field(default_factory=list)
    failure: str = ""

    @property
    def is_kith(self):
        return self.name == "kith"

    def environment(self, threads):
        result = dict(os.environ)
        for name in ("OMP", "NUMBA", "OPENBLAS", "MKL"):
            result[f"{name}_NUM_THREADS"] = str(threads)
        if self.isa:
            result["KITH_ISA"] = self.isa
        return result

    def run(self, options):
        report = self.output.with_suffix(".report")
        done = subprocess.run([options.clocked, report, *self.command], capture_output=True, text=True,
                              env=self.environment(options.threads))
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            self.failure = lines[-1] if lines else f"exit code {done.returncode}"
            return
        seconds, peak_kib, _ = report.read_text().split()
        self.said = json.loads(done.stdout.strip().splitlines()[-1])
        self.whole.append(float(seconds))
        self.seconds.append(self.whole[-1] if self.is_kith else self.said["seconds"])
        self.peak_mib = max(self.peak_mib, float(peak_kib) / 1024)
        if self.is_kith:
            self.screens.append(self.said.get("seconds", {}).get("screen"))

    def ids(self):
        if self.is_kith:
            with numpy.load(self.output) as result:
                return result["ids"]
        return numpy.load(self.output)


def measure_peak(options, known):
    """The best of this and earlier measurements: a limit is what was reached once."""
    done = subprocess.run([options.peak, str(options.threads)], capture_output=True, text=True, check=True)
    lines = (line.split() for line in done.stdout.splitlines())
    return {unit: max(float(gmacs), known.get(unit, 0.0)) for unit, _, gmacs in lines}


def unit_of(said, peaks):
    """The unit that kith's first pass ran on, by its own report: the highest that its level has."""
    for level in LEVELS[said.get("isa", "")]:
        if f"{said.get('screen')}_{level}" in peaks:
            return f"{said['screen']}_{level}"
    return ""


def distances_of(work, rows, ids):
    corpus = peer.read_points(str(work.corpus))
    queries = corpus if work.queries is None else peer.read_points(str(work.queries))
    result = numpy.empty((len(rows), ids.shape[1]))
    for place, row in enumerate(rows):
        known = ids[row] >= 0
        differences = corpus[ids[row][known]].astype(numpy.float64) - queries[row].astype(numpy.float64)
        result[place] = numpy.inf
        result[place, known] = (differences * differences).sum(axis=1)
    return result


def sample_rows(work):
    asking = work.shape()[1]
    random = numpy.random.default_rng(bench_data.SEED)
    return numpy.sort(random.choice(asking, size=min(asking, RECALL_ROWS), replace=False))


def recall_of(work, rows, ids, truth):
    found = distances_of(work, rows, ids.astype(numpy.int64))
    return float((found <= truth[:, -1:] * (1 + 1e-12)).mean())


def build_engines(work, options, folder):
    queries = str(work.queries) if work.queries else "-"
    engines = []
    for isa in options.isa:
        output = folder / f"kith_{isa or 'auto'}.npz"
        words = ["graph", work.corpus] if work.queries is None else ["search", work.corpus, work.queries]
        command = [options.kith, *words, "-k", work.k, "--threads", options.threads, "--json", "--quiet",
                   "-o", output]
        engines.append(Engine("kith", [str(word) for word in command], output, isa))
    for name in options.peers:
        output = folder / f"{name}.npy"
        script = pathlib.Path(__file__).with_name("peer.py")
        command = [options.python, script, name, work.corpus, queries, work.k, options.threads, output]
        engines.append(Engine(name, [str(word) for word in command], output))
    return engines


def run_side_by_side(engines, options):
    """Round by round, so that a change of the machine's mood meets all of them."""
    for _ in range(options.runs):
        for engine in engines:
            tired = not engine.is_kith and sum(engine.whole) > options.peer_seconds
            if not engine.failure and not tired:
                engine.run(options)


def row_of(engine, work, options, peaks, base, recall):
    rows, asking, columns = work.shape()
    seconds = statistics.median(engine.seconds)
    row = {
        "date": datetime.date.today().isoformat(), "commit": options.commit, "machine": options.machine,
        "threads": options.threads, "work": work.name, "rows": rows, "queries": asking,
        "columns": columns, "dtype": DTYPE_NAMES[work.corpus.suffix], "k": work.k,
        "engine": engine.name, "version": engine.said.get("version", ""),
        "isa": engine.said.get("isa", engine.isa), "runs": len(engine.seconds),
        "seconds": f"{seconds:.4f}", "seconds_min": f"{min(engine.seconds):.4f}",
        "seconds_max": f"{max(engine.seconds):.4f}",
        "whole_seconds": f"{statistics.median(engine.whole):.4f}", "ratio": f"{seconds / base:.2f}",
        "peak_mib": f"{engine.peak_mib:.0f}", "recall": f"{recall:.5f}",
        "command": f"{'KITH_ISA=' + engine.isa + ' ' if engine.isa else ''}{shlex.join(options.shown(engine))}",
    }
    unit = unit_of(engine.said, peaks) if engine.is_kith else ""
    if unit:
        gmacs = work.macs() / 1e9
        row |= {"unit": unit, "unit_gmacs": f"{peaks[unit]:.1f}",
                "share_whole": f"{gmacs / seconds / peaks[unit]:.3f}"}
        screens = [value for value in engine.screens if value]
        if screens:
            screen = statistics.median(screens)
            row |= {"screen_seconds": f"{screen:.4f}", "share_screen": f"{gmacs / screen / peaks[unit]:.3f}"}
    return row


def print_row(row):
    name = f"kith ({row['isa']})" if row["engine"] == "kith" else f"{row['engine']} {row['version']}"
    share = ""
    if row.get("unit"):
        share = f"  {100 * float(row['share_whole']):.0f} % of {row['unit']}"
        if "share_screen" in row:
            share += f", screen alone {100 * float(row['share_screen']):.0f} %"
    print(f"  {name:24} {float(row['seconds']):9.3f} s  ({float(row['seconds_min']):.3f} to "
          f"{float(row['seconds_max']):.3f}, {row['runs']} runs)  {float(row['ratio']):7.2f} x  "
          f"{row['peak_mib']:>6} MiB  recall {row['recall']}{share}", flush=True)


def bench(work, options, peaks, writer):
    rows, asking, columns = work.shape()
    kind = "graph of" if work.queries is None else f"{asking:,} queries in"
    print(f"\n{work.name}: {kind} {rows:,} x {columns} ({work.corpus.suffix}), k = {work.k}, "
          f"{options.threads} threads", flush=True)
    with tempfile.TemporaryDirectory(dir=options.cache) as folder:
        engines = build_engines(work, options, pathlib.Path(folder))
        run_side_by_side(engines, options)
        exact = [engine for engine in engines if engine.is_kith and engine.seconds]
        for engine in engines:
            if not engine.seconds:
                print(f"  {engine.name} {engine.isa}: absent ({engine.failure})", flush=True)
        if not exact:
            return False
        sampled = sample_rows(work)
        truth = distances_of(work, sampled, exact[0].ids().astype(numpy.int64))
        base = statistics.median(exact[0].seconds)
        for engine in engines:
            if engine.seconds:
                recall = recall_of(work, sampled, engine.ids(), truth)
                row = row_of(engine, work, options, peaks, base, recall)
                print_row(row)
                writer.writerow(row)
        files = {hashlib.sha256(engine.output.read_bytes()).hexdigest() for engine in exact}
        if len(exact) > 1:
            print(f"  kith's files on {len(exact)} instruction sets: "
                  f"{'the same bytes' if len(files) == 1 else 'DIFFERENT BYTES'}")
        return len(files) == 1


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", default="small,images,images-f32,sift",
                        help="which of: " + ", ".join(bench_data.MAKERS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--isa", default="", help="instruction sets of kith (KITH_ISA), by comma")
    parser.add_argument("--peers", default=",".join(peer.PEERS), help="by comma; '' = none")
    parser.add_argument("--peer-seconds", type=float, default=60.0,
                        help="a peer that has used more is not run again")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the peers")
    parser.add_argument("--kith", type=pathlib.Path, default=ROOT / "build" / "kith")
    parser.add_argument("--peak", type=pathlib.Path, default=ROOT / "build" / "bench_peak")
    parser.add_argument("--clocked", type=pathlib.Path, default=ROOT / "build" / "bench_clocked")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build" / "bench-data")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench" / "results" / "cpu.csv")
    options = parser.parse_args()
    options.isa = options.isa.split(",")
    options.peers = [name for name in options.peers.split(",") if name]
    options.machine = bench_rows.processor_name()
    options.commit = bench_rows.commit_name()

    def shown(engine):
        """The command without the folders of this machine."""
        return [pathlib.Path(word).name if "/" in word else word for word in engine.command]

    options.shown = shown
    return options


def main():
    options = parse_options()
    options.cache.mkdir(parents=True, exist_ok=True)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    peaks = measure_peak(options, {})
    print(f"{options.machine}, commit {options.commit}, {options.threads} threads")
    for unit, gmacs in peaks.items():
        print(f"  {unit:14} {gmacs:9.1f} Gmac/s at most")
    is_new = not options.results.exists()
    same = True
    with open(options.results, "a", newline="") as out:
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        for name in options.work.split(","):
            work = bench_data.MAKERS[name](options.cache)
            if work is None:
                print(f"\n{name}: skipped, KITH_DATA does not name a folder that has it")
                continue
            peaks = measure_peak(options, peaks)
            same = bench(work, options, peaks, writer) and same
            out.flush()
    print(f"\nrows appended to {options.results}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
