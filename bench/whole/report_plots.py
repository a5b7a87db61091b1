# SPDX-License-Identifier: Apache-2.0
"""Pictures of one machine's results: curves by points, columns, neighbours, threads, and works beside other libraries."""

import pathlib

import matplotlib
import report_rows
import report_tables

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  (after the choice of what draws)

COLOURS = pyplot.get_cmap("tab10").colors
SIZE = (6.4, 4.0)


def save(figure, path):
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def draw_curve(report, series, path):
    """Seconds by x, an engine a line; the limit dotted."""
    jobs = sorted(
        (job for job in report["jobs"] if job["series"] == series), key=lambda job: job["x"]
    )
    if len(jobs) < 2:
        return
    figure, axes = pyplot.subplots(figsize=SIZE)
    names = list(dict.fromkeys(report_rows.label(each) for job in jobs for each in job["engines"]))
    for place, name in enumerate(names):
        points = [
            (job["x"], each["seconds"])
            for job in jobs
            for each in job["engines"]
            if report_rows.label(each) == name
        ]
        kith = name.startswith("kith")
        axes.plot(
            *zip(*points),
            marker="o",
            linewidth=2.4 if kith else 1.2,
            label=name,
            color="black" if kith else COLOURS[place % len(COLOURS)],
        )
    floors = [(job["x"], job["floor"]) for job in jobs if job["floor"]]
    if floors:
        axes.plot(*zip(*floors), linestyle=":", color="grey", label="limit")
    axes.set(xscale="log", yscale="log", xlabel=report_tables.SERIES[series], ylabel="seconds")
    axes.set_title(f"exact graph, {report_tables.shape_text(jobs[0])} (first point)", fontsize=9)
    axes.legend(fontsize=7)
    axes.grid(True, which="both", alpha=0.25)
    save(figure, path)


def draw_works(report, path):
    """How many times kith's time the fastest other library takes; left of 1 it is faster."""
    lines = []
    for job in reversed(report["jobs"]):
        if job["series"] is None:
            factor = report_rows.times_kith(job, report_rows.base(job))
            lines += [] if factor is None else [(job["id"], factor)]
    if not lines:
        return
    names, factors = zip(*lines)
    figure, axes = pyplot.subplots(figsize=(SIZE[0], 0.8 + 0.32 * len(lines)))
    colours = ["#2a7" if each >= 1 else "#c43" for each in factors]
    axes.barh(range(len(lines)), [each - 1 for each in factors], left=1.0, color=colours)
    axes.axvline(1.0, color="grey", linestyle=":")
    axes.set_yticks(range(len(lines)), names, fontsize=7)
    axes.set(xscale="log", xlabel="time of the fastest other library / kith's")
    save(figure, path)


def draw(report, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for series in report_tables.SERIES:
        draw_curve(report, series, folder / f"benchmarks_{report['side']}_{series}.png")
    draw_works(report, folder / f"benchmarks_{report['side']}_works.png")
