#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fail where a page gives a figure that the report has not: check_figures.py [ROOT]

A row of a table that names docs/evidence.md as its source, or has a dagger, is of one job of the report
(bench/results/report-*.json): each time in it, and each recall behind a time ("4.6 s for 0.995"), is one of that
job's, as far as it is written out. Times with an asterisk are others' and not looked at. A row about the exact
graph of points that the report has gives no time without naming it."""
import json
import pathlib
import re
import sys

TIME = re.compile(r"(?<![\d.])(\d[\d,]*(?:\.\d+)?) (ms|s)\b(?!\\\*)(?: for (?:recall )?(0\.\d+))?")
FOREIGN = re.compile(r"\d[\d.]* m?s\\\*(?: for 0\.\d+)?")
KNOWN = re.compile(r"^(?:exact )?graph,? .*(?:Fashion-MNIST|262,144 × 128|400,000 SIFT|1,000,000 × 128|10,000,000 × 96)")


def jobs_of(root):
    return [job for path in sorted((root / "bench/results").glob("report-*.json"))
            for job in json.loads(path.read_text())["jobs"] if job["series"] is None]


def is_rounded(text, value):
    """Whether a figure is that number, rounded to its own digits."""
    digits = len(text.partition(".")[2])
    return abs(float(text.replace(",", "")) - value) <= 0.5000001 * 10.0 ** -digits


def has(job, figure):
    """Whether an engine of the job took that time, and found that recall where one is told."""
    text, unit, recall = figure
    return any(is_rounded(text, engine["seconds"] * (1000.0 if unit == "ms" else 1.0)) and
               (recall is None or engine["recall"] is not None and is_rounded(recall, engine["recall"]))
               for engine in job["engines"] if engine["seconds"] is not None)


def figures_of(line):
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    if "†" in line:
        cells = cells[2:4]  # what was asked, and the floor, are no times that were measured
    return [match.groups() for match in TIME.finditer(FOREIGN.sub("", " | ".join(cells)))]


def check(name, text, jobs):
    wrong = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("| "):
            continue
        figures = figures_of(line)
        cited = "†" in line.split("|")[1] or "(docs/evidence.md)" in line or "(evidence.md)" in line
        if cited and not any(all(has(job, figure) for figure in figures) for job in jobs):
            told = ", ".join(" ".join(part for part in figure if part) for figure in figures)
            wrong.append(f"{name}:{number}: no job of the report has {told} (take the figures of one)")
        elif not cited and figures and KNOWN.match(line[2:]):
            wrong.append(f"{name}:{number}: the report has this graph (name evidence.md, or tell ratios)")
    return wrong


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    pages = [root / "README.md", root / "bench/README.md", *sorted((root / "docs").glob("*.md"))]
    jobs, wrong = jobs_of(root), []
    for page in pages:
        if page.name != "evidence.md":
            wrong += check(page.relative_to(root), page.read_text(), jobs)
    print("\n".join(wrong) if wrong else f"figures: {len(pages) - 1} pages agree with {len(jobs)} jobs of the report")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
