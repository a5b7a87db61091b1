# SPDX-License-Identifier: Apache-2.0
"""Pictures of one machine's results: curves by points, columns, neighbours, threads, and the targets."""

import pathlib

import matplotlib
import report_goals
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


def draw_goals(report, path):
    """How far below its target each time is, and where the fastest peer of the run stands."""
    lines = []
    for goal in reversed(report_goals.GOALS):
        job = report_rows.find(report, goal.id)
        figure = report_rows.figure(job, goal.recall) if job else None
        if figure is None:
            continue
        peer = min((figure["peers"] | figure["near"]).values(), default=None)
        limit = peer / goal.faster if goal.faster and peer else goal.limit
        if limit:
            lines.append((goal.id, figure["seconds"] / limit, peer / limit if peer else None))
    if not lines:
        return
    figure, axes = pyplot.subplots(figsize=(SIZE[0], 0.8 + 0.32 * len(lines)))
    places = range(len(lines))
    axes.barh(
        places,
        [line[1] for line in lines],
        color=["#2a7" if line[1] <= 1 else "#c43" for line in lines],
        label="kith",
    )
    axes.plot(
        [line[2] for line in lines if line[2]],
        [at for at in places if lines[at][2]],
        "k|",
        markersize=10,
        label="fastest peer",
    )
    axes.axvline(1.0, color="grey", linestyle=":")
    axes.set_yticks(list(places), [line[0] for line in lines], fontsize=7)
    axes.set(xscale="log", xlabel="time / target (left of 1: met)")
    axes.legend(fontsize=7)
    save(figure, path)


def draw(report, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for series in report_tables.SERIES:
        draw_curve(report, series, folder / f"evidence_{report['side']}_{series}.png")
    draw_goals(report, folder / f"evidence_{report['side']}_goals.png")
