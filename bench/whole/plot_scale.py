#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of the largest graphs, and the picture of time against points, in docs/notes/scale.md; from
bench/results/shards.csv, descent.csv, gpu.csv and team.csv.

    plot_scale.py [--results bench/results] [--pictures docs/pictures] [--markdown docs/notes/scale.md]

The picture needs matplotlib; with --pictures "" the table alone is made.
"""
import argparse
import csv
import pathlib
import re

from bench_gpu import ROOT
from plot_select import finish, panel, sheet
from select_tables import NOTHING, rewrite_pages, table

STAGES = ["sample_seconds", "group_seconds", "graphs", "rest", "copy_seconds"]
APPROXIMATE = ("mixture1m", "mixture10m", "bytes100m")  # of descent.csv, with no recall asked for


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def large(results):
    """Graphs of bytes from shards, by points; of each number the runs in their order."""
    rows = [row for row in read(results / "shards.csv") if row["type"] == "u8"]
    for row in rows:
        for name in row:
            if name.endswith("seconds"):
                row[name] = float(row[name] or 0.0)
        row["graphs"] = row["compute_seconds"] - row["sample_seconds"] - row["group_seconds"]
        row["rest"] = row["seconds"] - sum(row[name] for name in STAGES if name != "rest")
    return sorted(rows, key=lambda row: int(row["rows"]))


def origins(rows):
    """Machine, date and commits, in the order of the table."""
    by_machine = {}
    for row in rows:
        by_machine.setdefault((row["machine"], row["date"]), {})[row["commit"]] = True
    return "; ".join(f"{machine}, {date}, {', '.join(commits)}" for (machine, date), commits in by_machine.items()) + "."


def make_table(rows):
    if not rows:
        return NOTHING
    cells = [[f"{int(row['rows']):,} x {row['columns']} bytes", row["shards"], f"{float(row['groups_cover']):.3f}",
              f"{float(row['groups_overlap']):.2f}", *(f"{row[name]:.1f}" for name in STAGES), f"{row['seconds']:.1f}",
              f"{float(row['recall']):.3f} ({float(row['recall_low']):.3f} to {float(row['recall_high']):.3f})"]
             for row in rows]
    heads = ["points", "groups", "neighbours in one group", "groups a point is in", "sample, s", "finding groups",
             "their graphs", "rest", "writing the result", "all", "recall@10"]
    return table(heads, cells) + "\n\n" + origins(rows)


def newest(rows):
    return {key: row for key, row in rows}


def exact_by_two(results):
    """Of bytes, as the largest graphs' points are."""
    return newest((int(row["rows"]), row) for row in read(results / "team.csv")
                  if row["work"] == "exact" and row["gpus"] == "2" and "--bytes" in row["command"])


def draw(results, rows, path):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    graphs = ((re.match(r"graph (\d+)x\d+ k10$", row["work"]), row) for row in read(results / "gpu.csv"))
    exact = newest((int(found.group(1)), row) for found, row in graphs if found and row["engine"] == "kith")
    descents = newest((int(row["rows"]), row) for row in read(results / "descent.csv")
                      if row["side"] == "cuda" and row["work"] in APPROXIMATE and row["k"] == "10" and
                      row["setting"] == "default" and row["engine"] == "kith-descent")
    lines = [("exact, one GPU", exact), ("exact, bytes, two GPUs", exact_by_two(results)),
             ("approximate, one GPU", descents),
             ("approximate, from groups, two GPUs", newest((int(row["rows"]), row) for row in rows))]
    figure, axes = sheet(plt, 1, 1, "k-NN graphs, k = 10")
    panel(axes[0], "", "points", [(label, {n: float(row["seconds"]) for n, row in sorted(points.items())})
                                  for label, points in lines], "seconds")
    axes[0].set_xscale("log", base=10)
    figure.set_size_inches(8.5, 3.4)
    finish(plt, figure, axes, 1, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench" / "results")
    parser.add_argument("--pictures", default=str(ROOT / "docs" / "pictures"))
    parser.add_argument("--markdown", type=pathlib.Path, nargs="*", default=[])
    options = parser.parse_args()
    rows = large(options.results)
    made = {"largest": make_table(rows)}
    if options.pictures:
        draw(options.results, rows, pathlib.Path(options.pictures) / "scale.png")
    rewrite_pages(options.markdown, made)


if __name__ == "__main__":
    main()
