#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The picture of README.md: exact graphs beside approximate ones, from bench/results/descent.csv.

    plot_exact.py [--results bench/results] [--picture docs/pictures/exact_beside_approximate.png]

Each panel is one data set, one machine, one run of bench_descent.py: rows of one date and commit.
"""

import argparse
import csv
import pathlib

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  (the backend is chosen first: there may be no screen)

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKS = {
    "fashion": "Fashion-MNIST, 60,000 × 784 bytes",
    "sift": "SIFT of ImageNet, 400,000 × 128 bytes",
}
ENGINES = {
    "kith-exact": ("kith, exact", "#c0392b", "*", 260),
    "kith-descent": ("kith, NN-Descent", "#c0392b", "o", 45),
    "pynndescent": ("pynndescent", "#34495e", "s", 45),
}
EXACT = 1e-4  # where an answer that misses nothing is drawn: the axis has no 0


def last_run(rows, work):
    """Rows of the last run on two cores: one machine, one date, one commit."""
    mine = [
        row for row in rows if row["side"] == "cpu" and row["work"] == work and row["k"] == "10"
    ]
    where = [(row["date"], row["commit"], row["machine"], row["threads"]) for row in mine]
    return [row for row, run in zip(mine, where) if run == where[-1]], where[-1]


def draw(axes, rows, title):
    for engine, (name, colour, marker, size) in ENGINES.items():
        mine = [row for row in rows if row["engine"] == engine]
        seconds = [float(row["seconds"]) for row in mine]
        missed = [max(1 - float(row["recall"]), EXACT) for row in mine]
        axes.scatter(
            seconds, missed, size, colour, marker=marker, label=name, zorder=3, linewidths=0
        )
    exact = float(next(row for row in rows if row["engine"] == "kith-exact")["seconds"])
    axes.axvline(exact, color="#c0392b", linewidth=0.8, linestyle=":")
    axes.set(title=title, xscale="log", yscale="log", xlabel="seconds, less is better")
    axes.set_ylim(0.4, EXACT / 2)
    axes.set_yticks([0.1, 0.01, 0.001, EXACT], ["0.9", "0.99", "0.999", "exact"])
    times = [float(row["seconds"]) for row in rows]
    ticks = [t for t in (0.5, 1, 2, 5, 10, 20) if min(times) * 0.7 <= t <= max(times) * 1.3]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(color="#dddddd", linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench" / "results")
    picture = ROOT / "docs" / "pictures" / "exact_beside_approximate.png"
    parser.add_argument("--picture", type=pathlib.Path, default=picture)
    arguments = parser.parse_args()
    with open(arguments.results / "descent.csv", newline="") as file:
        rows = list(csv.DictReader(file))

    figure, sheets = pyplot.subplots(1, len(WORKS), figsize=(10, 3.9), constrained_layout=True)
    for axes, (work, title) in zip(sheets, WORKS.items()):
        mine, (date, commit, machine, threads) = last_run(rows, work)
        draw(axes, mine, title)
        print(f"{work}: {machine}, {threads} threads, {date}, {commit}")
        for row in mine:
            seconds, recall = float(row["seconds"]), float(row["recall"])
            print(f"  {row['engine']:12} {row['setting']:15} {seconds:8.2f} s  {recall:.4f}")
    sheets[0].set_ylabel("recall@10")
    sheets[0].legend(frameon=False, loc="lower right")
    arguments.picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(arguments.picture, dpi=110)


if __name__ == "__main__":
    main()
