# SPDX-License-Identifier: Apache-2.0
"""The C reference of the site has all headers, and a place for every public function; what a browser
sees of pages is judged; the list of a release names what there is."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "site"))
import c_reference  # noqa: E402
import check_looks  # noqa: E402
import make_pages  # noqa: E402


class Reference(unittest.TestCase):
    def test_every_header_has_its_page(self):
        there = sorted(path.name for path in (ROOT / "include" / "kith").iterdir())
        self.assertEqual(sorted(header.name for header in make_pages.HEADERS), there)
        self.assertEqual([header.stem for header in make_pages.HEADERS], make_pages.COURSE)
        for name in there:
            self.assertIn(f"include/kith/{name}", make_pages.PLACES)
        print(f"site: {len(there)} headers have a page")

    def test_every_function_has_a_place(self):
        known = c_reference.all_declared(make_pages.HEADERS)
        pages = [c_reference.render(header, known) for header in make_pages.HEADERS]
        places = re.findall(r"^\((\w+)\)=$", "\n".join(pages), re.M)
        symbols = (ROOT / "debian" / "libkith1.symbols").read_text()
        functions = set(re.findall(r"^ (kith_\w+)@", symbols, re.M))
        self.assertGreater(len(functions), 50)
        self.assertEqual(sorted(functions - set(places)), [])
        self.assertEqual(len(places), len(set(places)))
        print(f"site: {len(functions)} functions, and {len(places) - len(functions)} other names")

    def test_what_a_browser_sees_is_judged(self):
        good = dict(width=390, wide=[], search=1, codes=2, buttons=2, broken=[])
        self.assertEqual(check_looks.complaints(good, [], 390), [])
        for change, said in (
            (dict(width=400), "is 400 wide, the window 390"),
            (dict(wide=["table.wide"]), "table.wide"),
            (dict(search=0), "no field to search in"),
            (dict(buttons=1), "2 blocks of code, 1 buttons"),
            (dict(broken=["a.png"]), "shows nothing of a.png"),
        ):
            found = check_looks.complaints({**good, **change}, [], 390)
            self.assertEqual(len(found), 1)
            self.assertIn(said, found[0])
        self.assertEqual(check_looks.complaints(good, ["a script fails"], 390), ["a script fails"])


class Release(unittest.TestCase):
    def test_what_the_list_of_a_release_names_is_there(self):
        text = (ROOT / "docs" / "notes" / "release.md").read_text()
        files = set(
            re.findall(r"(?<![\w/-])((?:tools|bench|include|debian|\.ci)/[\w./-]*\w)", text)
        )
        self.assertGreater(len(files), 5)
        self.assertEqual([name for name in files if not (ROOT / name).exists()], [])
        targets = set(re.findall(r"\bmake ([a-z-]+)", text))
        there = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
        self.assertEqual(sorted(targets - set(there)), [])
        self.assertIn("docs/notes/release.md", (ROOT / "CONTRIBUTING.md").read_text())
        print(f"release: {len(files)} files and {len(targets)} targets are there")


if __name__ == "__main__":
    unittest.main()
