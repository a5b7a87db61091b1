# SPDX-License-Identifier: Apache-2.0
"""What each command gives when it works, against plain answers computed here."""
import json
import os
import re
import struct
import subprocess

import cli_support as support
from cli_support import CliCase, float32, ids_of, plain_lists, read_bin, read_npz, roots


class Graph(CliCase):
    def test_graph_npz(self):
        """a graph in .npz is the plain answer: ids, distances, meta"""
        points = self.points(rows=83, columns=7)
        self.works("graph", "points.u8bin", "-k", "4", "-o", "graph.npz")
        truth = plain_lists(points, points, 4, True)
        arrays = read_npz(self.folder / "graph.npz")
        self.assertEqual(arrays["ids"], (ids_of(truth), (83, 4)))
        self.assertEqual(arrays["distances"], (roots(truth), (83, 4)))
        self.assertEqual(self.files(), ["graph.npz", "points.u8bin"])

    def test_graph_ibin(self):
        """ids in .ibin and .ivecs, distances in .fbin beside them"""
        points = self.points()
        truth = plain_lists(points, points, 3, True)
        self.works("graph", "points.u8bin", "-k", "3", "-o", "g.ibin", "--distances", "g.fbin")
        self.assertEqual(sum(read_bin(self.folder / "g.ibin", "i"), []), ids_of(truth))
        self.assertEqual(sum(read_bin(self.folder / "g.fbin", "f"), []), roots(truth))
        self.works("graph", "points.u8bin", "-k", "3", "-o", "g.ivecs")
        data = (self.folder / "g.ivecs").read_bytes()
        rows = [struct.unpack_from("<4i", data, 16 * i) for i in range(60)]
        self.assertTrue(all(row[0] == 3 for row in rows))
        self.assertEqual([i for row in rows for i in row[1:]], ids_of(truth))

    def test_include_self(self):
        """--include-self lets a point compete; a copy with a smaller id comes before it"""
        self.write("p.u8bin", support.matrix_bin([[9, 9], [1, 1], [9, 9], [5, 1]], "B"))
        self.works("graph", "p.u8bin", "-k", "2", "--include-self", "-o", "g.ibin")
        self.assertEqual(read_bin(self.folder / "g.ibin", "i"), [[0, 2], [1, 3], [0, 2], [3, 1]])
        self.works("graph", "p.u8bin", "-k", "1", "-o", "g.ibin")
        self.assertEqual(read_bin(self.folder / "g.ibin", "i"), [[2], [3], [0], [1]])

    def test_format(self):
        """--format writes what it says, whatever the file is called"""
        self.points()
        self.works("graph", "points.u8bin", "-k", "3", "-o", "a.ibin")
        self.works("graph", "points.u8bin", "-k", "3", "-o", "b.out", "--format", "ibin")
        self.assertEqual((self.folder / "a.ibin").read_bytes(),
                         (self.folder / "b.out").read_bytes())
        self.works("graph", "points.u8bin", "-k", "3", "-o", "c.npz", "--format", "csr")
        self.assertIn("indptr", read_npz(self.folder / "c.npz"))

    def test_equal_bytes(self):
        """equal answers are equal files: threads, instruction sets, and every run"""
        self.points(rows=300, columns=33)
        for ending in ("npz", "kith", "knn"):
            files = []
            for threads, isa in ((1, None), (2, None), (2, "portable")):
                name = f"g{len(files)}.{ending}"
                self.works("graph", "points.u8bin", "-k", "7", "--threads", threads, "-o", name,
                           environment={"KITH_ISA": isa} if isa else None)
                files.append((self.folder / name).read_bytes())
            self.assertEqual(files[0], files[1])
            self.assertEqual(files[0], files[2])

    def test_pipelines(self):
        """--tune pipeline=matrix by every method writes the file that the fused one writes"""
        points = "points.u8bin"
        self.points(points)
        self.works("graph", points, "-k", "4", "-o", "fused.npz")
        wanted = (self.folder / "fused.npz").read_bytes()
        for method in ("auto scan insertion heap merge_queue quick bitonic radix "
                       "threshold_heap").split():
            told = self.works_json("graph", points, "-k", "4", "--tune", f"pipeline=matrix,select={method}",
                                   "--device", "cpu", "-o", "matrix.npz")
            self.assertEqual(told["screen"], "matrix")
            self.assertIn("select", told["seconds"])
            self.assertEqual((self.folder / "matrix.npz").read_bytes(), wanted)
        for more in ("", ",leaf-buffer=2", ",tree-height=1,leaf-buffer=40"):
            told = self.works_json("graph", points, "-k", "4", "--tune", "pipeline=buffer_tree" + more,
                                   "-o", "buffers.npz")
            self.assertEqual(told["screen"], "buffer_tree")
            self.assertEqual((self.folder / "buffers.npz").read_bytes(), wanted)
        self.fails(1, "graph", points, "-k", "4", "--tune", "pipeline=buffer_tree", "--metric", "cosine",
                   says=["metric is cosine, which has no tree"])
        self.fails(1, "graph", points, "-k", "4", "--tune", "pipeline=buffer_tree,tree-height=20",
                   says=["tree_height is 20, must be 0 to"])
        self.fails(1, "graph", points, "-k", "4", "--tune", "pipeline=hybrid", "--device", "cpu",
                   says=["pipeline is hybrid", "the device cpu was asked for"])

    def test_methods(self):
        """--method tree writes the file that exact writes, and says that it was the tree"""
        points = "points.u8bin"
        self.points(points)
        self.works("graph", points, "-k", "4", "--method", "exact", "-o", "exact.npz")
        told = self.works_json("graph", points, "-k", "4", "--method", "tree", "--device", "cpu",
                               "-o", "tree.npz")
        self.assertEqual((told["method"], told["screen"]), ("tree", "tree"))
        self.assertEqual((self.folder / "tree.npz").read_bytes(),
                         (self.folder / "exact.npz").read_bytes())
        told = self.works_json("search", points, points, "-k", "4", "--method", "tree",
                               "--device", "cpu", "--dry-run")
        self.assertEqual(told["method"], "tree")
        self.fails(1, "graph", points, "-k", "4", "--method", "tree", "--metric", "cosine",
                   says=["metric is cosine, which has no tree", "chebyshev"])
        self.fails(1, "graph", points, "-k", "4", "--method", "tree", "--tune", "pipeline=matrix",
                   says=["method is tree"])

    def test_nothing_without_output(self):
        """without -o nothing is written"""
        self.points()
        self.works("graph", "points.u8bin", "-k", "3")
        self.assertEqual(self.files(), ["points.u8bin"])

    def test_every_metric(self):
        """every metric and its certificate"""
        self.points(rows=40)
        for metric in support.metrics():
            told = self.works_json("graph", "points.u8bin", "-k", "39", "--metric", metric)
            self.assertEqual((told["metric"], told["exact"], told["k"]), (metric, True, 39))
        told = self.works_json("graph", "points.u8bin", "-k", "1", "--metric", "pearson")
        self.assertEqual(told["metric"], "correlation")

    def test_radius(self):
        """--radius finds all within it, the border included, as a SciPy matrix in .npz"""
        points = self.points(rows=50, columns=3)
        self.works("graph", "points.u8bin", "--radius", "90", "-o", "near.npz")
        arrays = read_npz(self.folder / "near.npz")
        truth = [[(key, j) for key, j in row if key <= 8100]
                 for row in plain_lists(points, points, 49, True)]
        ends = [sum(len(row) for row in truth[:i]) for i in range(51)]
        self.assertEqual(list(arrays["indptr"][0]), ends)
        for i, row in enumerate(truth):
            part = slice(ends[i], ends[i + 1])
            found = dict(zip(arrays["indices"][0][part], arrays["data"][0][part]))
            self.assertEqual(found, {j: float32(key ** 0.5) for key, j in row})
        told = self.works_json("graph", "points.u8bin", "--radius", "90")
        self.assertEqual((told["pairs"], told["radius"]), (ends[-1], 90))
        told = self.works_json("graph", "points.u8bin", "--radius", "90", "--method", "tree", "-o",
                               "tree.npz")
        self.assertEqual((told["method"], told["screen"]), ("tree", "tree"))
        self.assertEqual((self.folder / "tree.npz").read_bytes(),
                         (self.folder / "near.npz").read_bytes())

    def test_symmetric(self):
        """--symmetric writes the edges that one of two rows has, or both, at their distances"""
        self.points("points.u8bin", 90, 5)
        self.works("graph", "points.u8bin", "-k", "4", "-o", "g.npz")
        graph = read_npz(self.folder / "g.npz")
        near = [{} for _ in range(90)]
        for at, other in enumerate(graph["ids"][0]):
            near[at // 4][other] = graph["distances"][0][at]
        for name, keeps in (("union", any), ("mutual", all)):
            for more in ([], ["--method", "descent", "--tune", "sample=0"]):
                told = self.works_json("graph", "points.u8bin", "-k", "4", "--symmetric", name, "-o",
                                       "s.npz", *more)
                arrays = read_npz(self.folder / "s.npz")
                first = arrays["indptr"][0]
                self.assertEqual((told["pairs"], len(first)), (first[-1], 91))
                for row in range(90):
                    span = slice(first[row], first[row + 1])
                    edges = sorted((near[row].get(other, near[other].get(row)), other)
                                   for other in range(90)
                                   if keeps((other in near[row], row in near[other])))
                    self.assertEqual(list(arrays["indices"][0][span]), [e[1] for e in edges])
                    self.assertEqual(list(arrays["data"][0][span]), [e[0] for e in edges])
        self.assertIn("edges: ", self.works("graph", "points.u8bin", "-k", "4", "--symmetric", "union"))
        for words, says in (("--symmetric both", "--symmetric: 'both' is no symmetry"),
                            ("--symmetric union --radius 3", "does not go together with --radius"),
                            ("--symmetric union --distances d.npy -o s.npz", "with --distances"),
                            ("--symmetric union --format npz -o s.npz", "written as the name of FILE says"),
                            ("--symmetric union -o s.knn", "its ending names no format for this")):
            self.fails(2, "graph", "points.u8bin", "-k", "4", *words.split(), says=[says])

    def test_radius_limit(self):
        """-k with --radius: the k nearest within it, empty slots behind them"""
        points = self.points(rows=50, columns=3)
        truth = plain_lists(points, points, 6, True)
        wide = [[(key, j) for key, j in row if key <= 8100] for row in truth]
        self.assertTrue(any(len(row) == 6 for row in wide) and any(len(row) < 6 for row in wide))
        for method in ("exact", "tree"):
            told = self.works_json("graph", "points.u8bin", "-k", "6", "--radius", "90",
                                   "--method", method, "-o", "near.npz")
            self.assertEqual((told["k"], told["radius"], told["method"]), (6, 90, method))
            arrays = read_npz(self.folder / "near.npz")
            gaps = [[None] * (6 - len(row)) for row in wide]
            ids = [[j for _, j in row] + [-1 for _ in gap] for row, gap in zip(wide, gaps)]
            far = [[float32(key ** 0.5) for key, _ in row] + [float("inf") for _ in gap]
                   for row, gap in zip(wide, gaps)]
            self.assertEqual(arrays["ids"], (sum(ids, []), (50, 6)))
            self.assertEqual(arrays["distances"], (sum(far, []), (50, 6)))
        self.works("graph", "points.u8bin", "-k", "6", "--radius", "0", "-o", "equal.npz")
        equal = [[j for key, j in row if key == 0] for row in truth]
        self.assertEqual(read_npz(self.folder / "equal.npz")["ids"][0],
                         sum((row + [-1] * (6 - len(row)) for row in equal), []))
        self.works("graph", "points.u8bin", "-k", "6", "--radius", "90", "--format", "csr", "-o",
                   "near.npz")
        arrays = read_npz(self.folder / "near.npz")
        ends = [sum(len(row) for row in wide[:i]) for i in range(51)]
        self.assertEqual(list(arrays["indptr"][0]), ends)


class Search(CliCase):
    def test_search(self):
        """search gives each query its rows of the corpus"""
        corpus = self.points("c.u8bin", rows=70)
        queries = self.points("q.u8bin", rows=9, seed=2)
        self.works("search", "c.u8bin", "q.u8bin", "-k", "70", "-o", "found.npz")
        arrays = read_npz(self.folder / "found.npz")
        truth = plain_lists(corpus, queries, 70, False)
        self.assertEqual(arrays["ids"], (ids_of(truth), (9, 70)))
        self.assertEqual(arrays["distances"], (roots(truth), (9, 70)))

    def test_mixed_types(self):
        """corpus and queries may have different types"""
        corpus = self.points("c.u8bin", rows=30)
        queries = [[float(x) + 0.25 for x in row] for row in support.random_bytes(4, 5, 3)]
        self.write("q.fbin", support.matrix_bin(queries, "f"))
        self.works("search", "c.u8bin", "q.fbin", "-k", "3", "-o", "found.ibin")
        truth = plain_lists(corpus, queries, 3, False)
        self.assertEqual(sum(read_bin(self.folder / "found.ibin", "i"), []), ids_of(truth))

    def test_both(self):
        """--both writes what two searches would: -o the queries' lists, --output-back the others"""
        self.points("a.u8bin", rows=70)
        self.points("b.u8bin", rows=41, seed=2)
        self.works("search", "a.u8bin", "b.u8bin", "-k", "5", "--both", "-o", "x.npz",
                   "--output-back", "y.npz")
        self.works("search", "a.u8bin", "b.u8bin", "-k", "5", "-o", "x1.npz")
        self.works("search", "b.u8bin", "a.u8bin", "-k", "5", "-o", "y1.npz")
        for name in ("x", "y"):
            self.assertEqual(read_npz(self.folder / f"{name}.npz"),
                             read_npz(self.folder / f"{name}1.npz"))

    def test_mutual(self):
        """--mutual writes the pairs that choose each other"""
        a = self.points("a.u8bin", rows=70)
        b = self.points("b.u8bin", rows=41, seed=2)
        in_a = [[j for _, j in row] for row in plain_lists(a, b, 2, False)]
        in_b = [[j for _, j in row] for row in plain_lists(b, a, 2, False)]
        truth = [[i, j] for i, row in enumerate(in_b) for j in row if i in in_a[j]]
        told = self.works_json("search", "a.u8bin", "b.u8bin", "-k", "2", "--mutual", "-o", "p.ibin")
        self.assertEqual(told["pairs"], len(truth))
        self.assertEqual(read_bin(self.folder / "p.ibin", "i"), truth)
        self.works("search", "a.u8bin", "b.u8bin", "-k", "2", "--mutual", "-o", "p.csv")
        lines = (self.folder / "p.csv").read_text().split()
        self.assertEqual([[float(x) for x in line.split(",")] for line in lines], truth)

    def test_search_radius(self):
        """search --radius counts the corpus' rows within it"""
        corpus = self.points("c.u8bin", rows=50)
        queries = self.points("q.u8bin", rows=9, seed=2)
        told = self.works_json("search", "c.u8bin", "q.u8bin", "--radius", "150")
        truth = plain_lists(corpus, queries, 50, False)
        self.assertEqual(told["pairs"], sum(key <= 150 ** 2 for row in truth for key, _ in row))


class Report(CliCase):
    def test_json(self):
        """--json has the members of the contract, and times that add up"""
        self.points(rows=500, columns=20)
        told = self.works_json("graph", "points.u8bin", "-k", "10", "-o", "g.npz")
        self.assertEqual((told["command"], told["method"], told["backend"]),
                         ("graph", "exact", "cpu"))
        self.assertEqual((told["n"], told["queries"], told["d"], told["k"]), (500, 500, 20, 10))
        self.assertEqual((told["metric"], told["dtype"], told["output"]),
                         ("euclidean", "uint8", "g.npz"))
        self.assertIs(told["exact"], True)
        for name in ("isa", "threads", "screen", "candidates", "rerun_share", "skipped_share",
                     "distinct_rows", "version", "commit", "plan_bytes"):
            self.assertIn(name, told)
        seconds = told["seconds"]
        self.assertEqual(set(seconds), {"total", "read", "check", "prepare", "screen", "rescore",
                                        "write"})
        parts = sum(value for name, value in seconds.items() if name != "total")
        self.assertLessEqual(parts, seconds["total"] * 1.001 + 1e-4)
        self.assertGreater(told["peak_bytes"]["host"], 500 * 20)
        self.assertTrue(0 <= told["rerun_share"] <= 1 and 0 <= told["skipped_share"] <= 1)

    def test_json_names(self):
        """a file name that is no UTF-8 still gives valid JSON"""
        name = os.fsencode(self.folder) + b'/\xff"\\\x01.u8bin'
        with open(name, "wb") as file:
            file.write(support.matrix_bin(support.random_bytes(5, 2, 1), "B"))
        done = subprocess.run([support.KITH, "info", name, "--json"], capture_output=True)
        self.assertEqual(done.returncode, 0)
        told = json.loads(done.stdout.decode("utf-8"))
        self.assertTrue(told["file"].endswith('\ufffd"\\\x01.u8bin'))

    def test_text(self):
        """the report for people with --verbose says how it was done; --quiet says nothing"""
        self.points()
        text = self.works("graph", "points.u8bin", "-k", "3", "-o", "g.npz", "--verbose")
        for line in ("points: points.u8bin, 60 x 5 uint8", "metric: euclidean", "k: 3",
                     "output: g.npz"):
            self.assertIn(line + "\n", text)
        for word in ("read", "check", "prepare", "screen", "rescore", "write", "total"):
            self.assertRegex(text, rf"seconds: .*\b{word} \d")
        for word in ("memory: planned", "peak memory:", "candidates a row:", "rerun share:",
                     "skipped share:", "threads"):
            self.assertIn(word, text)
        self.assertEqual(self.works("graph", "points.u8bin", "-k", "3", "-q", "-o", "g.npz"), "")

    def test_first_screen(self):
        """without --verbose: points, metric, k, exact, seconds, output; --json has all the same"""
        self.points()
        words = ("graph", "points.u8bin", "-k", "3", "-o", "g.npz")
        lines = self.works(*words).splitlines()
        self.assertEqual([line.split(":")[0] for line in lines],
                         ["points", "metric", "k", "exact", "seconds", "output"])
        self.assertRegex(lines[4], r"^seconds: \d+\.\d{3}$")
        verbose = self.works(*words, "-v").splitlines()
        self.assertEqual([line for line in lines if not line.startswith("seconds")],
                         [line for line in verbose if line in lines])
        self.assertEqual(set(self.works_json(*words)), set(self.works_json(*words, "-v")))
        self.works("convert", "points.u8bin", "points.fbin")
        for words in (("search", "points.u8bin", "points.u8bin", "-k", "2"),
                      ("graph", "points.u8bin", "-k", "3", "--recall", "0.9"),
                      ("select", "points.fbin", "-k", "2"),
                      ("predict", "points.u8bin", "labels.csv", "points.u8bin", "-k", "2"),
                      ("merge", "g.npz", "points.u8bin", "g.npz", "points.u8bin", "-o", "m.npz"),
                      ("index", "build", "--method", "tree", "points.u8bin", "-o", "t.kith")):
            self.write("labels.csv", b"1.5\n" * 60)
            short, long = (self.works(*words, *more).splitlines() for more in ((), ("-v",)))
            self.assertLess(len(short), len(long), words)
            self.assertLessEqual(len(short), 8, words)
            self.assertTrue(any(line.startswith("seconds: 0.") for line in short), words)
            self.assertFalse(any("memory" in line or "isa" in line for line in short), words)

    def test_dry_run(self):
        """--dry-run prints the plan, writes nothing, computes nothing"""
        self.points()
        text = self.works("graph", "points.u8bin", "-k", "3", "-o", "g.npz", "--dry-run")
        self.assertIn("memory: planned", text)
        told = self.works_json("graph", "points.u8bin", "-k", "3", "--dry-run")
        self.assertTrue(told["dry_run"])
        self.assertEqual(told["plan_bytes"]["result"], 60 * 3 * 8)
        self.assertEqual(self.files(), ["points.u8bin"])

    def test_memory(self):
        """--memory refuses what the plan cannot keep, names a figure, and that figure suffices"""
        self.points(rows=2000, columns=300)
        words = ("graph", "points.u8bin", "-k", "100")
        need = self.works_json(*words, "--dry-run")["plan_bytes"]["peak"]
        told = self.fails(1, *words, "--memory", need // 2, says=["points.u8bin", str(need)])
        self.works(*words, "--memory", told.split("give --memory ")[1].split()[0])
        self.fails(1, *words, "--memory", need - 1, "--dry-run", says=["--memory allows"])


class Others(CliCase):
    def test_eval(self):
        """eval RESULT TRUTH: recall, at K, of a result with known misses"""
        self.points(rows=50)
        self.works("graph", "points.u8bin", "-k", "10", "-o", "truth.npz")
        told = self.works_json("eval", "truth.npz", "truth.npz")
        self.assertEqual((told["recall"]["at"], told["recall"]["estimate"]), (10, 1))
        self.works("graph", "points.u8bin", "-k", "10", "--include-self", "-o", "self.npz")
        text = self.works("eval", "self.npz", "truth.npz", "-k", "4")
        self.assertIn("recall@4: ", text)

    def test_eval_page(self):
        """eval --html: the report's lines on one page, whole or not at all, whatever files are called"""
        self.points(rows=60)
        self.points("<b> & c.u8bin", rows=60)
        self.works("graph", "points.u8bin", "-k", "5", "-o", "g.npz")
        text = self.works("eval", "g.npz", "--points", "<b> & c.u8bin", "--html", "page.html")
        page = (self.folder / "page.html").read_text()
        rows = re.findall(r"<tr><th>(.*)</th><td>(.*)</td></tr>", page)
        told = [line.split(": ", 1) for line in text.splitlines()]
        self.assertEqual(told.pop(), ["output", "page.html"])
        self.assertEqual(rows[:2], [("result", "g.npz"), ("points", "&lt;b&gt; &amp; c.u8bin")])
        self.assertEqual([list(row) for row in rows[2:-1]], told)
        self.assertEqual(rows[-1][0], "kith")
        self.assertNotIn("<script", page)
        self.assertNotIn("http", page)
        mask = os.umask(0)
        os.umask(mask)
        self.assertEqual((self.folder / "page.html").stat().st_mode & 0o777, 0o666 & ~mask)
        told = self.works_json("eval", "g.npz", "g.npz", "--html", "page.html")
        self.assertEqual(told["output"], "page.html")
        self.assertIn("<th>truth</th><td>g.npz</td>", (self.folder / "page.html").read_text())
        before = self.files()
        self.assertEqual([name for name in before if name.startswith(".")], [])
        for code, path, says in ((2, "page.txt", [".html"]), (1, "none/page.html", ["its folder"]),
                                 (2, "-", ["standard output"])):
            self.fails(code, "eval", "g.npz", "g.npz", "--html", path, says=says)
        self.fails(1, "eval", "none.npz", "g.npz", "--html", "other.html")
        self.fails(2, "graph", "points.u8bin", "-k", "3", "--html", "page.html", says=["--html"])
        self.assertEqual(self.files(), before)

    def test_eval_points(self):
        """eval GRAPH --points: an exact graph has recall 1, a random one has not; ids suffice"""
        self.points(rows=200)
        self.works("graph", "points.u8bin", "-k", "10", "-o", "g.ibin")
        told = self.works_json("eval", "g.ibin", "--points", "points.u8bin", "--sample", "50")
        self.assertEqual((told["recall"]["estimate"], told["recall"]["sample"]), (1, 50))
        wrong = [[(i + j + 1) % 200 for j in range(10)] for i in range(200)]
        self.write("w.ibin", support.matrix_bin(wrong, "i"))
        told = self.works_json("eval", "w.ibin", "--points", "points.u8bin", "--seed", "7")
        self.assertEqual(told["recall"]["sample"], 200)
        self.assertLess(told["recall"]["estimate"], 0.3)

    def test_info(self):
        """info knows points and results, in text and as JSON"""
        self.points()
        told = self.works_json("info", "points.u8bin")
        self.assertEqual((told["kind"], told["format"], told["dtype"], told["n"], told["d"]),
                         ("points", "u8bin", "uint8", 60, 5))
        self.works("graph", "points.u8bin", "-k", "3", "--metric", "cosine", "-o", "g.npz")
        told = self.works_json("info", "g.npz")
        self.assertEqual((told["kind"], told["n"], told["k"], told["metric"], told["exact"]),
                         ("graph", 60, 3, "cosine", True))
        self.assertIn("kind: graph\n", self.works("info", "g.npz"))

    def test_convert_points(self):
        """points come back from every format as they were"""
        self.points()
        for ending in ("npy", "bvecs", "csv", "tsv", "fbin", "fvecs", "ibin", "ivecs", "kith"):
            self.works("convert", "points.u8bin", f"p.{ending}")
            self.works("convert", f"p.{ending}", "back.u8bin")
            self.assertEqual((self.folder / "points.u8bin").read_bytes(),
                             (self.folder / "back.u8bin").read_bytes(), ending)

    def test_convert_results(self):
        """results come back from every format with distances as they were"""
        self.points()
        self.works("graph", "points.u8bin", "-k", "3", "-o", "g.npz")
        for ending in ("kith", "knn"):
            self.works("convert", "g.npz", f"r.{ending}")
            self.works("convert", f"r.{ending}", "back.npz")
            for name in ("ids", "distances"):
                self.assertEqual(read_npz(self.folder / "g.npz")[name],
                                 read_npz(self.folder / "back.npz")[name], ending)
        self.works("convert", "g.npz", "r.ibin", "--distances", "r.fbin")
        self.works("convert", "r.ibin", "r.ivecs")
        self.works("convert", "r.ivecs", "s.ibin", "--format", "ibin")
        self.assertEqual((self.folder / "r.ibin").read_bytes(),
                         (self.folder / "s.ibin").read_bytes())
        self.assertEqual(sum(read_bin(self.folder / "r.fbin", "f"), []),
                         read_npz(self.folder / "g.npz")["distances"][0])

    def test_devices(self):
        """devices lists the processor"""
        self.assertTrue(self.works("devices").startswith("cpu: "))
        device = self.works_json("devices")["devices"][0]
        self.assertEqual((device["name"], device["available"]), ("cpu", True))

    def test_device_of_a_job(self):
        """a job says where it ran; small ones run on the processor, whatever there is"""
        self.points()
        for arguments in ((), ("--device", "auto", "--tune", "gpu-memory=1G"), ("--device", "cpu")):
            told = self.works_json("graph", "points.u8bin", "-k", "3", *arguments)
            self.assertEqual((told["backend"], told["gpu"], told["peak_bytes"]["gpu"]),
                             ("cpu", None, 0))
        plan = self.works_json("graph", "points.u8bin", "-k", "3", "--dry-run")
        self.assertEqual((plan["backend"], plan["plan_bytes"]["gpu"]), ("cpu", 0))


if __name__ == "__main__":
    support.main()
