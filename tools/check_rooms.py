#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hold the dependency law: check_rooms.py FOLDER

A file in src/ROOM includes only rooms that src/ROOMS allows it and include/kith. The command and the
examples include include/kith and their own files. CUDA headers appear in src/gpu and in .cu and .cuh
files alone. No two source files have the same name.
"""
import collections
import pathlib
import re
import sys

SUFFIXES = {".c", ".h", ".cu", ".cuh", ".inc", ".def"}
OUTSIDE = ("cli", "examples", "bench/whole")
INCLUDE = re.compile(r'\s*#\s*include\s+(["<])([^">]+)[">]')


def read_law(path):
    lines = (line.split("#")[0].split() for line in path.read_text().splitlines())
    return {words[0]: set(words[1:]) | {words[0]} for words in lines if words}


def sources(folder):
    return sorted(p for p in folder.rglob("*") if p.suffix in SUFFIXES) if folder.is_dir() else []


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if found := INCLUDE.match(line):
            yield number, found[1], found[2]


def complaints(root):
    src = root / "src"
    law = read_law(src / "ROOMS")
    for path in sources(src):
        room = path.relative_to(src).parts[0]
        if room not in law:
            yield f"{path}: room '{room}' is not in src/ROOMS"
            continue
        for number, quote, name in includes(path):
            other = name.split("/")[0] if "/" in name else room
            if quote == '"' and other in law and other not in law[room]:
                yield f"{path}:{number}: room '{room}' may not include '{other}'"
            if quote == '"' and ".." in pathlib.PurePath(name).parts:
                yield f"{path}:{number}: an include names its room, not '..'"
            if name.startswith("cuda") and path.suffix in {".c", ".h"} and room != "gpu":
                yield f"{path}:{number}: CUDA header outside src/gpu and .cu, .cuh files"
    for folder in OUTSIDE:
        for path in sources(root / folder):
            for number, quote, name in includes(path):
                if quote == '"' and "/" in name and not name.startswith("kith/"):
                    yield f"{path}:{number}: {folder} may include kith/ and its own files only"
    places = collections.defaultdict(list)
    for folder in ("src", "cli", "tests", "bench", "examples"):
        for path in sources(root / folder):
            places[path.name].append(str(path.relative_to(root)))
    for name, paths in sorted(places.items()):
        if len(paths) > 1:
            yield f"{name}: the same file name in {' and '.join(paths)}"


def main():
    found = list(complaints(pathlib.Path(sys.argv[1])))
    print("\n".join(found) if found else "rooms: every include is allowed, every file name is unique")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
