#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fail where docs/papers.md names what is not there: check_papers.py [ROOT]

Everything between backticks on that page is a file, a name of C's headers or of the Python package, a command
with its options and keys of --tune, or a value that a man page has. Pages that lead a reader to it do so."""
import pathlib
import re
import sys

LEADS = ("README.md", "docs/start.md", "include/kith/kith.h")
OPTION = re.compile(r"^--[\w-]+$|^-\w$")


class Known:
    """What there is to be named."""

    def __init__(self, root):
        self.root = root
        self.headers = "\n".join(path.read_text() for path in (root / "include/kith").glob("*.h"))
        self.pages = {path.stem: re.sub(r"\\f.", " ", path.read_text().replace("\\-", "-"))
                      for path in (root / "docs/man").glob("*.1")}
        exports = (root / "python/kith/__init__.py").read_text().partition("__all__ = [")[2].partition("]")[0]
        self.python = set(re.findall(r'"(\w+)"', exports))
        methods = re.findall(r"KITH_\w+_MAP\(X\)((?:.*\\\n)+.*)", self.headers)
        self.named = {word for body in methods for word in re.findall(r"X\(\w+, \d+, (\w+)", body)}

    def in_pages(self, text):
        return any(re.search(rf"(?<![\w-]){re.escape(text)}(?![\w-])", page) for page in self.pages.values())

    def has_c(self, name):
        rows = {f"KITH_SELECT_{word.upper()}" for word in self.named} | {
            f"KITH_{kind}_{word.upper()}" for kind in ("PIPELINE", "METHOD") for word in self.named}
        return re.search(rf"\b{name}\b", self.headers) is not None or name in rows

    def wrong_words(self, words):
        """The words of a command, or of its options and values, that no man page has."""
        for before, word in zip([""] + words, words):
            if before == "--tune":
                for pair in word.split(","):
                    key, _, value = pair.partition("=")
                    if not self.in_pages(key + "=") and not self.in_pages(key):
                        yield key
                    if value and not value.isupper() and value not in self.named and not self.in_pages(value):
                        yield value
            elif not word.isupper() and word not in ("mpirun", "kith") and not word.isdigit():
                if not (word in self.named or word in self.pages or self.in_pages(word)):
                    yield word

    def wrong(self, code):
        if re.fullmatch(r"[\w.]+(?:/[\w.-]+)+", code):
            return [] if (self.root / code).exists() else [code]
        if re.fullmatch(r"(?:kith|KITH)_\w+", code):
            return [] if self.has_c(code) else [code]
        if re.fullmatch(r"kith\.\w+", code):
            return [] if code[5:] in self.python else [code]
        if re.fullmatch(r"torch\.\w+", code):
            return []
        if re.fullmatch(r'\w+=(?:True|False|"\w+"|\{.*\})?', code):
            key = code.partition("=")[0]
            found = any(re.search(rf"\b{key}\b", path.read_text()) for path in (self.root / "python/kith").glob("*.py"))
            return [] if found or self.in_pages(key + "=") or self.in_pages(key) else [code]
        if code.startswith("kith_…") or "…" in code:
            return []
        return list(self.wrong_words(code.split()))


def check(root):
    known = Known(root)
    wrong = []
    for number, line in enumerate((root / "docs/papers.md").read_text().split("\n"), 1):
        for code in re.findall(r"`([^`]+)`", line):
            wrong += [f"docs/papers.md:{number}: there is no {word}" for word in known.wrong(code)]
        for link in re.findall(r"\]\(([^)#]+)", line):
            if not (root / "docs" / link).exists():
                wrong.append(f"docs/papers.md:{number}: there is no page {link}")
    for page in LEADS:
        if "papers.md" not in (root / page).read_text():
            wrong.append(f"{page}: does not name docs/papers.md")
    return wrong


def main():
    wrong = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(wrong) if wrong else "papers: every name on docs/papers.md is there")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
