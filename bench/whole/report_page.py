# SPDX-License-Identifier: Apache-2.0
"""docs/benchmarks.md: kith beside other libraries, made of the files of bench/results."""

import csv
import pathlib
import re

import report_rows
import report_slower
import report_tables
from report_goals import seconds_text, times_text
from report_tables import table

SIDES = {"cpu": "Two cores", "cuda": "One GPU"}
PICTURES = {
    "works": "Time of the fastest other library over kith's",
    "n": "Time by points",
    "d": "Time by columns",
    "k": "Time by neighbours",
    "threads": "Time by threads",
}
HEAD = """# Benchmarks

kith beside other libraries. Every line is of one run of one program on one machine, all libraries of the
line one after the other. `bench/report --page` makes this page of the files in `bench/results`; nobody
edits it.

- **A time** is the median of a few calls. kith's time of a graph on the processor is that of its whole
  process, files read and written; that of another library is its call alone, rows in memory and code
  compiled. On a GPU rows and answers lie in device memory. Of trees it is the search; building stands in
  the detail.
- **Times as long** compares kith with the fastest other library that finds as much: above 1 kith is faster.
  Approximate answers stand with their recall@10, the share of true neighbours that they found. *In
  proportion*: fewer queries were measured, and the time is told for all. Beside trees on a GPU stands
  brute force alone; [the tree](tree.md) has a library with trees, measured apart.
- **Share of the limit**: the time of the least work (each pair of a graph once, or one read of the matrix) at
  the rate that the machine had in the same run, over kith's time. On a GPU the rate of products is that of
  the unit alone, a loop of nothing but its instruction on bytes. A *mac* is a multiplication with its
  addition.

Measure it yourself: `NAME` is the first column of a table.

    bench/report --device cpu              # kith and installed libraries, 12 minutes on two cores at most
    bench/report --device cuda             # on one GPU, with PyTorch, 5 minutes at most
    bench/report --only NAME               # one line

Libraries are those that the interpreter has (`bench/.venv/bin/python bench/report ...`); `bench/report --help`
says how to get them. One that is absent is named. `KITH_DATA` names the folder of real data.
"""
SLOWER = """Of all that stands in `bench/results`, works in which another library is faster and kith has nothing
that is as fast and finds as much. Small jobs, above all: what kith does before its first distance pays
only later."""

INDEXES = """Rows, queries and answers lie in device memory; k = 10 where nothing else is said. *C*: the call alone,
its arguments made before; the rest is called from Python. *Returned*: until a call that does not wait came
back. Points are clusters of a thousand in twelve dimensions and a little noise, unless they are uniform. Medians.

    bench/whole/bench_index.py --csv bench/results/index.csv       # needs PyTorch; cuVS beside it where it is there"""


def reports(folder):
    """Accepted results, those of the processor first."""
    paths = [pathlib.Path(folder) / f"report-{side}.json" for side in SIDES]
    return [report_rows.read(path) for path in paths if path.exists()]


def found_text(each):
    """An engine with its time, and its recall where that is known and not all."""
    recall = each["recall"]
    known = "" if each["exact"] or recall is None or recall >= 0.99995 else f", recall {recall:.4f}"
    name = report_rows.label(each)
    return f"{name.removeprefix('kith ') if each['kith'] else name} {seconds_text(each['seconds'])}{known}"


def work_lines(report):
    """A line a work that is no point of a curve."""
    for job in report["jobs"]:
        if job["series"] is not None:
            continue
        ours = sorted(
            (each for each in job["engines"] if each["kith"]), key=lambda each: each["seconds"]
        )
        others = sorted(
            (each for each in job["engines"] if not each["kith"]), key=lambda each: each["seconds"]
        )
        best = report_rows.base(job) or (ours or [None])[0]
        factor = report_rows.times_kith(job, best)
        yield [
            f"`{job['id']}`",
            f"{job['work']}, {report_tables.shape_text(job)}",
            "; ".join(found_text(each) for each in ours),
            "; ".join(found_text(each) for each in others) or "none was run",
            "" if factor is None else times_text(factor) if factor >= 1.0 else f"**{factor:.2f}**",
            report_tables.share_text(report_rows.share(job, best)) if best else "",
            job["date"][:10],
        ]


def side_by_side(report):
    head = [
        "name",
        "work",
        "kith",
        "other libraries",
        "times as long",
        "share of the limit",
        "date",
    ]
    return [
        f"## {SIDES[report['side']]}",
        table(head, work_lines(report)),
        report_tables.origin(report, with_commit=False) + f" `{report['command']}`",
    ]


def pictures(out, side):
    folder = pathlib.Path(out).parent / "pictures"
    return [
        f"![{name}]({folder.name}/benchmarks_{side}_{kind}.png)"
        for kind, name in PICTURES.items()
        if (folder / f"benchmarks_{side}_{kind}.png").exists()
    ]


def slower(folder):
    head = ["work", "fastest other", "kith", "its time over kith's", "machine", "date"]
    return table(head, report_slower.lines(folder, reports(folder)))


def shown(work):
    """1000000x128 as 1,000,000 × 128."""
    grouped = re.sub(r"\d+", lambda digits: f"{int(digits[0]):,}", work)
    return re.sub(r"(?<=\d)x(?=\d)", " × ", grouped)


def milliseconds(row):
    return [seconds_text(1e-3 * float(row[name])) for name in ("ms", "low")]


def indexes(folder):
    """Of each work and way the last row."""
    path = pathlib.Path(folder) / "index.csv"
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        last = {(row["work"], row["way"]): row for row in csv.DictReader(file)}
    lines = [
        [shown(work), way, *milliseconds(row), row["recall"], row["gpu"], row["date"]]
        for (work, way), row in last.items()
    ]
    head = ["work", "way", "time", "least", "recall@10", "machine", "date"]
    return ["## Indexes on a GPU", INDEXES, table(head, lines)]


def page(folder, out):
    parts = [HEAD.strip()]
    for report in reports(folder):
        parts += side_by_side(report)
    parts += indexes(folder)
    parts += ["## Where kith is not the fastest", SLOWER, slower(folder)]
    for report in reports(folder):
        parts += [
            f"## {SIDES[report['side']]} in detail",
            report_tables.whole(report, "###").partition("\n\n")[2].strip(),
            *pictures(out, report["side"]),
        ]
    for side in SIDES:
        if not any(report["side"] == side for report in reports(folder)):
            parts.append(
                f"## {SIDES[side]}\n\n"
                f"Not yet measured by `bench/report --device {side}` on a quiet machine."
            )
    return "\n\n".join(parts) + "\n"


def write(folder, out):
    try:
        import report_plots

        for report in reports(folder):
            report_plots.draw(report, pathlib.Path(out).parent / "pictures")
    except ImportError as error:
        print(f"report: no pictures, {error.name} is absent")
    text = page(folder, out)
    pathlib.Path(out).write_text(text, encoding="utf-8")
    print(f"{out}: {len(text.splitlines())} lines")
    return 0
