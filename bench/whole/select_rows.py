# SPDX-License-Identifier: Apache-2.0
"""Rows of bench/results/select.csv: the newest of each point, and ratios between them."""
import csv

# Of the buffered searches, the one that the merge queue paper found best for each queue.
BUFFER_OF = {"insertion": "sorted", "heap": "full", "merge_queue": "full"}

KEY = ["side", "threads", "work", "method", "buffer", "group", "aligned", "sample", "rows", "cols", "k", "at",
       "quantity"]
NUMBERS = ["threads", "group", "aligned", "sample", "rows", "cols", "k", "runs"]


def read(path, quick=False):
    """Rows that were measured at full size (with --quick), the last one where a point was measured twice."""
    newest = {}
    with open(path, newline="", encoding="utf-8") as source:
        for row in csv.DictReader(source):
            if ("--quick" in row["command"]) == quick:
                row.update({name: int(row[name]) for name in NUMBERS})
                row["value"] = float(row["value"])
                newest[tuple(row[name] for name in KEY)] = row
    return Rows(list(newest.values()))


class Rows:
    """Some rows, and questions to them."""

    def __init__(self, rows):
        self.rows = rows

    def where(self, **wanted):
        """A wanted value may be a list: any of it."""
        def fits(row):
            return all(row[name] in value if isinstance(value, (list, tuple, set)) else row[name] == value
                       for name, value in wanted.items())
        return Rows([row for row in self.rows if fits(row)])

    def different(self, name):
        return sorted({row[name] for row in self.rows})

    def by(self, name):
        """{value of a column: value that was measured}, for rows that differ in that column alone."""
        return {int(row[name]) if name == "at" else row[name]: row["value"]
                for row in sorted(self.rows, key=lambda row: int(row[name]))}

    def all_threads(self):
        """Rows of the most threads that were used."""
        most = max((row["threads"] for row in self.rows), default=0)
        return self.where(threads=most)

    def variant(self, method, buffer="none", group=0, aligned=0):
        return self.where(method=method, buffer=buffer, group=group, aligned=aligned)

    def __bool__(self):
        return bool(self.rows)


def ratio(above, below):
    """{x: above / below} where both were measured."""
    return {x: above[x] / below[x] for x in above if x in below and below[x] > 0}
