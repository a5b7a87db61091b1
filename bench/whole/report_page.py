# SPDX-License-Identifier: Apache-2.0
"""docs/evidence.md: every target with its figure, verdict, command, commit and machine, made of the files
of bench/results. Figures come from results of bench/report where it has measured the row, else from
the tables of the other benchmarks."""

import pathlib

import report_earlier
import report_gate
import report_goals
import report_rows
import report_tables
from report_goals import seconds_text
from report_tables import table

SIDES = {"cpu": "Two cores", "cuda": "One GPU"}
PICTURES = {
    "n": "Time by points",
    "d": "Time by columns",
    "k": "Time by neighbours",
    "threads": "Time by threads",
    "goals": "Targets",
}
HEAD = """# Evidence

Every target that the project set itself, what was measured, and the command for it. This page is
made of the files in `bench/results` by `bench/report --page`; nobody edits it.

    bench/report --device cpu              # kith and installed peers, 12 minutes on two cores at most
    bench/report --device cuda             # on one GPU, with PyTorch, 5 minutes at most
    bench/report --only tree-cpu-10        # one row
    bench/report --device cpu --quick --gate bench/results/report-cpu.json      # did a ratio get worse?

Peers are those that the interpreter has (`bench/.venv/bin/python bench/report ...`); `bench/report --help`
says how to get them. One that is absent is named. `KITH_DATA` names the folder of real data.

A figure is the median of a few runs in one run of the program, peers beside it. kith's time of a graph
on the processor is that of its whole process, file read and written; a peer's that of its call alone,
rows in memory and code compiled. On a GPU rows and answers lie in device memory. Trees: the search,
building beside it. *Share of the limit*: the least time that the machine's own limits, measured in the
same run, allow for the products (each pair of a graph once) or for one read of the matrix, over the
time. Shares of figures that older tables gave are of the floor that stood there.
"""


def figures(folder):
    """{id: (figure or None, report or None)}."""
    earlier = report_earlier.find(folder, report_goals.GOALS)
    found = {name: (figure, None) for name, figure in earlier.items()}
    for report in reports(folder):
        for goal in report_goals.GOALS:
            job = report_rows.find(report, goal.id)
            figure = report_rows.figure(job, goal.recall) if job else None
            if figure:
                found[goal.id] = (
                    figure
                    | {
                        "machine": report["machine"],
                        "date": job["date"],
                        "commit": job["commit"],
                        "command": job["command"],
                    },
                    report,
                )
    return found


def reports(folder):
    """Accepted results, those of the processor first."""
    paths = [pathlib.Path(folder) / f"report-{side}.json" for side in SIDES]
    return [report_rows.read(path) for path in paths if path.exists()]


def beside(figure):
    peers = sorted((figure["peers"] | figure["near"]).items(), key=lambda item: item[1])
    return "; ".join(
        f"{name} {seconds_text(seconds)} ({report_goals.times_text(seconds / figure['seconds'])} ×)"
        for name, seconds in peers[:3]
    )


def target_lines(found):
    for goal in report_goals.GOALS:
        figure, _ = found[goal.id]
        told = report_goals.judge(goal, figure)
        verdict = told[1] if told[0] == report_goals.MET else f"**{told[1]}**"
        if figure is None:
            yield [f"`{goal.id}`", goal.work, goal.target(), "", "", verdict, "", ""]
            continue
        recall = f", recall {figure['recall']:.4f}" if figure["recall"] < 1.0 else ""
        yield [
            f"`{goal.id}`",
            goal.work,
            goal.target(),
            report_tables.range_text(figure) + recall,
            figure["engine"],
            verdict,
            beside(figure),
            report_tables.share_text(figure["share"]),
        ]


def origin_lines(found):
    for goal in report_goals.GOALS:
        figure, _ = found[goal.id]
        own = f"`bench/report --only {goal.id}`"
        if figure is None:
            yield [f"`{goal.id}`", own, "", "", "", ""]
            continue
        made = f"`{figure['command']}`" if figure["command"] else ""
        yield [
            f"`{goal.id}`",
            own,
            "" if made == own else made,
            figure["commit"],
            figure["machine"],
            figure["date"],
        ]


def known_lines():
    for goal in report_goals.GOALS:
        yield [f"`{goal.id}`", goal.peers, goal.floor, goal.needs]


def counts(found):
    told = [report_goals.judge(goal, found[goal.id][0])[0] for goal in report_goals.GOALS]
    return (
        f"{len(told)} rows: {told.count(report_goals.MET)} met, "
        f"{told.count(report_goals.PART)} met but for what came then, "
        f"{told.count(report_goals.MISSED)} missed, {told.count(report_goals.NOT_MEASURED)} not measured."
    )


def targets(folder):
    found = figures(folder)
    head = [
        "row",
        "work",
        "asked",
        "measured (least to most)",
        "by",
        "verdict",
        "peers beside it (times kith)",
        "share of the limit",
    ]
    made = ["row", "command of this row", "the figure was made by", "commit", "machine", "date"]
    return [
        "## Targets",
        counts(found),
        table(head, target_lines(found)),
        "*Beside it* are at most three peers, the fastest first: those that find all, and approximate "
        "ones from recall 0.99 on.",
        "## Where each figure comes from",
        table(made, origin_lines(found)),
        "## What was known when the targets were set",
        "Peers on the same machines: FAISS 1.15, cuVS 26.06, PyTorch 2.11; generated mixtures, and two "
        "cores. They were not run "
        "again here unless a table below has them.",
        table(["row", "peers, then", "floor, then", "needs"], known_lines()),
    ]


def limit_lines(folder):
    measured = {
        (report["side"], each["name"]): each["value"]
        for report in reports(folder)
        for each in report["limits"]
    }
    for side, name, value, unit, what in report_goals.LIMITS:
        here = measured.get((side, name))
        yield [
            SIDES[side],
            what,
            report_tables.rate_text(value, unit),
            report_tables.rate_text(here, unit) if here else "not measured",
        ]


def pictures(out, side):
    folder = pathlib.Path(out).parent / "pictures"
    return [
        f"![{name}]({folder.name}/evidence_{side}_{kind}.png)"
        for kind, name in PICTURES.items()
        if (folder / f"evidence_{side}_{kind}.png").exists()
    ]


def page(folder, out):
    parts = [
        HEAD.strip(),
        *targets(folder),
        "## Limits of the machines",
        table(["machine", "limit", "as the targets have it", "measured here"], limit_lines(folder)),
    ]
    for report in reports(folder):
        parts += [
            f"## {SIDES[report['side']]}: all that was measured",
            f"    {report['command']}",
            report_tables.whole(report, "###").strip(),
            *pictures(out, report["side"]),
        ]
    for side in SIDES:
        if not any(report["side"] == side for report in reports(folder)):
            parts.append(
                f"## {SIDES[side]}: all that was measured\n\n"
                f"Not yet by `bench/report --device {side}` on a quiet machine."
            )
    return "\n\n".join([*parts, report_gate.EXPLAINED.strip()]) + "\n"


def write(folder, out):
    try:
        import report_plots

        for report in reports(folder):
            report_plots.draw(report, pathlib.Path(out).parent / "pictures")
    except ImportError as error:
        print(f"report: no pictures, {error.name} is absent")
    pathlib.Path(out).write_text(page(folder, out), encoding="utf-8")
    print(f"{out}: {counts(figures(folder))}")
    return 0
