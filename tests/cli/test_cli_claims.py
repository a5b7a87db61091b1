# SPDX-License-Identifier: Apache-2.0
"""What kith says of a graph: of which points it is, by which metric, and whether it is exact."""
import json
import struct

import cli_support as support
from cli_support import CliCase

ROWS, COLUMNS, K = 300, 6, 5
CERTIFIED = r"^exact: certified \(of 300 x 6 uint8, [0-9a-f]{8}\)$"


class Claims(CliCase):
    def setUp(self):
        super().setUp()
        rows = support.random_bytes(ROWS + 100, COLUMNS, 5)
        self.write("a.u8bin", rows[:ROWS])
        self.write("b.u8bin", rows[ROWS:])
        self.write("all.u8bin", rows)
        rows[7][2] ^= 1
        self.write("other.u8bin", rows[:ROWS])
        (self.folder / "ids.csv").write_text("5\n9\n")
        for name in ("a", "b", "all"):
            self.works("graph", f"{name}.u8bin", "-k", K, "-o", f"{name}.kith", "-q")
        # a graph of random neighbours, and the true one, in a format that says nothing
        ids = support.random_bytes(ROWS, K, 9)
        body = b"".join(struct.pack("<i", (row + 1 + 50 * i + value % 50) % ROWS)
                        for row in range(ROWS) for i, value in enumerate(ids[row]))
        (self.folder / "wild.ibin").write_bytes(struct.pack("<II", ROWS, K) + body)
        self.works("convert", "a.kith", "true.ibin", "-q")

    def write(self, name, rows):
        (self.folder / name).write_bytes(support.matrix_bin(rows, "B"))

    def info(self, name):
        return self.works_json("info", name)

    def test_eval_verifies(self):
        """eval --verify solves all rows and says what was found, whatever the file says of itself"""
        points = self.info("a.kith")["points"]
        for name, wrong in (("a.kith", 0), ("true.ibin", 0), ("wild.ibin", ROWS)):
            done = self.works_json("eval", name, "--points", "a.u8bin", "--sample", 10, "--verify")
            self.assertEqual(done["exact"], wrong == 0)
            self.assertEqual(done["points"], points)
            self.assertEqual((done["verified"]["rows"], done["verified"]["wrong"] > 0), (ROWS, wrong > 0))
            text = self.works("eval", name, "--points", "a.u8bin", "--verify")
            self.assertRegex(text, "(?m)" + CERTIFIED if wrong == 0 else "(?m)^approximate: of 300 x 6 uint8")
            self.assertIn("all 300 lists are exact" if wrong == 0 else "lists are not exact, the first of row", text)
        # one id of one list, in a file that says it is certified
        body = bytearray((self.folder / "true.ibin").read_bytes())
        at = 8 + 4 * (K * 17 + K - 1)
        (last,) = struct.unpack_from("<i", body, at)
        kept = {*struct.unpack_from(f"<{K}i", body, 8 + 4 * K * 17), 17}
        struct.pack_into("<i", body, at, next(i for i in range(ROWS) if i not in kept))
        (self.folder / "forged.ibin").write_bytes(body)
        done = self.works_json("eval", "forged.ibin", "--points", "a.u8bin", "--verify")
        self.assertEqual((done["exact"], done["verified"]["wrong"], done["verified"]["first_wrong"]), (False, 1, 17))
        self.assertIsNone(self.works_json("eval", "true.ibin", "--points", "a.u8bin")["exact"])
        self.fails(2, "eval", "a.kith", "a.kith", "--verify", says=["--points"])
        self.fails(1, "eval", "a.kith", "--points", "other.u8bin", "--verify", says=["was made of points"])

    def test_eval_self(self):
        """lists that name their own rows are evaluated as such: recall of the others, and all of them verified"""
        self.works("graph", "a.u8bin", "-k", K, "--include-self", "-o", "self.kith", "-q")
        self.works("search", "a.u8bin", "a.u8bin", "-k", K, "-o", "found.ibin", "-q")
        for name in "self.kith", "found.ibin":
            done = self.works_json("eval", name, "--points", "a.u8bin", "--verify")
            self.assertEqual((done["include_self"], done["exact"], done["verified"]["wrong"]), (True, True, 0))
            self.assertEqual((done["recall"]["at"], done["recall"]["estimate"], done["equal_ids"]), (K - 1, 1, 1))
            text = self.works("eval", name, "--points", "a.u8bin", "--verify")
            self.assertRegex(text, "(?m)" + CERTIFIED)
            self.assertIn("own rows: left out, recall is that of the others", text)
        self.assertFalse(self.works_json("eval", "a.kith", "--points", "a.u8bin")["include_self"])
        # one other of one list is wrong, then its own id is missing
        for place, recall in (K - 1, 1 - 1 / (ROWS * (K - 1))), (0, 1):
            body = bytearray((self.folder / "found.ibin").read_bytes())
            kept = struct.unpack_from(f"<{K}i", body, 8 + 4 * K * 17)
            struct.pack_into("<i", body, 8 + 4 * (K * 17 + place), next(i for i in range(ROWS) if i not in kept))
            (self.folder / "wrong.ibin").write_bytes(body)
            done = self.works_json("eval", "wrong.ibin", "--points", "a.u8bin", "--verify")
            self.assertEqual((done["exact"], done["verified"]["wrong"], done["verified"]["first_wrong"]), (False, 1, 17))
            self.assertTrue(done["recall"]["estimate"] <= recall, done)
        self.works("graph", "a.u8bin", "-k", 1, "--include-self", "-o", "alone.ibin", "-q")
        self.fails(1, "eval", "alone.ibin", "--points", "a.u8bin", says=["alone.ibin", "longer lists"])

    def test_changed_self(self):
        """the recall of such a graph that is changed is that of the others: it misses nothing"""
        for k in K, 1:
            self.works("graph", "a.u8bin", "-k", k, "--include-self", "-o", "self.ibin", "-q")
            words = ("remove", "self.ibin", "a.u8bin", "ids.csv", "--include-self", "-o", "m.kith")
            done = self.works_json(*words)
            self.assertIsNone(done["exact"], done)
            if k > 1:
                self.assertEqual((done["recall"]["at"], done["recall"]["estimate"]), (K - 1, 1))

    def test_radius(self):
        """lists that a radius cut are certified where they are made, and unknown in a file, which has no radius"""
        for command in (["graph", "a.u8bin"], ["search", "a.u8bin", "b.u8bin"],
                        ["search", "a.u8bin", "b.u8bin", "--chunk", 30]):
            for name in "cut.kith", "cut.npz":
                text = self.works(*command, "-k", K, "--radius", 60, "-o", name)
                self.assertRegex(text, "(?m)" + CERTIFIED)
                self.assertRegex(text, f"(?m)^output: {name} \\(no file says the radius")
                self.assertIsNone(self.info(name)["exact"])
                self.assertEqual(self.info(name)["points"], self.info("a.kith")["points"])
        self.works("graph", "a.u8bin", "-k", K, "--radius", 60, "-o", "cut.kith", "-q")
        text = self.works("eval", "cut.kith", "--points", "a.u8bin")
        self.assertRegex(text, "(?m)^exact: unknown \\(of 300 x 6 uint8")
        self.assertRegex(text, r"(?m)^empty places: [0-9,]+ of 1,500, which count as missed")
        done = self.works_json("eval", "cut.kith", "--points", "a.u8bin")
        self.assertEqual(round(1 - done["empty"] / (ROWS * K), 12), round(done["recall"]["estimate"], 12))
        self.assertTrue(0 < done["empty"] < ROWS * K, done)
        self.assertEqual(self.works_json("eval", "a.kith", "--points", "a.u8bin")["empty"], 0)
        # what is made of them claims no more, but where it is made anew exactly
        ways = set()
        for radius in 60, 130:
            self.works("graph", "a.u8bin", "-k", K, "--radius", radius, "-o", "cut.kith", "-q")
            done = self.works_json("remove", "cut.kith", "a.u8bin", "ids.csv", "-o", "less.kith",
                                   "--points-out", "less.u8bin")
            self.works("graph", "less.u8bin", "-k", K, "-o", "fresh.kith", "-q")
            same = (self.folder / "less.kith").read_bytes() == (self.folder / "fresh.kith").read_bytes()
            self.assertEqual((self.info("less.kith")["exact"], same),
                             (True, True) if done["anew"] else (None, False))
            ways.add(done["anew"])
        self.assertEqual(ways, {False, True})

    def test_formats(self):
        """kith, npz and csr carry metric, exactness and points; ivecs, ibin and knn say that they cannot"""
        own = self.info("a.kith")
        self.assertEqual((own["exact"], own["metric"]), (True, "euclidean"))
        points = own["points"]
        self.assertEqual((points["rows"], points["cols"], points["dtype"]), (ROWS, COLUMNS, "uint8"))
        self.assertRegex(points["checksum"], "^[0-9a-f]{16}$")
        self.assertRegex(self.works("info", "a.kith"), "(?m)" + CERTIFIED)
        for name, form in ("a.npz", "npz"), ("c.npz", "csr"), ("a.ivecs", "ivecs"), ("a.ibin", "ibin"), ("a.knn", "knn"):
            text = self.works("graph", "a.u8bin", "-k", K, "-o", name, "--format", form)
            self.assertRegex(text, "(?m)" + CERTIFIED)
            carries = form in ("npz", "csr")
            self.assertEqual("does not say metric, exactness and points" in text, not carries, text)
            self.works("convert", name, "back.kith", "-q")
            back = self.info("back.kith")
            self.assertEqual(back["exact"], True if carries else None, form)
            self.assertEqual(back.get("points"), points if carries else None)
            if carries:
                self.assertEqual((self.folder / "back.kith").read_bytes(), (self.folder / "a.kith").read_bytes())
        self.assertIn("exact: unknown", self.works("info", "back.kith"))
        found = self.works_json("search", "a.u8bin", "b.u8bin", "-k", 3, "-o", "r.npz")
        self.assertEqual(found["points"], points)
        self.assertEqual(self.info("r.npz")["points"], points)

    def test_pieces(self):
        """streams, shards and parts say the same as one file"""
        self.works("search", "a.u8bin", "b.u8bin", "-k", 3, "--chunk", 9, "-o", "s.kith", "-q")
        points = self.info("a.kith")["points"]
        self.assertEqual(self.info("s.kith")["points"], points)
        said = self.works_json("graph", "a.u8bin", "-k", K, "--shards", "dir", "--tune", "shard-count=3,parts=2",
                               "-o", "p.kith")
        self.assertEqual((said["exact"], said["points"]), (True, points))
        for name in "p.kith", "p-00000-of-00001.kith":
            self.assertEqual((self.info(name)["exact"], self.info(name)["points"]), (True, points), name)

    def test_other_points(self):
        """a graph of other points is refused wherever points come with a graph, and both are named"""
        for words in (("merge", "a.kith", "other.u8bin", "b.kith", "b.u8bin", "-o", "m.kith"),
                      ("merge", "b.kith", "b.u8bin", "a.kith", "other.u8bin", "-o", "m.kith"),
                      ("add", "a.kith", "other.u8bin", "b.u8bin", "-o", "m.kith"),
                      ("remove", "a.kith", "other.u8bin", "ids.csv", "-o", "m.kith"),
                      ("search", "a.kith", "other.u8bin", "b.u8bin", "-k", 3),
                      ("eval", "a.kith", "--points", "other.u8bin")):
            self.fails(1, *words, says=("kith: a.kith: was made of points 300 x 6 uint8, ",
                                        ", other.u8bin holds 300 x 6 uint8, "))
        self.works("search", "a.u8bin", "b.u8bin", "-k", 3, "-o", "r.npz", "-q")
        self.works("search", "other.u8bin", "b.u8bin", "-k", 3, "-o", "o.npz", "-q")
        self.fails(1, "eval", "r.npz", "o.npz", says=("r.npz: was made of points", "o.npz of"))
        self.fails(1, "eval", "a.kith", "--points", "a.u8bin", "--metric", "cosine",
                   says=("a.kith: was made with euclidean, --metric is cosine",))
        self.works("convert", "a.u8bin", "a.npy", "-q")  # the same values and type
        self.works("eval", "a.kith", "--points", "a.npy")

    def test_unknown(self):
        """what is not known to be exact is never certified: not by add, nor by remove, nor by merge"""
        for words in (("add", "wild.ibin", "a.u8bin", "b.u8bin", "--exact"),
                      ("remove", "wild.ibin", "a.u8bin", "ids.csv"),
                      ("merge", "wild.ibin", "a.u8bin", "b.kith", "b.u8bin", "--exact")):
            done = self.works_json(*words, "-o", "m.kith")
            self.assertIs(done["exact"], False, words)  # a sample has shown it
            self.assertLess(done["recall"]["estimate"], 1)
            self.assertNotIn("certified", self.works(*words, "-o", "m.kith"))
            self.assertIs(self.info("m.kith")["exact"], False)
            done = self.works_json(*words, "--tune", "sample=0", "-o", "m.kith")
            self.assertIsNone(done["exact"], words)
            self.assertIsNone(self.info("m.kith")["exact"])
            self.assertEqual(self.info("m.kith")["points"], done["points"])

    def test_verify(self):
        """--verify: an exact graph becomes certified, of another it says how many rows are not"""
        for words, name in ((("add", "true.ibin", "a.u8bin", "b.u8bin"), "all.kith"),
                            (("merge", "true.ibin", "a.u8bin", "b.kith", "b.u8bin"), "all.kith")):
            self.assertIsNone(self.works_json(*words, "--exact", "-o", "m.kith")["exact"])
            done = self.works_json(*words, "--verify", "-o", "m.kith")
            self.assertIs(done["exact"], True)
            self.assertEqual(done["verified"], [{"graph": "true.ibin", "rows": ROWS, "wrong": 0, "first_wrong": -1}])
            self.assertEqual((self.folder / "m.kith").read_bytes(), (self.folder / name).read_bytes())
        done = self.works_json("remove", "wild.ibin", "a.u8bin", "ids.csv", "--verify", "-o", "m.kith")
        self.assertIs(done["exact"], False)
        self.assertEqual((done["verified"][0]["wrong"], done["verified"][0]["first_wrong"]), (ROWS, 0))
        text = self.works("remove", "wild.ibin", "a.u8bin", "ids.csv", "--verify", "-o", "m.kith")
        self.assertIn("verified: wild.ibin, 300 of 300 lists are not exact, the first of row 0\n", text)
        self.assertRegex(text, r"(?m)^approximate: of 298 x 6 uint8, [0-9a-f]{8}$")

    def test_merge_is_exact(self):
        """of two exact graphs merge makes the exact one unless it is asked for a recall"""
        words = ("merge", "a.kith", "a.u8bin", "b.kith", "b.u8bin", "-o", "m.kith")
        done = self.works_json(*words)
        self.assertEqual((done["method"], done["exact"]), ("exact", True))
        self.assertEqual((self.folder / "m.kith").read_bytes(), (self.folder / "all.kith").read_bytes())
        self.assertEqual(self.works_json(*words, "--recall", "0.9")["method"], "descent")
        self.assertEqual(self.works_json(*words, "--recall", "1")["method"], "exact")
        self.assertEqual(json.loads(self.works(*words, "--dry-run", "--json"))["method"], "exact")


if __name__ == "__main__":
    support.main()
