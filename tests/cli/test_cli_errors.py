# SPDX-License-Identifier: Apache-2.0
"""Files and values that cannot work: one line that says what, where, and what to do."""
import math
import os
import resource
import struct

import cli_support as support
from cli_support import CliCase


class Inputs(CliCase):
    def test_missing_file(self):
        """a file that is not there is told as that, whatever its name ends in"""
        self.points()
        for words in ("graph nofile -k 3", "info nofile", "search points.u8bin nofile -k 3", "graph no.npy -k 3"):
            self.fails(1, *words.split(), says=["cannot be opened: No such file or directory (check"])

    def test_missing(self):
        """a file that is not there, for every command that reads one"""
        self.points()
        for words in (["graph", "none.fbin", "-k", "3"], ["info", "none.fbin"],
                      ["search", "points.u8bin", "none.fbin", "-k", "3"],
                      ["convert", "none.fbin", "x.npy"], ["eval", "none.npz", "--points", "p"],
                      ["eval", "none.npz", "none.npz"]):
            told = self.fails(1, *words, says=["kith: none."])
            self.assertEqual(told.count("none."), 1, told)

    def test_directory(self):
        """a directory is no file"""
        (self.folder / "folder.fbin").mkdir()
        self.fails(1, "graph", "folder.fbin", "-k", "3", says=["kith: folder.fbin: "])

    def test_liars(self):
        """zero rows, zero columns, short, long, and unknown endings"""
        self.write("empty.fbin", b"")
        self.write("zero.fbin", struct.pack("<II", 0, 4))
        self.write("flat.fbin", struct.pack("<II", 4, 0))
        self.write("short.fbin", struct.pack("<II", 4, 4) + b"\0" * 60)
        self.write("long.fbin", struct.pack("<II", 4, 4) + b"\0" * 68)
        self.write("huge.fbin", struct.pack("<II", 0xffffffff, 0xffffffff) + b"\0" * 64)
        self.write("points.dat", b"\0" * 64)
        for name in ("empty.fbin", "zero.fbin", "flat.fbin", "short.fbin", "long.fbin",
                     "huge.fbin", "points.dat"):
            self.fails(1, "graph", name, "-k", "3", says=[f"kith: {name}: "])

    def test_values(self):
        """NaN and infinity are named by row and column, the lowest first"""
        rows = [[1.0, 2.0, 3.0] for _ in range(9)]
        rows[4][2] = math.nan
        rows[6][0] = math.inf
        self.write("p.fbin", support.matrix_bin(rows, "f"))
        self.fails(1, "graph", "p.fbin", "-k", "3", says=["kith: p.fbin: ", "[4, 2]", "NaN"])
        rows[4][2] = 5.0
        self.write("p.npy", support.matrix_npy(rows))
        self.fails(1, "graph", "p.npy", "-k", "3", says=["kith: p.npy: ", "[6, 0]", "inf"])

    def test_values_of_queries(self):
        """a bad query blames the file of the queries"""
        self.write("c.fbin", support.matrix_bin([[1.0, 2.0], [3.0, 4.0]], "f"))
        self.write("q.fbin", support.matrix_bin([[1.0, 2.0], [math.nan, 4.0]], "f"))
        for more in ([], ["--both"], ["--mutual"]):
            self.fails(1, "search", "c.fbin", "q.fbin", "-k", "1", *more,
                       says=["kith: q.fbin: ", "[1, 0]"])
            self.fails(1, "search", "q.fbin", "c.fbin", "-k", "1", *more,
                       says=["kith: q.fbin: ", "[1, 0]"])

    def test_negative(self):
        """a negative component under chi2 and kl"""
        self.write("p.i8bin", support.matrix_bin([[1, 2], [3, -4], [5, 6]], "b"))
        for metric in ("chi2", "kl"):
            self.fails(1, "graph", "p.i8bin", "-k", "1", "--metric", metric,
                       says=["[1, 1]"])

    def test_dimensions(self):
        """corpus and queries of different dimension name both"""
        self.points("c.u8bin", columns=5)
        self.points("q.u8bin", columns=6)
        self.fails(1, "search", "c.u8bin", "q.u8bin", "-k", "3",
                   says=["kith: q.u8bin: has 6 columns, c.u8bin has 5"])

    def test_k_too_large(self):
        """a k beyond what there is names both numbers"""
        self.points(rows=60)
        self.fails(1, "graph", "points.u8bin", "-k", "60", says=["k is 60", "59 other points"])
        self.works("graph", "points.u8bin", "-k", "59")
        self.works("graph", "points.u8bin", "-k", "60", "--include-self")
        self.fails(1, "search", "points.u8bin", "points.u8bin", "-k", "61", says=["61", "60"])
        self.fails(1, "graph", "points.u8bin", "-k", 2 ** 62, says=[str(2 ** 62), "59"])
        self.points("few.u8bin", rows=3)
        self.fails(1, "search", "points.u8bin", "few.u8bin", "-k", "4", "--mutual",
                   says=["kith: few.u8bin: k is 4", "3 points"])

    def test_one_point(self):
        """a graph of one point has no neighbours to give"""
        self.points(rows=1)
        self.fails(1, "graph", "points.u8bin", "-k", "1", says=["k is 1", "0 other points"])

    def test_eval(self):
        """eval of results without distances, and of results that do not fit, says so"""
        self.points(rows=60)
        self.works("graph", "points.u8bin", "-k", "3", "-o", "g.ibin")
        self.works("graph", "points.u8bin", "-k", "3", "-o", "g.npz")
        self.fails(1, "eval", "g.ibin", "g.npz", says=["kith: g.ibin: ", "without distances"])
        self.fails(1, "eval", "g.npz", "g.npz", "-k", "4", says=["4", "3"])
        self.works("convert", "points.u8bin", "points.csv")
        for name in ("points.u8bin", "points.csv"):
            self.fails(1, "eval", "g.npz", name, says=[f"kith: {name}: is no result", "--points FILE"])
        self.works("graph", "points.u8bin", "-k", "3", "--metric", "cosine", "-o", "c.npz")
        self.fails(1, "eval", "c.npz", "g.npz", says=["kith: c.npz: ", "cosine", "euclidean"])
        self.points("less.u8bin", rows=50)
        self.fails(1, "eval", "g.npz", "--points", "less.u8bin", says=["60", "50"])

    def test_isa(self):
        """an instruction set that does not exist"""
        self.points()
        self.fails(1, "graph", "points.u8bin", "-k", "3", says=["kith: KITH_ISA is 'sse9'"],
                   environment={"KITH_ISA": "sse9"})


class Outputs(CliCase):
    def test_unwritable(self):
        """an output that cannot be written is noticed before anything is read"""
        os.mkdir(self.folder / "folder")
        self.points()
        for output in ("folder", "none/x.npz", "points.u8bin/x.npz", "/dev/null"):
            for words in (["graph", "points.u8bin", "-k", "3"], ["graph", "none.fbin", "-k", "3"]):
                self.fails(1, *words, "-o", output, says=[f"kith: {output}: "])
        self.fails(2, "graph", "none.fbin", "-k", "3", "-o", "x.txt", says=["kith: x.txt: ", ".npz"])
        self.fails(2, "graph", "none.fbin", "-k", "3", "-o", "npz", says=["kith: npz: "])
        self.fails(2, "graph", "none.fbin", "-k", "3", "-o", "x.npz", "--distances", "x.txt",
                   says=["kith: x.txt: "])
        self.assertEqual(self.files(), ["folder", "points.u8bin"])

    def test_read_only_folder(self):
        """a folder without the right to write (skipped as root, who has it anyway)"""
        if os.geteuid() == 0:
            self.skipTest("root may write everywhere")
        os.mkdir(self.folder / "folder", 0o555)
        self.points()
        self.fails(1, "graph", "points.u8bin", "-k", "3", "-o", "folder/x.npz",
                   says=["kith: folder/x.npz: ", "Permission denied"])

    def test_input_is_output(self):
        """an input is not overwritten, under no name"""
        self.points()
        os.link(self.folder / "points.u8bin", self.folder / "same.npz")
        self.fails(1, "graph", "points.u8bin", "-k", "3", "-o", "same.npz",
                   says=["kith: same.npz: ", "input and output at once"])
        self.fails(1, "convert", "points.u8bin", "./points.u8bin", says=["input and output"])

    def test_one_file_for_two_outputs(self):
        """two answers do not go to one file, whatever it is called"""
        self.points()
        self.works("graph", "points.u8bin", "-k", "3", "-o", "g.kith", "-q")
        search = ("search", "points.u8bin", "points.u8bin", "-k", "3", "--both")
        twice = ["named for two outputs (give two names)"]
        self.fails(2, *search, "-o", "a.ivecs", "--output-back", "./a.ivecs", says=twice)
        self.fails(2, *search, "-o", self.folder / "a.npz", "--output-back", "a.npz", says=twice)
        self.fails(2, "graph", "points.u8bin", "-k", "3", "-o", "d.npy", "--format", "ivecs",
                   "--distances", "./d.npy", says=twice)
        self.fails(2, "add", "g.kith", "points.u8bin", "points.u8bin", "-o", "a.kith",
                   "--points-out", "./a.kith", says=twice)
        self.fails(2, "convert", "g.kith", "d.npy", "--format", "ivecs", "--distances", "./d.npy",
                   says=twice)
        self.write("a.ivecs", b"old")
        os.link(self.folder / "a.ivecs", self.folder / "b.ivecs")
        self.fails(2, *search, "-o", "a.ivecs", "--output-back", "b.ivecs", says=twice)
        self.assertEqual((self.folder / "a.ivecs").read_bytes(), b"old")

    def test_folder_of_shards(self):
        """what is wrong with the folder of shards names it, not the points"""
        self.points()
        self.fails(1, "graph", "points.u8bin", "-k", "3", "-o", "g.kith", "--shards", "no/such",
                   says=["kith: no/such: "])

    def test_no_room(self):
        """a disk that takes no more: exit code 1, no file, an older one as it was"""
        self.points(rows=600)
        self.write("old.npz", b"old")
        for name in ("new.npz", "old.npz"):
            self.fails(1, "graph", "points.u8bin", "-k", "50", "-o", name,
                       says=[f"kith: {name}: "], restore_signals=False,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)))
        self.assertEqual(self.files(), ["old.npz", "points.u8bin"])
        self.assertEqual((self.folder / "old.npz").read_bytes(), b"old")

    def test_convert(self):
        """values that do not fit the new format are refused; nothing is left"""
        self.write("p.fbin", support.matrix_bin([[1.5, 2.0], [3.0, 4.0]], "f"))
        self.fails(1, "convert", "p.fbin", "p.u8bin", says=["kith: p.u8bin: "])
        self.fails(2, "convert", "p.fbin", "p.zip", says=["kith: p.zip: "])
        self.fails(1, "convert", "p.fbin", "p.npy", "--distances", "d.fbin", says=["holds points"])
        self.assertEqual(self.files(), ["p.fbin"])

    def test_device_of_the_environment(self):
        """KITH_DEVICE stands for --device where that is not given, and is named when it is wrong"""
        self.points()
        wrong = {"KITH_DEVICE": "gpu"}
        self.fails(1, "graph", "points.u8bin", "-k", "3", environment=wrong,
                   says=["kith: KITH_DEVICE: 'gpu' is no device"])
        self.works("graph", "points.u8bin", "-k", "3", "--device", "cpu", "-o", "graph.npz",
                   environment=wrong)
        self.works("graph", "points.u8bin", "-k", "3", environment={"KITH_DEVICE": "cpu"})
        for words in (["info", "points.u8bin"], ["eval", "graph.npz", "graph.npz"]):
            self.fails(1, *words, environment=wrong, says=["kith: KITH_DEVICE is 'gpu', which is "])

    def test_cuda(self):
        """--device cuda says why it is not used"""
        self.points()
        if any(d["available"] for d in self.works_json("devices")["devices"][1:]):
            self.skipTest("there is a GPU")
        self.fails(1, "graph", "points.u8bin", "-k", "3", "--device", "cuda", says=["kith: cuda: "])
        self.fails(1, "graph", "points.u8bin", "-k", "3", "--device", "cuda:99",
                   says=["kith: cuda:99: "])
        for words in (["merge", "g.npz", "p.npy", "g.npz", "p.npy"], ["remove", "g.npz", "p.npy", "i.npy"],
                      ["add", "g.npz", "p.npy", "p.npy"]):  # before any of these files is missed
            self.fails(1, *words, "-o", "out.npz", "--device", "cuda", says=["kith: cuda: "])
        self.works("graph", "points.u8bin", "-k", "3", "--device", "cpu")


if __name__ == "__main__":
    support.main()
