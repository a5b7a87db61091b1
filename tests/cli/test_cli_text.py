# SPDX-License-Identifier: Apache-2.0
"""Text in and out: what is a header, a separator, an index; what is refused; pipes; neighbours as text; arrays in
other orders; labels of one axis."""
import gzip
import json
import os
import struct
import subprocess
import threading

import cli_support as support
from cli_support import CliCase

ROWS = [[9.5, 2.0, 1.0], [3.25, 4.0, -7.0], [5.0, 6.5, 2.0], [7.0, 8.0, 3.5], [0.5, 1.5, 9.0]]


def lines(rows, separator=","):
    return "".join(separator.join(f"{value!r}" for value in row) + "\n" for row in rows)


def npy(rows, kind, order, fortran):
    shape = f"({len(rows)}, {len(rows[0])})"
    values = [value for column in zip(*rows) for value in column] if fortran else sum(rows, [])
    body = struct.pack(f"{order}{len(values)}{kind[0]}", *values)
    return array(f"{order}{kind[1:]}", fortran, shape, body)


def array(descr, fortran, shape, body):
    head = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + body


class TextCase(CliCase):
    def text(self, name, text):
        self.write(name, text.encode() if isinstance(text, str) else text)
        return name

    def answer(self, *words):
        """The graph that a command line gives, as text on standard output."""
        done = self.run_kith("graph", *words, "-k", 2, "-o", "-", "-q")
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        return done.stdout

    def run_kith(self, *words, data=None):
        return subprocess.run([support.KITH, *map(str, words)], cwd=self.folder, capture_output=True,
                              text=data is None or isinstance(data, str), input=data, timeout=120)


class Input(TextCase):
    def test_separators(self):
        """commas, semicolons, tabs, blanks, with a header or without, .gz: the same graph, and the report says which"""
        self.text("plain.csv", lines(ROWS))
        wanted = self.answer("plain.csv")
        for name, text, said in (
                ("c.csv", lines(ROWS), "separator comma, no header"),
                ("s.csv", "a;b;c\n" + lines(ROWS, ";"), "separator semicolon, header 'a;b;c'"),
                ("t.tsv", "a\tb\tc\n" + lines(ROWS, "\t"), "separator tab, header 'a b c'"),
                ("b.csv", lines(ROWS, " "), "separator blank, no header"),
                ("b.txt", "# x y z\n" + lines(ROWS, "   "), "separator blank, no header"),
                ("z.csv.gz", gzip.compress(lines(ROWS).encode()), "separator comma, no header, unpacked")):
            self.text(name, text)
            self.assertEqual(self.answer(name), wanted, name)
            self.assertIn(f"read: {name}, {said}\n", self.works("graph", name, "-k", 2))
        told = self.works_json("graph", "s.csv", "-k", 2)["read"]
        self.assertEqual(told, [{"file": "s.csv", "separator": "semicolon", "header": "a;b;c", "columns": 3,
                                 "file_columns": 3, "compressed": False, "fortran_order": False,
                                 "big_endian": False}])

    def test_pandas(self):
        """a header 0,1,2 is no point and an index no coordinate: each is asked for, and the way out works"""
        numbered = "0,1,2\n" + lines(ROWS)
        indexed = ",x,y,z\n" + "".join(f"{i},{line}" for i, line in enumerate(lines(ROWS).splitlines(True)))
        self.text("plain.csv", lines(ROWS))
        wanted = self.answer("plain.csv")
        self.text("numbered.csv", numbered)
        self.fails(1, "graph", "numbered.csv", "-k", 2, says=["line 1 may name the columns or be a row",
                                                              "--header yes or --header no"])
        self.assertEqual(self.answer("numbered.csv", "--header", "yes"), wanted)
        self.assertEqual(self.works_json("graph", "numbered.csv", "-k", 2, "--header", "no")["n"], 6)
        self.text("indexed.csv", indexed)
        self.fails(1, "graph", "indexed.csv", "-k", 2, says=["column 0 has no name", "--columns 1-"])
        self.assertEqual(self.answer("indexed.csv", "--columns", "1-"), wanted)
        self.assertEqual(self.answer("indexed.csv", "--columns", "x,y,z"), wanted)
        self.assertEqual(self.works_json("graph", "indexed.csv", "-k", 2, "--columns", "0-")["d"], 4)
        self.text("bare.csv", "".join(indexed.splitlines(True)[1:]))
        self.fails(1, "graph", "bare.csv", "-k", 2, says=["column 0 counts the rows"])

    def test_missing(self):
        """a first row with a missing value is an error, not a header; so is a field that is no number"""
        for text, says in (("1,,3\n4,5,6\n", "row 0, column 1 (line 1) is missing"),
                           ("5,2,1\nNA,5,6\n", "row 1, column 0 (line 2) is missing: 'NA'"),
                           ("5,2,1\n3,x,6\n", "row 1, column 1 (line 2): 'x' is not a number")):
            self.text("bad.csv", text)
            self.fails(1, "graph", "bad.csv", "-k", 1, says=[says])
        self.text("iris.csv", "5.1,3.5,setosa\n4.9,3.0,setosa\n6.0,3.1,other\n")
        self.fails(1, "graph", "iris.csv", "-k", 1, says=["numbers and words"])
        self.assertEqual(self.works_json("graph", "iris.csv", "-k", 1, "--columns", "0-1")["d"], 2)

    def test_options_everywhere(self):
        """every command that reads points takes --header, --columns and --delimiter"""
        self.text("p.csv", "0;1;2\n" + lines(ROWS, ";"))
        self.text("other.csv", "5;1;2\n" + lines(ROWS, ";"))
        how = ("--header", "yes", "--delimiter", ";", "--columns", "1-2")
        self.works("graph", "p.csv", "-k", 2, *how, "-o", "g.kith", "-q")
        self.assertEqual(self.works_json("search", "p.csv", "p.csv", "-k", 2, *how)["d"], 2)
        self.assertEqual(self.works_json("convert", "p.csv", "p.fbin", *how)["d"], 2)
        self.assertEqual(self.works_json("info", "p.csv", *how)["d"], 2)
        self.assertIn("recall", self.works_json("eval", "g.kith", "--points", "p.csv", *how))
        self.works("merge", "g.kith", "p.csv", "g.kith", "p.csv", "--exact", "-o", "m.kith", "-q", *how)
        self.works("add", "g.kith", "p.csv", "p.csv", "-o", "a.kith", "-q", *how)
        self.text("ids.csv", "id\n1\n")
        self.works("remove", "g.kith", "p.csv", "ids.csv", "-o", "r.kith", "-q", *how)
        self.works("index", "build", "--method", "tree", "p.csv", "-o", "t.kith", "-q", *how)
        self.works("select", "p.csv", "-k", 1, "-q", *how)
        self.fails(1, "search", "t.kith", "p.csv", "-k", 1, *how, says=["t.kith: columns are chosen of text alone"])
        self.fails(2, "graph", "p.csv", "-k", 2, "--header", "perhaps", says=["yes, no"])
        self.fails(2, "graph", "p.csv", "-k", 2, "--delimiter", "|", says=["is no delimiter"])
        self.fails(2, "graph", "p.csv", "-k", 2, "--columns", "", says=["names no column"])

    def test_pipes(self):
        """- and /dev/fd/N: text, .gz of text and .npy; what must be mapped says so"""
        self.text("plain.csv", lines(ROWS))
        wanted = self.answer("plain.csv")
        values = [[float(value) for value in row] for row in ROWS]
        for data in (lines(ROWS).encode(), gzip.compress(lines(ROWS, " ").encode()),
                     npy(values, "df8", "<", False), npy(values, "df8", ">", True)):
            done = self.run_kith("graph", "-", "-k", 2, "-o", "-", "-q", data=data)
            self.assertEqual((done.returncode, done.stdout.decode()), (0, wanted), done.stderr)
        reader, writer = os.pipe()
        feeder = threading.Thread(target=lambda: (os.write(writer, lines(ROWS).encode()), os.close(writer)))
        feeder.start()
        done = subprocess.run([support.KITH, "graph", f"/dev/fd/{reader}", "-k", "2", "-o", "-", "-q"],
                              pass_fds=[reader], capture_output=True, text=True, timeout=120)
        feeder.join()
        os.close(reader)
        self.assertEqual((done.returncode, done.stdout), (0, wanted), done.stderr)
        done = self.run_kith("convert", "-", "out.npy", data=lines(ROWS))
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_kith("search", "-", "-", "-k", 1, data=lines(ROWS))
        self.assertEqual(done.returncode, 2)
        self.assertIn("standard input is named for two files", done.stderr)
        done = self.run_kith("graph", "-", "-k", 1, data=b"\x05\0\0\0\x02\0\0\0" + b"\0" * 40)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"brings neither text nor .npy", done.stderr)
        done = self.run_kith("graph", "-", "-k", 1, data="")
        self.assertIn("nothing came out of the pipe", done.stderr)

    def test_arrays(self):
        """.npy in Fortran order and big-endian is read as it is meant, and the report says so"""
        values = [[float(value) for value in row] for row in ROWS]
        self.text("plain.npy", npy(values, "df8", "<", False))
        wanted = self.answer("plain.npy")
        for order, fortran, said in (("<", True, "converted from Fortran order"), (">", False, "converted from big-endian"),
                                     (">", True, "converted from Fortran order, converted from big-endian")):
            self.text("other.npy", npy(values, "df8", order, fortran))
            self.assertEqual(self.answer("other.npy"), wanted)
            self.assertIn(f"read: other.npy, {said}\n", self.works("graph", "other.npy", "-k", 2))
        wide = [[float(row * 7 % 11 + column) for column in range(600)] for row in range(600)]
        self.text("wide.npy", npy(wide, "df8", "<", True))
        self.fails(1, "graph", "wide.npy", "-k", 2, "--memory", "2MB",
                   says=["kith: wide.npy: --memory is 2000000 bytes, and the call takes "])

    def test_labels(self):
        """labels are a .npy of one axis, or a column whose header is told by the number of rows"""
        self.text("p.csv", lines(ROWS))
        labels = [0, 1, 1, 0, 1]
        self.text("l.npy", array("<i8", False, "(5,)", struct.pack("<5q", *labels)))
        self.text("l.csv", "".join(f"{label}\n" for label in labels))
        self.text("named.csv", "0\n" + "".join(f"{label}\n" for label in labels))
        self.text("wrong.csv", "0\n0\n")
        answers = set()
        for name in ("l.npy", "l.csv", "named.csv"):
            answers.add(self.works("predict", "p.csv", name, "p.csv", "-k", 3, "--mode", "vote", "-o", "-", "-q"))
        self.assertEqual(len(answers), 1)
        self.fails(1, "predict", "p.csv", "wrong.csv", "p.csv", "-k", 3, says=["say --header yes or --header no"])
        self.text("ids.npy", array("<i4", False, "(2,)", struct.pack("<2i", 1, 3)))
        self.works("graph", "p.csv", "-k", 2, "-o", "g.kith", "-q")
        told = self.works_json("remove", "g.kith", "p.csv", "ids.npy", "-o", "r.kith")
        self.assertEqual(told["removed"], 2)

    def test_sizes(self):
        """8GB is 8 times 10^9, 8GiB and 8G 8 times 2^30"""
        self.text("p.csv", lines(ROWS))
        for size in ("8GB", "8GiB", "8G", "8Gi", "512MB", "1.5TiB", "2000000000"):
            self.works("graph", "p.csv", "-k", 1, "--memory", size, "-q")
        for size in ("8GX", "8GBB", "8B", "GB"):
            self.fails(2, "graph", "p.csv", "-k", 1, "--memory", size, says=["no amount of memory", "8GB"])


class Output(TextCase):
    def test_formats(self):
        """-o x.csv, x.tsv, -, --format csv-wide: what .npz holds"""
        self.text("p.csv", lines(ROWS))
        self.works("graph", "p.csv", "-k", 2, "-o", "g.npz", "-q")
        arrays = support.read_npz(self.folder / "g.npz")
        ids, distances = arrays["ids"][0], arrays["distances"][0]
        for name, separator in (("g.csv", ","), ("g.tsv", "\t")):
            self.works("graph", "p.csv", "-k", 2, "-o", name, "-q")
            head, *rest = (self.folder / name).read_text().splitlines()
            self.assertEqual(head.split(separator), ["id", "neighbour", "distance"])
            found = [row.split(separator) for row in rest]
            self.assertEqual([(int(i), int(j)) for i, j, _ in found], [(at // 2, j) for at, j in enumerate(ids)])
            self.assertEqual([struct.pack("f", float(d)) for _, _, d in found],
                             [struct.pack("f", d) for d in distances])
        wide = self.works("graph", "p.csv", "-k", 2, "-o", "-", "--format", "csv-wide", "-q").splitlines()
        self.assertEqual(wide[0], "id,neighbour1,neighbour2,distance1,distance2")
        self.assertEqual([list(map(int, row.split(",")[:3])) for row in wide[1:]],
                         [[i, ids[2 * i], ids[2 * i + 1]] for i in range(5)])
        self.works("convert", "g.npz", "again.csv", "-q")
        self.assertEqual((self.folder / "again.csv").read_text(), (self.folder / "g.csv").read_text())

    def test_standard_output(self):
        """-o - has the answer alone on standard output, and the report on standard error"""
        self.text("p.csv", lines(ROWS))
        done = self.run_kith("search", "p.csv", "p.csv", "-k", 1, "-o", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[0], "id,neighbour,distance")
        self.assertEqual(len(done.stdout.splitlines()), 6)
        self.assertIn("corpus: p.csv", done.stderr)
        done = self.run_kith("graph", "p.csv", "-k", 1, "-o", "-", "--json")
        self.assertEqual(json.loads(done.stderr)["output"], "-")
        done = self.run_kith("convert", "p.csv", "-")
        self.assertEqual(done.stdout.splitlines()[1], "3.25,4,-7")
        self.assertIn("points: 5 x 3", done.stderr)

    def test_ranges(self):
        """all within a radius, mutual pairs and edges of a symmetric graph as text"""
        self.text("p.csv", "1\n2\n4\n9\n")
        self.assertEqual(self.works("graph", "p.csv", "--radius", 2, "-o", "-", "-q"),
                         "id,neighbour,distance\n0,1,1\n1,0,1\n1,2,2\n2,1,2\n")
        self.assertEqual(self.works("graph", "p.csv", "-k", 1, "--symmetric", "union", "-o", "-", "-q").splitlines()[1],
                         "0,1,1")
        self.works("search", "p.csv", "p.csv", "-k", 1, "--mutual", "-o", "pairs.csv", "-q")
        self.assertEqual(len((self.folder / "pairs.csv").read_text().splitlines()), 4)

    def test_named_pipes(self):
        """a pipe that has a name is written to, not replaced"""
        self.text("p.csv", lines(ROWS))
        os.mkfifo(self.folder / "pipe.csv")
        found = []
        reader = threading.Thread(target=lambda: found.append((self.folder / "pipe.csv").read_text()))
        reader.start()
        self.works("graph", "p.csv", "-k", 2, "-o", "pipe.csv", "-q")
        reader.join()
        self.assertEqual(found, [self.answer("p.csv")])

    def test_refusals(self):
        """what cannot be text, or not in pieces, is said before anything is computed"""
        self.text("p.csv", lines(ROWS))
        self.fails(2, "graph", "p.csv", "-k", 2, "-o", "-", "--format", "npz", says=["standard output takes text alone"])
        self.fails(2, "index", "build", "--method", "tree", "p.csv", "-o", "-", says=["standard output takes text alone"])
        self.fails(2, "search", "p.csv", "p.csv", "-k", 2, "--stream", "-o", "x.csv", says=["written at once"])
        self.fails(2, "graph", "p.csv", "-k", 2, "--shards", "work", "-o", "x.tsv", says=["written at once"])
        self.assertEqual(self.files(), ["p.csv"])


if __name__ == "__main__":
    support.main()
