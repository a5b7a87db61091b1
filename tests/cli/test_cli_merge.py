# SPDX-License-Identifier: Apache-2.0
"""kith merge, kith add and kith remove: files of graphs that grow and shrink."""
import resource
import signal
import struct

import cli_support as support
from cli_support import CliCase

FIRST, SECOND, COLUMNS, K = 300, 140, 6, 8


class Grow(CliCase):
    def setUp(self):
        super().setUp()
        rows = support.random_bytes(FIRST + SECOND, COLUMNS, 5)
        rows[FIRST] = rows[3]  # across the sets
        self.write("a.u8bin", rows[:FIRST])
        self.write("b.u8bin", rows[FIRST:])
        self.write("all.u8bin", rows)
        for name in ("a", "b", "all"):
            self.graph(name)

    def write(self, name, rows):
        (self.folder / name).write_bytes(support.matrix_bin(rows, "B"))

    def graph(self, name, *words):
        self.works("graph", f"{name}.u8bin", "-k", K, "-o", f"{name}.kith", "-q", *words)

    def same(self, a, b):
        self.assertEqual((self.folder / a).read_bytes(), (self.folder / b).read_bytes())

    def test_exact_merge(self):
        """--exact writes the file that kith graph of all points writes, from any format of graphs"""
        done = self.works_json("merge", "a.kith", "a.u8bin", "b.kith", "b.u8bin", "--exact", "-o",
                               "m.kith", "--points-out", "m.u8bin")
        self.same("m.kith", "all.kith")
        self.same("m.u8bin", "all.u8bin")
        self.assertEqual((done["method"], done["exact"], done["first"], done["second"], done["k"]),
                         ("exact", True, FIRST, SECOND, K))
        self.works("convert", "a.kith", "a.ivecs", "-q")
        done = self.works_json("merge", "a.ivecs", "a.u8bin", "b.kith", "b.u8bin", "--exact", "-o",
                               "m.kith", "--tune", f"sample={FIRST + SECOND}")
        self.assertIsNone(done["exact"])  # a file of ids does not say that it is
        self.assertEqual(done["recall"]["estimate"], 1.0)
        done = self.works_json("merge", "b.kith", "b.u8bin", "a.kith", "a.u8bin", "-k", 5, "-o",
                               "m.npz")
        self.assertEqual((done["method"], done["exact"], done["k"]), ("exact", True, 5))
        self.assertNotIn("choice", done)  # certified graphs: nothing to choose

    def test_approximate_merge(self):
        """a descent: its recall is told, and is that of kith eval; the file has it"""
        rows = support.random_bytes(9000, 8, 2)
        for name, part in (("c", rows[:4000]), ("d", rows[4000:]), ("e", rows)):
            self.write(f"{name}.u8bin", part)
        for name in "cd":
            self.graph(name)
        words = ("merge", "c.kith", "c.u8bin", "d.kith", "d.u8bin")
        done = self.works_json(*words, "--tune", "sample=300,start=screen", "-o", "m.kith")
        self.assertEqual((done["method"], done["exact"], done["start"]), ("descent", False, "graph"))
        told = self.works_json("eval", "m.kith", "--points", "e.u8bin", "--sample", 300)["recall"]
        self.assertAlmostEqual(told["estimate"], done["recall"]["estimate"], places=12)
        self.assertGreater(done["recall"]["estimate"], 0.97)
        self.assertIn("recall", self.works("info", "m.kith"))
        done = self.works_json(*words, "--tune", "sample=300,start=ggm", "-o", "ggm.kith")
        self.assertEqual((done["method"], done["start"]), ("descent", "ggm"))
        self.assertGreater(done["recall"]["estimate"], 0.9)
        lines = self.works(*words, "--recall", "0.9", "-o", "again.kith").splitlines()
        self.assertRegex(lines[-3], r"^recall@8 = [01]\.\d{4} \+- 0\.\d{4} \(1,000 points solved")

    def test_add(self):
        """new points behind the old ones: few are met exactly, and an exact graph stays exact"""
        done = self.works_json("add", "a.kith", "a.u8bin", "b.u8bin", "-o", "m.kith",
                               "--points-out", "m.u8bin")
        self.same("m.kith", "all.kith")
        self.same("m.u8bin", "all.u8bin")
        self.assertNotIn("choice", done)
        self.works("convert", "a.kith", "a.ivecs", "-q")
        done = self.works_json("add", "a.ivecs", "a.u8bin", "b.u8bin", "-o", "n.kith")
        self.assertLessEqual(done["choice"]["exact_seconds"], done["choice"]["descent_seconds"])
        rows = support.random_bytes(FIRST + SECOND, COLUMNS, 5)
        self.write("one.u8bin", [rows[7]])
        self.works("add", "a.kith", "a.u8bin", "one.u8bin", "-o", "m.kith", "--points-out",
                   "m.u8bin", "-q")
        self.graph("m", "-o", "direct.kith")
        self.same("m.kith", "direct.kith")

    def test_remove(self):
        """the graph of what is left, its points, and where rows went"""
        gone = [5, 0, 77, 5, FIRST + SECOND - 1]
        (self.folder / "ids.csv").write_text("\n".join(map(str, gone)) + "\n")
        done = self.works_json("remove", "all.kith", "all.u8bin", "ids.csv", "-o", "m.kith",
                               "--points-out", "m.u8bin", "--map", "map.ibin")
        self.graph("m", "-o", "direct.kith")
        self.same("m.kith", "direct.kith")
        self.assertEqual((done["removed"], done["n"], done["anew"], done["exact"]),
                         (4, FIRST + SECOND - 4, False, True))
        data = (self.folder / "map.ibin").read_bytes()
        self.assertEqual(struct.unpack("<II", data[:8]), (FIRST + SECOND, 1))
        left = iter(range(FIRST + SECOND))
        want = [-1 if row in gone else next(left) for row in range(FIRST + SECOND)]
        self.assertEqual(list(struct.unpack(f"<{FIRST + SECOND}i", data[8:])), want)
        (self.folder / "most.csv").write_text("\n".join(map(str, range(20, FIRST))) + "\n")
        done = self.works_json("remove", "a.kith", "a.u8bin", "most.csv", "-o", "m.kith")
        self.assertEqual((done["anew"], done["method"], done["n"]), (True, "exact", 20))
        self.works("convert", "a.kith", "a.ivecs", "-q")  # which says nothing of itself
        done = self.works_json("remove", "a.ivecs", "a.u8bin", "most.csv", "-o", "n.kith")
        self.assertEqual((done["anew"], done["method"], done["exact"]), (True, "exact", True))
        self.same("n.kith", "m.kith")

    def test_no_room(self):
        """where the graph finds no room nothing is written, and an old map is as it was"""
        (self.folder / "ids.csv").write_text("3\n")
        (self.folder / "map.ibin").write_bytes(b"old")
        limit = 4 * FIRST + 100  # of the map, and of no graph of these points

        def small():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        words = ("remove", "a.kith", "a.u8bin", "ids.csv", "-o", "m.kith", "--map", "map.ibin")
        before = self.files()
        self.fails(1, *words, says=["kith: m.kith: "], preexec_fn=small)
        self.assertEqual((self.folder / "map.ibin").read_bytes(), b"old")
        self.assertEqual(self.files(), before)
        self.works(*words, "-q")
        self.assertEqual(len((self.folder / "map.ibin").read_bytes()), 8 + 4 * FIRST)

    def test_plan(self):
        """--dry-run writes nothing; what is above --memory is refused"""
        for words in (("merge", "a.kith", "a.u8bin", "b.kith", "b.u8bin"),
                      ("add", "a.kith", "a.u8bin", "b.u8bin"),
                      ("remove", "a.kith", "a.u8bin", "ids.csv")):
            (self.folder / "ids.csv").write_text("3\n")
            self.assertIn("memory: planned", self.works(*words, "-o", "m.kith", "--dry-run"))
            self.assertTrue(self.works_json(*words, "-o", "m.kith", "--dry-run")["dry_run"])
            self.assertFalse((self.folder / "m.kith").exists())
            self.fails(1, *words, "-o", "m.kith", "--memory", "1K", says=("memory",))

    def blames_the_right_file(self):
        """a value or an id that is wrong is told with the file that has it"""
        for name, value in ("good", 1.0), ("bad", float("nan")):
            rows = [[0.5 * i, 1.0 * (i % 7)] for i in range(20)]
            rows[3][1] = value
            (self.folder / f"{name}.csv").write_text("".join(f"{x},{y}\n" for x, y in rows))
        self.works("graph", "good.csv", "-k", 3, "-o", "good.ivecs", "-q")
        wild = struct.pack("<II", 20, 3) + struct.pack("<i", 77) * 60
        (self.folder / "wild.ibin").write_bytes(wild)
        for words, says in (
                (("merge", "good.ivecs", "good.csv", "good.ivecs", "bad.csv"),
                 "kith: bad.csv, whose rows count from 20 on: points[23, 1] is NaN"),
                (("merge", "good.ivecs", "bad.csv", "good.ivecs", "good.csv"),
                 "kith: bad.csv: points[3, 1] is NaN"),
                (("merge", "good.ivecs", "good.csv", "wild.ibin", "good.csv"), "kith: wild.ibin: graph2[0, 0]"),
                (("merge", "wild.ibin", "good.csv", "good.ivecs", "good.csv"), "kith: wild.ibin: graph1[0, 0]"),
                (("remove", "wild.ibin", "good.csv", "wild.ibin"), "wild.ibin")):
            self.fails(1, *words, "-o", "m.kith", says=(says,))
        (self.folder / "one.csv").write_text("1\n")
        self.fails(1, "remove", "wild.ibin", "good.csv", "one.csv", "-o", "m.kith",
                   says=("kith: wild.ibin: graph[0, 0] is id 77",))
        self.fails(1, "eval", "good.ivecs", "--points", "bad.csv", says=("kith: bad.csv: points[3, 1]",))

    def test_mistakes(self):
        """what does not fit together is told with the file and what to do"""
        merge = ("merge", "a.kith", "a.u8bin", "b.kith", "b.u8bin", "-o", "m.kith")
        self.write("wide.u8bin", support.random_bytes(SECOND, COLUMNS + 1, 5))
        self.works("graph", "b.u8bin", "-k", 4, "-o", "short.kith", "-q")
        self.works("graph", "b.u8bin", "-k", K, "--metric", "manhattan", "-o", "l1.kith", "-q")
        (self.folder / "ids.csv").write_text("300\n")
        for words, says in (
                (("merge", "a.kith", "b.u8bin", "b.kith", "a.u8bin"), "a.kith: has 300 rows"),
                (("merge", "a.kith", "a.u8bin", "b.kith", "wide.u8bin"), "wide.u8bin holds 140 x 7 uint8"),
                (("merge", "a.kith", "a.u8bin", "l1.kith", "b.u8bin"), "l1.kith: is a graph of the"),
                (("merge", "a.kith", "a.u8bin", "short.kith", "b.u8bin", "-k", K),
                 "short.kith: has lists of 4, -k is 8 (take -k 4"),
                (("add", "a.kith", "a.u8bin", "b.u8bin", "--metric", "cosine"), "leave --metric out"),
                (("add", "a.kith", "b.u8bin", "a.u8bin"), "a.kith: has 300 rows, b.u8bin has 140"),
                (("remove", "a.kith", "a.u8bin", "ids.csv"), "ids.csv"),
                (("remove", "a.kith", "a.u8bin", "a.kith", "-k", 9), "a.kith")):
            self.fails(1, *words, "-o", "m.kith", says=(says,))
            self.assertFalse((self.folder / "m.kith").exists())
        self.blames_the_right_file()
        self.fails(1, *merge[:-1], "a.kith", says=("a.kith",))
        for words, says in ((merge[:-2], "-o is missing"), (merge + ("--exact", "--tune", "rounds=3"), "--exact"),
                            (merge + ("--points-out", "m.kith"), "two outputs"),
                            (merge + ("--map", "x.csv"), "--map"),
                            (merge + ("--recall", "0.9", "--tune", "sample=0"), "--recall")):
            self.fails(2, *words, says=(says,))


if __name__ == "__main__":
    support.main()
