# SPDX-License-Identifier: Apache-2.0
"""Rows of bench/results/tree.csv, tree_buffer.csv and tree_lab.csv: the newest of each point."""
import csv

from select_rows import Rows

KEY = ["side", "threads", "work", "rows", "queries", "columns", "dtype", "k", "engine"]
NUMBERS = ["rows", "queries", "columns", "k"]
BUFFER_KEY = ["rows", "queries", "columns", "k", "engine", "height", "buffer"]
LAB_KEY = ["work", "method", "rows", "columns", "k", "height", "bounds"]


def read_csv(path, key, change):
    newest = {}
    if path.exists():
        with open(path, newline="", encoding="utf-8") as source:
            for row in csv.DictReader(source):
                row.update({name: int(row[name]) for name in NUMBERS})
                change(row)
                newest[tuple(row[name] for name in key)] = row
    return Rows(list(newest.values()))


def change_row(row):
    """side, way (of auto), seconds, pairs and nanoseconds of a query."""
    row["side"] = "cpu" if row["threads"] else "cuda"
    row["threads"] = int(row["threads"] or 0)
    row["engine"], _, row["way"] = row["engine"].partition(":")
    row["seconds"] = float(row["seconds"])
    row["build"] = float(row["build_seconds"] or 0.0)
    row["whole"] = float(row["whole_seconds"] or 0.0)
    row["value"] = 1e9 * row["seconds"] / row["queries"]
    row["pairs"] = float(row["pairs_share"]) * row["rows"] if row["pairs_share"] else None


def change_lab_row(row):
    row.update(machine=row["device"], threads=0, height=int(row["height"]), runs=int(row["runs"]))
    row["value"] = float(row["ns_a_query"])
    for name in ("pairs", "leaves"):
        row[name] = float(row[name]) / row["queries"] if row[name] not in ("", "nan") else None


def change_buffer_row(row):
    """value: nanoseconds of a query; finding: the share of finding leaves in both kernels."""
    row.update({name: int(row[name] or 0) for name in ("threads", "height", "buffer")})
    row["value"] = 1e9 * float(row["seconds"]) / row["queries"]
    select, screen = float(row["select_seconds"]), float(row["screen_seconds"])
    row["finding"], row["checked"] = select / (select + screen), row["same"]


def read_buffers(path):
    return read_csv(path, BUFFER_KEY, change_buffer_row)


def read(path):
    return read_csv(path, KEY, change_row)


def read_lab(path):
    return read_csv(path, LAB_KEY, change_lab_row)


def build_by(rows, name):
    return {row[name]: row["build"] for row in sorted(rows.rows, key=lambda row: row[name])}


def right(rows):
    """All answers were those that they were compared with; pykdtree's sums of float32 may differ."""
    return all(row["recall"] in ("", "1.00000") for row in rows.rows if row["engine"].startswith("kith"))
