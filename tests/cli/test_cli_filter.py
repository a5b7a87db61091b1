# SPDX-License-Identifier: Apache-2.0
"""--allow, --groups, --query-groups, --rule: neighbours among some rows; what is refused."""
import cli_support as support
from cli_support import CliCase, matrix_bin, random_bytes, read_npz

ROWS, QUERIES, COLUMNS, K = 90, 12, 6, 4
NONE = -1


def of(i):
    return (i * 7 + i // 5) % 4


class Filter(CliCase):
    def setUp(self):
        super().setUp()
        self.points("p.u8bin", ROWS, COLUMNS, 3)
        self.write("q.u8bin", matrix_bin(random_bytes(QUERIES, COLUMNS, 4), "B"))
        self.column("g.csv", [of(i) for i in range(ROWS)])
        self.column("qg.csv", [i % 5 for i in range(QUERIES)])
        self.column("a.csv", [int(i % 3 == 0) for i in range(ROWS)])

    def column(self, name, values):
        self.write(name, "".join(f"{value}\n" for value in ["value", *values]).encode())

    def rows(self, table):
        values, (rows, columns) = table
        return [list(values[row * columns:(row + 1) * columns]) for row in range(rows)]

    def lists(self, *words):
        """All rows of the corpus in order for each query, of which a test takes what it may."""
        self.works(*words, "-o", "all.npz", "-q")
        return self.rows(read_npz(self.folder / "all.npz")["ids"])

    def found(self, *words):
        self.works(*words, "-o", "some.npz", "-q")
        return self.rows(read_npz(self.folder / "some.npz")["ids"])

    def first(self, ids, allowed, k=K):
        kept = [i for i in ids if allowed(i)][:k]
        return kept + [NONE] * (k - len(kept))

    def check(self, found, lists, allowed):
        wanted = [self.first(ids, lambda i, row=row: allowed(row, i)) for row, ids in enumerate(lists)]
        self.assertEqual([list(row) for row in found], wanted)

    def test_search(self):
        """what filtering the whole order of each query by hand gives, in both rules and with a bitmap"""
        words = "search", "p.u8bin", "q.u8bin", "-k"
        lists = self.lists(*words, ROWS)
        groups = "--groups", "g.csv", "--query-groups", "qg.csv"
        self.check(self.found(*words, K, *groups), lists, lambda q, i: of(i) == q % 5)
        self.check(self.found(*words, K, *groups, "--rule", "other", "--allow", "a.csv"), lists,
                   lambda q, i: of(i) != q % 5 and i % 3 == 0)
        self.check(self.found(*words, K, "--allow", "a.csv"), lists, lambda q, i: i % 3 == 0)

    def test_graph(self):
        """the same of a graph, whose rows are in its own order, in all three rules and with a bitmap"""
        words = "graph", "p.u8bin", "-k"
        lists = self.lists(*words, ROWS - 1)
        groups = "--groups", "g.csv"
        self.check(self.found(*words, K, *groups), lists, lambda row, i: of(i) == of(row))
        self.check(self.found(*words, K, *groups, "--rule", "other", "--allow", "a.csv"), lists,
                   lambda row, i: of(i) != of(row) and i % 3 == 0)
        self.check(self.found(*words, K, "--allow", "a.csv"), lists, lambda row, i: i % 3 == 0)
        found = self.found(*words, K, *groups, "--rule", "each")
        for row, ids in enumerate(lists):
            wanted = [self.first(ids, lambda i, group=group: of(i) == group) for group in range(4)]
            self.assertEqual(list(found[row]), sum(wanted, []))
        self.assertIn("memory", self.works(*words, K, *groups, "--dry-run"))

    def test_radius(self):
        """all within a radius that may be found; each is of lists of k"""
        words = "graph", "p.u8bin", "--radius", 200
        lists = self.lists("graph", "p.u8bin", "-k", ROWS - 1)
        self.works(*words, "--groups", "g.csv", "-o", "same.csv")
        self.works(*words, "-o", "all.csv")
        pairs = [[line.split(",")[:2] for line in (self.folder / name).read_text().splitlines()[1:]]
                 for name in ("all.csv", "same.csv")]
        self.assertEqual([pair for pair in pairs[0] if of(int(pair[0])) == of(int(pair[1]))], pairs[1])
        self.assertTrue(0 < len(pairs[1]) < len(pairs[0]) <= sum(map(len, lists)))
        self.fails(2, *words, "--groups", "g.csv", "--rule", "each", says=["each is of lists of k"])

    def test_each(self):
        """k of every group, side by side"""
        words = "search", "p.u8bin", "q.u8bin", "-k"
        lists = self.lists(*words, ROWS)
        found = self.found(*words, K, "--groups", "g.csv", "--rule", "each")
        for row, ids in enumerate(lists):
            wanted = [self.first(ids, lambda i, group=group: of(i) == group) for group in range(4)]
            self.assertEqual(list(found[row]), sum(wanted, []))

    def test_walks(self):
        """walks on a graph tell of what may be found, with the recall of that; few rows are compared"""
        self.points("w.u8bin", 2000, COLUMNS, 3)
        self.column("half.csv", [i % 2 for i in range(2000)])
        self.column("few.csv", [int(i % 100 == 0) for i in range(2000)])
        self.works("graph", "w.u8bin", "-k", 12, "-o", "w.kith", "-q")
        words = "search", "w.kith", "w.u8bin", "q.u8bin", "-k", K
        true = self.found("search", "w.u8bin", "q.u8bin", "-k", K, "--allow", "half.csv")
        report = self.works_json(*words, "--allow", "half.csv", "--tune", "width=30", "-o", "some.npz")
        found = self.rows(read_npz(self.folder / "some.npz")["ids"])
        self.assertFalse(report["exact"])
        self.assertTrue(all(i % 2 == 1 for row in found for i in row))
        same = sum(len(set(a) & set(b)) for a, b in zip(found, true))
        self.assertGreater(same, 0.8 * K * QUERIES)
        self.assertGreaterEqual(report["recall"]["estimate"], same / (K * QUERIES) - 1e-9)
        few = self.works_json(*words, "--allow", "few.csv", "--recall", "0.9", "-o", "some.npz")
        self.assertEqual((few["exact"], few["reached"]), (True, True))
        self.assertEqual(self.rows(read_npz(self.folder / "some.npz")["ids"]),
                         self.found("search", "w.u8bin", "q.u8bin", "-k", K, "--allow", "few.csv"))
        lines = self.works(*words, "--allow", "few.csv", "--recall", "0.9").splitlines()
        self.assertEqual(lines[-3], "walks would have taken longer than to compare all points that may be found")
        self.column("wg.csv", [of(i) for i in range(2000)])
        each = self.found(*words, "--groups", "wg.csv", "--rule", "each")
        self.assertEqual(each, self.found("search", "w.u8bin", "q.u8bin", "-k", K, "--groups", "wg.csv",
                                          "--rule", "each"))
        self.fails(2, *words, "--allow", "half.csv", "--radius", 3, says=["--radius"])
        self.fails(2, *words, "--allow", "half.csv", "--stream", "-o", "x.npz", says=["--stream"])

    def test_what_files_and_plans_say(self):
        """a file does not tell a filter, and is not certified; a plan is told"""
        words = "search", "p.u8bin", "q.u8bin", "-k", K, "--groups", "g.csv", "--query-groups", "qg.csv"
        report = self.works(*words, "-o", "g.kith")
        self.assertIn("no file says the filter", report)
        self.assertIsNone(self.works_json("info", "g.kith")["exact"])
        self.assertIn("memory", self.works(*words, "--dry-run"))

    def test_mistakes(self):
        """one error that names the file, the row or the option"""
        self.column("half.csv", [0.5] * ROWS)
        self.column("two.csv", [2] * ROWS)
        self.column("minus.csv", [1, 0, -3] + [1] * (ROWS - 3))
        words = "search", "p.u8bin", "q.u8bin", "-k", K
        groups = "--groups", "g.csv", "--query-groups", "qg.csv"
        for code, more, told in (
                (1, ("--allow", "two.csv"), "row 0 is 2, which has no meaning here (give whole numbers from 0 to 1)"),
                (1, ("--allow", "qg.csv"), "qg.csv"),
                (1, ("--groups", "half.csv", "--rule", "each"), "row 0 is 0.5"),
                (1, ("--groups", "minus.csv", "--rule", "each"), "row 2 is -3"),
                (2, ("--groups", "g.csv"), "--query-groups"),
                (2, ("--rule", "each"), "means nothing without groups"),
                (2, ("--query-groups", "qg.csv"), "goes with groups"),
                (2, (*groups, "--both"), "--both"),
                (2, (*groups, "--stream", "-o", "x.npz"), "--stream"),
                (2, (*groups, "--tune", "pipeline=matrix"), "pipeline")):
            self.fails(code, *words, *more, says=[told])
        for more, told in (
                (("--method", "descent"), "under a filter all are found"),
                (("--recall", "0.9"), "--recall"),
                (("--symmetric", "union"), "--symmetric"),
                (("--shards", "x", "-o", "x.npz", "--rule", "each"), "lists of shards have k entries")):
            self.fails(2, "graph", "p.u8bin", "-k", K, "--groups", "g.csv", *more, says=[told])

    def test_inputs_stay(self):
        """an output that is a bitmap or groups, under another name"""
        for name in "g.csv", "qg.csv":
            before = (self.folder / name).read_bytes()
            for more in (("search", "p.u8bin", "q.u8bin", "-k", K, "--groups", "g.csv", "--query-groups", "qg.csv"),
                         ("truth", "p.u8bin", "q.u8bin", "-k", K, "--groups", "g.csv", "--query-groups", "qg.csv"),
                         ("pairs", "p.u8bin", "q.u8bin", "--radius", 9, "--groups", "g.csv",
                          "--query-groups", "qg.csv")):
                output = {"search": "x.npz", "truth": "x.knn", "pairs": "x.npy"}[more[0]]
                (self.folder / output).hardlink_to(self.folder / name)
                self.fails(1, *more, "-o", output, says=["input and output at once"])
                self.assertEqual((self.folder / name).read_bytes(), before)
                (self.folder / output).unlink()


if __name__ == "__main__":
    support.main()
