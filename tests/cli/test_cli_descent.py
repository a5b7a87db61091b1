# SPDX-License-Identifier: Apache-2.0
"""kith graph by NN-Descent: what may be asked for, the recall that is told, files and plans."""
import json
import re

import cli_support as support
from cli_support import CliCase, plain_lists, read_npz

ROWS, COLUMNS, K = 8500, 12, 10


class Descent(CliCase):
    def setUp(self):
        super().setUp()
        self.points("p.u8bin", ROWS, COLUMNS, 3)

    def descend(self, *words, **more):
        return self.works_json("graph", "p.u8bin", "-k", K, "--method", "descent", *words, **more)

    def test_recall_is_reached(self):
        """rounds end when the sample has the recall; what is told agrees with kith eval"""
        found = self.descend("--recall", "0.98", "--tune", "start=random,sample=400,seed=4", "-o", "g.kith")
        self.assertEqual((found["method"], found["exact"]), ("descent", False))
        recall = found["recall"]
        self.assertEqual((recall["at"], recall["sample"]), (10, 400))
        self.assertLessEqual(recall["low"], recall["estimate"])
        self.assertLessEqual(recall["estimate"], recall["high"])
        self.assertTrue(found["reached"])
        self.assertGreaterEqual(found["rounds"][-1]["recall"], 0.98)
        self.assertTrue(all(r["recall"] < 0.98 for r in found["rounds"][:-1]))
        told = self.works_json("eval", "g.kith", "--points", "p.u8bin", "--sample", 400,
                               "--seed", 4)["recall"]
        for name in ("at", "sample"):
            self.assertEqual(told[name], recall[name])
        for name in ("estimate", "low", "high"):
            self.assertAlmostEqual(told[name], recall[name], places=12)
        whole = self.works_json("eval", "g.kith", "--points", "p.u8bin", "--sample", ROWS)["recall"]
        self.assertEqual(whole["low"], whole["high"])
        self.assertGreater(whole["estimate"], 0.95)
        print(f"recall {whole['estimate']:.4f}, told {recall['estimate']:.4f} ... ", end="")

    def test_report(self):
        """the report has the recall, with its interval and its sample; --verbose the rounds"""
        lines = self.works("graph", "p.u8bin", "-k", K, "--method", "descent").splitlines()
        self.assertRegex(lines[4], r"^recall@10 = [01]\.\d{4} \+- 0\.\d{4} "
                                   r"\(1,000 points solved exactly\)$")
        lines = self.works("graph", "p.u8bin", "-k", K, "--method", "descent", "-v").splitlines()
        self.assertTrue(any(line.startswith("method: descent, ") for line in lines))
        self.assertTrue(any(line.startswith("round 0: ") for line in lines))
        lines = self.works("graph", "p.u8bin", "-k", K, "--method", "descent", "--tune",
                           "sample=0").splitlines()
        self.assertTrue(lines[4].startswith("recall: not estimated"), lines[4])
        lines = self.works("graph", "p.u8bin", "-k", 4, "--method", "descent", "--tune",
                           f"sample={ROWS}").splitlines()
        self.assertRegex(lines[4],
                         r"^recall@4 = \d\.\d{4} \+- 0\.0000 \(8,500 points solved exactly\)$")

    def test_graph(self):
        """every row has k different others, ascending, at their true distances"""
        points = support.random_bytes(ROWS, COLUMNS, 3)
        self.descend("-o", "g.npz")
        table = read_npz(self.folder / "g.npz")
        ids, shape = table["ids"]
        self.assertEqual(shape, (ROWS, K))
        distances = table["distances"][0]
        for row in range(ROWS):
            mine = ids[row * K:(row + 1) * K]
            self.assertEqual(len(set(mine)), K)
            self.assertNotIn(row, mine)
            keys = [sum((a - b) ** 2 for a, b in zip(points[row], points[i])) for i in mine]
            self.assertEqual(sorted(zip(keys, mine)), list(zip(keys, mine)))
            self.assertEqual([support.float32(key ** 0.5) for key in keys],
                             list(distances[row * K:(row + 1) * K]))

    def test_same_seed(self):
        """the same bytes for the same seed with any number of threads, others for another seed"""
        for name, words in (("a", ("--threads", 1)), ("b", ("--threads", 2)),
                            ("c", ("--threads", 1)), ("d", ("--tune", "seed=7"))):
            self.descend("--tune", "start=random,rounds=1,sample=0", "-o", f"{name}.npz",
                         *words)
        data = {name: (self.folder / f"{name}.npz").read_bytes() for name in "abcd"}
        self.assertTrue(data["a"] == data["b"], "threads")
        self.assertTrue(data["a"] == data["c"], "threads")
        self.assertTrue(data["a"] != data["d"], "seed")

    def test_init(self):
        """a poor graph is refined; an exact one stays as it is; one of other points is refused"""
        poor = self.descend("--tune", "start=random,rounds=0", "-o", "poor.kith")
        self.assertEqual((poor["start"], len(poor["rounds"])), ("random", 1))
        better = self.descend("--init", "poor.kith")
        self.assertEqual(better["start"], "graph")
        self.assertGreater(better["recall"]["estimate"], poor["recall"]["estimate"])
        self.works("graph", "p.u8bin", "-k", K, "--method", "exact", "-o", "exact.npz")
        self.assertEqual(self.descend("--init", "exact.npz", "--tune", "rounds=1")["recall"]["estimate"], 1)
        self.points("few.u8bin", 50, COLUMNS)
        self.works("graph", "few.u8bin", "-k", 3, "-o", "few.npz")
        self.fails(1, "graph", "p.u8bin", "-k", K, "--method", "descent", "--init", "few.npz",
                   says=["few.npz: has 50 rows, p.u8bin has 8500"])
        self.fails(1, "graph", "p.u8bin", "-k", K, "--method", "descent", "--init", "poor.kith",
                   "-o", "poor.kith", says=["input and output at once"])

    def test_not_reached(self):
        """a recall that one round cannot reach is not claimed"""
        words = ("--recall", "0.999", "--tune", "start=random,rounds=1")
        self.assertFalse(self.descend(*words)["reached"])
        text = self.works("graph", "p.u8bin", "-k", K, "--method", "descent", *words)
        self.assertIn("a recall of 0.999 was not reached, all rounds= were run", text)

    def test_auto(self):
        """auto is exact where that is sooner, and says so; --recall 1 is exact"""
        for recall, why in (("0.9", "choice: exact, an exact graph takes about "),
                            ("1", "choice: exact, a recall of 1 was asked for")):
            text = self.works("graph", "p.u8bin", "-k", K, "--recall", recall, "-v")
            self.assertIn(why, text)
            self.assertIn("exact: certified", text)
        found = self.works_json("graph", "p.u8bin", "-k", K, "--recall", "0.9")
        self.assertTrue(found["exact"])
        self.assertGreater(found["choice"]["descent_seconds"], 0)

    def test_auto_descends(self):
        """of very many points in many columns auto takes descent; a plan reads none of them"""
        rows, columns = 1 << 22, 1 << 8
        with open(self.folder / "big.u8bin", "wb") as file:
            file.write(rows.to_bytes(4, "little") + columns.to_bytes(4, "little"))
            file.truncate(8 + rows * columns)
        words = ("graph", "big.u8bin", "-k", 10, "--dry-run", "--device", "cpu")
        plan = json.loads(self.works(*words, "--recall", "0.9", "--json"))
        self.assertEqual(plan["method"], "descent")
        self.assertGreater(plan["choice"]["exact_seconds"], plan["choice"]["descent_seconds"])
        self.assertGreater(plan["plan_bytes"]["peak"], rows * 10 * 8)
        self.fails(1, *words, "--recall", "0.9", "--memory", "100M", says=["--memory allows"])
        done = self.kith(*words)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"^kith: big.u8bin: the exact graph takes about [\d.]+ "
                                      r"(seconds|minutes|hours); --recall 0.99 finds ")
        self.assertIn("method: exact", done.stdout)
        self.assertEqual(self.kith(*words, "--quiet").stderr, "")

    def test_info(self):
        """files say that they are not exact, and the recall"""
        estimate = self.descend("-o", "g.kith")["recall"]["estimate"]
        self.descend("-o", "g.npz")
        for name in ("g.kith", "g.npz"):
            info = self.works_json("info", name)
            self.assertEqual((info["exact"], info["recall"]["at"]), (False, 10))
            self.assertEqual(info["recall"]["estimate"], estimate)
            self.assertIn(f"recall@10: {estimate:.4f} (estimate)\n", self.works("info", name))
        self.works("graph", "p.u8bin", "-k", K, "-o", "e.kith")
        self.assertNotIn("recall", self.works_json("info", "e.kith"))

    def test_metrics(self):
        """every metric, and points that include themselves"""
        self.points("fewer.u8bin", 4500, COLUMNS, 3)
        for metric in support.metrics():
            name = "p.u8bin" if metric in support.METRICS[:5] else "fewer.u8bin"
            found = self.works_json("graph", name, "-k", 5, "--method", "descent", "--metric",
                                    metric, "--recall", "0.9", "--include-self")
            self.assertGreater(found["recall"]["estimate"], 0.85, metric)
        self.fails(1, "graph", "p.u8bin", "-k", K, "--method", "descent", "--metric", "kl",
                   "--tune", "start=screen", says=["start is screen and the metric is kl"])

    def test_small(self):
        """so few points that every pair is looked at"""
        values = self.points("few.u8bin", 12, 3)
        self.works("graph", "few.u8bin", "-k", 11, "--method", "descent", "-o", "g.npz")
        ids = read_npz(self.folder / "g.npz")["ids"][0]
        self.assertEqual(ids, support.ids_of(plain_lists(values, values, 11, True)))
        self.fails(1, "graph", "few.u8bin", "-k", 12, "--method", "descent",
                   says=["k is 12, but there are only 11 other points"])


class WrongUsage(CliCase):
    def test_rules(self):
        """what has no meaning together is wrong usage"""
        for words, says in (
                ("--tune rounds=3", "--tune rounds: goes with --method descent, or with --recall"),
                ("--tune seed=3", "--tune seed: goes with --method descent, or with --recall"),
                ("--deterministic", "--deterministic: is no option, answers always are"),
                ("--recall 0.9 --method exact", "--recall: goes with --method descent or auto"),
                ("--recall 0.9 --method tree", "--recall: goes with --method descent or auto"),
                ("--recall 0.9@11", "--recall: is of more neighbours than k"),
                ("--recall 0.9 --radius 3", "--recall: does not go together with --radius"),
                ("--recall 0.9 --tune pipeline=matrix", "--tune pipeline: goes with exact methods"),
                ("--recall 0.9 --tune sample=0", "--recall: is not known without a sample"),
                ("--method descent --radius 3", "descent does not go together with --radius"),
                ("--method descent --tune pipeline=hybrid", "--tune pipeline: goes with exact methods"),
                ("--method descent --tune tree-height=3", "--tune tree-height: goes with --method tree"),
                ("--method descent --tune list=10", "--tune list: must be above k"),
                ("--method descent --tune start=random,start-share=0.1", "--tune start-share: goes with"),
                ("--method descent --init x --tune start=random", "--init: does not go together"),
                ("--method descent --init x --tune start-share=0.1", "--init: does not go together"),
                ("--method descent --tune start=graph", "'graph' is no start (known: auto, random,")):
            self.fails(2, "graph", "p.u8bin", "-k", 10, *words.split(), says=[says])
        descent = ("graph", "p.u8bin", "-k", 10, "--method", "descent")
        for value in ("0", "1.1", "-1", "x", "0.9@", "0.9@0", "@10", "nan"):
            self.fails(2, *descent, "--recall", value, says=[f"kith: --recall: '{value}' is no "])
        for key, values in (("delta", ("0", "2", "x")), ("start-share", ("0", "1.5")),
                            ("rounds", ("-1", "x")), ("candidates", ("0", "1.5")),
                            ("list", ("1", "99999999999")), ("sample", ("-1", "x"))):
            for value in values:
                self.fails(2, *descent, "--tune", f"{key}={value}",
                           says=[f"kith: --tune {key}: '{value}' is no "])
        for command in ("search a b", "predict a b c"):
            self.fails(2, *command.split(), "-k", 3, "--method", "descent",
                       says=["--method: descent is for kith graph alone"])


if __name__ == "__main__":
    support.main()
