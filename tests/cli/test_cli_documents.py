# SPDX-License-Identifier: Apache-2.0
"""Man pages and completion say what the program says: its own --help is the measure."""
import re
import subprocess

import cli_support as support
from cli_support import COMMANDS, METRICS, TUNED, CliCase


def options_of(text):
    """Every option that a help text has a line for."""
    lines = r"^(?:Text|Filter): .*\n"
    text, named = re.sub(lines, "", text, flags=re.MULTILINE), re.findall(lines, text, re.MULTILINE)
    words = re.findall(r"^  ((?:-\w, )?--[\w-]+|-\w)\b", text.split("\nExamples:\n")[0], re.MULTILINE)
    return {option for word in words for option in word.split(", ")} | set(
        re.findall(r"--[\w-]+", " ".join(named)))


def keys_of(text):
    """Every key of --tune, with = where it has a value."""
    return set(re.findall(r"^  ([\w-]+=?)", text, re.MULTILINE))


class Documents(CliCase):
    def page(self, name):
        path = support.SOURCE / "docs" / "man" / f"{name}.1"
        return path.read_text().replace("\\-", "-")

    def test_man_pages(self):
        """the man page of each command has its options, no more and no fewer"""
        for command in COMMANDS:
            page = self.page(f"kith-{command}")
            block = page.split(".SH OPTIONS\n")[1].split("\n.SH ")[0]
            tagged = re.findall(r"\.TP\n(.*)", block)
            found = {option for line in tagged for option in re.findall(r"(?<![\w-])--?[\w-]+",
                                                                        re.sub(r"\\f.", " ", line))}
            self.assertEqual(found, options_of(self.works(command, "--help")), command)

    def test_man_tuning(self):
        """... and the keys of its --tune"""
        for command in TUNED:
            block = self.page(f"kith-{command}").split(".SH TUNING\n")[1].split("\n.SH ")[0]
            found = {re.sub(r"\\f.", "", line).split("=")[0] for line in re.findall(r"\.TP\n(.*)", block)}
            keys = keys_of(self.works(command, "--tune", "help"))
            self.assertEqual(found, {key.rstrip("=") for key in keys}, command)

    def test_man_page_of_kith(self):
        """kith.1 has every command, and the exit codes"""
        page = self.page("kith")
        for command in COMMANDS:
            self.assertIn(f".B kith {command}\n", page)
        self.assertIn("0 done, 1 failed, 2 wrong usage, 130 interrupted", page)

    def test_lists_of_formats(self):
        """pages and completion list the formats that there are, as the rows of KITH_FILE_MAP have them"""
        read = re.search(r"read from\n +(\..*)\n", self.works("--help"))[1]
        points, results = re.findall(r"^  (?:points|results) +(\..*)$", self.works("convert", "--help"), flags=re.M)
        names = re.search(r"--format NAME +(.*), by", self.works("graph", "--help"))[1]
        convert, kith = (self.page(name) for name in ("kith-convert", "kith"))
        for page, what in ((convert, points), (convert, results), (kith, read), (kith, results)):
            self.assertIn(f"\n\\&{what}\n", page)
        overview = (support.SOURCE / "docs" / "overview.md").read_text()
        self.assertIn(f"| points in | `{read}` |", overview)
        self.assertIn(f"| answers out | `{results}` ", overview)
        self.assertEqual(self.complete("kith", "graph", "--format", ""), set(names.split()))
        print(f"pages have {len(read.split())} formats of points, {len(results.split())} of answers, "
              f"{len(names.split())} names")

    def test_man_examples(self):
        """the examples of the man pages are those of --help"""
        for command in COMMANDS:
            lines = self.page(f"kith-{command}").split(".SH EXAMPLES\n.nf\n")[1].split(".fi")[0]
            text = self.works(command, "--help").split("Examples:\n")[1]
            self.assertEqual(lines.split("\n"), [line.strip() for line in text.split("\n")])

    def complete(self, *words):
        script = support.SOURCE / "tools" / "completion" / "kith.bash"
        quoted = " ".join(f"'{word}'" for word in words)
        program = (f"source '{script}'; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
                   "_kith; printf '%s\\n' \"${COMPREPLY[@]}\"")
        done = subprocess.run(["bash", "-c", program], cwd=self.folder, capture_output=True,
                              text=True, check=True)
        return {word for word in done.stdout.split("\n") if word}

    def test_completion(self):
        """bash completes the commands, each command's options, and the names that values have"""
        self.assertEqual(self.complete("kith", ""), {*COMMANDS, "help", "--help", "--version"})
        for command in COMMANDS:
            self.assertEqual(self.complete("kith", command, "-"),
                             options_of(self.works(command, "--help")), command)
        for command in TUNED:
            self.assertEqual(self.complete("kith", command, "--tune", ""),
                             keys_of(self.works(command, "--tune", "help")) | {"help"}, command)
        self.assertEqual(self.complete("kith", "graph", "--tune", "rou"), {"rounds="})
        self.assertEqual(self.complete("kith", "graph", "--metric", ""), set(METRICS))
        self.assertEqual(self.complete("kith", "graph", "p", "--metric", "co"),
                         {"cosine", "correlation"})
        self.assertEqual(self.complete("kith", "help", "g"), {"graph"})
        self.points("points.u8bin")
        self.assertEqual(self.complete("kith", "graph", "poi"), {"points.u8bin"})


class Reports(CliCase):
    def test_lines(self):
        """a line of a report names fields that stand beside it"""
        calls = 0
        for path in sorted((support.SOURCE / "cli").glob("*.c")):
            for call in re.findall(r"\bcli_tell(?:_more|_object)?\((&?r|&?to),(.*?)\);", path.read_text(), re.DOTALL):
                texts = re.findall(r'"((?:[^"\\]|\\.)*)"', call[1])
                named = set(re.findall(r"\{(\w+)[},~:]", "".join(texts)))
                self.assertLessEqual(named, {text.lstrip(".") for text in texts}, f"{path.name}: {call[1]}")
                calls += len(named) > 0
        self.assertGreater(calls, 50)


if __name__ == "__main__":
    support.main()
