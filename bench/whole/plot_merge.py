#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures and tables of merges in docs/notes/scale.md from bench/results/graph_merge.csv and graph_merge_ways.csv.

    plot_merge.py [--results bench/results] [--pictures docs/pictures] [--markdown docs/notes/scale.md]

The files are of bench_merge.py and bench_merge_ways.py. Of each point the newest row counts; what was not measured is
left out and said so. Pictures need matplotlib; with --pictures "" tables alone are made.
"""
import argparse
import csv
import pathlib
import sys

from bench_gpu import ROOT
from plot_select import finish, panel, sheet
from select_tables import NOTHING, rewrite_pages, table

NAMES = {"cpu": "processor", "cuda": "GPU"}
LINES = [("merge", "kith merge, by rounds"), ("search", "search on graphs, by width"), ("exact", "exact merge"),
         ("direct", "a descent of all points"), ("published", "as published, by rounds"),
         ("raw", "all points from random lists, by rounds")]
GOALS = (0.5, 0.8, 0.9, 0.95, 0.99)  # recalls at which the published merge stands beside a raw build
KEY = ["side", "threads", "work", "rows", "first_rows", "columns", "k", "way", "setting", "start_share"]


def read(path):
    """The newest of each point, in the order in which points came first."""
    newest = {}
    if path.exists():
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                newest[tuple(row.get(name, "") for name in KEY)] = row
    return list(newest.values())


def works_of(rows, side):
    found = {}
    for row in rows:
        if row["side"] == side:
            work = row["work"], int(row["rows"]), int(row["first_rows"]), int(row["columns"])
            found.setdefault(work, []).append(row)
    return sorted(found.items(), key=lambda item: (item[0][1], item[0]))


def name_of(work):
    name, rows, first, columns = work
    return f"{name}, {first:,} + {rows - first:,} x {columns}"


def origin(rows):
    found = sorted({(row["machine"], row["date"], row["commit"]) for row in rows})
    threads = {row["threads"] for row in rows if row["side"] == "cpu"}
    told = "; ".join(f"{machine}, {date}, {commit}" for machine, date, commit in found)
    return told + (f"; {', '.join(sorted(threads))} threads" if threads else "") + "."


# ---- Tables -----------------------------------------------------------------------------------------


def merged(rows, _ways):
    """Merging beside building at once, both graphs already there."""
    lines = []
    for row in rows:
        if row["way"] == "direct" or not row["recall"]:
            continue
        lines.append([NAMES[row["side"]], row["work"], f"{int(row['rows']):,} x {row['columns']}", row["way"],
                      f"{1e3 * float(row['seconds']):,.1f}", f"{100 * float(row['share_of_direct']):.0f} %",
                      row["rounds"], f"{float(row['recall']):.4f}", f"{float(row['loss']):.4f}"])
    head = ["side", "work", "points", "way", "ms", "of a descent of all", "rounds", "recall@10", "less than that one's"]
    return table(head, lines) + "\n\n" + origin(rows) if lines else NOTHING


def seventh(_rows, ways):
    """The paper's figure 7: the fastest of each way that is as good as the default merge, or its best."""
    lines, used = [], []
    for side in NAMES:
        for work, some in works_of(ways, side):
            goal = next((float(row["recall"]) for row in some if row["setting"] == "default"), None)
            direct = next((row for row in some if row["way"] == "direct"), None)
            if goal is None or direct is None:
                continue
            cells = [NAMES[side], name_of(work)]
            for way in ("direct", "merge", "search", "exact"):
                cells.append(cell([row for row in some if row["way"] == way], way, goal))
            lines.append(cells)
            used += [row for row in some if row["way"] != "shards"]
    head = ["side", "points", "at once", "merge", "search of that recall, or the best", "exact"]
    return table(head, lines) + "\n\nSeconds (recall@10). " + origin(used) if lines else NOTHING


def cell(rows, way, goal):
    if way == "merge":
        rows = [row for row in rows if row["setting"] == "default"]
    if not rows:
        return ""
    enough = [row for row in rows if float(row["recall"]) >= goal - 0.0005]
    best = (min(enough, key=lambda row: float(row["seconds"])) if enough
            else max(rows, key=lambda row: float(row["recall"])))
    told = f"{float(best['seconds']):.3g} ({float(best['recall']):.4f})"
    return told + (f", {best['setting']}" if way == "search" else "")


def published(_rows, ways):
    """The paper's merge beside building both sets anew from random lists: the fastest of each with a recall."""
    lines, used = [], []
    for side in NAMES:
        for work, some in works_of(ways, side):
            for goal in GOALS:
                best = {}
                for way in ("published", "raw"):
                    enough = [row for row in some if row["way"] == way and float(row["recall"]) >= goal]
                    best[way] = min(enough, key=lambda row: float(row["seconds"]), default=None)
                if None in best.values():
                    continue
                cells = [f"{float(row['seconds']):.3g} ({float(row['recall']):.4f})" for row in best.values()]
                times = float(best["raw"]["seconds"]) / float(best["published"]["seconds"])
                lines.append([NAMES[side], name_of(work), str(goal), *cells, f"{times:.2f}"])
                used += best.values()
    head = ["side", "points", "recall@10 of at least", "as published", "anew from random lists", "times as fast"]
    return table(head, lines) + "\n\nSeconds (recall@10). " + origin(used) if lines else NOTHING


def second(_rows, ways):
    """The shape of the paper's table 2."""
    lines, used = [], []
    for side in NAMES:
        for work, some in works_of(ways, side):
            shards = [row for row in some if row["way"] == "shards"]
            direct = next((row for row in some if row["way"] == "direct"), None)
            if not shards:
                continue
            if direct is not None:
                shards.insert(0, direct)
            for row in shards:
                count = int(row["setting"].split()[-1]) if row["setting"] else 1
                times = f"{float(row['seconds']) / float(direct['seconds']):.2f}" if direct is not None else ""
                lines.append([NAMES[side], f"{work[0]}, {work[1]:,} x {work[3]}", str(count),
                              str(count * (count - 1) // 2), f"{float(row['seconds']):.3g}", times,
                              f"{float(row['recall']):.4f}"])
            used += shards
    head = ["side", "points", "shards", "pairs merged", "s", "times at once", "recall@10"]
    return table(head, lines) + "\n\n" + origin(used) if lines else NOTHING


TABLES = {"merges": merged, "figure 7": seventh, "as published": published, "table 2": second}


# ---- Picture ----------------------------------------------------------------------------------------


def draw(ways, side, folder):
    """Markdown of the picture, or nothing."""
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt  # pylint: disable=import-outside-toplevel
    works = [(work, rows) for work, rows in works_of(ways, side) if any(row["way"] == "merge" for row in rows)]
    if not works:
        return ""
    figure, axes = sheet(plt, -(-len(works) // 2), 2, f"Two graphs made one on a {NAMES[side]}: the paper's figure 7")
    for place, (work, rows) in enumerate(works):
        lines = []
        for way, label in LINES:
            some = sorted((row for row in rows if row["way"] == way), key=lambda row: float(row["seconds"]))
            lines.append((label, {float(row["seconds"]): max(1.0 - float(row["recall"]), 1e-5) for row in some}))
        panel(axes[place], name_of(work), "s", lines, "1 - recall@10")
        axes[place].xaxis.set_major_formatter("{x:,.3g}")
    folder.mkdir(parents=True, exist_ok=True)
    finish(plt, figure, axes, len(works), folder / f"merge_{side}.png")
    return f"![Missed neighbours against time of merges, {NAMES[side]}](pictures/merge_{side}.png)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    parser.add_argument("--pictures", default=str(ROOT / "docs/pictures"), help="folder; empty: none")
    parser.add_argument("--markdown", type=pathlib.Path, nargs="+", default=[])
    options = parser.parse_args()
    rows, ways = read(options.results / "graph_merge.csv"), read(options.results / "graph_merge_ways.csv")
    if not rows and not ways:
        sys.exit(f"plot_merge: no rows in {options.results}")
    pictures = {side: draw(ways, side, pathlib.Path(options.pictures)) for side in NAMES} if options.pictures else {}
    made = {name: make(rows, ways) for name, make in TABLES.items()}
    rewrite_pages(options.markdown, made | {f"picture merge_{side}": each for side, each in pictures.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
