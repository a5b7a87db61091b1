# SPDX-License-Identifier: Apache-2.0
"""What the documents say about Python is so: their examples run, and in docs/migration.md both sides
of each row find the same neighbours.

FAISS, pynndescent, pykdtree, hnswlib, usearch and Annoy are asked where KITH_PEERS=1 says so and they
are installed; kith's side is run all the same.
"""

import ast
import importlib
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
import warnings

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHELL = re.compile(r"^(?:build/kith|printf) (?!.*--device cuda).*$", re.M)  # a GPU may be missing
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]  # the guide
NEEDED = ("sklearn", "scipy")  # what docs/migration.md's examples want beside NumPy
# What an example wants beside NumPy: by a word in it the module, and None for what is tried elsewhere: on a GPU by
# check_cuda.py, in pipelines by check_pipelines.py.
WANTS = {
    "sklearn": "sklearn",
    "to_csr": "scipy",
    "kith.dask": "dask.array",
    "kith.plot": "matplotlib",
    'device="cuda"': None,
    "umap.": None,
}
# Run where KITH_PEERS=1: one of them compiles for half a minute.
PEERS = re.compile(r"faiss|pynndescent|pykdtree|hnswlib|usearch|annoy")
ALIKE = 0.9  # the share of neighbours that two approximations, or one and the truth, have in common
# How a distance of theirs may follow from ours, and the word with which the page has to say so.
MADE = {
    "": lambda d: d,
    "squared": lambda d: d**2,
    "1 − cos": lambda d: 1 - d,
    "1 − the product": lambda d: 1 - d,
}


def installed(name):
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def result_of(code, names):
    """The value of the last expression of statements."""
    tree = ast.parse(code)
    last = ast.Expression(tree.body.pop().value)
    exec(compile(tree, code, "exec"), names)
    return eval(compile(last, code, "eval"), names)


def rows_of(table):
    """Cells of the rows of a Markdown table, below its head."""
    for line in table.splitlines()[2:]:
        yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def code_in(cell):
    return re.fullmatch(r"`(.*)`", cell)[1].replace(r"\|", "|")


def as_lists(found):
    """Neighbours within a radius, as sorted indices of each row, of any library."""
    if hasattr(found, "offsets"):  # kith
        return [np.sort(part) for part in np.split(found.indices, found.offsets[1:-1])]
    if isinstance(found, tuple) and len(found) == 3:  # FAISS: lims, D, I
        return [np.sort(part) for part in np.split(found[2], found[0][1:-1].astype(int))]
    if isinstance(found, tuple) and found[1].dtype == object:  # scikit-learn
        return [np.sort(part) for part in found[1]]
    return [np.sort(part) for part in found]  # SciPy: lists


def as_table(found):
    """(distances, indices) of what two arrays are, in whichever order."""
    first, second = (np.asarray(part) for part in found)
    return (
        (second, first)
        if first.dtype.kind in "iu" and second.dtype.kind == "f"
        else (first, second)
    )


class TestDocuments(unittest.TestCase):
    def same_table(self, theirs, ours, told):
        (their_d, their_i), (our_d, our_i) = as_table(theirs), as_table(ours)
        if their_i.shape[1] == our_i.shape[1] + 1:
            self.assertIn("point itself", told)
            their_d, their_i = their_d[:, 1:], their_i[:, 1:]
        their_i, our_i = their_i.astype(np.int64), our_i.astype(np.int64)
        if "n there and −1 here" in told:
            their_i[np.isinf(their_d)] = -1
        if "approximate" in told:
            found = [np.isin(ours, theirs) for ours, theirs in zip(our_i, their_i)]
            return self.assertGreaterEqual(np.mean(found), ALIKE)
        np.testing.assert_array_equal(their_i, our_i)
        for word, made in MADE.items():
            if word in told and np.allclose(their_d, made(our_d), rtol=1e-4, atol=1e-6):
                return None
        self.fail(f"distances are {their_d[0, :3]}, ours {our_d[0, :3]}, and the page says: {told}")

    def same(self, theirs, ours, told):
        if hasattr(theirs, "toarray"):
            theirs, ours = theirs.toarray(), ours.toarray()
            if "approximate" in told:
                return self.assertGreaterEqual(np.mean((theirs != 0) == (ours != 0)), ALIKE)
            return np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-6)
        if hasattr(ours, "offsets") or (isinstance(ours, tuple) and ours[1].dtype == object):
            for one, other in zip(as_lists(theirs), as_lists(ours), strict=True):
                np.testing.assert_array_equal(one, other)
            return None
        if isinstance(ours, tuple) and isinstance(theirs, tuple):
            return self.same_table(theirs, ours, told)
        if isinstance(ours, tuple):  # a matrix of theirs: what it has in our places
            return np.testing.assert_allclose(
                np.take_along_axis(theirs, ours.indices, 1), ours.distances, rtol=1e-4, atol=1e-6
            )
        if "order of the pairs" in told:
            theirs, ours = (np.unique(pairs, axis=0) for pairs in (theirs, ours))
        return np.testing.assert_allclose(theirs, ours, rtol=1e-6)

    def check_row(self, names, cells, with_peer):
        theirs, ours, told = cells
        begin = names["rng"].bit_generator.state
        their_result = result_of(code_in(theirs), names) if with_peer else None
        if not with_peer and "D = " in theirs:
            names["D"] = names["rng"].random((40, 300))
        our_result = result_of(code_in(ours), names)
        names["rng"].bit_generator.state = begin
        if with_peer:
            self.same(their_result, our_result, told)

    def test_migration(self):
        if not all(map(installed, NEEDED)):
            self.skipTest("no scikit-learn or SciPy")
        page = (ROOT / "docs" / "migration.md").read_text()
        names, ran, left = {}, 0, []
        for part in re.split(r"(^```python\n.*?^```$|^\| .*?(?=\n\n|\Z))", page, flags=re.M | re.S):
            block = BLOCK.fullmatch(part)
            if block:
                peer = PEERS.search(block[1])
                with_peer = not peer or ("KITH_PEERS" in os.environ and installed(peer[0]))
                if with_peer:
                    exec(compile(block[1], "docs/migration.md", "exec"), names)
                else:
                    left.append(peer[0])
            elif part.startswith("| ") and part.partition("\n")[0].endswith(
                "| kith | what differs |"
            ):
                library = part.split("|")[1].strip()
                for cells in rows_of(part):
                    with self.subTest(library=library, row=cells[0]):
                        self.check_row(names, cells, with_peer and library != "cuVS")
                        ran += 1
        self.assertGreater(ran, 0)
        print(f"docs/migration.md: {ran} rows ran; beside {', '.join(left) or 'nobody'} kith alone")

    def test_examples(self):
        self.addCleanup(os.chdir, pathlib.Path.cwd())
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.chdir(folder.name)
        os.symlink(ROOT / "examples", "examples")  # what pages write stays here
        for page in PAGES:
            if page.name == "migration.md":  # above
                continue
            names, ran, blocks = {}, 0, BLOCK.findall(page.read_text())
            for block in blocks:
                wants = {module for word, module in WANTS.items() if word in block}
                if None not in wants and all(map(installed, wants)):
                    exec(compile(block, page.name, "exec"), names)
                    ran += 1
            if blocks:
                print(f"{page.name}: {ran} of {len(blocks)} examples ran")
                self.assertGreater(ran, 0)

    def test_shell(self):
        command = pathlib.Path(os.environ.get("KITH_PROGRAM", ""))
        if not os.access(command, os.X_OK) or command.is_dir():
            self.skipTest("KITH_PROGRAM does not name the program kith")
        for page in PAGES:
            lines = SHELL.findall(page.read_text())
            with tempfile.TemporaryDirectory() as folder:
                pathlib.Path(folder, "build").symlink_to(command.parent)
                pathlib.Path(folder, "examples").symlink_to(ROOT / "examples")
                for line in lines:
                    ran = subprocess.run(
                        line, shell=True, cwd=folder, capture_output=True, text=True
                    )
                    self.assertEqual(ran.returncode, 0, f"{page.name}: {line}: {ran.stderr}")
            if lines:
                print(f"{page.name}: {len(lines)} commands ran")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    unittest.main()
