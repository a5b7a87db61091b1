# SPDX-License-Identifier: Apache-2.0
"""--period: graphs, searches, radii, pairs and indexes in a periodic box, as a plain loop has them; what is refused."""

import math
import struct

import cli_support as support
from cli_support import CliCase, matrix_bin, random_bytes, read_npy

ROWS, QUERIES, COLUMNS, K, BOX = 90, 20, 3, 4, (256, 300, 0)


class Period(CliCase):
    def setUp(self):
        super().setUp()
        self.rows = self.points("p.u8bin", ROWS, COLUMNS, 3)
        self.queries = random_bytes(QUERIES, COLUMNS, 4)
        self.write("q.u8bin", matrix_bin(self.queries, "B"))

    def distance(self, a, b):
        apart = [abs(x - y) for x, y in zip(a, b)]
        return math.sqrt(sum(min(d, p - d) ** 2 if p else d * d for d, p in zip(apart, BOX)))

    def nearest(self, row, left_out=None):
        order = sorted(
            (self.distance(row, other), j) for j, other in enumerate(self.rows) if j != left_out
        )
        return [j for _, j in order[:K]]

    def ids(self, name):
        data = (self.folder / name).read_bytes()
        rows, k = struct.unpack_from("<II", data)
        flat = struct.unpack_from(f"<{rows * k}i", data, 8)
        return [list(flat[i * k : (i + 1) * k]) for i in range(rows)]

    def test_lists(self):
        """graph and search, directly and by the tree, in chunks, and by indexes of both kinds"""
        box = "--period", "256,300,0"
        graph = [self.nearest(row, i) for i, row in enumerate(self.rows)]
        found = [self.nearest(row) for row in self.queries]
        for method in ("exact", "tree"):
            words = "-k", K, "--method", method, "-q", "-o", "f.ibin"
            self.works("graph", "p.u8bin", *box, *words)
            self.assertEqual(self.ids("f.ibin"), graph)
            self.works("search", "p.u8bin", "q.u8bin", *box, *words)
            self.assertEqual(self.ids("f.ibin"), found)
            self.works("search", "p.u8bin", "q.u8bin", *box, *words, "--chunk", 7)
            self.assertEqual(self.ids("f.ibin"), found)
            self.works("index", "build", "p.u8bin", *box, "--method", method, "-o", "i.kith", "-q")
            self.assertTrue(self.works_json("info", "i.kith")["periodic"])
            self.works("search", "i.kith", "q.u8bin", "-k", K, "-o", "f.ibin", "-q")
            self.assertEqual(self.ids("f.ibin"), found)
            self.works("search", "i.kith", "q.u8bin", "-k", K, "-o", "f.npz", "-q")
            self.assertIsNone(self.works_json("info", "f.npz").get("exact"))
            self.refused("periodic box", "search", "i.kith", "q.u8bin", "-k", K, "--both")
            self.refused(
                "an index has its own", "search", "i.kith", "q.u8bin", "-k", K, "--period", "9"
            )

    def test_radius_and_pairs(self):
        """all within a radius, and all pairs"""
        radius = 90
        near = sum(self.distance(a, b) <= radius for a in self.queries for b in self.rows)
        told = self.works_json(
            "search", "p.u8bin", "q.u8bin", "--radius", radius, "--period", "256,300,0"
        )
        self.assertEqual(told["pairs"], near)
        pairs = [
            (i, j)
            for i, a in enumerate(self.rows)
            for j, b in enumerate(self.rows)
            if i < j and self.distance(a, b) <= radius
        ]
        self.works(
            "pairs", "p.u8bin", "--radius", radius, "--period", "256,300,0", "-o", "f.npy", "-q"
        )
        body, shape = read_npy((self.folder / "f.npy").read_bytes())
        found = [struct.unpack_from("<IId", body, 16 * p)[:2] for p in range(shape[0])]
        self.assertEqual(sorted(found), pairs)

    def test_refusals(self):
        """what is no box, what lies outside, and what has none"""
        for period, said in (
            ("1,2", "2 lengths and the points have 3 columns"),
            ("nan", "no length of a box"),
            ("-1", "no length of a box"),
            ("256,,3", "no length of a box"),
            ("200", "below its column's period, 200"),
        ):
            self.refused(said, "graph", "p.u8bin", "-k", K, f"--period={period}")
        self.refused(
            "cosine, which has no period",
            "graph",
            "p.u8bin",
            "-k",
            K,
            "--period",
            256,
            "--metric",
            "cosine",
        )
        self.refused(
            "a descent has none",
            "graph",
            "p.u8bin",
            "-k",
            K,
            "--period",
            256,
            "--method",
            "descent",
        )

    def refused(self, said, *words):
        done = self.kith(*words)
        self.assertIn(done.returncode, (1, 2), words)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(said, done.stderr)


if __name__ == "__main__":
    support.main()
