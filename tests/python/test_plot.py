# SPDX-License-Identifier: Apache-2.0
"""kith.plot: what is drawn is what the graph is, and each mistake is one sentence."""

import contextlib
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import kith
import numpy as np
import support
from kith.plot import components, in_degrees, layout, main, plot

HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None
MISSING = "Matplotlib is missing"


def parts_by_hand(ids):
    """The smallest point of each one's part, one edge after the other."""
    least = list(range(len(ids)))
    changed = True
    while changed:
        changed = False
        for row, others in enumerate(ids):
            for other in others[others >= 0]:
                low = min(least[row], least[other])
                changed |= least[row] != low or least[other] != low
                least[row] = least[other] = low
    return np.array(least)


class Numbers(unittest.TestCase):
    def test_degrees_and_parts_are_those_that_are_counted_one_by_one(self):
        for rows, k, seed in ((60, 1, 0), (90, 2, 1), (200, 1, 2), (50, 9, 3), (2, 1, 4)):
            x = support.points(rows, 3, seed=seed)
            for graph in kith.knn_graph(x, k), kith.Graph(kith.knn_graph(x, k, radius=0.6)):
                ids = np.asarray(graph.indices)
                counted = [(ids == point).sum() for point in range(rows)]
                np.testing.assert_array_equal(in_degrees(graph), counted)
                np.testing.assert_array_equal(components(graph), parts_by_hand(ids))
        chain = np.roll(np.arange(5000), 1)[:, None]
        random = np.random.default_rng(0).permutation(5000)
        chain = random[chain][np.argsort(random)]
        self.assertFalse(components((np.ones((5000, 1)), chain)).any())

    def test_a_layout_is_the_two_columns_or_keeps_what_differs_most(self):
        flat = support.points(300, 2)
        np.testing.assert_array_equal(layout(flat)[0], flat)
        turn = np.linalg.qr(np.random.default_rng(0).standard_normal((40, 40)))[0][:2]
        for x in flat @ turn, (flat @ turn).astype(np.float64), support.points(5, 9)[[0, 1, 0, 1]]:
            places, told = layout(x)
            apart = support.distances_between(places, places)
            np.testing.assert_allclose(apart, support.distances_between(x, x), atol=1e-4)
            self.assertIn("100% of the variance", told)
        self.assertEqual(layout(support.points(7, 1))[0].shape, (7, 2))
        self.assertEqual(layout(support.points(1, 5))[0].tolist(), [[0, 0]])
        broken = support.points(30, 5)
        broken[29, 3] = np.nan
        with self.assertRaisesRegex(ValueError, r"points\[29, 3\] is NaN"):
            layout(broken)


@unittest.skipUnless(HAS_MATPLOTLIB, MISSING)
class Figures(unittest.TestCase):
    def test_panels_say_what_the_graph_is(self):
        x = np.concatenate([support.points(80, 2), support.points(40, 2) + 100])
        figure = plot(kith.knn_graph(x, 4), x)
        said = [axis.get_title() for axis in figure.axes]
        self.assertEqual(
            figure.get_suptitle(), "120 points, 4 nearest neighbours each (euclidean, exact)"
        )
        self.assertIn("2 parts, the largest of 80 points", said[2])
        self.assertEqual(said[3], "Points: the two columns")
        degrees = in_degrees(kith.knn_graph(x, 4))
        self.assertIn(f"at most {degrees.max()}; {(degrees == 0).sum()} points in no list", said[0])
        drawn = sum(patch.get_height() for patch in figure.axes[0].patches)
        self.assertEqual(drawn, 120)
        self.assertEqual(sum(patch.get_height() for patch in figure.axes[1].patches), 240)
        bare = plot(tuple(kith.knn_graph(x, 1)), title="mine")
        self.assertEqual((len(bare.axes), bare.get_suptitle()), (3, "mine"))
        self.assertEqual(sum(patch.get_height() for patch in bare.axes[1].patches), 120)

    def test_what_does_not_belong_together_is_refused(self):
        x = support.points(50, 3)
        graph = kith.knn_graph(x, 3)
        for points, said in (
            (x[1:], "the graph is of 50 points, and 49 are given"),
            (x + 1, "the graph is of points .* and .* are given"),
        ):
            with self.assertRaisesRegex(ValueError, said):
                plot(graph, points)
        with self.assertRaisesRegex(ValueError, "of 40 queries among 50 points"):
            plot(kith.knn(x, x[:40], 2))
        with self.assertRaisesRegex(ValueError, "of 5 queries among .* points"):
            plot(tuple(part[:5] for part in graph))
        with self.assertRaisesRegex(TypeError, r"graph must be \(distances, indices\)"):
            plot(3)


class Command(unittest.TestCase):
    def main_in(self, folder, *arguments):
        """Exit code, output and errors of the command in a folder, in this process."""
        out, told, before = io.StringIO(), io.StringIO(), os.getcwd()
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
                return main(arguments), out.getvalue(), told.getvalue()
        except SystemExit as left:
            return left.code, out.getvalue(), told.getvalue()
        finally:
            os.chdir(before)

    def run_in(self, folder, *arguments, **environment):
        command = [sys.executable, "-m", "kith.plot", *arguments]
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, env={**os.environ, **environment}
        )

    def test_it_says_how_it_is_used(self):
        done = self.run_in(".", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for word in ("GRAPH", "POINTS", "--output", "examples:", "python -m kith.plot graph.npz"):
            self.assertIn(word, done.stdout)
        for arguments, said in (
            ((), "the following arguments are required: GRAPH"),
            (("a.npz", "-o", "a.pdf"), "a.pdf: its ending is no format of a picture"),
            (("a.npz", "--header", "yes"), "there are none"),
        ):
            code, _, told = self.main_in(".", *arguments)
            self.assertEqual(code, 2)
            self.assertIn(said, told)

    def test_without_matplotlib_it_names_what_installs_it(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "matplotlib.py").write_text("raise ImportError('none')\n")
            path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
            done = self.run_in(folder, "graph.npz", PYTHONPATH=path)
        said = "kith.plot: kith.plot needs Matplotlib (pip install matplotlib)\n"
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", said))

    @unittest.skipUnless(HAS_MATPLOTLIB, MISSING)
    def test_one_graph_in_any_format_is_the_same_bytes(self):
        x = support.points(90, 2)
        graph = kith.Graph(kith.knn_graph(x, 5))
        lines = [f"{i},{a!r},{b!r}" for i, (a, b) in enumerate(x.tolist())]
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            np.save(folder / "x.npy", x)
            (folder / "x.csv").write_text("\n".join(["id,a,b", *lines]))
            graph.save(folder / "g.npz")
            graph.save(folder / "g.kith")
            graph.save(folder / "csr.npz", format="csr")
            graph.save(folder / "g.knn")  # says nothing of its points, and text has them as doubles
            pictures = []
            for arguments in (
                ["g.npz", "x.npy"],
                ["g.kith", "x.npy"],
                ["csr.npz", "x.npy", "-o", "g.png"],
            ):
                self.assertEqual(self.main_in(folder, *arguments), (0, "output: g.png\n", ""))
                pictures.append((folder / "g.png").read_bytes())
            self.assertEqual(pictures[0][:8], b"\x89PNG\r\n\x1a\n")
            self.assertEqual(pictures[1:], pictures[:2])
            asked = ["g.knn", "x.csv", "--columns", "1,2", "--title", "mine", "-o", "g.svg"]
            self.assertEqual(self.main_in(folder, *asked), (0, "output: g.svg\n", ""))
            self.assertIn("<svg", (folder / "g.svg").read_text())
            self.assertEqual([each.name for each in folder.glob(".*")], [])

    @unittest.skipUnless(HAS_MATPLOTLIB, MISSING)
    def test_a_mistake_is_one_sentence_and_leaves_nothing(self):
        x = support.points(40, 3)
        with tempfile.TemporaryDirectory() as folder:
            at = pathlib.Path(folder)
            np.save(at / "x.npy", x)
            np.save(at / "few.npy", x[:30])
            np.save(at / "nan.npy", np.where(np.arange(120).reshape(40, 3) == 100, np.nan, x))
            kith.Graph(kith.knn_graph(x, 5)).save(at / "g.knn")
            kith.Graph(kith.knn_graph(x, 5)).save(at / "g.npz")
            kith.Graph(kith.knn(x, x[:3], 5), n_points=40).save(at / "search.npz")
            (at / "cut.npz").write_bytes((at / "g.npz").read_bytes()[:500])
            (at / "folder.png").mkdir()
            files = sorted(at.iterdir())
            for arguments, said in (
                (("no.npz", "x.npy"), "no.npz: no such file"),
                (("cut.npz", "x.npy"), "cut.npz: "),
                (("x.npy", "x.npy"), "x.npy: "),
                (("g.npz", "no.npy"), "no.npy: "),
                (("g.npz", "few.npy"), "few.npy: the graph is of 40 points, and 30 are given"),
                (("g.npz", "nan.npy"), "nan.npy: the graph is of points"),
                (("g.knn", "nan.npy"), "nan.npy: points[33, 1] is NaN"),
                (("search.npz",), "search.npz: the lists are of 3 queries among 40 points"),
                (("g.npz", "-o", "folder.png"), "folder.png: is a folder"),
                (("g.npz", "-o", "none/p.png"), "none/p.png: none is no folder"),
            ):
                code, out, told = self.main_in(folder, *arguments)
                self.assertEqual((code, out), (1, ""), arguments)
                self.assertEqual(len(told.splitlines()), 1, told)
                self.assertIn(f"kith.plot: {said}", told)
            self.assertEqual(sorted(at.iterdir()), files)


if __name__ == "__main__":
    unittest.main()
