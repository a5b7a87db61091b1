# SPDX-License-Identifier: Apache-2.0
"""Figures of targets out of the tables that other benchmarks have appended to in bench/results: the newest
row of each, with its commit and the command that made it. They stand where bench/report itself has not
measured the row yet."""

import csv
import pathlib

DESCENTS = {"descent-cuda-1m": "mixture1m", "descent-cuda-10m": "mixture10m"}
GRAPHS = {
    "graph-cuda-262k": "graph 262144x128 k10",
    "graph-cuda-1m": "graph 1000000x128 k10",
    "graph-cuda-10m": "graph 10000000x96 k10",
}


class Tables:
    """Files of a folder, read once."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.known = {}

    def rows(self, name, **wanted):
        """Rows of NAME.csv where all wanted columns are so, oldest first."""
        if name not in self.known:
            path = self.folder / f"{name}.csv"
            with_head = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            self.known[name] = list(csv.DictReader(with_head))
        return [
            row
            for row in self.known[name]
            if all(row[key] == str(value) for key, value in wanted.items())
        ]


def figure_of(row, seconds="seconds", **more):
    """What report_goals.judge looks at, and where it comes from."""
    names = (
        (seconds, "low", "high") if seconds == "value" else (seconds, "seconds_min", "seconds_max")
    )
    value, low, high = (float(row[name]) for name in names)
    return {
        "seconds": value,
        "low": low,
        "high": high,
        "runs": int(row["runs"]),
        "recall": 1.0,
        "peers": {},
        "near": {},
        "share": None,
        "peak_mib": None,
        "engine": "kith",
        "commit": row["commit"],
        "machine": row.get("machine") or row.get("device"),
        "date": row.get("date") or "",
        "command": row.get("command") or "",
    } | more


def select_figure(tables, side, k):
    rows = tables.rows("select", work="goals", side=side, rows=8192, cols=32768, k=k, method="auto")
    rows = [row for row in rows if row["threads"] == max(each["threads"] for each in rows)]
    if not rows:
        return None
    newest = rows[-1]
    peers = {
        row["method"]: float(row["value"])
        for row in tables.rows(
            "select", work="goals", side=side, rows=8192, cols=32768, k=k, commit=newest["commit"]
        )
        if row["method"] != "auto"
    }
    return figure_of(
        newest,
        "value",
        engine="kith auto",
        peers=peers,
        command=f"bench/whole/{newest['command']} --csv bench/results/select.csv",
    )


def graph_figure(tables, name):
    work = GRAPHS[name]
    rows = tables.rows("gpu", work=work, engine="kith", checked="same")
    if not rows:
        return None
    peers = tables.rows("gpu", work=work, engine="torch")
    beside = {"torch (at another commit)": float(peers[-1]["seconds"])} if peers else {}
    return figure_of(
        rows[-1],
        engine="kith exact",
        share=float(rows[-1]["share"]),
        peers=beside,
        command=f"build/bench_gpu --only '{work}' --csv bench/results/gpu.csv",
    )


def descent_figure(tables, name, recall):
    """Of the newest commit's settings the fastest that finds enough."""
    rows = tables.rows("descent", side="cuda", work=DESCENTS[name], engine="kith-descent")
    rows = [
        row
        for row in rows
        if row["commit"] == rows[-1]["commit"] and float(row["recall"]) >= recall
    ]
    if not rows:
        return None
    best = min(rows, key=lambda row: float(row["seconds"]))
    return figure_of(
        best,
        engine=f"kith descent, {best['setting']}",
        recall=float(best["recall"]),
        peak_mib=float(best["peak_mib"] or 0) or None,
        command=f"bench/whole/{best['command']} --csv bench/results/descent.csv",
    )


def fashion_figure(tables):
    rows = tables.rows("cpu", work="fashion", engine="kith", isa="amx")
    if not rows:
        return None
    newest = rows[-1]
    others = [
        row
        for row in tables.rows("cpu", work="fashion", commit=newest["commit"])
        if row["engine"] != "kith"
    ]
    near = {
        f"pynndescent, {row['setting']}": float(row["seconds"])
        for row in tables.rows("descent", work="fashion", engine="pynndescent")
        if float(row["recall"]) >= 0.99
    }
    return figure_of(
        newest,
        engine="kith exact",
        share=float(newest["share_whole"] or 0) or None,
        near=near,
        peak_mib=float(newest["peak_mib"]),
        peers={
            row["engine"]: float(row["seconds"]) for row in others if float(row["recall"]) > 0.998
        },
        command='make bench ARGS="--threads 2"',
    )


def tree_cpu_figure(tables, columns):
    rows = tables.rows("tree", work="patches", columns=columns, k=10, engine="kith-tree")
    rows = [row for row in rows if row["threads"]]
    if not rows:
        return None
    newest = rows[-1]
    peers = {
        row["engine"]: float(row["seconds"])
        for row in tables.rows(
            "tree", work="patches", columns=columns, k=10, commit=newest["commit"]
        )
        if row["engine"] != "kith-tree"
    }
    return figure_of(
        newest,
        engine="kith tree",
        peers=peers,
        command=f"bench/whole/bench_tree.py --columns {columns} --csv bench/results/tree.csv",
    )


def tree_cuda_figure(tables, work):
    rows = [
        row
        for row in tables.rows("tree", work=work, engine="kith-tree", recall="1.00000")
        if not row["threads"]
    ]
    if not rows:
        return None
    peers = {
        "torch, in proportion": float(row["seconds"])
        * int(rows[-1]["queries"])
        / int(row["queries"])
        for row in tables.rows("tree", work=work, engine="torch", commit=rows[-1]["commit"])
    }
    return figure_of(
        rows[-1],
        engine="kith tree",
        peers=peers,
        command=f"bench/whole/{rows[-1]['command']} --csv bench/results/tree.csv",
    )


def find(folder, goals):
    """{id: figure or None} of all goals."""
    tables, found = Tables(folder), {}
    for goal in goals:
        kind, side, last = goal.id.split("-")
        if kind == "select":
            found[goal.id] = select_figure(tables, side, last)
        elif goal.id in GRAPHS:
            found[goal.id] = graph_figure(tables, goal.id)
        elif kind == "descent":
            found[goal.id] = descent_figure(tables, goal.id, goal.recall)
        elif goal.id == "graph-cpu-fashion":
            found[goal.id] = fashion_figure(tables)
        elif kind == "tree" and side == "cpu":
            found[goal.id] = tree_cpu_figure(tables, last)
        else:
            found[goal.id] = tree_cuda_figure(
                tables, "uniform 12" if kind == "search" else f"colour {last}"
            )
    return found
