# SPDX-License-Identifier: Apache-2.0
"""kith index: files with an index answer as their points do, also when rows were added and removed."""
import random

import cli_support as support
from cli_support import CliCase, matrix_bin, random_bytes


class Trees(CliCase):
    def same_answers(self, tree, points, queries, *options):
        """The tree in a file against all pairs of plain points: the same file, and it was used."""
        self.works("search", points, queries, "-k", 4, "--method", "exact", "-o", "e.npz", "-q",
                   *options)
        found = self.works_json("search", tree, queries, "-k", 4, "-o", "t.npz")
        self.assertEqual((found["screen"], found["backend"]), ("tree", "cpu"))
        self.assertLess(found["seconds"]["prepare"], 0.5)
        self.assertEqual((self.folder / "e.npz").read_bytes(), (self.folder / "t.npz").read_bytes())

    def test_build(self):
        """a tree of each metric and some heights gives the answers of its points"""
        self.points("p.u8bin", 800, 4)
        self.points("q.u8bin", 90, 4, seed=2)
        for metric in ("euclidean", "sqeuclidean", "manhattan", "chebyshev"):
            self.works("index", "build", "--method", "tree", "p.u8bin", "--metric", metric, "-o", "x.kith", "-q")
            self.same_answers("x.kith", "p.u8bin", "q.u8bin", "--metric", metric)
        for height in (1, 3, 5):
            done = self.works_json("index", "build", "--method", "tree", "p.u8bin", "--tree-height", height, "-o",
                                   "x.kith")
            self.assertEqual(done["tree"]["height"], height)
            self.assertEqual(done["tree"]["leaves"], 1 << height)
            self.assertEqual((done["n"], done["d"], done["dtype"]), (800, 4, "uint8"))
            self.same_answers("x.kith", "p.u8bin", "q.u8bin")

    def test_heights_of_one_job(self):
        """tree-height of search and graph changes no byte, and is refused with its limits"""
        self.points("p.u8bin", 800, 4)
        for command in (("graph", "p.u8bin"), ("search", "p.u8bin", "p.u8bin")):
            self.works(*command, "-k", 4, "--method", "exact", "-o", "e.npz", "-q")
            for height in (1, 5):
                self.works(*command, "-k", 4, "--method", "tree", "--tune", f"tree-height={height}", "-o",
                           "t.npz", "-q")
                self.assertEqual((self.folder / "e.npz").read_bytes(),
                                 (self.folder / "t.npz").read_bytes())
            self.fails(1, *command, "-k", 4, "--tune", "tree-height=6",
                       says=["tree_height is 6, must be 0 to 5 for 800 rows"])
            self.fails(2, *command, "-k", 4, "--tune", "tree-height=3", "--method", "exact",
                       says=["--method tree or auto alone"])
            self.fails(2, *command, "-k", 4, "--tune", "tree-height=29", says=["give 1 to 28"])

    def test_threads_and_machines(self):
        """the file does not depend on threads and instruction set, nor does what it answers"""
        self.points("p.u8bin", 900, 3)
        self.works("index", "build", "--method", "tree", "p.u8bin", "-o", "x.kith", "-q")
        wanted = (self.folder / "x.kith").read_bytes()
        self.works("index", "build", "--method", "tree", "p.u8bin", "-o", "y.kith", "-q", "--threads", 3,
                   environment={"KITH_ISA": "portable"})
        self.assertEqual(wanted, (self.folder / "y.kith").read_bytes())
        self.works("search", "x.kith", "p.u8bin", "-k", 3, "-o", "a.npz", "-q")
        self.works("search", "x.kith", "p.u8bin", "-k", 3, "-o", "b.npz", "-q",
                   environment={"KITH_ISA": "portable"})
        self.assertEqual((self.folder / "a.npz").read_bytes(), (self.folder / "b.npz").read_bytes())

    def test_rows_come_and_go(self):
        """add and remove, again and again, ids in several formats, as numpy.delete counts them"""
        generator = random.Random(5)
        rows = self.points("p.u8bin", 500, 3)
        self.works("index", "build", "--method", "tree", "p.u8bin", "-o", "0.kith", "-q")
        for step in range(6):
            tree, changed = f"{step}.kith", f"{step + 1}.kith"
            if step % 2 == 0:
                more = random_bytes(generator.randrange(1, 300), 3, step)
                self.write("more.u8bin", matrix_bin(more, "B"))
                self.works("index", "add", tree, "more.u8bin", "-o", changed, "-q")
                rows = rows + more
            else:
                ids = [generator.randrange(len(rows)) for _ in range(120)]
                name = ("ids.csv", "ids.ibin", "ids.tsv")[step // 2]
                text = matrix_bin([ids[:60], ids[60:]], "i") if name == "ids.ibin" else \
                    "".join(f"{i}\n" for i in ids).encode()
                self.write(name, text)
                done = self.works_json("index", "remove", tree, name, "-o", changed)
                rows = [row for i, row in enumerate(rows) if i not in set(ids)]
                self.assertEqual((done["action"], done["n"]), ("remove", len(rows)))
            self.write("now.u8bin", matrix_bin(rows, "B"))
            self.same_answers(changed, "now.u8bin", "p.u8bin")
            self.works("convert", changed, "back.u8bin", "-q")
            self.assertEqual((self.folder / "back.u8bin").read_bytes(), matrix_bin(rows, "B"))

    def test_info(self):
        """kith info says that it is a tree, with height, leaves, distinct rows and slack"""
        self.write("p.u8bin", matrix_bin(random_bytes(300, 2, 1) * 2, "B"))
        self.works("index", "build", "--method", "tree", "p.u8bin", "--tree-height", 2, "-o", "x.kith", "-q")
        text = self.works("info", "x.kith")
        for line in ("kind: tree index", "rows: 600", "columns: 2", "dtype: uint8", "metric: euclidean",
                     "height: 2", "leaves: 4"):
            self.assertIn(line + "\n", text)
        info = self.works_json("info", "x.kith")
        self.assertEqual((info["kind"], info["n"], info["d"]), ("tree index", 600, 2))
        self.assertLessEqual(info["tree"]["distinct_rows"], 300)
        full = info["tree"]["slack"]
        self.write("i.csv", b"id\n0\n300\n")
        self.works("index", "remove", "x.kith", "i.csv", "-o", "y.kith", "-q")
        self.assertGreater(self.works_json("info", "y.kith")["tree"]["slack"], full)

    def test_a_tree_is_points(self):
        """other jobs take a tree's points, and its metric where none is said"""
        self.points("p.u8bin", 300, 3)
        self.works("index", "build", "--method", "tree", "p.u8bin", "--metric", "manhattan", "-o", "x.kith", "-q")
        for options in (["--method", "exact"], ["--both"], ["--radius", 20],
                        ["--tune", "pipeline=matrix"]):
            k = [] if "--radius" in options else ["-k", 2]
            done = self.works_json("search", "x.kith", "p.u8bin", *k, *options)
            self.assertEqual(done["metric"], "manhattan")
            self.assertNotEqual(done["screen"], "tree") if k else None
        self.assertEqual(self.works_json("graph", "x.kith", "-k", 2)["metric"], "manhattan")
        self.works("search", "x.kith", "p.u8bin", "-k", 2, "--metric", "cosine", "--method",
                   "exact", "-q")

    def test_radius(self):
        """a tree in a file answers a radius by itself: the bytes of its points"""
        self.points("p.u8bin", 900, 3)
        self.points("q.u8bin", 70, 3, seed=4)
        for metric in ("euclidean", "manhattan"):
            self.works("index", "build", "--method", "tree", "p.u8bin", "--metric", metric, "-o", "x.kith", "-q")
            for job in (("search", "{}", "q.u8bin"), ("graph", "{}"),
                        ("graph", "{}", "--include-self")):
                plain, tree = ([word.format(name) for word in job] for name in ("p.u8bin", "x.kith"))
                self.works(*plain, "--radius", 40, "--metric", metric, "--method", "exact", "-o",
                           "e.npz", "-q")
                found = self.works_json(*tree, "--radius", 40, "-o", "t.npz")
                self.assertEqual((found["screen"], found["backend"]), ("tree", "cpu"))
                self.assertEqual((self.folder / "e.npz").read_bytes(),
                                 (self.folder / "t.npz").read_bytes())
                points = self.works_json(*tree, "--radius", 40, "--method", "exact", "-o", "t.npz")
                self.assertNotEqual(points["screen"], "tree")
                self.assertEqual((self.folder / "e.npz").read_bytes(),
                                 (self.folder / "t.npz").read_bytes())
        self.fails(1, "search", "x.kith", "q.u8bin", "--radius", 40, "--metric", "euclidean",
                   says=["its tree is for manhattan", "--method exact"])

    def test_memory(self):
        """--memory counts what a search of a mapped tree needs, and build's needs are told"""
        self.points("p.u8bin", 20000, 3)
        self.points("q.u8bin", 50, 3)
        self.fails(1, "index", "build", "--method", "tree", "p.u8bin", "-o", "x.kith", "--memory", "500K",
                   says=["p.u8bin", "--memory"])
        self.works("index", "build", "--method", "tree", "p.u8bin", "-o", "x.kith", "-q")
        self.works("search", "x.kith", "q.u8bin", "-k", 2, "--memory", "500K", "--threads", 2, "-q")
        plan = self.works("search", "x.kith", "q.u8bin", "-k", 2, "--dry-run")
        self.assertIn("method: tree", plan)


class Exact(CliCase):
    def test_the_bytes_of_its_points(self):
        """an exact index of every metric answers as its points do, without preparing them again"""
        self.points("p.u8bin", 900, 24)
        self.points("q.u8bin", 80, 24, seed=2)
        for metric in ("euclidean", "cosine", "inner_product", "manhattan", "jaccard"):
            self.works("index", "build", "p.u8bin", "--metric", metric, "-o", "x.kith", "-q")
            self.assertEqual(self.works_json("info", "x.kith")["kind"], "exact index")
            for job in (["-k", 4], ["-k", 4, "--chunk", 30], ["--radius", 1]):
                self.works("search", "p.u8bin", "q.u8bin", *job, "--metric", metric, "-o", "e.npz",
                           "-q")
                self.works("search", "x.kith", "q.u8bin", *job, "-o", "t.npz", "-q")
                self.assertEqual((self.folder / "e.npz").read_bytes(),
                                 (self.folder / "t.npz").read_bytes(), (metric, job))
            self.works("search", "x.kith", "q.u8bin", "-k", 4, "--metric", "chebyshev", "-q")

    def test_rows_come_and_go(self):
        """an exact index that was changed is the file of a new one"""
        rows = self.points("p.u8bin", 300, 20)
        more = self.points("more.u8bin", 50, 20, seed=3)
        self.write("ids.csv", b"id\n0\n7\n349\n7\n")
        self.works("index", "build", "p.u8bin", "-o", "0.kith", "-q")
        self.works("index", "add", "0.kith", "more.u8bin", "-o", "1.kith", "-q")
        self.works("index", "remove", "1.kith", "ids.csv", "-o", "2.kith", "-q")
        now = [row for i, row in enumerate(rows + more) if i not in (0, 7, 349)]
        self.write("now.u8bin", matrix_bin(now, "B"))
        self.works("index", "build", "now.u8bin", "-o", "3.kith", "-q")
        self.assertEqual((self.folder / "2.kith").read_bytes(),
                         (self.folder / "3.kith").read_bytes())


class Graphs(CliCase):
    def test_walks(self):
        """an index by graph is walked on with --method graph, also after changes"""
        self.points("p.u8bin", 3000, 8)
        self.points("q.u8bin", 200, 8, seed=2)
        self.works("index", "build", "p.u8bin", "--method", "graph", "-k", 12, "--recall", 0.99,
                   "-o", "x.kith", "-q")
        self.assertEqual(self.works_json("info", "x.kith")["kind"], "graph index")
        self.works("index", "add", "x.kith", "q.u8bin", "-o", "y.kith", "-q")
        self.write("ids.csv", "".join(["id\n"] + [f"{i}\n" for i in range(0, 3200, 9)]).encode())
        self.works("index", "remove", "y.kith", "ids.csv", "-o", "z.kith", "-q")
        for index in ("x.kith", "y.kith", "z.kith"):
            found = self.works_json("search", index, "q.u8bin", "-k", 5, "--method", "graph",
                                    "--recall", "0.98", "-o", "w.npz")
            self.assertEqual(found["method"], "graph")
            self.works("search", index, "q.u8bin", "-k", 5, "-o", "e.npz", "-q")
            judged = self.works_json("eval", "w.npz", "e.npz")
            self.assertGreater(judged["recall"]["estimate"], 0.95)

    def test_mistakes(self):
        """what an index by graph is not for is one clear error"""
        self.points("p.u8bin", 200, 4)
        self.works("index", "build", "p.u8bin", "-o", "x.kith", "-q")
        self.works("index", "build", "p.u8bin", "--method", "graph", "-o", "g.kith", "-q")
        out = ("-o", "y.kith")
        self.fails(1, "search", "x.kith", "p.u8bin", "-k", 2, "--method", "graph",
                   says=["x.kith: is no index by graph"])
        self.fails(2, "search", "g.kith", "p.u8bin", "-k", 2, "--recall", 0.9,
                   says=["--method graph"])
        self.fails(2, "index", "build", "p.u8bin", "-k", 3, *out, says=["--method graph alone"])
        self.fails(2, "index", "build", "p.u8bin", "--method", "descent", *out,
                   says=["descent is for kith graph alone"])
        self.fails(2, "index", "build", "p.u8bin", "--tree-height", 3, *out,
                   says=["--method tree alone"])
        self.fails(1, "graph", "p.u8bin", "-k", 2, "--method", "graph", says=["not exact"])


class Mistakes(CliCase):
    def setUp(self):
        super().setUp()
        self.points("p.u8bin", 100, 3)
        self.works("index", "build", "--method", "tree", "p.u8bin", "-o", "x.kith", "-q")
        self.before = self.files()

    def wrong(self, code, *words, says=()):
        """Fails, and leaves the folder as it was."""
        self.fails(code, *words, says=says)
        self.assertEqual(self.files(), self.before)

    def test_usage(self):
        """actions, files and options that do not go together"""
        self.wrong(2, "index", says=["a file is missing"])
        self.wrong(2, "index", "grow", "x.kith", "-o", "y.kith", says=["'grow' is no action"])
        self.wrong(2, "index", "build", "--method", "tree", "p.u8bin", says=["-o is missing"])
        self.wrong(2, "index", "build", "--method", "tree", "p.u8bin", "p.u8bin", "-o", "y.kith",
                   says=["takes one file"])
        self.wrong(2, "index", "add", "x.kith", "-o", "y.kith", says=["takes two files"])
        self.wrong(2, "index", "remove", "x.kith", "-o", "y.kith", says=["takes two files"])
        self.wrong(2, "index", "add", "x.kith", "p.u8bin", "-o", "y.kith", "--metric", "l1",
                   says=["--metric", "kith index build alone"])
        self.wrong(2, "index", "remove", "x.kith", "p.u8bin", "-o", "y.kith", "--tree-height", 3,
                   says=["--tree-height", "kith index build alone"])
        self.wrong(2, "index", "build", "--method", "tree", "p.u8bin", "-o", "y.npz", says=["y.npz", ".kith"])

    def test_files(self):
        """files of the wrong kind, ids that are none, points that do not fit"""
        self.points("wide.u8bin", 10, 4)
        self.write("f.fbin", matrix_bin([[1.0, 2.0, 3.0]], "f"))
        self.write("far.csv", b"5\n100\n")
        self.write("half.csv", b"5\n0.5\n")
        self.write("minus.csv", b"-1\n")
        self.write("all.csv", "".join(["id\n"] + [f"{i}\n" for i in range(100)]).encode())
        self.works("graph", "p.u8bin", "-k", 2, "-o", "g.kith", "-q")
        self.before = self.files()
        out = ("-o", "y.kith")
        self.wrong(1, "index", "add", "p.u8bin", "p.u8bin", *out,
                   says=["p.u8bin", "is no index"])
        self.wrong(1, "index", "remove", "g.kith", "far.csv", *out,
                   says=["g.kith", "is no index"])
        self.wrong(1, "index", "build", "--method", "tree", "g.kith", *out, says=["g.kith", "neighbours"])
        self.wrong(1, "index", "build", "--method", "tree", "none.fbin", *out, says=["none.fbin"])
        self.wrong(1, "index", "add", "x.kith", "wide.u8bin", *out, says=["wide.u8bin", "4 columns"])
        self.wrong(1, "index", "add", "x.kith", "f.fbin", *out, says=["f.fbin", "float32", "uint8"])
        self.wrong(1, "index", "remove", "x.kith", "far.csv", *out,
                   says=["far.csv: row 1, column 0 holds 100", "0 to 99"])
        self.wrong(1, "index", "remove", "x.kith", "half.csv", *out,
                   says=["row 1, column 0 holds 0.5"])
        self.wrong(1, "index", "remove", "x.kith", "minus.csv", *out, says=["holds -1"])
        self.wrong(1, "index", "remove", "x.kith", "all.csv", *out, says=["all 100 rows"])
        self.wrong(1, "index", "build", "--method", "tree", "p.u8bin", "--metric", "cosine", *out, says=["cosine"])
        self.wrong(1, "index", "build", "--method", "tree", "p.u8bin", "--tree-height", 9, *out,
                   says=["tree_height is 9, must be 0 to 2"])
        self.wrong(1, "index", "add", "x.kith", "p.u8bin", "-o", "x.kith", says=["input and output"])
        self.wrong(1, "index", "build", "--method", "tree", "p.u8bin", "-o", "nowhere/y.kith", says=["nowhere/y.kith"])

    def test_searches(self):
        """a search that the tree in its file cannot do says which one can"""
        self.wrong(1, "search", "x.kith", "p.u8bin", "-k", 2, "--metric", "manhattan",
                   says=["x.kith: its tree is for euclidean", "--method exact"])
        self.wrong(1, "search", "x.kith", "p.u8bin", "-k", 2, "--tune", "tree-height=2", says=["already"])
        self.wrong(1, "search", "x.kith", "p.u8bin", "-k", 101, says=["k is 101"])

    def test_damage(self):
        """a damaged file is one clear error, for search, info and change alike"""
        data = bytearray((self.folder / "x.kith").read_bytes())
        for at in range(0, len(data), 997):
            data[at] ^= 0x55
            self.write("x.kith", bytes(data))
            self.wrong(1, "search", "x.kith", "p.u8bin", "-k", 2, says=["x.kith: "])
            data[at] ^= 0x55
        self.write("x.kith", bytes(data[:len(data) // 2]))
        self.wrong(1, "index", "add", "x.kith", "p.u8bin", "-o", "y.kith", says=["x.kith: "])
        self.wrong(1, "info", "x.kith", says=["x.kith: "])


if __name__ == "__main__":
    support.main()
