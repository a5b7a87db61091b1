#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hold the law of the house, and print its counts: check_house.py FOLDER

Rooms     a file in src/ROOM includes only rooms that src/ROOMS allows it, and include/kith. The command and the
          examples include include/kith and their own files. CUDA headers appear in src/gpu and in .cu and .cuh
          files alone. No two source files have the same name.
Links     git keeps none: a link points to a path of whoever made it.
Circles   a unit is a file's stem (x.c, x.cu and x.h are one). No unit reaches itself by includes or, in src, by
          calls: what uses another stands above it.
Calls     no function has more than six parameters; a struct has names, a seventh argument has a place. A function
          that leaves its file is used by another one, or by a test.
Sentences what is said to a person is not read by a program: kith_ctx_where has the fields.
Names     a file that a comment of src or a page of docs names is there.
Sizes     a file of src has 60 to 600 lines, unless its head says why it is "short because" or "long because";
          files elsewhere end at 800. Lines of pages have 120 columns, but for tables, code and what is generated.

What the tree does not meet yet stands in LIMITS with its goal. A limit only falls: who lowers a count lowers
the limit with it, and who must raise one says why in the commit. check_house.py FOLDER COUNT lists what is behind a count.
"""
import collections
import pathlib
import re
import subprocess
import sys

SUFFIXES = (".c", ".h", ".cu", ".cuh", ".inc", ".def")
OUTSIDE = ("cli", "examples", "bench/whole")
FOLDERS = ("src", "include", "cli", "python", "tests", "bench", "examples", "tools")
LENGTH_SRC = (60, 600)
LENGTH = 800
PARAMETERS = 6
WIDTH = 120
INCLUDE = re.compile(r'\s*#\s*include\s+(["<])([^">]+)[">]')
REASON = re.compile(r"\b(short|long)\s+because\b")

# name: (limit, goal)
LIMITS = {
    "code_lines_src": (93952, 58000),
    "files_src": (422, 350),
    "files_below_40_lines": (40, 40),
    "files_of_odd_length": (40, 40),
    "headers_src": (130, 130),
    "circles_src": (0, 0),
    "circles_cli": (0, 0),
    "circles_python": (0, 0),
    "call_circles_src": (0, 0),
    "functions_with_more_than_6_parameters": (20, 20),
    "public_functions": (75, 75),
    "public_functions_with_more_than_6_parameters": (0, 0),
    "functions_used_by_one_file_percent": (49, 25),
    "functions_used_by_no_file": (0, 0),
    "includes_said_twice": (0, 0),
    "names_of_no_file": (0, 0),
    "sentences_that_are_read": (0, 0),
    "long_lines_of_pages": (0, 0),
    "kernels_of_other_names": (0, 0),
}


def files_below(folder, suffixes):
    found = folder.rglob("*") if folder.is_dir() else []
    return sorted(p for p in found if p.suffix in suffixes and "build" not in p.parts[len(folder.parts):])


# --- rooms ---------------------------------------------------------------------------------------------------


def read_law(path):
    lines = (line.split("#")[0].split() for line in path.read_text().splitlines())
    return {words[0]: set(words[1:]) | {words[0]} for words in lines if words}


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if found := INCLUDE.match(line):
            yield number, found[1], found[2]


def wrong_rooms(root):
    src = root / "src"
    law = read_law(src / "ROOMS")
    for path in files_below(src, SUFFIXES):
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
        for path in files_below(root / folder, SUFFIXES):
            for number, quote, name in includes(path):
                if quote == '"' and "/" in name and not name.startswith("kith/"):
                    yield f"{path}:{number}: {folder} may include kith/ and its own files only"
    places = collections.defaultdict(list)
    for folder in ("src", "cli", "tests", "bench", "examples"):
        for path in files_below(root / folder, SUFFIXES):
            places[path.name].append(str(path.relative_to(root)))
    for name, paths in sorted(places.items()):
        if len(paths) > 1:
            yield f"{name}: the same file name in {' and '.join(paths)}"


def committed_links(root):
    if (root / ".git").exists():
        listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", root, "ls-files", "--stage"],
                                capture_output=True, text=True, check=True)
        for line in listed.stdout.splitlines():
            if line.startswith("120000"):
                yield f"{line.split(maxsplit=3)[3]}: a link is committed"


# --- text of C, without a compiler ---------------------------------------------------------------------------


def bare(text):
    """Without comments; strings emptied, lines kept."""
    def keep(found):
        return "\n" * found[0].count("\n") if found[0][0] == "/" else '""'
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', keep, text, flags=re.S)


def count_parameters(inside):
    depth, count = 0, 0 if inside.strip() in ("", "void") else 1
    for char in inside:
        depth += (char in "(<[") - (char in ")>]")
        count += char == "," and depth == 0
    return count


def definitions(text):
    """(what stands before the name, name, number of parameters) of every function defined at the start of a line."""
    text = re.sub(r"__launch_bounds__\([^()]*\)", "", text)
    for found in re.finditer(r"^([A-Za-z_][\w\s\*]*?)\b(\w+)\(([^;{}]*)\)\s*\{", text, flags=re.M):
        yield found[1], found[2], count_parameters(found[3])


def declarations(text):
    """(name, number of parameters) of every public function."""
    for found in re.finditer(r"^KITH_API\b[^;(]*?(\w+)\(([^;]*)\)\s*(?:KITH_\w+(?:\([^)]*\))?\s*)*;", text, flags=re.M):
        yield found[1], count_parameters(found[2])


# --- circles -------------------------------------------------------------------------------------------------


def circles(edges):
    """The strongly connected parts of more than one unit, the largest first (Tarjan)."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []

    def visit(unit):
        index[unit] = low[unit] = len(index)
        stack.append(unit)
        on_stack.add(unit)
        for other in sorted(edges.get(unit, ())):
            if other not in index:
                visit(other)
                low[unit] = min(low[unit], low[other])
            elif other in on_stack:
                low[unit] = min(low[unit], index[other])
        if low[unit] == index[unit]:
            part = stack[stack.index(unit):]
            del stack[-len(part):]
            on_stack.difference_update(part)
            if len(part) > 1:
                found.append(sorted(part))

    for unit in sorted(edges):
        if unit not in index:
            visit(unit)
    return sorted(found, key=len, reverse=True)


def include_edges(paths):
    units = {path.stem for path in paths}
    edges = collections.defaultdict(set)
    for path in paths:
        text = path.read_text()
        if path.suffix == ".py":
            pairs = re.findall(r"^\s*from \.(\w+) import|^\s*from \. import (\w+)", text, flags=re.M)
            names = [one or other for one, other in pairs]
        else:
            names = [pathlib.PurePath(name).stem for name in re.findall(r'^#include "([^"]+)"', text, flags=re.M)]
        edges[path.stem].update(name for name in names if name in units and name != path.stem)
    return edges


class Calls:
    """Who uses which function of src that crosses a file, found by name.

    An inline function of a header is its includers' code: what it uses is used by the header. kin_x_##name and
    kin_x_##name##_y are every name that a row of a map makes of them."""

    def __init__(self, texts, rows):
        self.home = {}
        for path, text in texts.items():
            if path.suffix in (".c", ".cu"):
                for before, name, _ in definitions(text):
                    if name.startswith(("kin_", "kith_")) and not re.search(r"\b(static|__global__)\b", before):
                        self.home.setdefault(name, path.stem)
        self.users = collections.defaultdict(set)
        self.edges = collections.defaultdict(set)
        declared = re.compile(r"^[A-Za-z_][\w\s\*]*?\b(\w+)\([^;{}]*\)\s*;", flags=re.M)
        for path, text in texts.items():
            bodies = declared.sub("", text)
            names = set(re.findall(r"\bk(?:in|ith)_\w+", bodies))
            made = re.findall(r"\b(k(?:in|ith)_\w+_)##\w+(?:##(\w+))?", bodies)
            names |= {stem + row + end for stem, end in made for row in rows}
            for name in names:
                home = self.home.get(name)
                if home and home != path.stem:
                    self.users[name].add(path.stem)
                    self.edges[path.stem].add(home)
                elif home and path.suffix in (".h", ".cuh"):
                    self.users[name].add(path.name)


def raw_bare(raw):
    """Without comments; strings as they are."""
    return {path: re.sub(r"/\*.*?\*/|//[^\n]*", lambda found: "\n" * found[0].count("\n"), text, flags=re.S)
            for path, text in raw.items()}


def includes_said_twice(texts):
    """An include that another one of the file brings. What comes first, a contract, may be said; conditions bring
    nothing, but that of a whole file."""
    plain = {str(path).split("/src/")[-1].removeprefix("src/"): text for path, text in texts.items()}
    said = {}
    for name, text in plain.items():
        depth, said[name] = 0, []
        inside = int(bool(re.match(r"\s*#\s*if(ndef KIN_\w+\n#define KIN_|.*_(x86_64|aarch64)__)", text)))
        for line in text.split("\n"):
            depth += bool(re.match(r"\s*#\s*if", line)) - bool(re.match(r"\s*#\s*endif", line))
            if (found := INCLUDE.match(line)) and found[1] == '"' and depth <= inside:
                said[name].append(found[2])

    def brought(name, seen):
        for other in said.get(name, ()):
            if other not in seen:
                seen.add(other)
                brought(other, seen)
        return seen

    brings = {name: brought(name, set()) for name in said}
    for name, names in sorted(said.items()):
        for other in names[1:]:
            if other in said and any(other in brings[third] for third in names if third != other and third in said):
                yield f"{name}: {other}"


# --- the counts ----------------------------------------------------------------------------------------------


def names_of_no_file(root, rooms):
    """(where, name) of every file of a room that is named and is not there."""
    files = {path.name for top in (*FOLDERS, "cli_mpi") for path in files_below(root / top, SUFFIXES)}
    named = re.compile(r"\b((?:" + "|".join(sorted(rooms) + ["cli"]) + r")_\w+\.(?:cuh|cu|c|h|inc))\b")
    pages = files_below(root / "docs", (".md",)) + files_below(root / "src", SUFFIXES) + sorted(root.glob("*.md"))
    for path in pages:
        for name in sorted(set(named.findall(path.read_text(errors="replace")))):
            if name not in files and "_x_" not in name and "_x." not in name:
                yield f"{path.relative_to(root)}: {name}"


BOUNDS = r"(?:__launch_bounds__\((?:[^()]|\([^()]*\))*\)\s*)?"
KERNEL = re.compile(rf"__global__\s+{BOUNDS}void\s+{BOUNDS}(\w+)\s*\(")

READ = {  # what was said to a person is looked into
    ".c": re.compile(r"\b(?:strstr|strn?cmp|strchr|sscanf|memcmp)\([^;]*\b(?:kith_ctx_detail|\w*detail|\w*reason)\b"),
    ".py": re.compile(r"kith_ctx_detail\(|\bstr\((?:error|e|problem)\)|\b(?:error|e|problem)\.args\b(?! = )"),
}


def sentences_that_are_read(root):
    for top in ("src", "cli", "python"):
        for path in files_below(root / top, tuple(READ)):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if READ[path.suffix].search(line):
                    yield f"{path.relative_to(root)}:{number}"


def odd_length(path, text):
    lines = text.count("\n")
    short, long = LENGTH_SRC
    head = "\n".join(text.splitlines()[:30])
    return not short <= lines <= long and not REASON.search(head)


def long_lines_of_pages(root):
    """Prose that is not wrapped; docs/benchmarks.md is generated as a whole."""
    pages = [*root.glob("*.md"), *(p for top in ("docs", "bench", "examples") for p in (root / top).rglob("*.md"))]
    for path in sorted(set(pages) - {root / "docs" / "benchmarks.md"}):
        passed = False  # what stands between fences, or between the marks of what is generated
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith(("```", "<!-- begin", "<!-- end")):
                passed = not passed
            if len(line) > WIDTH and not passed and not line.startswith(("|", "![", "    ")):
                yield f"{path.relative_to(root)}:{number}"


def measure(root):
    """({name: count}, {name: what stands behind it})"""
    counts, behind = {}, {}

    def note(name, items):
        counts[name], behind[name] = len(items), items

    src = files_below(root / "src", SUFFIXES)
    raw = {path: path.read_text() for path in src}
    texts = {path: bare(text) for path, text in raw.items()}
    counts["code_lines_src"] = sum(sum(bool(line.strip()) for line in text.split("\n")) for text in texts.values())
    counts["files_src"] = len(src)
    note("files_below_40_lines", [path.name for path, text in raw.items() if text.count("\n") < 40])
    note("files_of_odd_length", [path.name for path, text in raw.items() if odd_length(path, text)])
    note("headers_src", [path.name for path in src if path.suffix in (".h", ".cuh")])
    for top in ("src", "cli", "python"):
        edges = include_edges(files_below(root / top, SUFFIXES + (".py",)))
        note(f"circles_{top}", [" ".join(part) for part in circles(edges)])
    headers = [bare(path.read_text()) for path in files_below(root / "include", (".h",))]
    calls = Calls(texts, {word for text in [*headers, *texts.values()]
                          for row in re.findall(r"\bX\(([^()]*)\)", text) for word in re.findall(r"\w+", row)})
    note("call_circles_src", [" ".join(part) for part in circles(calls.edges)])
    note("functions_with_more_than_6_parameters",
         [f"{path.name}:{name}({number})" for path, text in texts.items()
          for _, name, number in definitions(text) if number > PARAMETERS])
    public = [pair for text in headers for pair in declarations(text)]
    note("public_functions_with_more_than_6_parameters",
         [f"{name}({number})" for name, number in public if number > PARAMETERS])
    note("public_functions", [name for name, _ in public])
    inner = [name for name in calls.home if name.startswith("kin_")]
    single = sorted(name for name in inner if len(calls.users[name]) == 1)
    counts["functions_used_by_one_file_percent"] = round(100 * len(single) / max(len(inner), 1))
    behind["functions_used_by_one_file_percent"] = single
    outside = " ".join(path.read_text() for top in ("tests", "bench") for path in files_below(root / top, SUFFIXES))
    looked_at = set(re.findall(r"\bkin_\w+", outside))
    note("functions_used_by_no_file", sorted(name for name in inner if not calls.users[name] | ({name} & looked_at)))
    note("kernels_of_other_names", [f"{path.name}: {name}" for path, text in texts.items()
                                    for name in KERNEL.findall(text) if not name.endswith("_kernel")])
    note("includes_said_twice", list(includes_said_twice(raw_bare(raw))))
    note("sentences_that_are_read", list(sentences_that_are_read(root)))
    note("long_lines_of_pages", list(long_lines_of_pages(root)))
    note("names_of_no_file", list(names_of_no_file(root, read_law(root / "src" / "ROOMS"))))
    return counts, behind


def wrong_counts(counts, behind):
    for name, (limit, goal) in LIMITS.items():
        if counts[name] > limit:
            yield f"{name}: {counts[name]}, the limit is {limit} and falls towards {goal}"
            listed = behind.get(name, [])
            if len(listed) <= 40:
                yield from (f"    {item}" for item in listed)


def wrong_lengths(root):
    for folder in FOLDERS:
        for path in files_below(root / folder, SUFFIXES + (".py", ".sh")):
            lines = len(path.read_text().splitlines())
            if lines > LENGTH:
                yield f"{path}: {lines} lines, the limit is {LENGTH}"


def main():
    root = pathlib.Path(sys.argv[1])
    if len(sys.argv) > 2:
        print("\n".join(measure(root)[1][sys.argv[2]]))
        return 0
    counts, behind = measure(root)
    wrong = [*wrong_rooms(root), *committed_links(root), *wrong_lengths(root), *wrong_counts(counts, behind)]
    for name, (limit, goal) in LIMITS.items():
        print(f"{name:46s} {counts[name]:6d}   limit {limit:6d}   goal {goal:6d}")
    print("\n".join(wrong) if wrong else "house: rooms, circles, lengths and counts as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
