#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures and tables of docs/nn-descent.md and docs/notes/descent.md from bench/results/descent.csv,
descent_rounds.csv, descent_interval.csv and descent_thread.csv.

    plot_descent.py [--results bench/results] [--pictures docs/pictures]
                    [--markdown docs/nn-descent.md docs/notes/descent.md]

The files are of bench_descent.py, descent_interval.py and descent_thread.py. Pictures need matplotlib; with --pictures "" tables
alone are made. What was not measured is left out and said so.
"""
import argparse
import pathlib
import sys

import descent_tables
import report_times
from bench_gpu import ROOT
from descent_rows import read_intervals, read_jobs, read_rounds, read_threads
from plot_select import finish, panel, sheet

NAMES = {"cpu": "two cores", "cuda": "one GPU"}
MOST_MISSED = 0.5  # lower recalls are not drawn


def works_of(rows):
    return [work for _, work in descent_tables.in_order(rows) if descent_tables.SHAPES not in work]


def by_round(rows, name):
    return {row["number"]: row[name] for row in sorted(rows.rows, key=lambda row: row["number"]) if row[name]}


def missed_by_time(rows):
    """{seconds: 1 - recall} of the settings that no other beats in both."""
    front, least = {}, MOST_MISSED
    for row in sorted(rows.rows, key=lambda row: (row["seconds"], -row["recall"])):
        missed = max(1.0 - row["recall"], 1e-5)
        if missed < least:
            front[row["seconds"]] = least = missed
    return front


def by_time(axes, title, lines):
    panel(axes, title, "s", lines, "1 - recall@10")
    axes.xaxis.set_major_formatter("{x:,.3g}")


def draw_phi(plt, rounds, side, path):
    """The paper's figure 4, and 5: what selective updates lose by round, and win in time."""
    rounds = rounds.where(side=side, setting=descent_tables.ABLATION)
    works = works_of(rounds)
    if not works:
        return False
    figure, axes = sheet(plt, len(works), 2, f"NN-Descent on {NAMES[side]}, by round: the paper's figures 4 and 5")
    for place, work in enumerate(works):
        some = rounds.where(work=work)
        settings = [(name, some.where(setting=name)) for name in descent_tables.ABLATION]
        panel(axes[2 * place], f"4  {work}: phi(G), k = 10", "round",
              [(name, by_round(of, "phi")) for name, of in settings], "", log_x=False)
        lines = [(name, {row["seconds"]: max(1.0 - row["recall"], 1e-5)
                         for row in sorted(of.rows, key=lambda row: row["seconds"]) if row["recall"] is not None})
                 for name, of in settings]
        by_time(axes[2 * place + 1], f"5  {work}: missed neighbours", lines)
    finish(plt, figure, axes, 2 * len(works), path)
    return True


def draw_curves(plt, rows, side, path):
    """The paper's figure 6, of works with several settings; the exact graph stands at the bottom."""
    rows = rows.where(side=side)
    works = [work for work in works_of(rows) if len(missed_by_time(rows.where(work=work, engine="kith-descent"))) > 1]
    if not works:
        return False
    figure, axes = sheet(plt, -(-len(works) // 2), 2, f"Recall against time on {NAMES[side]}: the paper's figure 6")
    for place, work in enumerate(works):
        some = rows.where(work=work)
        lines = [(label, missed_by_time(some.where(engine=engine)))
                 for label, engine in (("kith, descent", "kith-descent"), ("pynndescent", "pynndescent"),
                                       ("FAISS", "faiss"), ("kith, exact", "kith-exact"))]
        by_time(axes[place], work, lines)
    finish(plt, figure, axes, len(works), path)
    return True


PICTURES = {"descent_phi": (draw_phi, "phi(G) by round, and missed neighbours by time: selective and all updates"),
            "descent_curve": (draw_curves, "Missed neighbours against time")}


def draw(rows, rounds, folder):
    """{name: markdown of it}."""
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel
        matplotlib.use("Agg")
        from matplotlib import pyplot as plt  # pylint: disable=import-outside-toplevel
    except ImportError:
        sys.exit("plot_descent: pictures need matplotlib")
    folder.mkdir(parents=True, exist_ok=True)
    shown = {}
    for name, (make, what) in PICTURES.items():
        for side in NAMES:
            file = f"{name}_{side}"
            there = make(plt, rounds if name == "descent_phi" else rows, side, folder / f"{file}.png")
            shown[file] = f"![{what}, {NAMES[side]}](pictures/{file}.png)" if there else ""
    return shown


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    parser.add_argument("--pictures", default=str(ROOT / "docs/pictures"), help="folder; empty: none")
    parser.add_argument("--markdown", type=pathlib.Path, nargs="+", default=[])
    options = parser.parse_args()
    rows = report_times.take(read_jobs(options.results / "descent.csv"), options.results / "report-cuda.json")
    rounds = read_rounds(options.results / "descent_rounds.csv")
    found = read_intervals(options.results / "descent_interval.csv")
    if not rows and not found:
        sys.exit(f"plot_descent: no rows in {options.results}")
    pictures = draw(rows, rounds, pathlib.Path(options.pictures)) if options.pictures else {}
    if options.markdown:
        threads = read_threads(options.results / "descent_thread.csv")
        descent_tables.rewrite(options.markdown, rows, rounds, found, threads, pictures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
