#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The folder that Sphinx reads: make_pages.py FOLDER

docs/*.md and docs/notes/*.md come into it, with their links. Other pages are made of files that stand elsewhere:
README.md is the home page; headers, man pages and docstrings are the reference; examples/gallery
and what its scripts left in build/gallery are the gallery. A link to another file of the
repository leads to a page that shows that file.
"""

import os
import pathlib
import posixpath
import re
import shutil
import sys

import c_reference
import gallery_page
import man_page

ROOT = pathlib.Path(__file__).resolve().parents[2]
# In which order headers are read; one that is not named comes last.
COURSE = [
    "kith",
    "kith_index",
    "kith_points",
    "kith_predict",
    "kith_select",
    "kith_descent",
    "kith_merge",
    "kith_shard",
    "kith_pairs",
    "kith_truth",
    "kith_papers",
    "kith_cuda",
]
HEADERS = sorted(
    (ROOT / "include" / "kith").glob("*.h"),
    key=lambda header: (
        COURSE.index(header.stem) if header.stem in COURSE else len(COURSE),
        header,
    ),
)
MAN = sorted((ROOT / "docs" / "man").glob("*.1"), key=lambda page: (page.stem != "kith", page.stem))
LANGUAGES = {".py": "python", ".c": "c", ".h": "c", ".sh": "bash", ".md": "markdown"}
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.M | re.S)


def header_page(header):
    """kith_select.h is a page, kith_select a function on it: one name must not be both."""
    return f"{header.stem}_h"


# Where in the site a file of the repository is.
PLACES = {
    "README.md": "index.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "examples": "gallery/index.md",
    "examples/gallery": "gallery/index.md",
    "examples/photo_z/README.md": "gallery/photo_z.md",
    **{f"examples/gallery/{name}.py": f"gallery/{name}.md" for name in gallery_page.ORDER},
    **{
        f"include/kith/{header.name}": f"reference/c/{header_page(header)}.md" for header in HEADERS
    },
    **{f"docs/man/{page.name}": f"reference/man/{page.stem}.md" for page in MAN},
}

NOTES = {
    "tour": "A tour of the source",
    "architecture": "Architecture",
    "numerics": "Numerics",
    "performance": "Performance",
    "selection": "Selection, measured",
    "tree": "The tree, inside",
    "descent": "NN-Descent, inside",
    "scale": "Scale, measured and predicted",
    "release": "Making a release",
}

# The contents: a page that is missing is left out, one of docs/ that is not named comes last.
CONTENTS = {
    "Begin": ["start", "overview", "gallery/index", "migration", "python", "gpu", "where"],
    "Guide": [
        "filters",
        "pairs",
        "truth",
        "nn-descent",
        "tree",
        "selection",
        "scale",
        "format",
        "ownership",
        "security",
        "papers",
        "benchmarks",
    ],
    "Reference": ["reference/python", "reference/c/index", "reference/man/index"],
    "Engineering notes": [f"notes/{name}" for name in NOTES],
    "Project": ["project/changelog", "project/contributing"],
}
SHORT = {
    "start": "Five-minute start",
    "overview": "Everything that there is",
    "gpu": "On a GPU",
    "where": "What works where",
    "migration": "Coming from other libraries",
    "python": "Python",
    "papers": "Five papers",
    "selection": "Selection",
    "filters": "Filters and groups",
    "pairs": "Pairs within a distance",
    "truth": "Ground truth for a benchmark",
    "tree": "The tree",
    "nn-descent": "Approximate graphs",
    "scale": "Larger than memory",
    "benchmarks": "Benchmarks",
    "format": "Formats",
    "ownership": "Ownership",
    "security": "Security",
    **{f"notes/{name}": title for name, title in NOTES.items()},
    "project/changelog": "Changes",
    "project/contributing": "Contributing",
}


def toctree(entries, caption=None, hidden=True):
    options = [f":caption: {caption}"] if caption else []
    options += [":hidden:"] if hidden else []
    lines = [f"{SHORT[entry]} <{entry}>" if entry in SHORT else entry for entry in entries]
    return "\n".join(["```{toctree}", *options, "", *lines, "```", ""])


def with_one_title(text):
    """A page with parts of equal rank has one title here: the headings of later ones go down."""
    lines, titles, fenced = [], 0, False
    for line in text.splitlines(keepends=True):
        fenced ^= line.startswith("```")
        titles += not fenced and line.startswith("# ")
        lower = titles > 1 and not fenced and re.match("#+ ", line)
        lines.append("#" + line if lower else line)
    return "".join(lines)


def python_page():
    """The package's names, functions first, in the order of __init__.py."""
    text = (ROOT / "python" / "kith" / "__init__.py").read_text()
    names = re.findall(r'"(\w+)"', re.search(r"__all__ = \[(.*?)\]", text, re.S)[1])
    names = sorted((n for n in names if not n.startswith("_")), key=lambda n: (n[0].isupper(), n))
    out = ["# Python reference", "[kith in Python](../python.md) says what holds for all of it."]
    for name in names:
        kind = "autoclass" if name[0].isupper() else "autofunction"
        members = "\n:members:\n:inherited-members:" if kind == "autoclass" else ""
        out += [f"## {name}", f"```{{eval-rst}}\n.. {kind}:: kith.{name}{indented(members)}\n```"]
    return "\n\n".join(out) + "\n"


def indented(text):
    return text.replace("\n", "\n   ")


def shown_file(path):
    """A page that shows a file of the repository; its own contents are no part of the site's."""
    language = LANGUAGES.get(path.suffix, "text")
    title = path.relative_to(ROOT)
    return f"---\norphan: true\n---\n\n# {title}\n\n`````{language}\n{path.read_text()}`````\n"


class Site:
    """The folder, and the pages that are in it."""

    def __init__(self, folder):
        self.folder = folder

    def write(self, page, text):
        path = self.folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def bring(self, page, path):
        (self.folder / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, self.folder / page)

    def place_of(self, path):
        """Where a file of the repository is shown, which happens now if it was not shown before."""
        if path in PLACES or path.startswith("docs/"):
            return PLACES.get(path, path.removeprefix("docs/"))
        page = f"source/{path}.md"
        if not (ROOT / path).is_file():
            raise SystemExit(f"site: a link leads to {path}, which is no file")
        if not (self.folder / page).exists():
            self.write(page, shown_file(ROOT / path))
        return page

    def led(self, text, page, source):
        """Text of the file `source` with its links as they are from `page`."""

        def replace(match):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
            place = posixpath.relpath(self.place_of(path), posixpath.dirname(page) or ".")
            return place + (match[2] or "")

        parts, last = [], 0
        for code in CODE.finditer(text):
            parts += [LINK.sub(replace, text[last : code.start()]), code[0]]
            last = code.end()
        return "".join([*parts, LINK.sub(replace, text[last:])])

    def add_docs(self):
        shutil.copytree(ROOT / "docs" / "pictures", self.folder / "pictures")
        for path in sorted((ROOT / "docs").rglob("*.md")):
            text = with_one_title(path.read_text())
            page = str(path.relative_to(ROOT / "docs"))
            self.write(page, self.led(text, page, f"docs/{page}"))

    def add_reference(self):
        self.write("reference/python.md", python_page())
        known = c_reference.all_declared(HEADERS)
        for header in HEADERS:
            self.write(f"reference/c/{header_page(header)}.md", c_reference.render(header, known))
        names = [header_page(header) for header in HEADERS]
        self.write(
            "reference/c/index.md",
            "# C reference\n\nFrom the headers of `include/kith`.\n\n"
            + toctree(names, hidden=False),
        )
        for page in MAN:
            self.write(f"reference/man/{page.stem}.md", man_page.render(page))
        self.write(
            "reference/man/index.md",
            "# Command line reference\n\nThe man pages.\n\n"
            + toctree([page.stem for page in MAN], hidden=False),
        )

    def add_gallery(self):
        for page, text in gallery_page.pages(ROOT, self.led).items():
            self.write(page, text)
        for name, picture in gallery_page.pictures(ROOT).items():
            self.bring(f"gallery/{name}", picture)

    def add_project(self):
        for path, page in PLACES.items():
            if path.endswith(".md") and page != "index.md":
                self.write(page, self.led((ROOT / path).read_text(), page, path))

    def add_home(self):
        there = {
            str(path.relative_to(self.folder).with_suffix("")) for path in self.folder.rglob("*.md")
        }
        contents = {
            title: [entry for entry in entries if entry in there]
            for title, entries in CONTENTS.items()
        }
        named = {entry for entries in CONTENTS.values() for entry in entries}
        contents["Project"] += sorted(entry for entry in there - named if "/" not in entry)
        home = self.led((ROOT / "README.md").read_text(), "index.md", "README.md")
        trees = [toctree(entries, caption) for caption, entries in contents.items() if entries]
        self.write("index.md", "\n".join([home, *trees]))


def main():
    folder = pathlib.Path(sys.argv[1])
    if folder.exists():
        shutil.rmtree(folder)
    os.makedirs(folder)
    site = Site(folder)
    site.add_docs()
    site.add_reference()
    site.add_gallery()
    site.add_project()
    site.add_home()


if __name__ == "__main__":
    main()
