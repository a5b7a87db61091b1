#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables of two papers' whole systems, in docs/notes/selection.md; from bench/results/pipeline.csv.

    pipeline_tables.py [--results bench/results/pipeline.csv] [--markdown docs/notes/selection.md]
"""
import argparse
import csv
import pathlib

from bench_gpu import ROOT
from select_tables import milliseconds, rewrite_pages, table

BATCH = "hybrid/"  # the queries of a batch follow


def read(path):
    """Of each work and way the newest row."""
    with open(path, newline="", encoding="utf-8") as file:
        return list({(row["work"], row["rows"], row["queries"], row["k"], row["way"]): row
                     for row in csv.DictReader(file)}.values())


def times(rows):
    """A line for each work, a column for each way."""
    ways = list(dict.fromkeys(row["way"] for row in rows))
    works = {}
    for row in rows:
        name = f"{int(row['queries']):,} in {int(row['rows']):,} × {row['columns']}"
        works.setdefault((name, row["k"]), {})[row["way"]] = milliseconds(float(row["seconds"]))
    origins = sorted({f"{row['machine']}, {row['date']}, commit {row['commit']}" for row in rows})
    return table(["queries and points", "k", *ways],
                 [[*work, *(found.get(way, "") for way in ways)] for work, found in works.items()]) + \
        f"\n\nMilliseconds. *{'; '.join(origins)}.*"


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
                                     "systems batches": times(by_batch)})


if __name__ == "__main__":
    main()
