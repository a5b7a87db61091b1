#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures and tables of docs/tree.md and docs/notes/tree.md from bench/results/tree.csv and tree_lab.csv.

    plot_tree.py [--csv bench/results/tree.csv] [--lab bench/results/tree_lab.csv]
                 [--pictures docs/pictures] [--markdown docs/tree.md docs/notes/tree.md]

tree.csv is of bench_tree.py and bench_tree_gpu.py, tree_lab.csv of build/bench_tree --csv. Pictures need
matplotlib; with --pictures "" tables alone are made. What was not measured is left out and said so.
"""
import argparse
import pathlib
import sys

import plot_select
import report_times
import tree_tables
from bench_gpu import ROOT
from plot_select import panel, scaled, sheet
from tree_rows import build_by, read, read_buffers, read_lab

US, MS = 1e-3, 1e3  # of a nanosecond; in a second
SWEEPS = [("sweep m", "queries", "queries (2,000,000 points, d = 10)"),
          ("sweep n", "rows", "points (10,000,000 queries, d = 10)"),
          ("sweep d", "columns", "columns (1,000,000 queries, 2,000,000 points)"),
          ("sweep k", "k", "k (1,000,000 queries, 2,000,000 points, d = 10)")]
METHODS = ["packets", "alone sorted", "alone", "buffered", "unbuffered", "brute"]


def finish(plt, figure, axes, used, path):
    """Where less than a decade is shown, numbers between its ends, and plain ones."""
    for each in axes[:used]:
        if each.get_yscale() == "log":
            each.yaxis.set_minor_formatter(plt.matplotlib.ticker.LogFormatter())
    plot_select.finish(plt, figure, axes, used, path)


def draw_gpu(plt, rows, path):
    rows = rows.where(side="cuda")
    if not rows.where(work=[work for work, _, _ in SWEEPS]):
        return False
    figure, axes = sheet(plt, 3, 2, "The tree on one GPU: colour points, k = 10")
    for place, (work, across, label) in enumerate(SWEEPS):
        some = rows.where(work=work)
        panel(axes[place], "", label, [("tree", some.where(engine="kith-tree").by(across)),
                                       ("all pairs, of fewer queries", some.where(engine="kith-exact").by(across))],
              "ns a query", log_x=across != "columns")
    some = rows.where(work="sweep n", engine="kith-tree")
    panel(axes[4], "", "points (10,000,000 queries, d = 10)",
          [("build", scaled(MS, build_by(some, "rows"))),
           ("search", {row["rows"]: MS * row["seconds"] for row in some.rows})], "ms")
    some = rows.where(work="crossover")
    panel(axes[5], "", "columns, uniform points (200,000 × 1,000,000)",
          [(label, {row["columns"]: MS * row["whole"]
                    for row in sorted(some.where(engine=engine).rows, key=lambda row: row["columns"])})
           for label, engine in (("tree", "kith-tree"), ("all pairs", "kith-exact"), ("auto", "kith-auto"))],
          "ms, whole call", log_x=False)
    finish(plt, figure, axes, 6, path)
    return True


def leaves_by_columns(rows):
    return {row["columns"]: row["leaves"] for row in sorted(rows.rows, key=lambda row: row["columns"])
            if row["leaves"]}


def most_varied(rows, name):
    """The columns with the most different values of something; 10 if there is a choice."""
    return max(rows.different("columns"),
               key=lambda d: (len(rows.where(columns=d).different(name)), d == 10), default=0)


def draw_lab(plt, lab, path):
    if not lab:
        return False
    usual = tree_tables.usual_height(lab)
    boxes = lab.where(bounds="box") if lab.where(bounds="box") else lab
    figure, axes = sheet(plt, 2, 2, "The paper's opponents on one GPU (its figures 2, 3 and 5)")
    heights = boxes.where(k=10)
    columns = most_varied(heights, "height")
    there = METHODS[:-1] if len(heights.where(columns=columns).different("height")) > 1 else []
    panel(axes[0], f"2  tree heights, d = {columns}", "height",
          [(name, heights.where(columns=columns, method=name).by("height")) for name in there], "ns a query",
          log_x=False)
    some = boxes.where(k=10, height=usual)
    panel(axes[1], f"3  buffering, height {usual}", "columns",
          [(name, some.where(method=name).by("columns")) for name in METHODS], "ns a query", log_x=False)
    panel(axes[2], f"leaf visits, height {usual}", "columns",
          [(f"{name}, {bounds}", leaves_by_columns(lab.where(k=10, height=usual, method=name, bounds=bounds)))
           for name in tree_tables.VISITORS for bounds in lab.different("bounds")],
          "leaves a query", log_x=False)
    some = boxes.where(height=usual)
    columns = most_varied(some, "k")
    panel(axes[3], f"5  neighbours, d = {columns}", "k",
          [(name, some.where(columns=columns, method=name).by("k")) for name in METHODS], "ns a query")
    finish(plt, figure, axes, 4, path)
    return True


def largest(rows):
    """Rows of the most queries that each engine was asked."""
    most = {row["engine"]: 0 for row in rows.rows}
    for row in rows.rows:
        most[row["engine"]] = max(most[row["engine"]], row["queries"])
    return type(rows)([row for row in rows.rows if row["queries"] == most[row["engine"]]])


def draw_cpu(plt, rows, path):
    rows = rows.where(side="cpu")
    drawn = [work for work in ("colour", "uniform") if rows.where(work=work)]
    if not drawn:
        return False
    figure, axes = sheet(plt, len(drawn) + 1, 2, "The tree on the processor, k = 10")
    names = [("kith, tree", "kith-tree"), *((name, name) for name in tree_tables.PEERS),
             ("kith, all pairs", "kith-exact")]
    for place, work in enumerate(drawn):
        some = largest(rows.where(work=work, k=10))
        panel(axes[2 * place], f"{work}: search", "columns",
              [(label, scaled(US, some.where(engine=engine).by("columns"))) for label, engine in names], "µs a query",
              log_x=False)
        panel(axes[2 * place + 1], f"{work}: build", "columns",
              [(label, build_by(some.where(engine=engine), "columns")) for label, engine in names], "s", log_x=False)
    place = 2 * len(drawn)
    some = largest(rows.where(work="colour"))
    columns = most_varied(some, "k")
    panel(axes[place], f"colour: search, d = {columns}", "k",
          [(label, scaled(US, some.where(engine=engine, columns=columns).by("k"))) for label, engine in names],
          "µs a query")
    lines = []
    for work in drawn:
        some = rows.where(work=work, k=10)
        whole = {engine: {row["columns"]: row["whole"] for row in some.where(engine=engine).rows}
                 for engine in ("kith-auto", "kith-exact")}
        lines.append((work, {d: whole["kith-auto"][d] / whole["kith-exact"][d]
                             for d in sorted(whole["kith-auto"]) if d in whole["kith-exact"]}))
    panel(axes[place + 1], "auto / all pairs, whole process", "columns", lines, "", log_x=False)
    finish(plt, figure, axes, place + 2, path)
    return True


PICTURES = {"tree_cuda": "Time by queries, points, columns and neighbours; building; where all pairs win",
            "tree_lab": "Buffering, leaf visits, neighbours: the paper's opponents, and one height of the tree after another",
            "tree_cpu": "Search and build beside the trees of others; auto beside all pairs"}


def draw(rows, lab, folder):
    """{name: markdown of it} of what there was something to draw of."""
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel
        matplotlib.use("Agg")
        from matplotlib import pyplot as plt  # pylint: disable=import-outside-toplevel
    except ImportError:
        sys.exit("plot_tree: pictures need matplotlib")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {"tree_cuda": draw_gpu(plt, rows, folder / "tree_cuda.png"),
             "tree_lab": draw_lab(plt, lab, folder / "tree_lab.png"),
             "tree_cpu": draw_cpu(plt, rows, folder / "tree_cpu.png")}
    return {name: f"![{PICTURES[name]}](pictures/{name}.png)" if there else "" for name, there in drawn.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", type=pathlib.Path, default=ROOT / "bench/results/tree.csv")
    parser.add_argument("--lab", type=pathlib.Path, default=ROOT / "bench/results/tree_lab.csv")
    parser.add_argument("--buffers", type=pathlib.Path, default=ROOT / "bench/results/tree_buffer.csv")
    parser.add_argument("--pictures", default=str(ROOT / "docs/pictures"), help="folder; empty: none")
    parser.add_argument("--markdown", type=pathlib.Path, nargs="+", default=[])
    options = parser.parse_args()
    rows = report_times.take(read(options.csv), ROOT / "bench/results/report-cuda.json")
    lab = read_lab(options.lab)
    if not rows and not lab:
        sys.exit(f"plot_tree: no rows in {options.csv} and {options.lab}")
    pictures = draw(rows, lab, pathlib.Path(options.pictures)) if options.pictures else {}
    if options.markdown:
        tree_tables.rewrite(options.markdown, rows, lab, read_buffers(options.buffers), pictures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
