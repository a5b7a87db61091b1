#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fail where a page gives a figure that bench/results has not: check_figures.py [ROOT]

Times of a line, in prose and in tables, as far as they have two digits or more, are those of one file of bench/results, as
far as they are written out. Not looked at: what stands between markers, since a program made it; code; limits ("in 0.2 s or
less" is "≤ 0.2 s"); others' own times, which have an asterisk. A line that names a graph
which the report made by descent, and its setting or its recall there, has the report's time.

A row of a table that names docs/benchmarks.md as its source, or has a dagger, is of one job of the report
(bench/results/report-*.json): each time in it, and each recall behind a time ("4.6 s for 0.995"), is one of that
job's, as far as it is written out. Times with an asterisk are others' and not looked at. A row about the exact
graph of points that the report has gives no time without naming it."""
import bisect
import collections
import csv
import json
import pathlib
import re
import sys

TIME = re.compile(r"(?<![\d.])(\d[\d,]*(?:\.\d+)?) (ms|s)\b(?!\\\*)(?: for (?:recall )?(0\.\d+))?")
FOREIGN = re.compile(r"\d[\d.]* m?s\\\*(?: for 0\.\d+)?")
ANY_TIME = re.compile(r"(?<![\d.,×≤])(?<!≤ )(\d[\d,]*(?:\.\d+)?) (µs|ms|s|seconds)\b(?!\\?\*)")
UNITS = {"s": 1.0, "seconds": 1.0, "ms": 1e-3, "µs": 1e-6}
MADE = re.compile(r"<!-- begin .*?<!-- end [^\n]*|^```.*?^```$|^    [^\n]*$|`[^`\n]*`", re.M | re.S)
DESCENTS = {  # how pages call them, and what the report does
    r"mixture1m|1,000,000 × 128 \(mixture\)": "descent-cuda-1m",
    r"blob1m": "descent-cuda-blob1m",
    r"mixture10m|10,000,000 × 96": "descent-cuda-10m",
}
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
        cells = cells[1:3]  # the floor is no time that was measured
    return [match.groups() for match in TIME.finditer(FOREIGN.sub("", " | ".join(cells)))]


def times_in(row):
    """Seconds of a row of a file: {column: text}."""
    for name, text in row.items():
        try:
            value = float(text)
        except (TypeError, ValueError):
            continue
        if name in ("microseconds", "p95"):
            yield value * 1e-6
        elif name == "ms":
            yield value * 1e-3
        elif "seconds" in name or name == "floor" or name == "value" and row.get("quantity") in ("seconds", None):
            yield value


def times_of(root):
    """All seconds of each file of results, rising."""
    found = collections.defaultdict(set)

    def walk(part, name):
        if isinstance(part, dict):
            found[name].update(times_in(part))
        for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
            walk(each, name)

    for path in sorted((root / "bench/results").glob("*.json")):
        walk(json.loads(path.read_text()), path.name)
    for path in sorted((root / "bench/results").glob("*.csv")):
        with path.open() as file:
            for row in csv.DictReader(file):
                found[path.name].update(times_in(row))
    return {name: sorted(values) for name, values in found.items()}


def stands_in(times, text, unit):
    half = 0.5000001 * 10.0 ** -len(text.partition(".")[2])
    value = float(text.replace(",", ""))
    at = bisect.bisect_left(times, (value - half) * UNITS[unit])
    return at < len(times) and times[at] <= (value + half) * UNITS[unit]


def written_by_hand(text):
    """Numbered lines without what programs made."""
    return enumerate(MADE.sub(lambda found: "\n" * found[0].count("\n"), text).split("\n"), 1)


def check_prose(name, text, times, jobs):
    wrong = []
    for number, line in written_by_hand(text):
        found = [(value, unit) for value, unit in ANY_TIME.findall(line) if len(value.replace(".", "").strip("0,")) > 1]
        if found and not any(all(stands_in(each, *figure) for figure in found) for each in times.values()):
            told = ", ".join(" ".join(figure) for figure in found)
            wrong.append(f"{name}:{number}: no file of bench/results has {told} (take figures of one run, or tell ratios)")
    wrong += check_descents(name, text, {job["id"]: job for job in jobs if "id" in job})
    return wrong


def check_descents(name, text, jobs):
    """Also of what programs made: one setting of one work has one time. In prose a setting is known by its recall."""
    for number, line in enumerate(text.split("\n"), 1):
        cells = [cell.strip() for cell in line.split("|")]
        shown = [figure for figure in re.findall(r"(?<![\d.,])\d[\d,]*(?:\.\d+)?(?![\d.,]*\d)", line)
                 if len(figure.replace(".", "").strip("0")) > 1]
        for job in (job for pattern, job in DESCENTS.items() if job in jobs and re.search(pattern, line)):
            for engine in jobs[job]["engines"]:
                said = engine["setting"] in cells if line.startswith("|") else f"{engine['recall']:.4f}" in line
                if said and not any(is_rounded(each, engine["seconds"] * scale) for each in shown for scale in (1.0, 1e3)):
                    yield f"{name}:{number}: the report's {job} took {engine['seconds']:.4g} s (take its figure)"


def check(name, text, jobs):
    wrong = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("| "):
            continue
        figures = figures_of(line)
        cited = "†" in line.split("|")[1] or "benchmarks.md)" in line
        if cited and not any(all(has(job, figure) for figure in figures) for job in jobs):
            told = ", ".join(" ".join(part for part in figure if part) for figure in figures)
            wrong.append(f"{name}:{number}: no job of the report has {told} (take the figures of one)")
        elif not cited and figures and KNOWN.match(line[2:]):
            wrong.append(f"{name}:{number}: the report has this graph (name benchmarks.md, or tell ratios)")
    return wrong


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    pages = [root / "README.md", root / "bench/README.md", *sorted((root / "docs").rglob("*.md"))]
    jobs, times, wrong = jobs_of(root), times_of(root), []
    for page in pages:
        if page.name != "benchmarks.md":
            wrong += check(page.relative_to(root), page.read_text(), jobs)
            wrong += check_prose(page.relative_to(root), page.read_text(), times, jobs)
    print("\n".join(wrong) if wrong else f"figures: {len(pages) - 1} pages agree with {len(jobs)} jobs of the report")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
