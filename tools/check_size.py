#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Source files stay short: a warning above 500 lines, a failure above 800. check_size.py FOLDER"""
import pathlib
import sys

SOFT = 500
HARD = 800
SUFFIXES = {".c", ".h", ".cu", ".cuh", ".inc", ".py", ".sh"}
FOLDERS = ("src", "include", "cli", "python", "tests", "bench", "examples", "tools")


def main():
    root = pathlib.Path(sys.argv[1])
    files = [p for f in FOLDERS for p in sorted((root / f).rglob("*")) if p.suffix in SUFFIXES]
    lines = {p.relative_to(root): len(p.read_text().splitlines()) for p in files}
    for path, count in lines.items():
        if count > HARD:
            print(f"{path}: {count} lines, the limit is {HARD}")
        elif count > SOFT:
            print(f"{path}: {count} lines, better below {SOFT}")
    print(f"size: {len(lines)} files, the longest has {max(lines.values())} lines")
    return 1 if max(lines.values()) > HARD else 0


if __name__ == "__main__":
    sys.exit(main())
