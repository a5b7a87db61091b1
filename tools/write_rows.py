#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the lists of pages, completion and Python's help that the rows of the headers say.

write_rows.py [--check]      --check: fail where a list is not what the rows say

A place is a page and the words around its list; what stands between them is written here.
"""
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]


def body(header, name):
    """The lines of a macro, of each machine's where it has several; comments left out."""
    text = re.sub(r"/\*.*?\*/", "", (ROOT / header).read_text(), flags=re.S)
    found = re.findall(rf"^#define {name}(?:\(X\))?\b((?:.*\\\n)*.*)", text, flags=re.M)
    if not found:
        raise ValueError(f"write_rows: {header} has no {name}")
    return " ".join(found).replace("\\\n", " ")


def rows(header, name):
    """Of an X-macro: its columns as words, strings without quotes."""
    return [[word.strip().strip('"') for word in re.split(r',(?=(?:[^"]*"[^"]*")*[^"]*$)', row)]
            for row in re.findall(r"X\(((?:[^()\"]|\"[^\"]*\")*)\)", body(header, name))]


def flags(text):
    """The names of a sum of flags, those that stand for others resolved."""
    names = set()
    for name in re.findall(r"KITH_FILE_\w+", text):
        if name in ("KITH_FILE_POINTS", "KITH_FILE_LISTS", "KITH_FILE_WORDS"):
            names |= flags(body("include/kith/kith_points.h", name))
        names.add(name.removeprefix("KITH_FILE_"))
    return names


def metrics():
    """name -> (aliases, whether it is computed directly), of all but the caller's own. P: a power."""
    kinds = {row[0]: (row[4].split(), row[1] == "DIRECT")
             for row in rows("src/metric/metric_canonical.h", "KIN_METRIC_MAP")}
    return {row[2] + (":P" if row[0] == "MINKOWSKI" else ""): kinds[row[0]]
            for row in rows("include/kith/kith.h", "KITH_METRIC_MAP") if row[0] != "CUSTOM"}


def endings(use):
    return " ".join(f".{row[1]}" for row in rows("include/kith/kith_points.h", "KITH_FILE_MAP") if use in flags(row[3]))


def levels():
    """By family the names of instruction sets, the best last."""
    return {family: [row[1] for row in rows("src/base/base_isa.h", f"KIN_ISA_{family}_MAP")] for family in ("X86", "ARM")}


def screens():
    """The table of the types that the screen of each level computes in."""
    types = {row[2]: [] for row in rows("src/base/base_isa.h", "KIN_PRODUCT_OWN_MAP")}
    for row in rows("src/base/base_isa.h", "KIN_PRODUCT_OWN_MAP"):
        types[row[2]].append(row[1])
    lines = []
    for family in ("X86", "ARM"):
        above = {"PORTABLE": []}
        for row in rows("src/base/base_isa.h", f"KIN_ISA_{family}_MAP"):
            above[row[0]] = above[row[2]] + types.get(row[0], [])
            has = [name for name in ("s8", "bf16", "s16", "f32") if name in above[row[0]]]
            first = [name for name in has if name in ("s8", "bf16")] or has[:1]
            told = f"{' or '.join(first)}, then {', '.join(has[len(first):])}"
            lines.append(f"| {'on ARM ' if family == 'ARM' else ''}`{row[1]}` | {told} |")
    return "\n".join(lines)


def joined(names):
    return ", ".join(names[:-1]) + f" or {names[-1]}" if len(names) > 1 else names[0]


def coded(names, quote="`"):
    return ", ".join(f"{quote}{name}{quote}" for name in names)


def wrapped(text, width, indent):
    return ("\n" + " " * indent).join(textwrap.wrap(text, width - indent, break_on_hyphens=False))


def direct_row(known):
    direct = {name: [each for each in aliases if ":" not in each] for name, (aliases, one) in known.items() if one}
    return f"{coded(direct)} | {'; '.join(coded(aliases) for aliases in direct.values() if aliases)}"


def places():
    """(page, what stands before the list, the list, what stands behind it)."""
    known, isa = metrics(), levels()
    named = [name for name in known if ":" not in name]
    plain = ", ".join(f"{name} (default)" if name == "euclidean" else name for name in known)
    aliases = ", ".join(alias for others, _ in known.values() for alias in others if ":" not in alias)
    methods = ["auto"] + [row[2] for row in rows("include/kith/kith.h", "KITH_SELECT_MAP")
                          + rows("include/kith/kith_papers.h", "KITH_PAPERS_SELECT_MAP")]
    method_list = ", ".join(["auto (default)", *methods[1:]])
    for command in ("graph", "predict", "search"):
        yield (f"docs/man/kith-{command}.1", "How far two points are apart: ", f"{plain}. Aliases: {aliases}. minkowski:P "
               "has a power P of 1 to 3355.4431 in steps of 0.0001, or inf", ".\n")
    for command in ("graph", "search"):
        yield f"docs/man/kith-{command}.1", "With pipeline=matrix, the method of selection: ", method_list, ". See\n"
    yield "docs/man/kith-select.1", "The method: ", method_list, ". auto is"
    yield "docs/man/kith.1", "Forces an instruction set: ", (f"portable; {joined(isa['X86'])}; on ARM {joined(isa['ARM'])}"), ".\n"
    yield "docs/man/kith.1", "Points are read from\n\\&", endings("POINTS_IN"), "\n"
    yield "docs/man/kith.1", "Answers are written to\n\\&", endings("LISTS_OUT"), "\n"
    yield "docs/man/kith-convert.1", "\nPoints\n\\&", endings("POINTS_OUT"), "\n"
    yield "docs/man/kith-convert.1", "\nGraphs and results\n\\&", endings("LISTS_OUT"), "\n"
    yield "docs/overview.md", "| points in | `", endings("POINTS_IN"), "` |"
    yield "docs/overview.md", "| answers out | `", endings("LISTS_OUT"), "` "
    yield "docs/overview.md", "screened |\n| ", direct_row(known), " | direct: every pair"
    yield "docs/overview.md", "| the screen computes in |\n|---|---|\n", screens(), "\n| `portable` |"
    yield "docs/python.md", "- **Metrics**:\n  ", wrapped(coded(named), 120, 2), ";\n"
    yield ("python/kith/_search.py", "metric : str or callable\n        ", wrapped(coded(named, "``"), 100, 8), ",\n        ``mink")
    yield ("python/kith/_select.py", "method : str\n        ``auto`` (the fastest),\n        ",
           wrapped(coded(methods[1:], "``"), 100, 8), ":\n        the same answers.")
    yield "tools/completion/kith.bash", "--metric)\n        echo \"", wrapped(" ".join(known).replace(":P", ":3"), 100, 12), "\"\n"
    yield "tools/completion/kith.bash", "--select)\n        echo \"", wrapped(" ".join(methods), 100, 12), "\"\n"
    formats = " ".join(row[2] for row in rows("include/kith/kith.h", "KITH_FORMAT_MAP"))
    yield "tools/completion/kith.bash", "--format) echo \"", formats, "\" ;;"


def main():
    check, wrong, count = "--check" in sys.argv[1:], [], 0
    for page, before, made, behind in places():
        count += 1
        text = (ROOT / page).read_text()
        at = text.find(before)
        end = text.find(behind, at + len(before))
        if at < 0 or end < 0:
            raise ValueError(f"write_rows: {page} has no list between {before!r} and {behind!r}")
        if text[at + len(before):end] != made:
            wrong.append(page)
            if not check:
                (ROOT / page).write_text(text[:at + len(before)] + made + text[end:])
    for page in sorted(set(wrong)):
        print(f"{page} {'is not what the rows say (tools/write_rows.py writes it)' if check else 'is written'}")
    print(f"{count} lists in {len({place[0] for place in places()})} files are those of the rows")
    return 1 if check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
