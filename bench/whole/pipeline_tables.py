#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables of two papers' whole systems, in docs/notes/selection.md; from bench/results/pipeline.csv.

    pipeline_tables.py [--results bench/results/pipeline.csv] [--markdown docs/notes/selection.md]
"""
import argparse
import csv
import pathlib

from bench_gpu import ROOT
from select_tables import NOTHING, milliseconds, rewrite_pages, table

BATCH = "hybrid/"  # the queries of a batch follow


def read(path):
    """Of each work and way the newest row."""
    with open(path, newline="", encoding="utf-8") as file:
        return list({(row["work"], row["rows"], row["queries"], row["k"], row["way"]): row
                     for row in csv.DictReader(file)}.values())


def origin(rows):
    found = sorted({f"{row['machine']}, {row['date']}, commit {row['commit']}" for row in rows})
    return f"\n\nMilliseconds. *{'; '.join(found)}.*"


def name_of(row):
    return f"{int(row['queries']):,} in {int(row['rows']):,} × {row['columns']}"


def parts(row):
    """Seconds that the GPU was waited for, and those of the processor."""
    return float(row["seconds_screen"]), float(row["seconds_select"]) + float(row["seconds_rescore"])


def halves(rows):
    """One batch of all queries, whose halves follow each other, beside the batches that take least together."""
    lines, used = [], []
    for whole in (row for row in rows if row["seconds_screen"] and row["way"] == BATCH + row["queries"]):
        others = [row for row in rows if row["k"] == whole["k"] and row["seconds_screen"] and row is not whole
                  and row["way"].startswith(BATCH) and name_of(row) == name_of(whole)]
        if not others:
            continue
        best = min(others, key=lambda row: sum(parts(row)))
        alone, together = parts(whole), sum(parts(best))
        used += [whole, best]
        lines.append([name_of(whole), whole["k"], *map(milliseconds, (*alone, sum(alone), together)),
                      best["way"].removeprefix(BATCH), f"{100 * (sum(alone) - together) / min(alone):.0f} %",
                      f"{100 * int(best['cpu_rows']) / int(best['queries']):.0f} %"])
    return table(["queries and points", "k", "GPU's half", "processor's half", "one after the other", "together",
                  "batches of", "of the shorter half hidden", "of the rows selected by the processor"],
                 lines) + origin(used) if lines else NOTHING


def times(rows):
    """A line for each work, a column for each way."""
    ways = list(dict.fromkeys(row["way"] for row in rows))
    works = {}
    for row in rows:
        works.setdefault((name_of(row), row["k"]), {})[row["way"]] = milliseconds(float(row["seconds"]))
    return table(["queries and points", "k", *ways],
                 [[*work, *(found.get(way, "") for way in ways)] for work, found in works.items()]) + origin(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench" / "results" / "pipeline.csv")
    parser.add_argument("--markdown", type=pathlib.Path, nargs="*", default=[])
    options = parser.parse_args()
    rows = read(options.results)
    batched = {(row["rows"], row["queries"], row["k"]) for row in rows if row["way"].startswith(BATCH)}
    by_batch = [row for row in rows if (row["rows"], row["queries"], row["k"]) in batched]
    rest = [row for row in rows if row not in by_batch]
    rewrite_pages(options.markdown, {"systems matrix": times([row for row in rest if row["work"] == "graph"]),
                                     "systems hybrid": times([row for row in rest if row["work"] == "search"]),
                                     "systems batches": times(by_batch), "systems halves": halves(by_batch)})


if __name__ == "__main__":
    main()
