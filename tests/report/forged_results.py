# SPDX-License-Identifier: Apache-2.0
"""Results of bench/report that nobody measured, for its tests."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "whole"))

import report_rows  # noqa: E402

GRAPH = "graph-cpu-fashion"


def engine(name, seconds, **more):
    kith = name.startswith("kith")
    return report_rows.engine(
        engine=name,
        kith=kith,
        **{
            "exact": kith,
            "recall": 1.0,
            "seconds": seconds,
            "low": seconds,
            "high": seconds,
            "runs": 3,
            "version": "1",
        }
        | more,
    )


def forged(**more):
    """Results of one job: kith takes 1 s, two peers take 10 and 20; the limit allows half a second."""
    job = report_rows.job(
        id=GRAPH,
        work="exact graph",
        data="real",
        rows=60000,
        queries=60000,
        columns=784,
        dtype="u8",
        bytes=47_040_000,
        floor=0.5,
        date="2026-01-01",
        commit="abc",
        command=f"bench/report --only {GRAPH}",
        engines=[
            engine("kith exact", 1.0, peak_mib=100.0),
            engine("faiss", 10.0),
            engine("sklearn", 20.0),
            engine("pynndescent", 2.0, recall=0.992),
        ],
    )
    return {
        "format": report_rows.FORMAT,
        "side": "cpu",
        "date": "2026-01-01",
        "commit": "abc",
        "machine": "forged",
        "cores": 2,
        "threads": 2,
        "memory_gib": 16.0,
        "others": [0.0, None],
        "quick": False,
        "scale": 1,
        "versions": {"kith": "1"},
        "absent": {"usearch": "not installed"},
        "jobs": [job],
        "left_out": {},
        "limits": [{"name": "read", "value": 2e10, "unit": "byte/s", "command": "forged"}],
        "seconds": 30.0,
        "command": "bench/report",
    } | more


def changed(change):
    """Forged results after change(job)."""
    report = forged()
    change(report["jobs"][0])
    return report


def slower(*names, factor, times=("seconds", "low", "high")):
    def change(job):
        for each in job["engines"]:
            if each["engine"] in names:
                each.update({name: factor * each[name] for name in times})

    return change
