# SPDX-License-Identifier: Apache-2.0
"""kith select: answers against plain sorting (and NumPy, where it is), files, reports, mistakes."""
import json
import math
import os
import random
import resource
import struct
import unittest
import zipfile

import cli_support as support
from cli_support import CliCase

try:
    import numpy
except ImportError:
    numpy = None

METHODS = "auto scan quick radix insertion heap merge_queue bitonic threshold_heap".split()
KINDS = {"<f2": "e", "<f4": "f", "<f8": "d"}


def matrix_npy(rows, descr):
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    head = head.encode() + b" " * (-(len(head) + 11) % 64) + b"\n"
    body = b"".join(struct.pack(f"<{len(row)}{KINDS.get(descr, descr[1])}", *row) for row in rows)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + body


def difficult_rows(count, columns, seed):
    """Few distinct values, so many ties, both zeros, infinities and NaN: all of them halves."""
    values = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 100.0, math.inf, -math.inf, math.nan]
    generator = random.Random(seed)
    return [[generator.choice(values) for _ in range(columns)] for _ in range(count)]


def plain(rows, k, largest):
    """Ids and values by (NaN last, value, place): what the contract says."""
    ids, values = [], []
    for row in rows:
        order = sorted(range(len(row)), key=lambda i: (
            math.isnan(row[i]), 0.0 if math.isnan(row[i]) else -row[i] if largest else row[i], i))
        ids += order[:k]
        values += [row[i] + 0.0 for i in order[:k]]
    return ids, values


def bits(values):
    """Lists that can be compared, NaN and the sign of zero included."""
    return [struct.pack("<d", math.nan if math.isnan(value) else value) for value in values]


class SelectCase(CliCase):
    def descr(self, path, member):
        with zipfile.ZipFile(self.folder / path) as archive:
            return archive.read(member)[:128].split(b"'descr': '")[1][:3].decode()

    def values(self, data, descr):
        """A .npy of any float type as Python's floats, and its shape."""
        flat, shape = support.read_npy(data)
        if descr == "<f2":
            flat = list(struct.unpack(f"<{len(flat) // 2}e", flat))
        return flat, shape

    def answer(self, path):
        with zipfile.ZipFile(self.folder / path) as archive:
            self.assertEqual(archive.namelist(), ["ids.npy", "values.npy", "meta.npy"])
            ids = support.read_npy(archive.read("ids.npy"))
            values = self.values(archive.read("values.npy"), self.descr(path, "values.npy"))
            meta = support.read_npy(archive.read("meta.npy"))[0].decode("utf-32-le")
        return ids, values, json.loads(meta)


class Answers(SelectCase):
    def test_types(self):
        """halves, floats and doubles, smallest and largest: ids and values are those of sorting"""
        rows = difficult_rows(7, 50, 1)
        for descr in KINDS:
            self.write("m.npy", matrix_npy(rows, descr))
            for k in (1, 9, 50):
                for words in ([], ["--largest"]):
                    self.works("select", "m.npy", "-k", k, "-o", "out.npz", "-q", *words)
                    ids, values = plain(rows, k, bool(words))
                    found_ids, found_values, meta = self.answer("out.npz")
                    self.assertEqual(found_ids, (ids, (7, k)))
                    self.assertEqual(self.descr("out.npz", "values.npy"), descr)
                    self.assertEqual(found_values[1], (7, k))
                    self.assertEqual(bits(found_values[0]), bits(values))
                    self.assertEqual(meta, {"kind": "selection", "k": k, "largest": bool(words),
                                            "sorted": True})

    def test_methods(self):
        """every method and switch writes the same file"""
        self.write("m.npy", matrix_npy(difficult_rows(9, 300, 2), "<f4"))
        self.works("select", "m.npy", "-k", 20, "-o", "first.npz", "-q")
        first = (self.folder / "first.npz").read_bytes()
        calls = [["--select", method] for method in METHODS]
        for method in ("insertion", "heap", "merge_queue"):
            calls += [["--select", method, "--buffer", buffer, "--group", group]
                      for buffer in ("none", "plain", "full", "sorted") for group in (2, 8)]
        calls += [["--select", "merge_queue", "--level", level, "--merge", merge]
                  for level in (4, 8, 64) for merge in ("network", "path")]
        calls += [["--select", "heap", "--buffer", "sorted", "--buffer-size", size] for size in (8, 32, 64)]
        calls += [["--select", "merge_queue", "--aligned"], ["--threads", 1],
                  ["--select", "threshold_heap", "--heap-sample", 32], ["--device", "cpu"]]
        for words in calls:
            self.works("select", "m.npy", "-k", 20, "-o", "out.npz", "-q", *words)
            self.assertEqual((self.folder / "out.npz").read_bytes(), first, words)

    def test_unsorted(self):
        """--unsorted gives the same values with the same ids, in some order"""
        rows = difficult_rows(5, 80, 3)
        self.write("m.npy", matrix_npy(rows, "<f8"))
        self.works("select", "m.npy", "-k", 30, "--unsorted", "-o", "out.npz", "-q")
        (ids, _), (values, _), meta = self.answer("out.npz")
        self.assertFalse(meta["sorted"])
        expected_ids, expected_values = plain(rows, 30, False)
        for at in range(0, 150, 30):
            found = sorted(zip(ids[at:at + 30], bits(values[at:at + 30])))
            self.assertEqual(found, sorted(zip(expected_ids[at:at + 30],
                                               bits(expected_values[at:at + 30]))))

    def test_kth(self):
        """--kth writes the k-th value of each row as an array of one axis"""
        rows = difficult_rows(6, 40, 4)
        for descr in KINDS:
            self.write("m.npy", matrix_npy(rows, descr))
            for words in ([], ["--largest"]):
                self.works("select", "m.npy", "-k", 11, "--kth", "-o", "out.npy", "-q", *words)
                data = (self.folder / "out.npy").read_bytes()
                values, shape = self.values(data, descr)
                self.assertEqual(shape, (6,))
                self.assertEqual(bits(values), bits(plain(rows, 11, bool(words))[1][10::11]))

    def test_formats(self):
        """any file of floats will do: .fbin, .fvecs, .csv and .kith give what .npy gives"""
        rows = [[float(value) for value in row] for row in support.random_bytes(8, 30, 5)]
        self.write("m.fbin", support.matrix_bin(rows, "f"))
        self.works("convert", "m.fbin", "m.fvecs", "-q")
        self.works("convert", "m.fbin", "m.kith", "-q")
        self.works("convert", "m.fbin", "m.csv", "-q")
        for name in ("m.fbin", "m.fvecs", "m.kith", "m.csv"):
            self.works("select", name, "-k", 4, "-o", "out.npz", "-q")
            (ids, _), (values, _), _ = self.answer("out.npz")
            self.assertEqual((ids, values), plain(rows, 4, False), name)
            self.assertEqual(self.descr("out.npz", "values.npy"), "<f8" if name == "m.csv" else "<f4")

    def test_long_row(self):
        """a row that is longer than points may be"""
        columns = (1 << 20) + 5
        row = [1.0] * columns
        row[columns - 2] = -1.0
        self.write("m.npy", matrix_npy([row], "<f4"))
        done = self.works_json("select", "m.npy", "-k", 3, "-o", "out.npz")
        self.assertEqual(done["d"], columns)
        self.assertEqual(self.answer("out.npz")[0], ([columns - 2, 0, 1], (1, 3)))
        self.assertEqual(self.works_json("info", "m.npy")["d"], columns)
        self.fails(1, "graph", "m.npy", "-k", 1, says=[f"have {columns} columns"])

    @unittest.skipIf(numpy is None, "NumPy is not installed")
    def test_numpy(self):
        """NumPy reads the files, and a stable sort in it gives the same"""
        generator = numpy.random.default_rng(6)
        for kind in ("f2", "f4", "f8"):
            matrix = generator.normal(size=(20, 500)).round(1).astype(kind)
            matrix[3, 7] = numpy.nan
            matrix[:, 9] = numpy.inf
            numpy.save(self.folder / "m.npy", matrix)
            for sign in (1, -1):
                words = ["--largest"] if sign < 0 else []
                order = numpy.argsort(sign * matrix, axis=1, kind="stable")[:, :100]
                expected = numpy.take_along_axis(matrix, order, 1)
                self.works("select", "m.npy", "-k", 100, "-o", "out.npz", "-q", *words)
                found = numpy.load(self.folder / "out.npz")
                self.assertTrue((found["ids"] == order).all())
                self.assertEqual(found["values"].dtype, matrix.dtype)
                self.assertTrue(numpy.array_equal(found["values"], expected, equal_nan=True))
                self.assertEqual(json.loads(str(found["meta"]))["k"], 100)
                self.works("select", "m.npy", "-k", 100, "--kth", "-o", "kth.npy", "-q", *words)
                kth = numpy.load(self.folder / "kth.npy")
                self.assertTrue(numpy.array_equal(kth, expected[:, 99], equal_nan=True))


class Reports(SelectCase):
    def test_json(self):
        """one object: what was asked for, the method that was used, times, memory"""
        self.write("m.npy", matrix_npy(difficult_rows(9, 60, 7), "<f2"))
        done = self.works_json("select", "m.npy", "-k", 5, "--largest", "--device", "cpu")
        self.assertEqual({key: done[key] for key in ("command", "backend", "gpu", "n", "d", "k",
                                                     "dtype", "largest", "sorted", "kth", "output")},
                         {"command": "select", "backend": "cpu", "gpu": None, "n": 9, "d": 60,
                          "k": 5, "dtype": "float16", "largest": True, "sorted": True,
                          "kth": False, "output": None})
        self.assertIn(done["method"], METHODS[1:])
        self.assertEqual(set(done["seconds"]), {"total", "read", "select", "write"})
        self.assertGreater(done["peak_bytes"]["host"], 0)
        self.assertTrue({"isa", "threads", "version", "commit"} <= set(done))
        done = self.works_json("select", "m.npy", "-k", 5, "--select", "radix", "--kth")
        self.assertEqual((done["method"], done["kth"]), ("radix", True))
        self.assertEqual(self.files(), ["m.npy"], "without -o nothing is written")

    def test_text(self):
        """lines for people, and none with --quiet"""
        self.write("m.npy", matrix_npy(difficult_rows(9, 60, 8), "<f8"))
        text = self.works("select", "m.npy", "-k", 5, "--select", "heap", "-o", "out.npz", "-v")
        for line in ("matrix: m.npy, 9 x 60 float64\n", "k: 5, smallest\n", "method: heap, isa ",
                     "output: out.npz\n", "seconds: read "):
            self.assertIn(line, text)
        self.assertEqual(self.works("select", "m.npy", "-k", 5, "-q"), "")
        self.assertIn("k: 5, largest, the k-th alone\n",
                      self.works("select", "m.npy", "-k", 5, "--largest", "--kth"))
        self.assertIn("kind: result\n", self.works("info", "out.npz"))

    def test_dry_run(self):
        """--dry-run says what it takes at least, and does nothing"""
        self.write("m.npy", matrix_npy(difficult_rows(9, 60, 9), "<f8"))
        done = self.works_json("select", "m.npy", "-k", 5, "--dry-run", "-o", "out.npz")
        self.assertEqual(done["plan_bytes"], {"result": 9 * 5 * 12, "least": 9 * 5 * 12})
        self.assertTrue(done["dry_run"])
        self.assertIn("(result 540 B)", self.works("select", "m.npy", "-k", 5, "--dry-run"))
        self.assertEqual(self.files(), ["m.npy"])


class Mistakes(SelectCase):
    def test_usage(self):
        """words that cannot be right"""
        def wrong(line, *says):
            self.fails(2, "select", *line.split(), says=says)
        wrong("", "a file is missing", "usage: kith select MATRIX")
        wrong("a", "-k is missing", "how many values")
        wrong("a b -k 3", "one file too many")
        wrong("a -k 0", "'0' is no number of values")
        wrong("a -k 3 --select fast", "'fast' is no method of selection", ", ".join(METHODS))
        wrong("a -k 3 --buffer big", "'big' is no buffer", "none, plain, full, sorted")
        for group in ("1", "3", "6", "16", "two"):
            wrong(f"a -k 3 --group {group}", "use 2, 4 or 8")
        wrong("a -k 3 --heap-sample 0", "no sample")
        wrong("a -k 3 --heap-sample 1025", "give 1 to 1024")
        wrong("a -k 3 --buffer full", "kith: --buffer: goes with --select insertion")
        wrong("a -k 3 --select radix --group 2", "kith: --group: goes with --select insertion")
        wrong("a -k 3 --select heap --aligned", "kith: --aligned: goes with --select merge_queue")
        for level in ("0", "2", "12", "128", "eight"):
            wrong(f"a -k 3 --select merge_queue --level {level}", "kith: --level: ", f"'{level}' is no such size",
                  "a power of two, 4 to 64")
        for size in ("0", "4", "24", "128"):
            wrong(f"a -k 3 --select heap --buffer full --buffer-size {size}", "kith: --buffer-size: ",
                  "a power of two, 8 to 64")
        wrong("a -k 3 --select merge_queue --merge fast", "'fast' is no merge", "network, path")
        wrong("a -k 3 --select heap --buffer-size 32", "kith: --buffer-size: goes with --buffer plain, full or sorted")
        wrong("a -k 3 --select quick --buffer-size 32", "kith: --buffer-size: goes with --select insertion, heap, merge_q")
        wrong("a -k 3 --select heap --level 8", "kith: --level: goes with --select merge_queue alone")
        wrong("a -k 3 --select heap --merge path", "kith: --merge: goes with --select merge_queue alone")
        wrong("a -k 3 --select scan --heap-sample 8",
              "kith: --heap-sample: goes with --select threshold_heap alone")
        wrong("a -k 3 --select threshold_heap --sample 8", "no such option, kith graph has")
        wrong("a -k 3 --kth --unsorted", "does not go together with --unsorted")
        wrong("a -k 3 --metric l2", "kith select has no such option, kith graph has")
        wrong("a -k 3 -o out.npy", "kith: out.npy: ", ".npz")
        wrong("a -k 3 --kth -o out.npz", "kith: out.npz: ", ".npy")

    def test_inputs(self):
        """files that are missing, hold no floats, or have shorter rows than k"""
        self.fails(1, "select", "none.npy", "-k", 3, says=["kith: none.npy: "])
        self.points("m.u8bin")
        self.fails(1, "select", "m.u8bin", "-k", 3,
                   says=["kith: m.u8bin: holds uint8 values, selection takes floats", ".fbin"])
        self.write("m.ibin", support.matrix_bin([[1, 2], [3, 4]], "i"))
        self.fails(1, "select", "m.ibin", "-k", 1, says=["holds int32 values", "astype"])
        self.write("i.npy", matrix_npy([[1, 2], [3, 4]], "<q8").replace(b"<q8", b"<i8"))
        self.fails(1, "select", "i.npy", "-k", 1, says=["kith: i.npy: holds int64 values"])
        self.write("m.npy", matrix_npy([[1.0, 2.0], [3.0, 4.0]], "<f4"))
        self.fails(1, "select", "m.npy", "-k", 3, says=["k is 3", "2 values in a row"])
        self.works("select", "m.npy", "-k", 2)

    def test_outputs(self):
        """outputs that cannot be written, that are the input, or that find no room"""
        self.write("m.npy", matrix_npy(difficult_rows(200, 60, 10), "<f8"))
        os.mkdir(self.folder / "folder")
        for output in ("folder", "none/x.npz", "m.npy/x.npz", "/dev/null"):
            self.fails(1, "select", "m.npy", "-k", 3, "-o", output, says=[f"kith: {output}: "])
        self.fails(1, "select", "m.npy", "-k", 3, "--kth", "-o", "./m.npy",
                   says=["input and output at once"])
        self.write("old.npz", b"old")
        for words in (["-o", "old.npz"], ["-o", "new.npz"], ["--kth", "-o", "new.npy"]):
            self.fails(1, "select", "m.npy", "-k", 50, *words, says=[f"kith: {words[-1]}: "],
                       restore_signals=False,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
        self.assertEqual((self.folder / "old.npz").read_bytes(), b"old")
        self.assertEqual(self.files(), ["folder", "m.npy", "old.npz"])

    def test_memory(self):
        """an answer beyond --memory is refused with the figure that it needs"""
        self.write("m.npy", matrix_npy(difficult_rows(200, 60, 11), "<f8"))
        self.fails(1, "select", "m.npy", "-k", 50, "--memory", "64K",
                   says=["kith: m.npy: needs 117.2 KiB (120000 bytes)", "--memory allows 64.0 KiB"])

    def test_cuda(self):
        """--device cuda says why it is not used"""
        if any(d["available"] for d in self.works_json("devices")["devices"][1:]):
            self.skipTest("there is a GPU")
        self.write("m.npy", matrix_npy([[1.0, 2.0]], "<f4"))
        self.fails(1, "select", "m.npy", "-k", 1, "--device", "cuda", says=["kith: cuda: "])


if __name__ == "__main__":
    support.main()
