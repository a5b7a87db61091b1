# SPDX-License-Identifier: Apache-2.0
"""One work has one time on all pages: tables made of other runs take the report's, where it has the same job."""
import json

# Jobs of the report on a GPU, and what benchmarks with files of their own call the work. All have k = 10.
WORKS = {"descent-cuda-1m": "mixture1m", "descent-cuda-blob1m": "blob1m", "descent-cuda-10m": "mixture10m",
         "tree-cuda-4": "colour 4", "tree-cuda-8": "colour 8", "tree-cuda-10": "colour 10", "tree-cuda-15": "colour 15",
         "search-cuda-uniform12": "uniform 12"}


def known(path):
    """{(work, rows, engine, setting): what a row of another file then has} of a report."""
    report = json.loads(path.read_text())
    found = {}
    for job in report["jobs"]:
        for engine in job["engines"] if job["id"] in WORKS and job["series"] is None else ():
            name = engine["engine"]
            if engine["kith"]:
                key = WORKS[job["id"]], job["rows"], name.replace(" ", "-"), engine["setting"] if name == "kith descent" else ""
                found[key] = {"seconds": engine["seconds"], "machine": report["machine"], "date": job["date"][:10],
                              "commit": engine["commit"], "queries": job["queries"]}
    return found


def take(rows, path):
    """The same rows, with the report's times in place of their own."""
    report = known(path)
    for row in rows.rows:
        there = report.get((row["work"], row["rows"], row["engine"], row.get("setting") or ""))
        if there is None or row["side"] != "cuda" or row["k"] != 10:
            continue
        asked = row.get("queries", there["queries"])
        if asked != there["queries"] and row["engine"] != "kith-exact":
            continue  # all pairs of a part of the queries are told in proportion
        row.update(there, queries=asked, seconds=there["seconds"] * asked / there["queries"])
        if "value" in row:
            row["value"] = 1e9 * there["seconds"] / there["queries"]
    return rows
