# SPDX-License-Identifier: Apache-2.0
"""The results of bench/report: one JSON file a machine.

    {"format", "side", "date", "commit", "machine", "cores", "threads", "memory_gib", "others", "quick",
     "versions", "absent", "limits", "jobs", "seconds", "command"}

A job is one piece of work, solved by several engines side by side:

    {"id", "series", "x", "work", "data", "rows", "queries", "columns", "dtype", "k", "metric", "bytes",
     "floor", "floor_how", "engines", "absent", "command", "date", "commit", "job_seconds"}

`series` and `x` place it on a curve (n, d, k, threads), `data` is real or generated, `floor` the seconds
that the machine's limits of the same run allow. An engine:

    {"engine", "setting", "kith", "exact", "version", "commit", "seconds", "low", "high", "runs", "whole",
     "build", "recall", "peak_mib", "note"}

Seconds are medians. What is not known is null."""

import json
import pathlib
import statistics

FORMAT = 1
JOB = [
    "id",
    "series",
    "x",
    "work",
    "data",
    "rows",
    "queries",
    "columns",
    "dtype",
    "k",
    "metric",
    "bytes",
    "floor",
    "floor_how",
    "engines",
    "absent",
    "command",
    "date",
    "commit",
    "job_seconds",
]
ENGINE = [
    "engine",
    "setting",
    "kith",
    "exact",
    "version",
    "commit",
    "seconds",
    "low",
    "high",
    "runs",
    "whole",
    "build",
    "recall",
    "peak_mib",
    "note",
]
SAME_RECALL = 0.002  # two recalls that differ by less are alike
QUIET = 0.3  # cores that others may use beside a run on processors
NEAR_RECALL = 0.99  # what an approximate peer must find to be a rival of an exact answer


def make(names, given, defaults):
    unknown = set(given) - set(names)
    if unknown:
        raise KeyError(f"no such field: {', '.join(sorted(unknown))}")
    return dict.fromkeys(names) | defaults | given


def job(**given):
    return make(JOB, given, {"engines": [], "absent": {}, "metric": "euclidean", "k": 10})


def engine(**given):
    return make(ENGINE, given, {"setting": "", "kith": False, "exact": False, "runs": 1})


def spread(seconds):
    """Of all runs."""
    return {
        "seconds": statistics.median(seconds),
        "low": min(seconds),
        "high": max(seconds),
        "runs": len(seconds),
    }


def write(path, report):
    """Whole or not at all."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(path)


def read(path):
    report = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    if not isinstance(report, dict) or report.get("format") != FORMAT:
        raise ValueError(f"{path}: no results of bench/report of format {FORMAT}")
    return report


def busiest(report):
    """Cores that others used before or after the run, as far as it is known."""
    return max((cores for cores in report.get("others", []) if cores is not None), default=0.0)


def find(report, name):
    return next((each for each in report["jobs"] if each["id"] == name), None)


def label(each):
    """An engine with its setting."""
    return f"{each['engine']}, {each['setting']}" if each["setting"] else each["engine"]


def base(work, recall=1.0):
    """What a job's figure is: kith's fastest answer that has the recall that is asked for."""
    good = [each for each in work["engines"] if each["kith"] and enough(each, recall)]
    return min(good, key=lambda each: each["seconds"], default=None)


def enough(each, recall):
    return each["exact"] or (each["recall"] is not None and each["recall"] >= recall - 5e-6)


def share(work, each):
    """Of the limit, which is that of an exact answer."""
    return work["floor"] / each["seconds"] if work["floor"] and each["exact"] else None


def figure(work, recall=1.0):
    """What report_goals.judge looks at; peers are those that find as much."""
    best = base(work, recall)
    if best is None:
        return None
    peers = {
        label(each): each["seconds"]
        for each in work["engines"]
        if not each["kith"] and (each["recall"] is None or each["recall"] >= recall - SAME_RECALL)
    }
    near = {
        label(each): each["seconds"]
        for each in work["engines"]
        if not each["kith"] and (each["recall"] or 0.0) >= NEAR_RECALL
    }
    return {
        "seconds": best["seconds"],
        "low": best["low"],
        "high": best["high"],
        "runs": best["runs"],
        "recall": 1.0 if best["exact"] else best["recall"],
        "engine": label(best),
        "peers": peers,
        "near": near,
        "share": share(work, best),
        "peak_mib": best["peak_mib"],
    }


def times_kith(work, best):
    """What the fastest other engine that finds as much takes, kith's engine taking 1; None without one."""
    if best is None:
        return None
    least = 1.0 if best["exact"] else best["recall"] or 0.0
    others = [
        each["seconds"]
        for each in work["engines"]
        if not each["kith"] and (each["recall"] is None or each["recall"] >= least - SAME_RECALL)
    ]
    return min(others) / best["seconds"] if others else None


def point_of(work):
    """Two jobs are the same work where these are."""
    return tuple(
        work[name] for name in ("id", "rows", "queries", "columns", "dtype", "k", "metric", "data")
    )
