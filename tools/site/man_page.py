# SPDX-License-Identifier: Apache-2.0
"""A page of the site from a man page: of roff what docs/man uses, an error for all else."""

import html
import re

FONTS = {"B": "b", "I": "i"}


def inline(text):
    """Text of roff as HTML: \\fB and \\fI, \\- and \\&."""
    text = html.escape(text.replace(r"\&", "").replace(r"\-", "-"), quote=False)
    text = re.sub(r"\\fB(.*?)\\f[RP]", r"<code>\1</code>", text)
    text = re.sub(r"\\fI(.*?)\\f[RP]", r"<var>\1</var>", text)
    if "\\" in text:
        raise ValueError(f"roff that is not known here: {text}")
    return text


def word(font, text):
    text = inline(text)
    return {"B": f"<code>{text}</code>", "I": f"<var>{text}</var>", "R": text}[font]


def fonts_line(macro, rest):
    """.B words, .BR word word ...: one font, or two that take turns without a space between."""
    if len(macro) == 1:
        return word(macro, rest.replace('"', ""))
    words = [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|(\S+)', rest)]
    if macro == "BR" and words[0].startswith("kith") and words[1:] and words[1].startswith("(1)"):
        name = words[0].replace(r"\-", "-")
        return f'<a href="{name}.html">{name}(1)</a>{inline(words[1][3:])}'
    return "".join(word(macro[i % 2], text) for i, text in enumerate(words))


class Page:
    """What was written so far, and what is open: a paragraph, a list's entry."""

    def __init__(self):
        self.out, self.text, self.term, self.listed = [], [], False, False

    def flush(self):
        if self.text:
            tag = "dd" if self.listed else "p"
            self.out.append(f"<{tag}>{' '.join(self.text)}</{tag}>")
        self.text = []

    def end_list(self):
        self.flush()
        if self.listed:
            self.out.append("</dl>\n")
        self.listed = False

    def begin_term(self):
        self.flush()
        if not self.listed:
            self.out.append("\n<dl>")
        self.listed = self.term = True

    def add(self, text):
        if self.term:
            self.out.append(f"<dt>{text}</dt>")
            self.term = False
        else:
            self.text.append(text)


def render(path):
    """The man page at path as Markdown (headings) and HTML (all else)."""
    page, example = Page(), None
    for line in path.read_text().splitlines():
        macro, _, rest = line[1:].partition(" ") if line.startswith(".") else ("", "", line)
        if macro == "fi":
            page.out.append("\n```sh\n" + "\n".join(example) + "\n```\n")
            example = None
        elif example is not None:
            example.append(line.replace(r"\-", "-").replace(r"\&", ""))
        elif macro == r"\"":
            continue
        elif macro == "TH":
            page.out.append(f"# {path.stem.replace('-', ' ')}\n")
        elif macro == "SH":
            page.end_list()
            page.out.append(f"\n## {rest.strip(chr(34)).capitalize()}\n")
        elif macro in ("PP", "IP"):
            page.end_list()
        elif macro == "TP":
            page.begin_term()
        elif macro == "br":
            page.add("<br>")
        elif macro == "nf":
            page.end_list()
            example = []
        elif macro in ("B", "I", "BR", "IR", "RB", "RI"):
            page.add(fonts_line(macro, rest))
        elif macro:
            raise ValueError(f"{path}: .{macro} is not known here")
        elif line.strip():
            page.add(inline(rest))
    page.end_list()
    return "\n".join(page.out) + "\n"
