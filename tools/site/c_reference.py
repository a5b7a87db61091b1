# SPDX-License-Identifier: Apache-2.0
"""A page of the reference for C from a header: its comments as text, its declarations as code.

The headers are a course that is read from top to bottom, and the page keeps their order: a
section for each `/* ---- N. Title ---- */`, and in it a comment with what stands below it.
"""

import re

SECTION = re.compile(r"^/\* ---- (.*?) -+ \*/$", re.M)
# What a compiler needs and a reader does not.
NOISE = re.compile(
    r"^#ifdef __cplusplus\n.*?^#endif\n|^#if defined\(__GNUC__\)\n.*?^#endif\n"
    r"|^#(?:include|ifndef KITH_\w+_H|define KITH_\w+_H|undef)[^\n]*\n|^#endif\n?\Z",
    re.M | re.S,
)
NAMED = re.compile(
    r"^KITH_API [^(;]*?\b(kith_\w+)\(|^#define (KITH_\w+)"
    r"|^(?:typedef )?(?:struct|enum) (kith_\w+)(?: \{| kith)"
    r"|^typedef .*?\(\*(kith_\w+)\)|^static inline \w+ (kith_\w+)\(",
    re.M,
)
INLINE = re.compile(r"^static inline (\w+ kith_\w+\([^)]*\))\n\{.*?^\}$", re.M | re.S)
NAME = re.compile(r"\b(?:kith|KITH)_\w+(?:\(\))?|\b[a-z_]+\.h\b")


def comment_lines(text):
    """Lines of a comment without their stars, and without the licence's."""
    lines = [re.sub(r"^ ?\* ?", "", line).rstrip() for line in text.splitlines()]
    return [line for line in lines if not line.strip().startswith("SPDX-")]


def as_text(text, known):
    """A comment as Markdown, its names as code that leads to where they are declared."""

    def mark(match):
        name = match[0].removesuffix("()")
        code = f"`{match[0]}`"
        return f"[{code}](#{name})" if name in known else code

    def escape(part):
        return re.sub(r"([*_<>\[\]#|])", r"\\\1", part)

    out, last = [], 0
    text = "\n".join(comment_lines(text)).strip()
    for match in NAME.finditer(text):
        out += [escape(text[last : match.start()]), mark(match)]
        last = match.end()
    return "".join([*out, escape(text[last:])])


def as_code(text):
    text = INLINE.sub(r"\1;", text)
    lines, continued = [], False
    for line in text.splitlines():
        if line.startswith("KITH_API "):
            line, continued = line.removeprefix("KITH_API "), True
        elif continued:
            line = line.removeprefix(" " * 9)
        continued = continued and not line.rstrip().endswith(";") and ";" not in line
        lines.append(line.rstrip())
    return "\n".join(lines).strip()


def declared(code):
    """Names that a piece of code declares, in its order."""
    return list(dict.fromkeys(next(filter(None, match.groups())) for match in NAMED.finditer(code)))


def pieces(body):
    """[(comment, code)]: a comment goes with what stands below it until a blank line."""
    found, comment, code = [], None, []

    def close():
        nonlocal comment, code
        text = "\n".join(code).strip("\n")
        if found and comment is None and INLINE.match(text):  # the default of the struct above
            found[-1] = found[-1][0], found[-1][1] + "\n" + text
        elif comment or text:
            found.append((comment, text))
        comment, code = None, []

    lines = iter(NOISE.sub("", body).splitlines())
    for line in lines:
        if line.startswith("/*"):
            close()
            while not line.endswith("*/"):
                line += "\n" + next(lines)
            comment = line[2:-2]
        elif not line and "{" not in "".join(code[-40:]).rpartition("}")[2]:
            close()
        else:
            code.append(line)
    close()
    return found


def all_declared(headers):
    """Every name of the headers: what a comment may lead to."""
    return {
        name
        for header in headers
        for _, code in pieces(header.read_text())
        for name in declared(code)
    }


def render(header, known):
    """The page of a header; known: all_declared() of all of them."""
    text = header.read_text()
    head = re.match(r"/\*(.*?)\*/", text, re.S)
    told = "\n".join(comment_lines(head[1])).strip("\n")
    out = [f"# {header.name}", f"```text\n{told}\n```"]
    sections = SECTION.split(text[head.end() :])
    for title, body in zip(["", *sections[1::2]], [sections[0], *sections[2::2]]):
        level = "###" if title else "##"
        if title:
            out += [f"## {title}"]
        for comment, code in pieces(body):
            names = declared(code)
            if names:
                more = " …" if names[3:] else ""
                heading = ", ".join(f"`{name}`" for name in names[:3]) + more
                out += ["\n".join(f"({name})=" for name in names) + f"\n{level} {heading}"]
            if comment:
                out += [as_text(comment, known)]
            if code.strip():
                out += [f"```c\n{as_code(code)}\n```"]
    return "\n\n".join(out) + "\n"
