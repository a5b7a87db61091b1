# SPDX-License-Identifier: Apache-2.0
"""kith pairs: every pair of rows within a radius, counted, written, labelled, kept; what is refused."""
import fcntl
import math
import struct

import cli_support as support
from cli_support import CliCase, matrix_bin, random_bytes, read_npy

ROWS, OTHERS, COLUMNS, RADIUS = 90, 30, 4, 150


class Pairs(CliCase):
    def setUp(self):
        super().setUp()
        self.rows = self.points("p.u8bin", ROWS, COLUMNS, 3)
        self.others = random_bytes(OTHERS, COLUMNS, 4)
        self.write("q.u8bin", matrix_bin(self.others, "B"))

    def column(self, name, values):
        self.write(name, "".join(f"{value}\n" for value in ["value", *values]).encode())

    def plain(self, others=None):
        """All pairs, by i, then by distance, then by j."""
        found = []
        for i, a in enumerate(self.rows):
            near = sorted((sum((x - y) ** 2 for x, y in zip(a, b)), j)
                          for j, b in enumerate(self.rows if others is None else others) if others is not None or j > i)
            found += [(i, j, math.sqrt(key)) for key, j in near if key <= RADIUS ** 2]
        return found

    def triples(self, name):
        body, shape = self.read(name)
        self.assertEqual(len(body), 16 * shape[0])
        return [struct.unpack_from("<IId", body, 16 * p) for p in range(shape[0])]

    def read(self, name):
        return read_npy((self.folder / name).read_bytes())

    def numbers(self, name):
        return [int(value) for value in self.read(name)[0]]

    def test_pairs(self):
        """the pairs of a plain loop, to the last bit, in .npy, .csv, .tsv and on standard output"""
        wanted = self.plain()
        self.assertGreater(len(wanted), 200)
        words = "pairs", "p.u8bin", "--radius", RADIUS
        for threads in (1, 3):
            told = self.works_json(*words, "-o", "f.npy", "--threads", threads)
            self.assertEqual(self.triples("f.npy"), wanted)
            self.assertEqual((told["pairs"], told["complete"]), (len(wanted), True))
        self.works(*words, "-o", "f.csv", "-q")
        lines = (self.folder / "f.csv").read_text().splitlines()
        self.assertEqual(lines[0], "i,j,distance")
        found = [line.split(",") for line in lines[1:]]
        self.assertEqual([(int(i), int(j), float(d)) for i, j, d in found], wanted)
        self.works(*words, "-o", "f.tsv", "-q")
        self.assertEqual((self.folder / "f.tsv").read_text().replace("\t", ",").splitlines(), lines)
        self.assertEqual(self.works(*words, "-o", "-", "-q").splitlines(), lines)
        self.assertIn(f"pairs: {len(wanted):,}\n", self.works(*words, "--count"))

    def test_goes_on(self):
        """killed in the middle, it goes on to the same bytes; another job's is refused, --restart begins anew"""
        rows = random_bytes(6000, 40, 5)
        self.write("m.u8bin", matrix_bin(rows, "B"))
        words = "pairs", "m.u8bin", "--radius", 480, "--threads", 1, "-q", "-o"
        for ending in "npy", "kith":
            self.works(*words, f"whole.{ending}")
            whole = (self.folder / f"whole.{ending}").read_bytes()
            self.works(*words, f"f.{ending}")
            self.assertEqual((self.folder / f"f.{ending}").read_bytes(), whole)
            (self.folder / f"f.{ending}.partial").write_bytes(b"left")
            self.fails(1, *words, f"f.{ending}", says=["--restart"])
            self.assertEqual((self.folder / f"f.{ending}").read_bytes(), whole)
            self.works(*words, f"f.{ending}", "--restart")
            self.assertEqual((self.folder / f"f.{ending}").read_bytes(), whole)
            self.assertNotIn(f"f.{ending}.partial", self.files())
        self.assertEqual(self.works_json("info", "whole.kith")["kind"], "pairs")
        self.fails(2, "pairs", "m.u8bin", "--radius", 480, "--restart", says=["means nothing without"])
        self.fails(2, *words, "f.csv", "--restart", says=["--restart", "text, which begins anew"])
        self.assertNotIn("f.csv", self.files())

    def test_two_processes(self):
        """a file that somebody else is at is the one that is named"""
        with open(self.folder / "f.npy.partial", "wb") as theirs:
            fcntl.flock(theirs, fcntl.LOCK_EX)
            self.fails(1, "pairs", "p.u8bin", "--radius", RADIUS, "-o", "f.npy",
                       says=["kith: f.npy.partial: another process is at work on it (wait"])

    def test_two_files(self):
        """all pairs across, i of the first file"""
        self.works("pairs", "p.u8bin", "q.u8bin", "--radius", RADIUS, "-o", "f.npy", "-q")
        self.assertEqual(self.triples("f.npy"), self.plain(self.others))

    def test_groups(self):
        """pairs in one group, in different ones, and of allowed rows"""
        self.column("g.csv", [i % 3 for i in range(ROWS)])
        self.column("o.csv", [i % 2 for i in range(OTHERS)])
        self.column("a.csv", [int(i % 4 > 0) for i in range(ROWS)])
        words = "pairs", "p.u8bin", "--radius", RADIUS, "-o", "f.npy", "-q"
        for more, allowed in ((("--groups", "g.csv"), lambda i, j: i % 3 == j % 3),
                              (("--groups", "g.csv", "--rule", "other"), lambda i, j: i % 3 != j % 3),
                              (("--allow", "a.csv"), lambda i, j: i % 4 > 0 and j % 4 > 0)):
            self.works(*words, *more)
            self.assertEqual(self.triples("f.npy"), [pair for pair in self.plain() if allowed(*pair[:2])])
        self.works("pairs", "p.u8bin", "q.u8bin", *words[2:], "--groups", "o.csv", "--query-groups", "g.csv")
        self.assertEqual(self.triples("f.npy"), [(i, j, d) for i, j, d in self.plain(self.others) if i % 3 == j % 2])

    def test_limit(self):
        """stops cleanly, says so, and leaves what was found"""
        told = self.works("pairs", "p.u8bin", "--radius", RADIUS, "--limit", 50, "-o", "f.npy")
        self.assertIn("pairs: 50, and more: stopped at --limit", told)
        self.assertEqual(self.triples("f.npy"), self.plain()[:50])
        told = self.works_json("pairs", "p.u8bin", "--radius", RADIUS, "--limit", len(self.plain()))
        self.assertTrue(told["complete"])

    def test_components(self):
        """the smallest id of each component, and the rows that are kept, as they are defined"""
        self.rows = [row[:2] + [0, 0] for row in self.rows]
        self.write("p.u8bin", matrix_bin(self.rows, "B"))
        radius, words = 20, ("pairs", "p.u8bin", "--radius", 20, "-q")
        pairs = [(i, j) for i in range(ROWS) for j in range(i + 1, ROWS) if math.dist(self.rows[i], self.rows[j]) <= radius]
        label, first, degree = list(range(ROWS)), [], [0] * ROWS
        for i, j in pairs:
            old, new = sorted((label[i], label[j]), reverse=True)
            label = [new if each == old else each for each in label]
            degree[i], degree[j] = degree[i] + 1, degree[j] + 1
        for j in range(ROWS):
            if not any((i, j) in set(pairs) for i in first):
                first.append(j)
        central = sorted(max((i for i in range(ROWS) if label[i] == each), key=lambda i: (degree[i], -i))
                         for each in set(label))
        self.assertTrue(len(set(label)) < len(first) < ROWS)
        for keep, wanted in (("first", first), ("central", central)):
            self.works(*words, "--components", "c.npy", "--keep", keep, "--kept", "k.npy")
            self.assertEqual(self.numbers("c.npy"), label)
            self.assertEqual(self.numbers("k.npy"), wanted)
            told = self.works_json(*words, "--keep", keep)
            self.assertEqual(told["kept"], len(wanted))

    def test_plan(self):
        """--dry-run tells the number of pairs, with an interval, and writes nothing"""
        told = self.works_json("pairs", "p.u8bin", "--radius", RADIUS, "--dry-run", "-o", "f.npy")
        self.assertEqual((told["pairs"], told["low"], told["high"]), (len(self.plain()),) * 3)
        told = self.works_json("pairs", "p.u8bin", "--radius", RADIUS, "--dry-run", "--tune", "sample=40,seed=3")
        self.assertTrue(told["low"] < told["pairs"] < told["high"] and told["sample"] == 40)
        self.assertIn("by 90 rows", self.works("pairs", "p.u8bin", "--radius", RADIUS, "--dry-run"))
        self.assertEqual(self.files(), ["p.u8bin", "q.u8bin"])

    def test_memory(self):
        """a limit that all pairs do not fit into is kept; one that is too small is an error, and leaves no file"""
        rows = random_bytes(1200, 3, 5)
        self.write("m.u8bin", matrix_bin(rows, "B"))
        for more in ((), ("-o", "m.npy")):
            told = self.works_json("pairs", "m.u8bin", "--radius", 500, "--memory", "4M", "--threads", 1, *more)
            self.assertEqual(told["pairs"], 1200 * 1199 // 2)
        self.assertGreater(told["chunks"], 10)
        self.fails(1, "pairs", "m.u8bin", "--radius", 500, "--memory", "10K", "-o", "f.npy", says=["memory"])
        self.assertNotIn("f.npy", self.files())

    def test_mistakes(self):
        """one error that names the file, the row or the option"""
        self.column("g.csv", [1] * ROWS)
        self.column("o.csv", [1] * OTHERS)
        self.write("n.csv", b"1,2\n3,nan\n")
        words = "pairs", "p.u8bin"
        at = "--radius", RADIUS
        for code, more, told in (
                (2, (), "--radius is missing"),
                (2, ("--radius", "nan"), "--radius"),
                (2, ("--radius", "-1"), "negative"),
                (2, (*at, "-k", 3), "-k"),
                (2, (*at, "--limit", 0), "--limit"),
                (2, (*at, "--count", "-o", "f.npy"), "--count"),
                (2, (*at, "--kept", "k.npy"), "means nothing without --keep"),
                (2, (*at, "--keep", "best"), "first"),
                (2, (*at, "--wrong"), "--wrong"),
                (2, ("q.u8bin", *at, "--components", "c.npy"), "of the rows of one file"),
                (2, ("q.u8bin", *at, "--groups", "o.csv"), "--query-groups"),
                (2, (*at, "--groups", "g.csv", "--rule", "each"), "use same or other"),
                (2, (*at, "-o", "f.npy", "--kept", "f.npy", "--keep", "first"), "two outputs"),
                (1, (*at, "--groups", "o.csv"), "o.csv"),
                (2, (*at, "-o", "f.npz"), ".npy .kith .csv .tsv"),
                (1, (*at, "-o", "missing/f.npy"), "missing")):
            self.fails(code, *words, *more, says=[told])
        self.fails(1, "pairs", "n.csv", "--radius", 1, "-o", "n.csv", says=["n.csv"])
        self.fails(1, "pairs", "n.csv", "--radius", 1, "-o", "f.npy", says=["n.csv", "[1, 1]"])
        self.fails(1, "pairs", "missing.npy", "--radius", 1, says=["missing.npy"])
        self.assertNotIn("f.npy", self.files())


if __name__ == "__main__":
    support.main()
