# SPDX-License-Identifier: Apache-2.0
"""kith predict: predictions against plain programs (scikit-learn's or NumPy's, where they are), the
errors that it reports, files, chunks, mistakes."""
import math
import random
import re
import statistics
import struct
import unittest

import cli_support as support
from cli_support import CliCase

try:
    import numpy
except ImportError:
    numpy = None
try:
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
except ImportError:
    KNeighborsRegressor = KNeighborsClassifier = None

MODES = ("mean", "weighted", "median", "vote", "weighted_vote")
CATALOGUE, LABELS, QUERIES = FILES = ("catalogue.u8bin", "labels.csv", "queries.u8bin")


def plain(mode, labels, distances):
    """One prediction from a list of neighbours, the standard library's way."""
    weights = [1.0] * len(labels)
    if mode.startswith("weighted"):
        exact = 0 in distances
        weights = [float(far == 0) if exact else 1 / far for far in distances]
    if mode in ("mean", "weighted"):
        return sum(w * label for w, label in zip(weights, labels)) / sum(weights)
    if mode == "median":
        return statistics.median(labels)
    votes = {}
    for label, weight in zip(labels, weights):
        votes[label] = votes.get(label, 0) + weight
    return min(votes, key=lambda label: (-votes[label], label))


class PredictCase(CliCase):
    def case(self, rows=80, queries=30, columns=3, classes=6, seed=1):
        """Few values a column, so that there are ties and exact matches."""
        generator = random.Random(seed)
        corpus, asked = ([[generator.randrange(8) for _ in range(columns)] for _ in range(n)]
                         for n in (rows, queries))
        labels = [generator.randrange(classes) - 2 for _ in range(rows)]
        self.write(CATALOGUE, support.matrix_bin(corpus, "B"))
        self.write(QUERIES, support.matrix_bin(asked, "B"))
        self.column(LABELS, labels)
        return corpus, labels, asked

    def column(self, name, labels):
        self.write(name, "".join(f"{label!r}\n" for label in labels).encode())

    def read_column(self, name):
        return [float(line) for line in (self.folder / name).read_text().split()]


class Answers(PredictCase):
    def test_modes(self):
        """every mode and k: what a plain program says, to the last digit or two"""
        corpus, labels, asked = self.case()
        for k in (1, 2, 5, 10, 80):
            lists = support.plain_lists(corpus, asked, k, False)
            for mode in MODES:
                self.works("predict", *FILES, "-k", k, "--mode", mode, "-o", "out.csv", "-q")
                expected = [plain(mode, [labels[j] for _, j in row],
                                  [math.sqrt(key) for key, _ in row]) for row in lists]
                found = self.read_column("out.csv")
                self.assertEqual(len(found), len(expected))
                for ours, theirs in zip(found, expected):
                    self.assertAlmostEqual(ours, theirs, delta=1e-13 * max(1, abs(theirs)))

    def test_default(self):
        """the mode is mean, the metric euclidean; without -o nothing is written"""
        self.case()
        before = self.files()
        said = self.works_json("predict", *FILES, "-k", 3)
        self.assertEqual((said["mode"], said["metric"], said["k"], said["output"]),
                         ("mean", "euclidean", 3, None))
        self.assertEqual((said["n"], said["queries"], said["d"], said["chunks"]), (80, 30, 3, 1))
        self.assertNotIn("errors", said)
        self.assertEqual(self.files(), before)

    def test_metric(self):
        """neighbours are those of --metric and --method"""
        corpus, labels, asked = self.case(seed=2)
        order = [sorted((max(abs(a - b) for a, b in zip(query, point)), j)
                        for j, point in enumerate(corpus))[:4] for query in asked]
        for method in ("exact", "tree"):
            self.works("predict", *FILES, "-k", 4, "--metric", "chebyshev", "--method", method,
                       "-o", "out.csv", "-q")
            self.assertEqual(self.read_column("out.csv"),
                             [sum(labels[j] for _, j in row) / 4 for row in order])

    def test_outputs(self):
        """.npy and .csv have doubles, .fbin rounds once, .ibin takes votes"""
        self.case()
        words = ["predict", *FILES, "-k", 3, "-q"]
        self.works(*words, "-o", "out.csv")
        expected = self.read_column("out.csv")
        self.works(*words, "-o", "out.npy")
        self.assertEqual(support.read_npy((self.folder / "out.npy").read_bytes()),
                         (expected, (30, 1)))
        self.works(*words, "-o", "out.fbin")
        self.assertEqual(support.read_bin(self.folder / "out.fbin", "f"),
                         [[support.float32(value)] for value in expected])
        self.works(*words, "--mode", "vote", "-o", "out.ibin")
        self.works(*words, "--mode", "vote", "-o", "vote.csv")
        self.assertEqual(support.read_bin(self.folder / "out.ibin", "i"),
                         [[int(value)] for value in self.read_column("vote.csv")])

    def test_labels(self):
        """labels may come in any format, with the same result"""
        _, labels, _ = self.case()
        whole = [[label + 2] for label in labels]
        self.column("l.csv", [label for label, in whole])
        self.write("l.u8bin", support.matrix_bin(whole, "B"))
        self.write("l.i8bin", support.matrix_bin(whole, "b"))
        self.write("l.ibin", support.matrix_bin(whole, "i"))
        self.write("l.fbin", support.matrix_bin([[float(label)] for label, in whole], "f"))
        self.write("l.npy", support.matrix_npy([[float(label)] for label, in whole]))
        for name in ("l.csv", "l.u8bin", "l.i8bin", "l.ibin", "l.fbin", "l.npy"):
            self.works("predict", CATALOGUE, name, QUERIES, "-k", 7, "-o", f"{name}.npy", "-q")
            self.assertEqual((self.folder / f"{name}.npy").read_bytes(),
                             (self.folder / "l.csv.npy").read_bytes(), name)

    def test_chunks(self):
        """with little memory the queries are taken in chunks: the same file"""
        self.case(rows=300, queries=20000, seed=3)
        for mode in ("median", "weighted"):
            words = ["predict", *FILES, "-k", 100, "--mode", mode]
            plan = self.works_json(*words, "--dry-run")["plan_bytes"]["peak"]
            whole = self.works_json(*words, "-o", "whole.npy")
            parts = self.works_json(*words, "-o", "parts.npy", "--memory", plan - 4000000)
            self.assertEqual(whole["chunks"], 1)
            self.assertGreater(parts["chunks"], 1)
            self.assertEqual((self.folder / "whole.npy").read_bytes(),
                             (self.folder / "parts.npy").read_bytes())
            one = self.works_json(*words, "-o", "one.npy", "--threads", 1)
            self.assertEqual(one["threads"], 1)
            self.assertEqual((self.folder / "whole.npy").read_bytes(),
                             (self.folder / "one.npy").read_bytes())

    def in_chunks(self, *words):
        """At once, and with the least memory that will do: the same file; what was said."""
        least = re.search(r"\((\d+) bytes\)", self.kith(*words, "--memory", "500K").stderr)[1]
        whole = self.works_json(*words, "-o", "whole.npy")
        parts = self.works_json(*words, "-o", "parts.npy", "--memory", least)
        self.assertEqual(whole["chunks"], 1)
        self.assertGreater(parts["chunks"], 2)
        self.assertEqual((self.folder / "whole.npy").read_bytes(),
                         (self.folder / "parts.npy").read_bytes())
        return whole, parts

    def test_methods_in_chunks(self):
        """by each method, prepared once: the same file; what preparation took is printed"""
        self.case(rows=6000, queries=8000, columns=4, seed=7)
        for method in ("exact", "tree", "auto"):
            whole, parts = self.in_chunks("predict", *FILES, "-k", 100, "--mode", "weighted",
                                          "--method", method)
            self.assertEqual(parts["screen"], whole["screen"], method)
            print(f"{method} {whole['seconds']['prepare']:.4f} s at once, "
                  f"{parts['seconds']['prepare']:.4f} s in {parts['chunks']} chunks ... ", end="")

    def test_tree_of_a_file(self):
        """a catalogue that kith index build has made: the same file, at once and in chunks"""
        self.case(rows=5000, queries=8000, seed=8)
        for metric in ("euclidean", "manhattan"):
            self.works("index", "build", "--method", "tree", CATALOGUE, "--metric", metric, "-o", "tree.kith", "-q")
            words = ["-k", 100, "--mode", "weighted"]
            self.works("predict", *FILES, *words, "--metric", metric, "-o", "points.npy", "-q")
            whole, parts = self.in_chunks("predict", "tree.kith", LABELS, QUERIES, *words)
            self.assertEqual((self.folder / "whole.npy").read_bytes(),
                             (self.folder / "points.npy").read_bytes())
            for said in (whole, parts):
                self.assertEqual((said["screen"], said["metric"]), ("tree", metric))

    def test_plan(self):
        """--dry-run writes nothing, --quiet says nothing, the report names everything"""
        self.case()
        words = ["predict", *FILES, "-k", 3, "-o", "out.npy"]
        self.assertIn("memory: planned", self.works(*words, "--dry-run"))
        self.assertNotIn("out.npy", self.files())
        self.assertEqual(self.works(*words, "-q"), "")
        self.column("truth.csv", [0] * 30)
        text = self.works(*words, "--mode", "vote", "--truth", "truth.csv", "-v")
        for part in ("catalogue: catalogue.u8bin, 80 x 3 uint8", "labels: labels.csv",
                     "queries: queries.u8bin, 30\n", ", 1 chunk\n", "mode: vote", "k: 3", "right: ",
                     "output: out.npy", "seconds: "):
            self.assertIn(part, text)


class Errors(PredictCase):
    def reported(self, labels, truth, *words):
        self.column(LABELS, labels)
        self.column("truth.csv", truth)
        said = self.works_json("predict", *FILES, "-k", 4, "--truth", "truth.csv", "-o", "out.csv",
                               *words)
        return said["errors"], self.read_column("out.csv")

    def near(self, found, expected):
        self.assertAlmostEqual(found, expected, delta=1e-12 * max(1, abs(expected)))

    def test_regression(self):
        """MAE, RMSE, bias, and of error / (1 + truth) bias, NMAD and outliers"""
        self.case()
        generator = random.Random(4)
        labels = [generator.uniform(0, 3) for _ in range(80)]
        truth = [generator.uniform(-0.9, 3) for _ in range(30)]
        errors, found = self.reported(labels, truth)
        off = [a - b for a, b in zip(found, truth)]
        scaled = [e / (1 + z) for e, z in zip(off, truth)]
        self.assertEqual(errors["rows"], 30)
        self.near(errors["mae"], statistics.fmean(map(abs, off)))
        self.near(errors["rmse"], math.sqrt(statistics.fmean(e * e for e in off)))
        self.near(errors["bias"], statistics.fmean(off))
        relative = errors["relative"]
        middle = statistics.median(scaled)
        self.near(relative["bias"], statistics.fmean(scaled))
        self.near(relative["nmad"], 1.4826 * statistics.median(abs(e - middle) for e in scaled))
        self.near(relative["outliers"], sum(abs(e) > 0.15 for e in scaled) / 30)
        self.assertEqual(relative["outliers_above"], 0.15)

    def test_no_redshift(self):
        """a truth of -1 or less is no redshift, and error / (1 + truth) is not reported"""
        self.case()
        errors, _ = self.reported([0.5] * 80, [-1.0] + [0.5] * 29)
        self.assertNotIn("relative", errors)
        self.near(errors["mae"], 1.5 / 30)

    def test_votes(self):
        """of votes the share that is right"""
        _, labels, _ = self.case()
        truth = [1] * 30
        errors, found = self.reported(labels, truth, "--mode", "vote")
        self.assertEqual(errors, {"rows": 30, "right": found.count(1),
                                  "accuracy": found.count(1) / 30})


@unittest.skipIf(numpy is None, "NumPy is missing")
class Beside(PredictCase):
    """Beside scikit-learn, or beside NumPy where that is missing: a surface in noise, k = 10."""

    def setUp(self):
        super().setUp()
        generator = numpy.random.default_rng(5)

        def draw(n):
            hidden = generator.random((n, 2))
            mixed = numpy.hstack([hidden, hidden ** 2, numpy.sin(5 * hidden)])
            points = (mixed + 0.02 * generator.standard_normal(mixed.shape)).astype("<f4")
            return points, 2 * hidden[:, 0] + hidden[:, 1] ** 2

        self.points, self.labels = draw(3000)
        self.asked, self.truth = draw(500)
        self.asked[:20] = self.points[:20]
        self.save("catalogue.npy", self.points)
        self.save("queries.npy", self.asked)

    def save(self, name, values):
        numpy.save(self.folder / name, values)

    def kith_says(self, mode, labels, truth):
        self.save("labels.npy", labels.reshape(-1, 1))
        self.save("truth.npy", truth.reshape(-1, 1))
        said = self.works_json("predict", "catalogue.npy", "labels.npy", "queries.npy", "-k", 10,
                               "--mode", mode, "--truth", "truth.npy", "-o", "out.npy")
        return numpy.load(self.folder / "out.npy")[:, 0], said["errors"]

    def lists(self):
        """Neighbours and their distances by brute force, in double."""
        wide, asked = self.points.astype(float), self.asked.astype(float)
        squares = ((asked[:, None, :] - wide[None, :, :]) ** 2).sum(axis=2)
        ids = numpy.argsort(squares, axis=1, kind="stable")[:, :10]
        return ids, numpy.sqrt(numpy.take_along_axis(squares, ids, axis=1))

    def theirs(self, mode, labels):
        weights = "distance" if mode.startswith("weighted") else "uniform"
        model = KNeighborsClassifier if "vote" in mode else KNeighborsRegressor
        if model is not None and mode != "median":
            return model(10, weights=weights, algorithm="kd_tree").fit(
                self.points.astype(float), labels).predict(self.asked.astype(float))
        return numpy.array([plain(mode, labels[row].tolist(), far.tolist())
                            for row, far in zip(*self.lists())])

    def test_regression(self):
        """mean, weighted mean and median: predictions to 1e-12, and the errors with them"""
        print("scikit-learn ... " if KNeighborsRegressor else "NumPy ... ", end="", flush=True)
        for mode in ("mean", "weighted", "median"):
            found, errors = self.kith_says(mode, self.labels, self.truth)
            expected = self.theirs(mode, self.labels)
            numpy.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
            off = expected - self.truth
            scaled = off / (1 + self.truth)
            nmad = 1.4826 * numpy.median(numpy.abs(scaled - numpy.median(scaled)))
            self.assertAlmostEqual(errors["mae"], numpy.abs(off).mean(), delta=1e-12)
            self.assertAlmostEqual(errors["rmse"], math.sqrt((off ** 2).mean()), delta=1e-12)
            self.assertAlmostEqual(errors["relative"]["nmad"], nmad, delta=1e-12)

    def test_votes(self):
        """votes and weighted votes: the same class everywhere"""
        classes = numpy.floor(4 * self.labels) - 3
        truth = numpy.floor(4 * self.truth) - 3
        for mode in ("vote", "weighted_vote"):
            found, errors = self.kith_says(mode, classes, truth)
            expected = self.theirs(mode, classes)
            self.assertEqual(found.tolist(), expected.tolist(), mode)
            self.assertAlmostEqual(errors["accuracy"], (expected == truth).mean(), delta=1e-12)


class Mistakes(PredictCase):
    def wrong(self, *words, says, code=1):
        before = self.files()
        self.fails(code, "predict", *words, says=says)
        self.assertEqual(self.files(), before)

    def test_usage(self):
        """-k is wanted, three files, a known mode, a format that numbers have, a real distance"""
        self.wrong(*FILES, says=["-k is missing"], code=2)
        self.wrong(CATALOGUE, LABELS, "-k", 3, code=2,
                   says=["usage: kith predict CATALOGUE LABELS"])
        self.wrong(*FILES, "-k", 3, "--mode", "average", code=2, says=[
            "'average' is no mode (known: mean, weighted, median, vote, weighted_vote)"])
        self.wrong(*FILES, "-k", 3, "--mode", "weighted", "--metric", "ip", code=2,
                   says=["divides by distances, inner_product has none"])
        for name in ("out.npz", "out.ibin", "out"):
            self.wrong(*FILES, "-k", 3, "-o", name, says=[".npy .csv .tsv .fbin"], code=2)
        self.wrong(*FILES, "-k", 3, "--truth", "", says=["the name is empty"], code=2)

    def test_labels(self):
        """labels that are too few, too many columns, NaN or broken are told with their file"""
        _, labels, _ = self.case()
        words = (CATALOGUE, "bad.csv", QUERIES, "-k", 3, "-o", "out.npy")
        self.column("bad.csv", labels[:-1])
        self.wrong(*words, says=["bad.csv: has 79 numbers, catalogue.u8bin has 80 rows"])
        self.write("bad.csv", b"1,2\n" * 80)
        self.wrong(*words, says=["bad.csv: has 2 columns, must have one"])
        self.column("bad.csv", labels[:17] + [math.nan] + labels[18:])
        self.wrong(*words, says=["bad.csv: labels[17] is NaN"])
        self.column("bad.csv", labels[:17] + [0.25] + labels[18:])
        self.wrong(*words, "--mode", "vote", says=["bad.csv: labels[17] is 0.25", "whole numbers"])

    def test_types(self):
        """labels of a type that points are not of, float16, make the same predictions"""
        _, labels, _ = self.case()
        halves = b"".join(struct.pack("<e", label) for label in labels)
        rounded = [value for value, in struct.iter_unpack("<e", halves)]
        head = b"{'descr': '<f2', 'fortran_order': False, 'shape': (80, 1), }"
        head += b" " * (-(len(head) + 11) % 64) + b"\n"
        self.write("h.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + halves)
        self.column("h.csv", rounded)
        for name in ("h.npy", "h.csv"):
            self.works("predict", CATALOGUE, name, QUERIES, "-k", 3, "-o", f"{name}.npy")
        self.assertEqual((self.folder / "h.npy.npy").read_bytes(), (self.folder / "h.csv.npy").read_bytes())

    def test_truth(self):
        """a truth of another length, or with NaN in it"""
        self.case()
        words = (*FILES, "-k", 3, "--truth", "truth.csv")
        self.column("truth.csv", [1] * 31)
        self.wrong(*words, says=["truth.csv: has 31 numbers, queries.u8bin has 30 rows"])
        self.column("truth.csv", [1] * 9 + [math.nan] + [1] * 20)
        self.wrong(*words, says=["truth.csv: labels[9] is NaN"])

    def test_points(self):
        """k beyond the catalogue, queries of other columns, a missing file, an output on input"""
        self.case()
        self.wrong(*FILES, "-k", 81, says=["catalogue.u8bin: k is 81, but there are only 80"])
        self.points("other.u8bin", rows=4, columns=2)
        self.wrong(CATALOGUE, LABELS, "other.u8bin", "-k", 3,
                   says=["has 3 columns and queries has 2"])
        self.wrong(CATALOGUE, "nolabels.csv", QUERIES, "-k", 3, says=["nolabels.csv"])
        self.wrong(*FILES, "-k", 3, "-o", LABELS, says=["is input and output at once"])
        self.wrong(*FILES, "-k", 3, "--memory", 20000, "--method", "exact",
                   says=["--memory allows 19.5 KiB"])

    def test_bad_query(self):
        """a NaN among the queries is named; in a later chunk with the row that it starts at"""
        self.case(rows=300, queries=8, seed=6)
        rows = [[float(i % 7), 1.0, 2.0] for i in range(20000)]
        rows[15000][1] = math.nan
        self.write("q.fbin", support.matrix_bin(rows, "f"))
        words = (CATALOGUE, LABELS, "q.fbin", "-k", 100)
        self.wrong(*words, says=["q.fbin: queries[15000, 1] is NaN"])
        plan = self.works_json("predict", *words, "--dry-run")["plan_bytes"]["peak"]
        self.wrong(*words, "--memory", plan - 3000000,
                   says=["q.fbin, rows from 10000 on: queries[5000, 1] is NaN"])


if __name__ == "__main__":
    support.main()
