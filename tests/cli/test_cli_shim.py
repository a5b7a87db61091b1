# SPDX-License-Identifier: Apache-2.0
"""What a system may do to a program that reads and writes: give and take a part of what is asked,
interrupt (EINTR), kill (SIGKILL) at any call that changes a file or a name. Outputs have the same
bytes; a killed job leaves the old file or the new one, and its next start leaves nothing else."""
import os
import signal
import shutil
import unittest

import cli_support as support
from cli_support import CliCase

SHIM = os.environ.get("KITH_SHIM_LIBRARY", "")

# Each writes files. What one writes another reads.
JOBS = (
    *(f"graph points.u8bin -k 5 -o graph.{ending}" for ending in
      ("npz", "kith", "knn", "ivecs")),
    "graph points.u8bin -k 5 -o graph.ibin --distances graph.fbin",
    "graph points.u8bin -k 5 --format csr -o csr.npz",
    "graph points.u8bin --radius 90 -o near.npz",
    "graph points.u8bin -k 5 --symmetric union -o both.npz",
    "graph points.u8bin -k 5 --method descent -o descent.npz",
    *(f"convert points.u8bin p.{ending}" for ending in
      ("fvecs", "fbin", "npy", "csv", "tsv", "kith", "bvecs")),
    *(f"graph p.{ending} -k 5 -o from-{ending}.ivecs" for ending in
      ("fvecs", "fbin", "npy", "csv", "tsv", "kith", "bvecs")),
    *(f"convert graph.{ending} again-{ending}.kith" for ending in ("npz", "knn", "ivecs", "ibin")),
    "search points.u8bin queries.u8bin -k 5 --both -o x.npz --output-back y.npz",
    "search points.u8bin queries.u8bin -k 5 --mutual -o pairs.csv",
    *(f"search points.u8bin queries.u8bin -k 5 --chunk 37 -o stream.{ending}" for ending in
      ("npz", "kith", "knn", "ivecs", "ibin")),
    "search graph.kith points.u8bin queries.u8bin -k 5 -o walks.npz",
    "graph points.u8bin -k 64 --shards work --tune shard-count=3,parts=2 -o parts.kith",
    "convert parts.kith joined.kith",
    "index build --method tree points.u8bin -o tree.kith",
    "search tree.kith queries.u8bin -k 5 -o by-tree.npz",
    "graph queries.u8bin -k 5 -o other.kith",
    "merge graph.kith points.u8bin other.kith queries.u8bin --exact -o merged.kith "
    "--points-out merged.u8bin",
    "add graph.kith points.u8bin queries.u8bin -o added.kith",
    "remove graph.kith points.u8bin ids.csv -o removed.kith",
    "eval graph.kith --points points.u8bin --html page.html",
    "select p.fbin -k 4 -o selected.npz",
    "predict points.u8bin labels.csv queries.u8bin -k 5 -o predicted.csv",
)


class ShimCase(CliCase):
    def setUp(self):
        if not SHIM:
            self.skipTest("no shim: the build has a sanitizer")
        super().setUp()
        self.points(rows=400, columns=12)
        self.points("queries.u8bin", rows=150, columns=12, seed=2)
        (self.folder / "labels.csv").write_text("".join(f"{i % 3}\n" for i in range(400)))
        (self.folder / "ids.csv").write_text("3\n17\n200\n")

    def shimmed(self, wish, words, **more):
        return self.kith(*words.split(), "-q", environment={
            "LD_PRELOAD": SHIM, "KITH_SHIM": wish, "KITH_THREADS": "2", **more})

    def contents(self):
        """The bytes of all files, by their names."""
        return {str(path.relative_to(self.folder)): path.read_bytes()
                for path in self.folder.rglob("*") if path.is_file()}


class Short(ShimCase):
    def test_all(self):
        """every command and format: short and interrupted reads and writes, the same bytes"""
        found = []
        given = self.contents()
        for wish in ("none", "short"):
            for words in JOBS:
                done = self.shimmed(wish, words)
                self.assertEqual(done.returncode, 0, f"{wish}: kith {words}: {done.stderr}")
            found.append(self.contents())
            for name in self.files():
                if name not in given:
                    (self.folder / name).unlink()
        self.assertEqual(found[0].keys(), found[1].keys())
        for name, data in found[0].items():
            self.assertEqual(data, found[1][name], name)
        print(f"{len(JOBS)} jobs, {len(found[0])} files", end=" ")

    def test_same_job(self):
        """a job that was left is known again when reads are short: the journal is the same text"""
        words = "search points.u8bin queries.u8bin -k 5 --chunk 10 -o out.kith"
        self.assertEqual(self.shimmed("none", words).returncode, 0)
        whole = (self.folder / "out.kith").read_bytes()
        (self.folder / "out.kith").unlink()
        self.assertEqual(self.shimmed("kill:20", words).returncode, -signal.SIGKILL)
        self.assertTrue((self.folder / "out.kith.journal").exists())
        done = self.shimmed("short", words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.folder / "out.kith").read_bytes(), whole)


class Full(ShimCase):
    """The disk is full from some call on: one line that says so, the old file as it was, nothing else
    left but what a job goes on with; when there is room again, the same command does it."""

    def job(self, words, outputs, goes_on=(), steps=1):
        folder = self.folder
        given = self.contents()
        self.assertEqual(self.shimmed("none", words).returncode, 0)
        whole = self.contents()
        old = b"what was there before"
        failures = 0
        for number in range(1, 400, steps):
            for name in outputs:
                (folder / name).write_bytes(old)
            done = self.shimmed(f"full:{number}", words)
            if done.returncode == 0:
                break
            failures += 1
            self.assertEqual(done.returncode, 1, f"{number}: {done.stderr}")
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn("No space left on device", done.stderr)
            there = self.contents()
            for name in outputs:  # the old one, or where several are written some of the new
                self.assertIn(there.pop(name), (old, whole[name]), (number, name, done.stderr))
            left = {name for name in there if name not in given}
            self.assertTrue(all(name.startswith(goes_on) for name in left) if goes_on else not left,
                            (number, left))
            done = self.shimmed("none", words)
            self.assertEqual(done.returncode, 0, f"{number}: {done.stderr}")
            self.assertEqual(self.contents(), whole, number)
        self.assertGreater(failures, 2)
        self.assertEqual(self.contents(), whole)
        for name in outputs:
            (folder / name).unlink()
        return failures

    def test_files(self):
        """graphs, trees, text, points: nothing new stays"""
        failures = 0
        self.assertEqual(self.shimmed("none", "graph points.u8bin -k 5 -o lists.ibin").returncode, 0)
        for words, outputs in (
                ("graph points.u8bin -k 5 -o g.npz", ["g.npz"]),
                ("graph points.u8bin -k 5 -o g.ibin --distances d.fbin", ["g.ibin", "d.fbin"]),
                ("graph points.u8bin --radius 90 -o r.csv", ["r.csv"]),
                ("index build --method tree points.u8bin -o t.kith", ["t.kith"]),
                ("convert points.u8bin p.tsv", ["p.tsv"]),
                ("predict points.u8bin labels.csv queries.u8bin -k 5 -o p.npy", ["p.npy"]),
                ("eval lists.ibin --points points.u8bin --html page.html", ["page.html"])):
            failures += self.job(words, outputs)
        print(f"{failures} full disks", end=" ")

    def test_stream(self):
        """a search in pieces goes on"""
        self.job("search points.u8bin queries.u8bin -k 5 --chunk 50 -o s.kith", ["s.kith"],
                 goes_on="s.kith.")

    def test_shards(self):
        """shards and parts go on"""
        self.job("graph points.u8bin -k 64 --shards work --tune shard-count=2,parts=2 -o p.kith",
                 ["p.kith", "p-00000-of-00002.kith", "p-00001-of-00002.kith"],
                 goes_on=("work", "p"), steps=5)


class Killed(ShimCase):
    def job(self, words, outputs, steps=1, replaces=False, **more):
        """Kills at each of its calls (each steps-th)."""
        folder = self.folder
        given = set(self.contents())
        count = folder / "count"
        old = b"what was there before"
        for name in outputs if replaces else ():
            (folder / name).write_bytes(old)
        done = self.shimmed("count", words, KITH_SHIM_COUNT=str(count), **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        calls = int(count.read_text())
        count.unlink()
        whole = self.contents()
        self.assertEqual(set(whole), given | set(outputs))
        left = 0
        for number in range(1, calls + 1, steps):
            for name in outputs:
                (folder / name).unlink(missing_ok=True)
                if replaces:
                    (folder / name).write_bytes(old)
            done = self.shimmed(f"kill:{number}", words, **more)
            self.assertEqual(done.returncode, -signal.SIGKILL, f"{number}: {done.stderr}")
            for name in outputs:  # the old or the new, whole
                there = (folder / name).read_bytes() if (folder / name).exists() else None
                self.assertIn(there, (old if replaces else None, whole[name]), (number, name))
            hidden = [name for name in self.files() if name.startswith(".kith")]
            left += len(hidden)
            self.assertTrue(replaces or more or not hidden, f"{number}: {hidden}")
            done = self.shimmed("none", words, **more)
            self.assertEqual(done.returncode, 0, f"{number}: {done.stderr}")
            self.assertEqual(self.contents(), whole, number)
        print(f"{calls} calls, {left} names between two calls", end=" ")
        return left

    def test_new(self):
        """a new file: there is never another name, the file is there whole or not at all"""
        for words, name in (("graph points.u8bin -k 5 -o g.npz", "g.npz"),
                            ("index build --method tree points.u8bin -o t.kith", "t.kith"),
                            ("convert points.u8bin p.csv", "p.csv")):
            self.job(words, [name])
            (self.folder / name).unlink()

    def test_replaced(self):
        """an old file: it or the new one; a name that is left between two calls goes on the next
        start"""
        left = 0
        for words, name in (("graph points.u8bin -k 5 -o g.npz", "g.npz"),
                            ("index build --method tree points.u8bin -o t.kith", "t.kith")):
            left += self.job(words, [name], replaces=True)
            (self.folder / name).unlink()
        self.assertEqual(left, 2, "the kill between link and rename was not tried")

    def test_old_file_system(self):
        """without files without names: the same, and hidden names go on the next start"""
        for replaces in (False, True):
            left = self.job("graph points.u8bin -k 5 -o g.npz", ["g.npz"], replaces=replaces,
                            KITH_SHIM_OLD="1")
            self.assertGreater(left, 3)
            (self.folder / "g.npz").unlink()

    def test_page(self):
        """a page, which the command itself writes: it or the old one; a name that is left goes on the next start"""
        self.assertEqual(self.shimmed("none", "graph points.u8bin -k 5 -o lists.ibin").returncode, 0)
        words = "eval lists.ibin --points points.u8bin --html page.html"
        self.assertGreater(self.job(words, ["page.html"], replaces=True), 1)

    def test_stream(self):
        """a search in pieces: what is left goes on, and nothing of it stays"""
        self.job("search points.u8bin queries.u8bin -k 5 --chunk 50 -o s.kith", ["s.kith"])

    def test_shards(self):
        """shards and parts: the same; the folder of the lists is gone at the end"""
        self.job("graph points.u8bin -k 64 --shards work --tune shard-count=2,parts=2 -o p.kith",
                 ["p.kith", "p-00000-of-00002.kith", "p-00001-of-00002.kith"], steps=3)

    def test_names_of_the_dead(self):
        """hidden names without a process go on the next start, those of others stay"""
        self.assertEqual(self.shimmed("none", "graph points.u8bin -k 5 -o g.npz").returncode, 0)
        left = 0
        for number in range(1, 40):
            done = self.shimmed(f"kill:{number}", "graph points.u8bin -k 5 -o g.npz")
            names = [name for name in self.files() if name.startswith(".kith")]
            if names and not left:
                left += 1
                shutil.copy(self.folder / names[0], self.folder / ".kith-mine.tmp")
            if done.returncode == 0:
                break
        self.assertEqual(left, 1)
        hidden = [name for name in self.files() if name.startswith(".kith")]
        self.assertEqual(hidden, [".kith-mine.tmp"])


if __name__ == "__main__":
    support.main()
