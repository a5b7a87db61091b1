# SPDX-License-Identifier: Apache-2.0
"""Rows of bench/results/descent.csv (jobs), descent_rounds.csv (rounds of jobs), descent_interval.csv and
descent_thread.csv: written, and read again, the newest of each point."""
import csv

from select_rows import Rows

OF_JOB = ["date", "commit", "machine", "side", "threads", "work", "rows", "columns", "dtype", "metric", "k"]
COLUMNS = OF_JOB + ["engine", "version", "setting", "runs", "seconds", "seconds_min", "seconds_max",
                    "prepare_seconds", "start_seconds", "rounds_seconds", "end_seconds", "rounds",
                    "evaluations", "recall", "said", "said_low", "said_high", "peak_mib", "command"]
ROUND_COLUMNS = OF_JOB + ["setting", "number", "updates", "evaluations", "phi", "recall", "seconds",
                          "command"]
INTERVAL_COLUMNS = OF_JOB + ["setting", "sample", "seeds", "inside", "recall_min", "recall_max", "width",
                             "command"]
THREAD_COLUMNS = OF_JOB + ["setting", "runs", "seconds", "seconds_min", "seconds_max", "evaluations", "recall",
                           "command"]
KEY = ["side", "threads", "work", "rows", "columns", "metric", "k", "setting"]
WHOLE = ["threads", "rows", "columns", "k", "rounds", "number", "updates", "sample", "seeds", "inside"]
REAL = ["seconds", "seconds_min", "seconds_max", "prepare_seconds", "start_seconds", "rounds_seconds",
        "end_seconds", "evaluations", "recall", "said", "said_low", "said_high", "phi", "recall_min",
        "recall_max", "width"]

# What kith is told, by the name of a setting: options of the program, and fields of the library.
CURVE = {
    "start alone": {"rounds": 0},
    "1 round": {"rounds": 1},
    "2 rounds": {"rounds": 2},
    "default": {},
    "nearest updates": {"updates": "nearest"},
    "all updates": {"updates": "all"},
    "candidates 6": {"candidates": 6},
    "candidates 24": {"candidates": 24},
    "list 64": {"list": 64},
    "recall 0.9": {"recall": 0.9},
    "recall 0.95": {"recall": 0.95},
    "recall 0.99": {"recall": 0.99},
    "recall 0.999": {"recall": 0.999},
}
# Each round is looked at: the paper's figures 4 and 5. k is 10 there, too.
LONG = {"rounds": 15, "delta": 1e-9}
ABLATION = {
    "random": {"start": "random", "updates": "nearest", **LONG},
    "random, all updates": {"start": "random", "updates": "all", **LONG},
    "screen": {"start": "screen", "updates": "nearest", **LONG},
    "screen, all updates": {"start": "screen", "updates": "all", **LONG},
}
# Starts that look at more pairs, for points without clusters.
WIDE = {
    "share 0.35, 2 rounds": {"start_share": 0.35, "rounds": 2, "list": 16, "candidates": 8},
    "share 0.5, 2 rounds": {"start_share": 0.5, "rounds": 2},
}
GROUPS = {"curve": CURVE, "ablation": ABLATION, "wide": WIDE}


def settings_of(groups, only):
    """{name: what kith is told} of some groups, the names that hold `only`."""
    found = {name: setting for group in groups for name, setting in GROUPS[group].items()}
    return {name: setting for name, setting in found.items() if only in name}


def rounds_of(base, setting, command, rounds):
    """Rows of rounds: dictionaries with number, updates, evaluations, phi, recall, seconds."""
    return [base | {"setting": setting, "command": command, "number": each["number"],
                    "updates": each["updates"], "evaluations": f"{each['evaluations']:.6g}",
                    "phi": f"{each['phi']:.9g}" if each["phi"] > 0 else "",
                    "recall": f"{each['recall']:.5f}" if each.get("recall", -1.0) >= 0 else "",
                    "seconds": f"{each['seconds']:.5f}"} for each in rounds]


def read(path, more_key):
    """Empty numbers become None."""
    newest = {}
    if path.exists():
        with open(path, newline="", encoding="utf-8") as source:
            for row in csv.DictReader(source):
                for names, kind in ((WHOLE, int), (REAL, float)):
                    row.update({name: kind(row[name]) if row[name] else None for name in names if name in row})
                row["threads"] = row["threads"] or 0
                newest[tuple(row[name] for name in KEY + more_key)] = row
    return Rows(list(newest.values()))


def read_jobs(path):
    return read(path, ["engine"])


def read_rounds(path):
    return read(path, ["number"])


def read_threads(path):
    return read(path, [])


def read_intervals(path):
    return read(path, ["sample"])
