# SPDX-License-Identifier: Apache-2.0
"""What stands between markers on the pages of docs is what the programs of bench/whole make of bench/results:
no figure was typed, none is older than its file. Needs nothing but Python."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from forged_results import ROOT

MADE = {
    "plot_select.py": ("selection.md", "notes/selection.md"),
    "plot_tree.py": ("tree.md", "notes/tree.md"),
    "plot_descent.py": ("nn-descent.md", "notes/descent.md"),
    "plot_merge.py": ("notes/scale.md",),
    "plot_scale.py": ("notes/scale.md",),
    "scale_model.py": ("notes/scale.md",),
    "pipeline_tables.py": ("notes/selection.md",),
}
WITHOUT_PICTURES = ("scale_model.py", "pipeline_tables.py")


class Pages(unittest.TestCase):
    def test_tables_are_those_of_the_results(self):
        for program, names in MADE.items():
            with tempfile.TemporaryDirectory() as folder, self.subTest(program):
                pages = [pathlib.Path(folder, name) for name in names]
                for page, name in zip(pages, names):
                    page.parent.mkdir(exist_ok=True)
                    shutil.copyfile(ROOT / "docs" / name, page)
                pictures = [] if program in WITHOUT_PICTURES else ["--pictures", ""]
                subprocess.run(
                    [
                        sys.executable,
                        ROOT / "bench/whole" / program,
                        *pictures,
                        "--markdown",
                        *pages,
                    ],
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
                for page, name in zip(pages, names):
                    self.assertEqual(
                        page.read_text(),
                        (ROOT / "docs" / name).read_text(),
                        f"run {program}: {name}",
                    )

    def test_the_guide_has_no_commits_and_the_notes_have(self):
        for name in ("benchmarks", "nn-descent", "selection", "tree"):
            self.assertNotIn(", commit ", (ROOT / "docs" / f"{name}.md").read_text())
        for name in ("selection", "tree"):
            self.assertIn(", commit ", (ROOT / "docs" / "notes" / f"{name}.md").read_text())
