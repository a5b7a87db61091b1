# SPDX-License-Identifier: Apache-2.0
"""kith search GRAPH POINTS QUERIES: walks on a graph, the recall that is told, what is refused."""
import cli_support as support
from cli_support import CliCase, matrix_bin, plain_lists, random_bytes, read_npz

ROWS, QUERIES, COLUMNS, K = 3000, 150, 8, 10


class Walk(CliCase):
    def setUp(self):
        super().setUp()
        self.points("p.u8bin", ROWS, COLUMNS, 3)
        self.write("q.u8bin", matrix_bin(random_bytes(QUERIES, COLUMNS, 4), "B"))
        self.works("graph", "p.u8bin", "-k", 12, "-o", "g.kith")

    def walk(self, *words, **more):
        return self.works_json("search", "g.kith", "p.u8bin", "q.u8bin", "-k", K, *words, **more)

    def test_recall(self):
        """the wanted recall is reached, the one that is told is true, the file says it"""
        self.works("graph", "p.u8bin", "-k", 12, "--metric", "manhattan", "-o", "g.kith")
        found = self.walk("--recall", "0.95@5", "-o", "w.kith")
        self.assertEqual((found["method"], found["exact"], found["reached"]), ("graph", False, True))
        self.assertEqual((found["recall"]["at"], found["recall"]["sample"]), (5, QUERIES))
        self.assertLess(found["evaluations"], ROWS * QUERIES / 2)
        self.works("search", "p.u8bin", "q.u8bin", "-k", K, "--metric", "manhattan", "-o", "e.npz")
        true = self.works_json("eval", "w.kith", "e.npz", "-k", 5)["recall"]["estimate"]
        self.assertAlmostEqual(true, found["recall"]["estimate"], places=12)
        self.assertGreaterEqual(true, 0.95)
        info = self.works_json("info", "w.kith")
        self.assertEqual((info["kind"], info["exact"], info["recall"]["at"]), ("result", False, 5))
        print(f"recall {true:.4f}, width {found['width']} ... ", end="")

    def test_exact(self):
        """few points are compared sooner than walks are over, which is said"""
        self.points("p.u8bin", 400, COLUMNS, 3)
        self.works("graph", "p.u8bin", "-k", 12, "-o", "g.kith")
        found = self.walk("--recall", "0.9", "-o", "w.npz")
        self.assertEqual((found["exact"], found["reached"]), (True, True))
        self.works("search", "p.u8bin", "q.u8bin", "-k", K, "-o", "e.npz")
        exact, walked = read_npz(self.folder / "e.npz"), read_npz(self.folder / "w.npz")
        self.assertEqual(walked["ids"], exact["ids"])
        lines = self.works("search", "g.kith", "p.u8bin", "q.u8bin", "-k", K, "--recall", 0.9).splitlines()
        self.assertEqual(lines[-3], "walks would have taken longer than to compare all points")

    def test_width(self):
        """wider walks look at more and find more; as wide as all points they are exact"""
        told = [self.walk("--tune", f"width={width}") for width in (10, 100)]
        self.assertLess(told[0]["evaluations"], told[1]["evaluations"])
        self.assertLess(told[0]["recall"]["estimate"], told[1]["recall"]["estimate"])
        self.walk("--tune", f"width={ROWS}", "-o", "all.npz")
        self.works("search", "p.u8bin", "q.u8bin", "-k", K, "-o", "e.npz")
        exact, found = read_npz(self.folder / "e.npz"), read_npz(self.folder / "all.npz")
        self.assertEqual(found["ids"], exact["ids"])
        self.assertEqual(found["distances"], exact["distances"])

    def test_report(self):
        """the report has the recall, or that it is not known, or that all is exact"""
        words = ("search", "g.kith", "p.u8bin", "q.u8bin", "-k", K)
        lines = self.works(*words, "--tune", "sample=100", "-v").splitlines()
        self.assertTrue(any(line.startswith("method: graph, screen walk, ") for line in lines))
        self.assertIn("width: 64", lines)
        self.assertTrue(any(line.startswith("graph: g.kith, 12 neighbours a row") for line in lines))
        self.assertRegex(lines[-3], r"^recall@10 = [01]\.\d{4} \+- 0\.\d{4} "
                                    r"\(100 queries solved exactly\)$")
        lines = self.works(*words, "--tune", "sample=0").splitlines()
        self.assertTrue(lines[-3].startswith("recall: not estimated"), lines[-3])
        lines = self.works(*words, "--recall", 1).splitlines()
        self.assertRegex(lines[-3], r"^(walks would have taken longer|recall@10 = 1\.0000)")
        self.assertEqual(lines[-1], "output: none (-o FILE keeps the answer)")

    def test_same_bytes(self):
        """the same file for a seed, whatever the threads"""
        for name, threads, seed in (("a.npz", 1, 5), ("b.npz", 3, 5)):
            self.walk("--tune", f"width=12,seed={seed}", "--threads", threads, "-o", name)
        self.assertEqual((self.folder / "a.npz").read_bytes(), (self.folder / "b.npz").read_bytes())

    def test_metrics(self):
        """every metric that a graph is for, which the file says"""
        for metric in support.metrics():
            self.works("graph", "p.u8bin", "-k", 12, "--metric", metric, "-o", "m.kith")
            found = self.works_json("search", "m.kith", "p.u8bin", "q.u8bin", "-k", 5, "--recall",
                                    "0.9")
            self.assertEqual(found["metric"], metric)
            self.assertTrue(found["reached"], metric)
        self.fails(1, "search", "m.kith", "p.u8bin", "q.u8bin", "-k", 5, "--metric", "l2",
                   says=["m.kith: is a graph for bit_jaccard, --metric says euclidean"])

    def test_ids_alone(self):
        """an .ivecs file is a graph, too; one for another metric finds what it can"""
        self.works("graph", "p.u8bin", "-k", 12, "-o", "g.ivecs")
        found = self.works_json("search", "g.ivecs", "p.u8bin", "q.u8bin", "-k", 5, "--metric",
                                "manhattan")
        self.assertGreater(found["recall"]["estimate"], 0.5)

    def test_few(self):
        """as many neighbours as there are points"""
        points = self.points("few.u8bin", 20, 3)
        self.works("graph", "few.u8bin", "-k", 2, "-o", "few.kith")
        self.works("search", "few.kith", "few.u8bin", "few.u8bin", "-k", 20, "-o", "few.npz")
        self.assertEqual(read_npz(self.folder / "few.npz")["ids"][0],
                         support.ids_of(plain_lists(points, points, 20, False)))

    def test_info(self):
        """kith info of a graph: who is named how often, and the parts that it has"""
        near = [[i] for i in (0, 1, 2, 3, 100, 101, 102)]
        self.write("n.u8bin", matrix_bin(near, "B"))
        self.works("graph", "n.u8bin", "-k", 1, "-o", "n.npz")  # 1 0 1 2 | 5 4 5
        info = self.works_json("info", "n.npz")
        self.assertEqual(info["in_degree"], {"least": 0, "median": 1, "most": 2, "none": 2})
        self.assertEqual(info["parts"], 2)
        self.assertIn("named by: 0 to 2 rows, median 1; by nobody: 2 rows\nconnected parts: 2\n",
                      self.works("info", "n.npz"))
        degrees = [0] * ROWS
        self.works("graph", "p.u8bin", "-k", 12, "-o", "g.npz")
        for row in read_npz(self.folder / "g.npz")["ids"][0]:
            degrees[row] += 1
        info = self.works_json("info", "g.kith")
        self.assertEqual(info["in_degree"], {
            "least": min(degrees), "median": sorted(degrees)[(ROWS - 1) // 2],
            "most": max(degrees), "none": degrees.count(0)})
        self.assertNotIn("parts", self.works_json("info", "p.u8bin"))

    def test_refused(self):
        """graphs of other points, results, too many neighbours, a GPU"""
        self.points("few.u8bin", 50, COLUMNS)
        self.points("narrow.u8bin", 50, COLUMNS - 1)
        self.works("search", "p.u8bin", "p.u8bin", "-k", 3, "-o", "r.kith")
        for words, says in (
                ("g.kith few.u8bin q.u8bin", "g.kith: has 3000 rows, few.u8bin has 50"),
                ("r.kith p.u8bin q.u8bin", "r.kith: holds neighbours of queries, and no graph"),
                ("p.u8bin p.u8bin q.u8bin", "p.u8bin"),
                ("g.kith p.u8bin narrow.u8bin", "narrow.u8bin: has 7 columns, p.u8bin has 8"),
                ("g.kith p.u8bin none.u8bin", "none.u8bin"),
                ("g.kith p.u8bin q.u8bin -k 3001", "there are only 3000 points")):
            words = words.split()
            more = [] if "-k" in words else ["-k", K]
            self.fails(1, "search", *words, *more, says=[says])
        # There may be no GPU, which is said first.
        self.fails(1, "search", "g.kith", "p.u8bin", "q.u8bin", "-k", K, "--device", "cuda",
                   says=["cuda"])

    def test_rules(self):
        """what has no meaning together is wrong usage"""
        def written(option):
            words = option.split("=")[0].split()
            return " ".join(words[:2] if words[0] == "--tune" else words[:1])

        for option in ("--method tree", "--tune tree-height=3", "--tune pipeline=matrix", "--radius 3",
                       "--both", "--mutual", "--stream -o x.npz", "--chunk 5 -o x.npz",
                       "--restart -o x.npz", "--dry-run", "--period 500"):
            self.fails(2, "search", "g.kith", "p.u8bin", "q.u8bin", "-k", K, *option.split(),
                       says=[f"{written(option)}: does not go together with a search on a graph"])
        for option in ("--recall 0.9", "--tune width=20", "--tune sample=10", "--tune seed=3"):
            self.fails(2, "search", "p.u8bin", "q.u8bin", "-k", K, *option.split(),
                       says=[f"{written(option)}: goes with a search on a graph"])
        for words, says in (("--recall 0.9 --tune width=20", "--recall: does not go together with"),
                            ("--recall 0.9@11", "--recall: is of more neighbours than k"),
                            ("--recall 0.9 --tune sample=0", "--recall: is not known without a sample"),
                            ("--tune width=9", "--tune width: must be at least k"),
                            ("--tune width=0", "--tune width: '0' is no number of points")):
            self.fails(2, "search", "g.kith", "p.u8bin", "q.u8bin", "-k", K, *words.split(),
                       says=[says])


if __name__ == "__main__":
    support.main()
