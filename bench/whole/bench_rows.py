# SPDX-License-Identifier: Apache-2.0
"""Rows of bench/results, as the scripts that measure append them, and where a row was measured."""
import csv
import pathlib
import platform
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def append(path, columns, rows):
    """A new file gets its heading; without a path nothing is kept."""
    if path is None or not rows:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists() or path.stat().st_size == 0
    with open(path, "a", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, columns, lineterminator="\n")
        if is_new:
            table.writeheader()
        table.writerows(rows)


def processor_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            return next(line.split(":", 1)[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def commit_name():
    """With a + where the library's sources are not those of the commit."""
    def git(*words):
        done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    name = git("rev-parse", "--short", "HEAD") or "unknown"
    return name + "+" if git("status", "--porcelain", "--", "src", "include", "cli", "CMakeLists.txt") else name
