# SPDX-License-Identifier: Apache-2.0
"""Works in which another library is faster than kith, out of bench/results: each line of one file, one
machine and one commit of kith. A library counts where kith has nothing that is as fast and finds as much."""

import csv
import pathlib

import report_rows
from report_goals import seconds_text

SAME = ("work", "rows", "queries", "columns", "dtype", "k", "machine")
TEXTS = {
    "small": "generated",
    "fashion": "Fashion-MNIST",
    "sift": "SIFT",
    "patches": "image patches",
}


def of_cpu(row):
    what = "exact graph" if row["queries"] == row["rows"] else "exact search"
    return what, row["engine"], float(row["seconds"])


def of_tree(row):
    return (
        "building a tree, search",
        row["engine"],
        float(row["seconds"]) + float(row["build_seconds"] or 0.0),
    )


def of_walk(row):
    engine = f"{row['engine']}, {row['setting']}" if row["setting"] else row["engine"]
    return "one query at a time", engine, float(row["microseconds"]) * 1e-6


TABLES = {"cpu.csv": of_cpu, "tree.csv": of_tree, "walk_single.csv": of_walk}


def rows_of(path):
    if path.exists():
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                # By itself kith takes AMX on these machines; whole processes of auto are told elsewhere.
                if (
                    row.get("isa") in (None, "", "amx")
                    and "auto" not in row["engine"]
                    and row.get("threads") != ""
                ):
                    yield row


def in_tables(folder):
    """(what, [(engine, seconds, recall, row)]) of each work's newest commit that has kith beside others."""
    for name, change in TABLES.items():
        works = {}
        for row in rows_of(pathlib.Path(folder) / name):
            what, engine, seconds = change(row)
            runs = works.setdefault((what, *(row[each] for each in SAME)), {})
            runs.setdefault(row["commit"], {})[engine] = (
                engine,
                seconds,
                float(row["recall"] or 1.0),
                row,
            )
        for (what, *_), runs in works.items():
            beside = [list(run.values()) for run in runs.values()]
            beside = [
                run for run in beside if len({each[0].startswith("kith") for each in run}) == 2
            ]
            if beside:
                yield what, beside[-1]


def in_reports(reports):
    for report in reports:
        for job in report["jobs"]:
            row = {name: str(job[name]) for name in SAME if name in job}
            row |= {"machine": report["machine"], "date": job["date"][:10], "work": job["data"]}
            yield (
                job["work"],
                [
                    (
                        report_rows.label(each),
                        each["seconds"],
                        1.0 if each["exact"] or each["recall"] is None else each["recall"],
                        row,
                    )
                    for each in job["engines"]
                ],
            )


def ahead(engines):
    """(the other, what of kith stands beside it) of one work."""
    ours = [each for each in engines if each[0].startswith("kith")]
    for other in engines:
        enough = [each for each in ours if each[2] >= other[2] - report_rows.SAME_RECALL]
        if other not in ours and enough:
            beside = min(enough, key=lambda each: each[1])
            if beside[1] > other[1]:
                yield other, beside


def work_text(what, row):
    asked = "" if row["queries"] in ("0", row["rows"]) else f"{int(row['queries']):,} queries in "
    data = TEXTS.get(row["work"], row["work"].removeprefix("catalogue "))
    return f"{what}, {data}: {asked}{int(row['rows']):,} × {row['columns']}, k = {row['k']}"


def engine_text(engine, seconds, recall, exact):
    shown = f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else seconds_text(seconds)
    return f"{engine.replace('-', ' ') if engine.startswith('kith') else engine}: {shown}" + (
        "" if exact else f", recall {recall:.4f}"
    )


def lines(folder, reports):
    """A line a work: of the others that are ahead the one that finds most."""
    for what, engines in [*in_tables(folder), *in_reports(reports)]:
        found = list(ahead(engines))
        if found:
            other, beside = max(found, key=lambda pair: (pair[0][2], -pair[0][1]))
            exact = min(other[2], beside[2]) >= 0.99995
            yield [
                work_text(what, other[3]),
                engine_text(*other[:3], exact),
                engine_text(*beside[:3], exact),
                f"{other[1] / beside[1]:.2f}",
                other[3]["machine"],
                other[3]["date"],
            ]
