#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every C example of every page compiles without a warning and runs: check_snippets.py CC LIBKITH

A block that has main() is a program. Another is a fragment: its functions, each from a line that begins with "static"
to one that is "}", stand before main() of tools/snippet_frame.c, its other lines inside, where ctx, points, queries,
out and the other things of the caller are there. A fragment fails where its last call does.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ("*.md", "docs/**/*.md", "examples/**/*.md", "bench/*.md")
BLOCK = re.compile(r"^```c\n(.*?)^```$", re.M | re.S)
FUNCTION = re.compile(r"^static .*?^}$\n", re.M | re.S)
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Werror"]


def program_of(code, first_line, page):
    """The text of a program, whose errors are told in lines of the page."""
    if re.search(r"^int main\(", code, re.M):
        return f'#line {first_line} "{page}"\n{code}'
    functions = "".join(FUNCTION.findall(code))
    statements = FUNCTION.sub(lambda found: "\n" * found[0].count("\n"), code)
    frame = (ROOT / "tools" / "snippet_frame.c").read_text()
    lines = f'#line {first_line} "{page}"\n'
    return frame.replace("FUNCTIONS;\n", lines + functions).replace("STATEMENTS;\n", lines + statements)


def check(compiler, library, page, number, found, folder):
    """One block: compiled, and run in a folder of its own that has the examples."""
    name = page.relative_to(ROOT)
    first_line = page.read_text()[: found.start(1)].count("\n") + 1
    work = pathlib.Path(folder, f"{page.stem}-{number}")
    work.mkdir()
    (work / "examples").symlink_to(ROOT / "examples")
    source, program = work / "snippet.c", work / "snippet"
    source.write_text(program_of(found[1], first_line, name))
    compiled = [compiler, *WARNINGS, f"-I{ROOT / 'include'}", source, library, f"-Wl,-rpath,{library.parent}", "-lm"]
    for command in ([*compiled, "-o", program], [program]):
        ran = subprocess.run(command, cwd=work, capture_output=True, text=True)
        if ran.returncode != 0:
            return f"{name}:{first_line}: the C example does not {'run' if command == [program] else 'compile'}\n" + (
                ran.stdout + ran.stderr)
    return None


def main():
    compiler, library = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    wrong, ran = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for page in sorted({page for pattern in PAGES for page in ROOT.glob(pattern)}):
            for number, found in enumerate(BLOCK.finditer(page.read_text())):
                wrong.append(check(compiler, library, page, number, found, folder))
                ran[page.name] = number + 1
    wrong = [text for text in wrong if text]
    print("".join(wrong), end="", file=sys.stderr)
    if "README.md" not in ran:
        sys.exit("snippets: README.md has no C example")
    print(f"snippets: {sum(ran.values())} C examples of {len(ran)} pages, {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
