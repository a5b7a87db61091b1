#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Approximate graphs: kith's NN-Descent beside pynndescent, FAISS NNDescent and IVF-PQ, and kith's exact
engine, in one run; with --side cuda kith alone on one GPU, points on the device (descent_gpu.py says which).

    python3 -m venv peers && peers/bin/pip install numpy pynndescent faiss-cpu
    KITH_DATA=... peers/bin/python bench/whole/bench_descent.py --csv bench/results/descent.csv
    python3 bench/whole/bench_descent.py --side cuda --csv bench/results/descent.csv

descent_work.py says what the works are, descent_rows.py what the settings are. Runs of all engines alternate;
the median counts. For kith the time is that of the whole process: start, read, check, descend, canonical
distances, write. For a peer it is that of its call alone (descent_peer.py): rows in memory as float32,
modules loaded, and a first, small graph made that is not timed, so that what numba compiles does not count.
The comparison leans towards the peer. pynndescent's n_neighbors counts the row itself.

  recall   share of all first K = 10 whose distance is at most that of kith's exact graph's K-th, computed
           in double from the ids (ties are no misses); all rows
  said     what kith printed, with its 95 % interval, of its sample of rows that it solved exactly. Settings
           that name no recall are timed with sample=0, and run once more for this and for the rounds, which
           go to a file beside the other: descent_rounds.csv
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
import descent_rows

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECALL_AT = 10
CHECKED = 2000  # rows at a time, when neighbours are looked at in double
PEER_SETTINGS = {
    "pynndescent": {f"n_neighbors {n}": {"n_neighbors": n} for n in (11, 15, 20, 30)},
    "faiss": {"K 10": {"K": 10}, "K 32": {"K": 32},
              "K 32, S 20, iter 15": {"K": 32, "S": 20, "iter": 15}},
    "faiss-ivfpq": {"nprobe 16": {"nprobe": 16}, "nprobe 16, refine 4": {"nprobe": 16, "refine": 4},
                    "nprobe 64, refine 4": {"nprobe": 64, "refine": 4}},
}


# ---- Engines ----------------------------------------------------------------------------------------


class Engine:
    """One setting of one engine: runs, and what came of them."""

    def __init__(self, name, setting, words, output):
        self.name = name
        self.setting = setting
        self.words = [str(word) for word in words]
        self.output = output
        self.seconds = []
        self.said = {}
        self.failure = ""

    def environment(self, options):
        threads = {f"{name}_NUM_THREADS": str(options.threads) for name in ("OMP", "NUMBA", "OPENBLAS", "MKL")}
        return os.environ | threads

    def call(self, words, options):
        """Seconds of the process and its JSON; None where it failed or was too slow."""
        start = time.perf_counter()
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=options.patience,
                                  env=self.environment(options))
        except subprocess.TimeoutExpired:
            self.failure = f"more than {options.patience:.0f} s (--patience)"
            return None
        seconds = time.perf_counter() - start
        if done.returncode != 0:
            self.failure = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            return None
        return seconds, json.loads(done.stdout.strip().splitlines()[-1])

    def wants_run(self, options):
        return not self.failure and (not self.seconds or self.seconds[0] < options.long)

    def run(self, options):
        found = self.call(self.words, options)
        if found is not None:
            self.said = found[1]
            self.seconds.append(found[0] if self.is_kith else self.said["seconds"])

    @property
    def is_kith(self):
        return self.name.startswith("kith")

    def ids(self):
        import numpy

        found = numpy.load(self.output)
        return numpy.asarray(found["ids"] if self.is_kith else found).astype(numpy.int64)

    def with_sample(self):
        """The same with the sample that kith takes by itself."""
        at = self.words.index("sample=0") if "sample=0" in self.words else len(self.words) + 1
        return self.words[:at - 1] + self.words[at + 1:]

    def command(self, words=None):
        """Without the folders of this machine."""
        return " ".join(pathlib.Path(word).name if "/" in word else word for word in words or self.words
                        if word not in ("-o", str(self.output)))


def words_of(setting):
    """Options of the program."""
    found = []
    for name, value in setting.items():
        option = name.replace("_", "-")
        found += [f"--{option}", str(value)] if option == "recall" else ["--tune", f"{option}={value}"]
    return found


def kith_engine(options, path, work, folder, name, setting):
    output = folder / f"{len(os.listdir(folder))}-{name.replace(' ', '_')}.npz"
    output.touch()
    words = [options.kith, "graph", path, "-k", options.k, "--metric", work.metric, "--device", "cpu",
             "--threads", options.threads, "--json", "--quiet", "-o", output]
    if setting is None:
        return Engine("kith-exact", name, [*words, "--method", "exact"], output)
    words += ["--method", "descent", *words_of(setting)]
    return Engine("kith-descent", name, words + ([] if "recall" in setting else ["--tune", "sample=0"]), output)


def peer_engine(options, path, work, folder, name, label, setting):
    output = folder / f"{len(os.listdir(folder))}-{name}.npy"
    output.touch()
    here = pathlib.Path(__file__).parent
    return Engine(name, label, [options.python, here / "descent_peer.py", name, path, work.metric, options.k,
                                options.threads, output, json.dumps(setting)], output)


def build_engines(options, path, work, folder):
    engines = [kith_engine(options, path, work, folder, "", None)]
    for name, setting in descent_rows.settings_of(options.settings, options.only).items():
        engines.append(kith_engine(options, path, work, folder, name, setting))
    for name in options.peers:
        for label in options.peer_settings.get(name, PEER_SETTINGS[name]):
            setting = PEER_SETTINGS[name][label]
            engines.append(peer_engine(options, path, work, folder, name, label, setting))
    return engines


# ---- Recall -----------------------------------------------------------------------------------------


def costs_of(work, rows, ids):
    """In double: squared differences, or 1 - cosine; infinite where an id is missing."""
    import numpy

    asked = work.points[rows, None, :].astype(numpy.float64)
    found = work.points[numpy.clip(ids, 0, len(work.points) - 1)].astype(numpy.float64)
    if work.metric == "cosine":
        lengths = numpy.sqrt((asked**2).sum(axis=2) * (found**2).sum(axis=2))
        costs = 1.0 - (asked * found).sum(axis=2) / numpy.maximum(lengths, 1e-300)
    else:
        costs = ((asked - found) ** 2).sum(axis=2)
    costs[(ids < 0) | (ids >= len(work.points))] = numpy.inf
    return costs


def recall(work, ids, truth):
    import numpy

    at = min(RECALL_AT, truth.shape[1])
    right = 0
    for first in range(0, len(ids), CHECKED):
        rows = numpy.arange(first, min(first + CHECKED, len(ids)))
        limit = costs_of(work, rows, truth[rows, :at]).max(axis=1)
        right += int((costs_of(work, rows, ids[rows, :at]) <= limit[:, None]).sum())
    return right / (len(ids) * at)


# ---- Rows -------------------------------------------------------------------------------------------


def base_of(work, options, said):
    """said: what kith printed, which knows its commit."""
    return {"date": datetime.date.today().isoformat(), "commit": said["commit"],
            "machine": bench_rows.processor_name(), "side": "cpu", "threads": options.threads, "work": work.name,
            "rows": len(work.points), "columns": work.points.shape[1], "dtype": work.dtype,
            "metric": work.metric, "k": options.k}


def row_of(engine, base, found_recall):
    row = base | {"engine": engine.name, "version": engine.said["version"], "setting": engine.setting,
                  "runs": len(engine.seconds), "seconds": f"{statistics.median(engine.seconds):.4f}",
                  "seconds_min": f"{min(engine.seconds):.4f}", "seconds_max": f"{max(engine.seconds):.4f}",
                  "recall": f"{found_recall:.5f}", "command": engine.command()}
    if not engine.is_kith:
        return row
    times = engine.said["seconds"]
    row |= {"prepare_seconds": f"{times['check'] + times['prepare']:.4f}",
            "end_seconds": f"{times['rescore']:.4f}",
            "peak_mib": f"{engine.said['peak_bytes']['host'] / 2**20:.0f}"}
    rounds = engine.said.get("rounds")
    if rounds:
        row |= {"start_seconds": f"{rounds[0]['seconds']:.4f}", "rounds": rounds[-1]["number"],
                "rounds_seconds": f"{rounds[-1]['seconds'] - rounds[0]['seconds']:.4f}",
                "evaluations": f"{rounds[-1]['evaluations']:.6g}"}
    return row


def add_said(row, said):
    if "recall" in said:
        row |= {"said": f"{said['recall']['estimate']:.5f}", "said_low": f"{said['recall']['low']:.5f}",
                "said_high": f"{said['recall']['high']:.5f}"}


def ask_again(engine, options):
    """With the sample, for what kith says of itself; its rounds."""
    if engine.name != "kith-descent":
        return {}
    if "sample=0" not in engine.words:
        return engine.said
    found = engine.call(engine.with_sample(), options)
    return found[1] if found else {}


def print_row(row):
    said = f"  said {row['said']} ({row['said_low']} to {row['said_high']})" if row.get("said") else ""
    rounds = f"  {row['rounds']} rounds" if "rounds" in row else ""
    print(f"  {row['engine']:13} {row['setting']:22} {float(row['seconds']):9.3f} s  recall {row['recall']}"
          f"{said}{rounds}", flush=True)


def save(work, folder):
    import bench_data

    return bench_data.write_points(folder / f"{work.name}.{'u8bin' if work.dtype == 'u8' else 'fbin'}", work.points)


def bench(work, options, folder):
    path = save(work, folder)
    print(f"\n{work.name}: {len(work.points):,} x {work.points.shape[1]} {work.dtype}, {work.metric}, "
          f"k = {options.k}, {options.threads} threads", flush=True)
    engines = build_engines(options, path, work, folder)
    for _ in range(options.runs):
        for engine in engines:
            if engine.wants_run(options):
                engine.run(options)
    for engine in engines:
        if not engine.seconds:
            print(f"  {engine.name} {engine.setting}: absent ({engine.failure})", flush=True)
    if not engines[0].seconds:
        return False
    truth, base = engines[0].ids(), base_of(work, options, engines[0].said)
    rows, rounds = [], []
    for engine in (each for each in engines if each.seconds):
        row = row_of(engine, base, recall(work, engine.ids(), truth))
        said = ask_again(engine, options)
        add_said(row, said)
        rounds += descent_rows.rounds_of(base, engine.setting, engine.command(engine.with_sample()),
                                         said.get("rounds", []))
        print_row(row)
        rows.append(row)
    if options.csv:
        bench_rows.append(options.csv, descent_rows.COLUMNS, rows)
        bench_rows.append(options.csv.with_name("descent_rounds.csv"), descent_rows.ROUND_COLUMNS, rounds)
    for file in folder.iterdir():
        file.unlink()
    return True


# ---- Program ----------------------------------------------------------------------------------------


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--kith", type=pathlib.Path, default=ROOT / "build" / "kith", help="cpu: the program")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="cuda: libkith.so's folder")
    parser.add_argument("--work", default="", help="by comma; default: all but the largest")
    parser.add_argument("--rows", type=int, help="points: at most so many of a file, so many generated")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--settings", default="curve,ablation", help="groups of kith's settings, by comma")
    parser.add_argument("--only", default="", help="settings whose name holds this")
    parser.add_argument("--peers", default=",".join(PEER_SETTINGS), help="cpu: by comma; '' = none")
    parser.add_argument("--peer-settings", default="", help="cpu: of each peer, 'name: setting; name: setting'; "
                        "default: all")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the peers")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--long", type=float, default=30.0, help="seconds; what takes longer runs once")
    parser.add_argument("--patience", type=float, default=1800.0, help="seconds that a process may take")
    parser.add_argument("--exact", type=int, default=1_500_000, help="cuda: rows up to which the exact graph is timed")
    parser.add_argument("--csv", type=pathlib.Path, help="rows are appended to it, rounds to descent_rounds.csv")
    options = parser.parse_args()
    options.settings = [name for name in options.settings.split(",") if name]
    options.peers = [name for name in options.peers.split(",") if name]
    pairs = [[word.strip() for word in pair.partition(":")[::2]] for pair in options.peer_settings.split(";") if pair]
    options.peer_settings = {}
    for name, label in pairs:
        if label not in PEER_SETTINGS.get(name, {}):
            parser.error(f"--peer-settings: {name} has no setting '{label}' (known: {PEER_SETTINGS})")
        options.peer_settings.setdefault(name, []).append(label)
    options.work = [name for name in options.work.split(",") if name]
    return options


def main():
    options = parse_options()
    if options.side == "cuda":
        import descent_gpu

        return descent_gpu.run(options)
    import descent_work

    done = True
    for name in options.work or list(descent_work.MAKERS):
        work = descent_work.make(name, options.rows)
        if work is not None:
            with tempfile.TemporaryDirectory() as folder:
                done = bench(work, options, pathlib.Path(folder)) and done
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
