# SPDX-License-Identifier: Apache-2.0
"""kith-mpi: the bytes of kith graph, search and predict, by any number of ranks, whatever becomes of them."""
import functools
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

import cli_support as support
from cli_support import CliCase

MPI = os.environ.get("KITH_MPI", "")
REFERENCE = os.environ.get("KITH_REFERENCE", "")  # a GPU module whose devices are host memory
MPIRUN = shutil.which("mpirun")

# Open MPI gives ranks a second to end when another one has failed; these have ended by then.
os.environ.setdefault("OMPI_MCA_odls_base_sigkill_timeout", "0")
# What it chooses on one machine; looking for networks takes it half of the time that it needs to start.
os.environ.setdefault("OMPI_MCA_pml", "ob1")
os.environ.setdefault("OMPI_MCA_btl", "self,vader")
if os.access("/dev/shm", os.W_OK):
    tempfile.tempdir = "/dev/shm"


@functools.cache
def options():
    """Open MPI wants to be told that this is a small machine; MPICH knows none of these."""
    said = subprocess.run([MPIRUN, "--version"], capture_output=True, text=True, check=False)
    if "Open MPI" not in said.stdout and "OpenRTE" not in said.stdout:
        return []
    return ["--oversubscribe", "--bind-to", "none"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])


def mpirun(ranks):
    return [MPIRUN, *options(), "-n", str(ranks)]


class RankCase(CliCase):
    def setUp(self):
        if MPIRUN is None:
            self.skipTest("no mpirun")
        super().setUp()

    def case(self, rows, columns):
        generator = random.Random(rows)
        self.write("points.u8bin", support.matrix_bin(
            [[generator.randrange(256) for _ in range(columns)] for _ in range(rows)], "B"))

    def words(self, *more, folder="work", count=5):
        return ["graph", "points.u8bin", "-k", "9", "-q", "-o", "out.kith", "--shards", folder,
                f"--tune=shard-count={count}", "--threads", "1", *more]

    def whole(self, *more):
        self.works("graph", "points.u8bin", "-k", 9, "-q", "-o", "whole.kith", *more)
        return (self.folder / "whole.kith").read_bytes()

    def run_to_end(self, *words, code=0):
        child = self.spawn(*words)
        out, told = child.communicate(timeout=60)
        self.assertEqual(child.returncode, code, told)
        return out, [line for line in told.splitlines() if line.startswith("kith: ")]

    def ranks(self, ranks, *words, code=0):
        return self.run_to_end(*mpirun(ranks), MPI, *words, code=code)

    def wait_for(self, child, version):
        """Until a shard has been written so often."""
        self.wait_until(lambda: any((self.folder / "work").glob(f"shard-*.{version:06}.kith")),
                        child)

    @staticmethod
    def children_of(pid):
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                words = path.read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()
            except OSError:
                continue  # it has ended
            found += [int(path.parent.name)] if int(words[1]) == pid else []
        return sorted(found)


class Ranks(RankCase):
    def test_bytes(self):
        """1 to 4 ranks, more ranks than pairs, a number of shards that was not given"""
        self.case(400, 6)
        expected = self.whole()
        for ranks, count in ((1, 3), (2, 5), (3, 6), (4, 3)):
            self.ranks(ranks, *self.words(count=count))
            self.assertEqual((self.folder / "out.kith").read_bytes(), expected, (ranks, count))
            self.assertFalse((self.folder / "work").exists())
        words = [word for word in self.words() if word not in ("--tune=shard-count=5", "-q")]
        out, _ = self.ranks(2, *words, "--json")
        said = support.json.loads(out)
        self.assertEqual((said["shards"]["count"], said["shards"]["steps"]), (4, 10))
        self.assertEqual((self.folder / "out.kith").read_bytes(), expected)

    def approximate(self, name, words, steps, *teams):
        """The bytes of kith with as many shards, and the recall."""
        self.works(*words, "--threads", "2")
        expected = (self.folder / "out.kith").read_bytes()
        for ranks in teams:
            (self.folder / "out.kith").unlink()
            out, _ = self.ranks(ranks, *words, "--threads", "1", "--json")
            said = support.json.loads(out)
            self.assertEqual((self.folder / "out.kith").read_bytes(), expected, (name, ranks))
            self.assertEqual(said["shards"]["steps"], steps)
            self.assertGreater(said["recall"]["estimate"], 0.95)
            self.assertFalse((self.folder / "work").exists())

    def test_descent(self):
        """approximate graphs by many ranks are those of one process: pairs, and groups of near
        points"""
        words = ["--method", "descent", "--recall", "0.95", "--tune=seed=3"]
        self.case(800, 8)
        self.approximate("pairs", [*self.words(), *words], 15, 2, 3)
        self.case(16500, 3)
        free = [word for word in self.words() if word != "--tune=shard-count=5"]
        out, _ = self.ranks(2, *free, *words, "--json")
        count = support.json.loads(out)["shards"]["count"]
        self.assertEqual(count, 3)
        told = (self.folder / "out.kith").read_bytes()
        self.approximate("groups", [*self.words(count=count), *words], count, 4)
        self.assertEqual((self.folder / "out.kith").read_bytes(), told)

    def test_killed(self):
        """one rank dies, all end; other ranks go on, then one process; what is damaged is made
        again"""
        self.case(1000 if support.SLOW else 3000, 24)
        words = self.words("--metric", "chi2", "--tune", "keep-shards", count=6)
        expected = self.whole("--metric", "chi2")
        for ranks, version in ((3, 2), (2, 4)):
            child = self.spawn(*mpirun(ranks), MPI, *words)
            self.wait_for(child, version)
            os.kill(self.children_of(child.pid)[-1], signal.SIGKILL)
            child.communicate(timeout=60)
            self.assertNotEqual(child.returncode, 0)
            self.assertFalse((self.folder / "out.kith").exists())
        damaged = sorted((self.folder / "work").glob("shard-*.kith"))[2]
        data = bytearray(damaged.read_bytes())
        data[-9] ^= 4
        damaged.write_bytes(data)
        out, told = self.ranks(2, *words, "--json")
        said = support.json.loads(out)["shards"]
        self.assertGreater(said["stood"], 0)
        self.assertEqual(said["rebuilt"], 1)
        self.assertTrue(any(damaged.name in line for line in told), told)
        self.assertEqual((self.folder / "out.kith").read_bytes(), expected)
        said = self.works_json(*words)["shards"]
        self.assertEqual((said["stood"], said["steps"]), (21, 21))
        self.assertEqual((self.folder / "out.kith").read_bytes(), expected)

    def test_descent_killed(self):
        """an approximate graph of which a rank died: other ranks go on to the same bytes"""
        self.case(1500, 16)
        words = [*self.words(count=6), "--method", "descent", "--recall", "0.95"]
        self.works(*words)
        expected = (self.folder / "out.kith").read_bytes()
        (self.folder / "out.kith").unlink()
        child = self.spawn(*mpirun(3), MPI, *words)
        self.wait_for(child, 1)
        os.kill(self.children_of(child.pid)[0], signal.SIGKILL)
        child.communicate(timeout=60)
        self.assertNotEqual(child.returncode, 0)
        self.assertFalse((self.folder / "out.kith").exists())
        out, _ = self.ranks(2, *words, "--json")
        self.assertGreater(support.json.loads(out)["shards"]["stood"], 0)
        self.assertEqual((self.folder / "out.kith").read_bytes(), expected)

    def other_program(self):
        """Words that run kith-mpi with a library that says it is of another commit."""
        out, _ = self.ranks(1, "--version")
        linked = subprocess.run(["ldd", MPI], capture_output=True, text=True, check=True).stdout
        library = pathlib.Path(re.search(r"=> (\S*libkith\.so\S*)", linked).group(1))
        commit = re.search(r"\((.*)\)", out).group(1).encode()
        folder = self.folder / "lib"
        folder.mkdir()
        data = library.read_bytes()
        self.assertIn(b"\0" + commit + b"\0", data)
        data = data.replace(b"\0" + commit + b"\0", b"\0" + b"z" * len(commit) + b"\0")
        (folder / library.name).write_bytes(data)
        return ["env", f"LD_LIBRARY_PATH={folder}", MPI]

    def test_refused(self):
        """one of two ranks is wrong: both end, and one line names it, the file and a remedy"""
        self.case(60, 4)
        words = self.words()
        self.works(*words, "--tune", "keep-shards")
        shutil.copytree(self.folder / "work", self.folder / "other")
        (self.folder / "copy.u8bin").write_bytes((self.folder / "points.u8bin").read_bytes())
        (self.folder / "out.kith").unlink()

        def with_points(name):
            return [MPI, *(name if word == "points.u8bin" else word for word in words)]

        for other, code, says in (
                ([MPI, *self.words(folder="other")], 1,
                 r"kith: other: is another folder than that of worker 0.*machines share"),
                (with_points("gone.u8bin"), 1, r"gone.u8bin: cannot be opened.*check the path"),
                (with_points("copy.u8bin"), 1,
                 r"copy.u8bin: worker 0 has another job, it says 'corpus .*give all workers the"),
                ([MPI, *words, "-k", "8"], 1, "it says 'k 9', this one 'k 8' "),
                ([MPI, *words, "--zzz"], 2, r"--zzz: unknown option \(kith graph --help"),
                ([MPI, "graph", "--help"], 2, "ranks have different commands"),
                (self.other_program() + words, 1,
                 r"it says 'program kith \S+ \(.*\)', this one 'program kith \S+ \(z+\)'")):
            two = mpirun(1) + [MPI, *words, ":", "-n", "1", *other]
            _, told = self.run_to_end(*two, code=code)
            self.assertEqual(len(told), 1, told)
            self.assertRegex(told[0], says)
            if "different" not in says:
                self.assertRegex(told[0], r" \[rank 1 on \S+\]$")
            self.assertFalse((self.folder / "out.kith").exists())

    def test_full(self):
        """a full disk is told by the rank that has met it; with room the same command goes on"""
        disk = self.small_disk("48k")
        self.case(400, 6)
        words = self.words(folder="disk/work")
        _, told = self.ranks(2, *words, code=1)
        self.assertEqual(len(told), 1, told)
        self.assertRegex(told[0], r"disk/work/shard\S+: .*No space left on device.*free some space"
                                  r".* \[rank [01] on \S+\]$")
        self.resize_disk(disk, "2m")
        self.ranks(2, *words)
        self.assertEqual((self.folder / "out.kith").read_bytes(), self.whole())

    def test_usage(self):
        """what all ranks have wrong is told once; without --shards there is a folder beside FILE"""
        self.case(60, 4)
        _, told = self.ranks(2, "info", "points.u8bin", code=2)
        self.assertEqual(told, ["kith: kith-mpi: makes graphs that are written to a file, searches and predicts "
                                "(give graph and --output, search or predict, or use kith)"])
        words = ["graph", "points.u8bin", "-k", "9", "-q", "-o", "out.kith"]
        for more in (["--radius", "3"], ["--init", "points.u8bin", "--recall", "0.9"]):
            _, told = self.ranks(2, *words, *more, code=2)
            self.assertEqual(told, [f"kith: kith-mpi: does not go together with {more[0]} (leave "
                                    "one out)"])
        out, _ = self.ranks(2, "--version")
        self.assertRegex(out, r"^kith-mpi \S+ \(\S+\)\n$")
        (self.folder / "out.kith.shards").mkdir()
        (self.folder / "out.kith.shards" / "shards.journal").write_text("of somebody else")
        _, told = self.ranks(2, *words, code=1)
        self.assertIn("out.kith.shards/shards.journal: is no journal of kith", told[0])
        (self.folder / "out.kith.shards" / "shards.journal").unlink()
        self.ranks(2, *words, "--tune=shard-count=3")
        self.assertEqual((self.folder / "out.kith").read_bytes(), self.whole())


class Searches(RankCase):
    """Queries divided among ranks: the files of kith search and kith predict."""

    def setUp(self):
        super().setUp()
        self.points("corpus.u8bin", 300, 5, seed=1)
        self.points("queries.u8bin", 61, 5, seed=2)
        self.numbers("labels.csv", 300)

    def numbers(self, name, rows, below=4):
        generator = random.Random(rows)
        self.write(name, "".join(f"{generator.randrange(below)}\n" for _ in range(rows)).encode())

    def same(self, ranks, *words, outputs=("out.npz",), own=()):
        """One process writes the outputs, then ranks do, with words of their own. What rank 0 says of them."""
        self.works(*words, "-q", "--threads", "2")
        expected = [(self.folder / name).read_bytes() for name in outputs]
        said = []
        for count in ranks:
            for name in outputs:
                (self.folder / name).unlink()
            out, _ = self.ranks(count, *words, *own, "--threads", "1", "--json")
            self.assertEqual([(self.folder / name).read_bytes() for name in outputs], expected, (count, words))
            said.append(support.json.loads(out))
            self.assertEqual(said[-1]["ranks"], count)
        return said

    SEARCH = ("search", "corpus.u8bin", "queries.u8bin", "-k", "7", "-o", "out.npz")

    def test_formats(self):
        """by 1, 2, 3 and 5 ranks, every format has the bytes of one process"""
        self.same((1, 2, 3, 5), *self.SEARCH)
        for said in self.same((1, 2, 3, 5), *self.SEARCH, "--metric", "manhattan"):  # all pairs are compared
            self.assertEqual((said["n"], said["queries"], said["candidates"], said["exact"]), (300, 61, 300, True))
        names = re.findall(r"^ +X\(\w+, \d+, \"(\S+)\"\)", support.HEADER.read_text().split(
            "#define KITH_FORMAT_MAP(X)")[1].split("typedef")[0], re.MULTILINE)
        self.assertEqual(len(names), 10)
        for i, name in enumerate(names):
            self.same(((2, 3, 5)[i % 3],), *self.SEARCH, "--format", name)
        for name in ("out.npz", "out.ivecs", "out.ibin", "out.knn", "out.kith", "out.csv", "out.tsv"):
            self.same((3,), *self.SEARCH[:-1], name, outputs=(name,))
        out, _ = self.ranks(3, *self.SEARCH[:-1], "-", "-q")
        self.assertEqual(out, self.works(*self.SEARCH[:-1], "-", "-q"))

    def test_jobs(self):
        """metrics, radius, distances, a filter that queries are cut with, more ranks than queries, more than one
        piece of lists, no file at all"""
        self.numbers("allow.csv", 300, 2)
        self.numbers("asked.csv", 61)
        self.points("few.u8bin", 3, 5, seed=3)
        self.points("many.u8bin", 1500, 5, seed=4)
        groups = ("--groups", "labels.csv", "--query-groups", "asked.csv")
        for more in (("--metric", "manhattan", "--method", "tree"), ("--radius", "60"), ("--metric", "inner_product"),
                     groups, (*groups, "--rule", "other", "--allow", "allow.csv"),
                     ("--groups", "labels.csv", "--rule", "each"), ("--tune", "pipeline=matrix,select=heap")):
            self.same((4,), *self.SEARCH, *more)
        self.same((3,), *self.SEARCH, "--distances", "out.fbin", outputs=("out.npz", "out.fbin"))
        self.same((2, 5), "search", "corpus.u8bin", "few.u8bin", "-k", "300", "-o", "out.npz")
        self.same((2,), "search", "corpus.u8bin", "many.u8bin", "-k", "290", "-o", "out.npz")
        out, _ = self.ranks(2, *self.SEARCH[:-2], "--json")
        self.assertEqual(support.json.loads(out)["output"], None)
        out, _ = self.ranks(3, *self.SEARCH, "--dry-run", "--json")
        said = support.json.loads(out)
        self.assertEqual((said["queries"], said["ranks"], said["plan_bytes"]["result"]), (61, 3, 61 * 7 * 8))

    CORPUS = ("--divide", "corpus")

    def test_corpus(self):
        """a corpus that is divided: lists of parts become those of the whole, in every metric, with ties, with a k
        beyond a part's rows, and where different distances have the same root"""
        self.same((1, 2, 3, 5), *self.SEARCH, own=self.CORPUS)
        for said in self.same((1, 2, 3, 5), *self.SEARCH, "--metric", "manhattan", own=self.CORPUS):
            self.assertEqual((said["n"], said["queries"], said["candidates"], said["exact"]), (300, 61, 300, True))
        self.write("ties.u8bin", support.matrix_bin([[1 + i % 3, 1 + i % 2] for i in range(200)], "B"))
        for i, metric in enumerate(support.metrics()):
            self.same(((2, 3, 5)[i % 3],), "search", "ties.u8bin", "ties.u8bin", "-k", "50", "--metric", metric, "-o",
                      "out.npz", "--distances", "out.fbin", outputs=("out.npz", "out.fbin"), own=self.CORPUS)
        self.same((4,), *self.SEARCH, "-k", "300", own=("--divide=corpus",))
        self.same((3,), *self.SEARCH, "--method", "tree", "--metric", "chebyshev", own=self.CORPUS)
        self.same((2,), *self.SEARCH[:-1], "out.csv", outputs=("out.csv",), own=self.CORPUS)
        self.same((2,), *self.SEARCH, own=("--divide", "queries"))
        for method in ("exact", "tree"):
            self.works("index", "build", "corpus.u8bin", "--method", method, "-o", "index.kith", "-q")
            self.same((3,), "search", "index.kith", "queries.u8bin", "-k", "7", "-o", "out.npz", own=self.CORPUS)
        self.write("near.fbin", support.matrix_bin([[1.0, 2.0**-26 * (40 - i)**0.5] for i in range(40)], "f"))
        self.write("origin.fbin", support.matrix_bin([[0.0, 0.0]], "f"))
        self.same((4,), "search", "near.fbin", "origin.fbin", "-k", "20", "-o", "out.ibin", outputs=("out.ibin",),
                  own=self.CORPUS)
        ids = support.read_bin(self.folder / "out.ibin", "I")
        self.assertEqual(list(ids[-1])[:20], list(range(39, 19, -1)))

    def test_corpus_pieces(self):
        """lists that are merged a piece of the queries at a time"""
        self.points("many.u8bin", 30000, 5, seed=4)
        self.same((3,), "search", "corpus.u8bin", "many.u8bin", "-k", "90", "-o", "out.kith", outputs=("out.kith",),
                  own=self.CORPUS)

    def test_corpus_refused(self):
        """what does not go with a corpus that is divided is told before any work; so is a wrong row of it"""
        search = (*self.SEARCH, *self.CORPUS)
        self.points("few.u8bin", 3, 5, seed=3)
        rows = [[float(i), 1.0] for i in range(60)]
        self.write("queries.fbin", support.matrix_bin(rows, "f"))
        rows[50][1] = float("nan")
        self.write("wrong.fbin", support.matrix_bin(rows, "f"))
        predict = ("predict", "corpus.u8bin", "labels.csv", "queries.u8bin", "-k", "5", "-o", "out.npy")
        for words, code, says in (
                ((*search, "--radius", "5"), 2, "--radius: does not go together with --divide corpus"),
                ((*search, "--groups", "labels.csv", "--rule", "each"), 2, "--groups: does not go together with"),
                ((*search, "--allow", "labels.csv"), 2, "--allow: does not go together with"),
                ((*predict, *self.CORPUS), 2, "--divide: corpus is of search alone"),
                ((*self.SEARCH, "--divide", "columns"), 2, "--divide: names nothing that is divided"),
                ((*self.SEARCH, "--divide"), 2, "--divide: names nothing that is divided"),
                (("graph", "corpus.u8bin", "-k", "3", "-o", "out.npz", *self.CORPUS), 2, "--divide: is of searches"),
                ((*search, "-k", "301"), 1, "corpus.u8bin: k is 301, but there are only 300 points"),
                (("search", "few.u8bin", *search[2:], "-k", "2"), 1, "few.u8bin: has 3 rows, for 4 ranks"),
                (("search", "wrong.fbin", "queries.fbin", *search[3:]), 1,
                 r"wrong.fbin, rows from 45 on: corpus\[5, 1\] is NaN .* \[rank 3 on")):
            _, told = self.ranks(4, *words, code=code)
            self.assertEqual(len(told), 1, told)
            self.assertRegex(told[0], says)
            self.assertFalse((self.folder / "out.npz").exists())
        _, told = self.run_to_end(*mpirun(1), MPI, *self.SEARCH, ":", "-n", "1", MPI, *search, code=1)
        self.assertRegex(told[0], r"it says 'divided: queries', this one 'divided: corpus'.* \[rank 1 on")

    def test_index(self):
        """an index in the corpus' file is searched where it has a way of its own, or its points are"""
        for method in ("exact", "tree", "graph"):
            self.works("index", "build", "corpus.u8bin", "--method", method, "-o", "index.kith", "-q")
            self.same((1, 3), "search", "index.kith", "queries.u8bin", "-k", "7", "-o", "out.npz")

    def test_predict(self):
        """predictions, and how far they are off"""
        self.numbers("truth.csv", 61)
        words = ("predict", "corpus.u8bin", "labels.csv", "queries.u8bin", "-k", "5", "--truth", "truth.csv")
        for mode, name, ranks in (("mean", "out.fbin", 2), ("weighted", "out.npy", 5), ("median", "out.csv", 3),
                                  ("vote", "out.ibin", 2), ("weighted_vote", "out.tsv", 80)):
            more = ("--mode", mode, "-o", name)
            said = self.same((ranks,), *words, *more, outputs=(name,))[0]
            self.assertEqual(said["errors"], self.works_json(*words, *more)["errors"])

    def test_refused(self):
        """what is not divided, or is a pipe, is told once before any work; rank 0 alone needs room for the file"""
        search = self.SEARCH
        for words, code, says in (
                ((*search, "--both", "--output-back", "b.npz"), 2, "--both: is not divided among ranks"),
                ((*search[:-1], "m.csv", "--mutual"), 2, "--mutual: is not divided"),
                ((*search, "--stream"), 2, "--stream: is not divided"),
                ((*search, "--chunk", "5"), 2, "--chunk: is not divided"),
                ((*search[:3], "--radius", "9", "-o", "out.npz"), 2, "--radius: without -k is not divided"),
                ((*search, "--method", "graph"), 2, "does not walk on graphs"),
                (("search", "-", *search[2:]), 2, "-: is a pipe, which one process alone can read"),
                (("search", "corpus.u8bin", "/dev/stdin", *search[3:]), 2, "/dev/stdin: is a pipe"),
                ((*search[:4], "0", *search[5:]), 2, r"-k: '0' is no number of neighbours"),
                ((*search[:4], "301", *search[5:]), 1, "corpus.u8bin: k is 301, but there are only 300 points"),
                ((*search, "--memory", "1K"), 1, r"corpus.u8bin: needs .* --memory allows 1.0 KiB"),
                ((*search[:-1], "gone/out.npz"), 1, r"gone/out.npz: cannot be written, its folder.* \[rank 0 on"),
                (("index", "build", "corpus.u8bin", "-o", "out.npz"), 2, "makes graphs .* searches and predicts")):
            child = self.spawn(*mpirun(2), MPI, *words, stdin=subprocess.PIPE)
            _, told = child.communicate(timeout=60)
            told = [line for line in told.splitlines() if line.startswith("kith: ")]
            self.assertEqual((child.returncode, len(told)), (code, 1), told)
            self.assertRegex(told[0], says)
            self.assertFalse((self.folder / "out.npz").exists())

    def test_ranks_differ(self):
        """a rank with other files, parameters or commands ends all, in one line; copies of files are the same"""
        files = self.folder
        search = self.SEARCH
        (files / "copy.u8bin").write_bytes((files / "corpus.u8bin").read_bytes())
        self.points("other.u8bin", 300, 5, seed=7)
        self.points("short.u8bin", 60, 5, seed=2)
        self.points("narrow.u8bin", 61, 4, seed=2)
        self.numbers("asked.csv", 61)
        groups = ("--groups", "labels.csv", "--query-groups", "asked.csv")
        (files / "changed.csv").write_text((files / "labels.csv").read_text().replace("1", "2", 1))
        predict = ("predict", "corpus.u8bin", "labels.csv", "queries.u8bin", "-k", "5", "-o", "out.npz")

        def with_word(words, old, new):
            return tuple(new if word == old else word for word in words)

        for words, other, code, says in (
                (search, with_word(search, "corpus.u8bin", "other.u8bin"), 1,
                 "other.u8bin: worker 0 has another job, it says 'corpus 300 x 5 uint8, .*', this one 'corpus 300"),
                (search, with_word(search, "queries.u8bin", "short.u8bin"), 1, "short.u8bin: .* 'queries 60 x 5"),
                (search, with_word(search, "queries.u8bin", "narrow.u8bin"), 1, "narrow.u8bin: has 4 columns"),
                (search, with_word(search, "queries.u8bin", "gone.u8bin"), 1, "gone.u8bin: cannot be opened"),
                (search, (*search, "-k", "6"), 1, "it says 'k 7', this one 'k 6'"),
                (search, (*search, "--metric", "manhattan"), 1, "it says 'metric "),
                (search, (*search, "--radius", "9"), 1, "it says 'radius 0', this one 'radius 9'"),
                ((*search, *groups), with_word((*search, *groups), "labels.csv", "changed.csv"), 1,
                 "changed.csv: .* 'numbers 300 x 8"),
                ((*search, *groups), search, 1, "it says 'rule 1', this one 'rule 0'"),
                (with_word(predict, "out.npz", "out.npy"),
                 with_word(with_word(predict, "out.npz", "out.npy"), "labels.csv", "changed.csv"), 1,
                 "changed.csv: .* 'numbers 300 x 8"),
                (search, with_word(predict, "out.npz", "out.npy"), 2, "ranks have different commands"),
                (search, (*search, "--stream"), 2, "--stream: is not divided")):
            two = [*mpirun(1), MPI, *words, ":", "-n", "1", MPI, *other]
            _, told = self.run_to_end(*two, code=code)
            self.assertEqual(len(told), 1, told)
            self.assertRegex(told[0], says)
            self.assertFalse((files / "out.npz").exists() or (files / "out.npy").exists())
        self.works(*search, "-q")
        expected = (files / "out.npz").read_bytes()
        (files / "out.npz").unlink()
        copy = with_word(with_word(search, "corpus.u8bin", "copy.u8bin"), "out.npz", "gone/nowhere.npz")
        self.run_to_end(*mpirun(1), MPI, *search, "-q", ":", "-n", "1", MPI, *copy)
        self.assertEqual((files / "out.npz").read_bytes(), expected)

    def test_wrong_query(self):
        """a row that one rank finds wrong ends all: the line names the rows it looked at"""
        rows = [[float(i), 1.0] for i in range(60)]
        self.write("corpus.fbin", support.matrix_bin(rows, "f"))
        rows[50][1] = float("nan")
        self.write("wrong.fbin", support.matrix_bin(rows, "f"))
        _, told = self.ranks(3, "search", "corpus.fbin", "wrong.fbin", "-k", "2", "-o", "out.npz", code=1)
        self.assertEqual(len(told), 1, told)
        self.assertRegex(told[0], r"^kith: wrong.fbin, rows from 40 on: queries\[10, 1\] is NaN .* \[rank 2 on \S+\]$")
        self.assertFalse((self.folder / "out.npz").exists())

    @staticmethod
    def busy(pid):
        """Seconds of the processor; None of a process that is no more."""
        try:
            words = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        except OSError:
            return None
        return None if words[0] == "Z" else (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def test_killed(self):
        """a rank that is killed while all compute, or all that are interrupted, leave no file and no other one"""
        rows = 3000 if support.SLOW else 30000
        self.points("large.u8bin", rows, 64, seed=1)
        words = ("search", "large.u8bin", "large.u8bin", "-k", "5", "--metric", "chi2", "--threads", "1", "-q", "-o",
                 "out.npz")
        before = self.files()
        for kill, more in ((lambda child, ranks: os.kill(ranks[1], signal.SIGKILL), ()),
                           (lambda child, ranks: os.kill(ranks[1], signal.SIGKILL), self.CORPUS),
                           (lambda child, ranks: os.kill(ranks[0], signal.SIGKILL), ()),
                           (lambda child, ranks: child.send_signal(signal.SIGINT), self.CORPUS)):
            child = self.spawn(*mpirun(3), MPI, *words, *more)
            self.wait_until(lambda: len(self.children_of(child.pid)) == 3, child)
            ranks = self.children_of(child.pid)
            self.wait_until(lambda: min(self.busy(pid) for pid in ranks) > 0.2, child)
            kill(child, ranks)
            child.communicate(timeout=60)
            self.assertNotEqual(child.returncode, 0)
            end = time.monotonic() + 20
            while any(self.busy(pid) is not None for pid in ranks):
                self.assertLess(time.monotonic(), end, "a rank goes on")
                time.sleep(0.01)
            self.assertEqual(self.files(), before)

    def test_full(self):
        """a disk without room for the answer: one line of rank 0, and no file"""
        self.small_disk("16k")
        self.points("many.u8bin", 1500, 5, seed=4)
        words = ("search", "corpus.u8bin", "many.u8bin", "-k", "50", "-q", "-o")
        _, told = self.ranks(3, *words, "disk/out.ibin", code=1)
        self.assertEqual(len(told), 1, told)
        self.assertRegex(told[0], r"disk/out.ibin: .*No space left on device.* \[rank 0 on \S+\]$")
        self.assertEqual(os.listdir(self.folder / "disk"), [])


class Gpus(RankCase):
    """Ranks on GPUs that are host memory (tests/reference): who computes where, and the same bytes."""

    MODULE = "KITH_CUDA_MODULE"

    def setUp(self):
        if not os.path.exists(REFERENCE):
            self.skipTest("no GPU module for machines without a GPU")
        super().setUp()
        self.gpus(1)

    def gpus(self, count, mebibytes=2048):
        for name, value in ((self.MODULE, REFERENCE), ("KITH_REFERENCE_DEVICES", str(count)),
                            ("KITH_REFERENCE_BYTES", str(mebibytes << 20))):
            before = os.environ.get(name)
            os.environ[name] = value
            if before is None:
                self.addCleanup(os.environ.pop, name, None)

    def made(self, ranks, *words):
        """The device of rank 0, and the bytes."""
        out, _ = self.ranks(ranks, *words, "--json")
        data = (self.folder / "out.kith").read_bytes()
        (self.folder / "out.kith").unlink()
        return support.json.loads(out)["backend"], data

    def test_exact(self):
        """exact graphs are those of the processor, whoever has which GPUs; a rank has one, or its
        part of a list"""
        self.case(400, 6)
        expected = self.whole("--device", "cpu")
        for ranks, count, given, first in ((4, 1, "cuda", "cuda:0"), (2, 5, "cuda:all", "cuda:0,1"),
                                           (3, 2, "cuda:1", "cuda:1")):
            self.gpus(count)
            device, data = self.made(ranks, *self.words("--device", given))
            self.assertEqual(device, first, (ranks, given))
            self.assertEqual(data, expected, (ranks, given))
        _, told = self.ranks(2, *self.words("--device", "cuda:0,7"), code=1)
        self.assertEqual(len(told), 1, told)
        self.assertRegex(told[0], r"^kith: cuda:7: there is no such device.* \[rank 1 on \S+\]$")

    def test_searches(self):
        """lists and predictions of ranks on GPUs, and of ranks with and without one, are those of the processor"""
        self.case(400, 6)
        self.points("queries.u8bin", 90, 6, seed=3)
        self.write("labels.csv", "".join(f"{i % 7}\n" for i in range(400)).encode())
        self.gpus(2)
        for words in (("search", "points.u8bin", "queries.u8bin", "-k", "9", "-q", "-o", "out.kith"),
                      ("predict", "points.u8bin", "labels.csv", "queries.u8bin", "-k", "9", "-q", "-o", "out.npy")):
            out = self.folder / words[-1]
            self.works(*words, "--device", "cpu")
            expected = out.read_bytes()
            for ranks, given, first in ((3, "cuda", "cuda:0"), (1, "cuda:all", "cuda:0,1")):
                out.unlink()
                said, _ = self.ranks(ranks, *words, "--device", given, "--json")
                self.assertEqual((support.json.loads(said)["backend"], out.read_bytes()), (first, expected))
            out.unlink()
            self.run_to_end(*mpirun(1), MPI, *words, "--device", "cuda", ":", "-n", "1", MPI, *words, "--device", "cpu")
            self.assertEqual(out.read_bytes(), expected)
            if words[0] == "search":
                out.unlink()
                self.ranks(3, *words, "--device", "cuda", "--divide", "corpus")
                self.assertEqual(out.read_bytes(), expected)

    def test_descent(self):
        """approximate graphs on GPUs are those of one process there; one of which a rank died is
        ended by others, on other GPUs"""
        self.case(800, 8)
        words = [*self.words(count=6), "--method", "descent", "--recall", "0.95", "--device",
                 "cuda"]
        self.works(*words)
        expected = (self.folder / "out.kith").read_bytes()
        (self.folder / "out.kith").unlink()
        child = self.spawn(*mpirun(3), MPI, *words)
        self.wait_for(child, 1)
        os.kill(self.children_of(child.pid)[0], signal.SIGKILL)
        child.communicate(timeout=60)
        self.assertFalse((self.folder / "out.kith").exists())
        self.gpus(2)
        device, data = self.made(2, *words)
        self.assertEqual((device, data), ("cuda:0", expected))

    def test_memory(self):
        """ranks that share a GPU divide its memory: as many shards as with half of it each"""
        self.case(1500, 6)
        words = [word for word in self.words() if word != "--tune=shard-count=5"]
        words += ["--method", "descent", "--device", "cuda", "--dry-run", "--json"]
        counts = []
        for gpus, mebibytes in ((1, 32), (2, 16), (2, 32)):
            self.gpus(gpus, mebibytes)
            out, _ = self.ranks(2, *words)
            counts.append(support.json.loads(out)["shards"]["count"])
        self.assertEqual(counts, [6, 6, 4])

    def test_refused(self):
        """a rank without a GPU ends all, in one line that names it; so does one that has another
        kind of device, where answers depend on it"""
        self.case(60, 4)
        descent = ["--method", "descent"]
        without = ["env", "KITH_REFERENCE_DEVICES=0", MPI]
        for more, other, says in (
                (["--device", "cuda"], without, r"cuda: not used: the NVIDIA driver shows no GPU"),
                (["--device", "cuda:all", *descent], without, r"cuda:all: not used: .* no GPU"),
                (descent, without, "worker 0 has another job, it says 'computes on reference device', this one "
                                   "'computes on cpu' .*kind of device")):
            words = self.words(*more)
            two = mpirun(1) + [MPI, *words, ":", "-n", "1", *other, *words]
            _, told = self.run_to_end(*two, code=1)
            self.assertEqual(len(told), 1, told)
            self.assertRegex(told[0], says + r".* \[rank 1 on \S+\]$")
            self.assertFalse((self.folder / "out.kith").exists())
        self.run_to_end(*mpirun(1), MPI, *self.words(), ":", "-n", "1", *without, *self.words())
        self.assertEqual((self.folder / "out.kith").read_bytes(), self.whole("--device", "cpu"))


# Hosts share /tmp, where a daemon has a folder by its host's name up to the first dot: names have none.
AGENT = """#!/bin/sh
host=$1; shift
exec ip netns exec {bridge}$host unshare --uts sh -c "hostname host-${{host##*.}}; $*"
"""


class Hosts(RankCase):
    """Ranks in network namespaces with names of their own: hosts that share a disk alone."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0 or "--allow-run-as-root" not in mpirun(1):
            self.skipTest("no root with Open MPI, who may make network namespaces")
        self.bridge = f"kith{os.getpid()}"
        self.net = f"10.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
        try:
            self.network("link", "add", self.bridge, "type", "bridge")
            self.addCleanup(subprocess.run, ["ip", "link", "del", self.bridge], check=False)
            self.network("addr", "add", f"{self.net}.1/24", "dev", self.bridge)
            self.network("link", "set", self.bridge, "up")
            for number in ("1", "2"):
                self.make_host(f"{self.net}.1{number}", f"{self.bridge}v{number}")
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("no right to make network namespaces")
        agent = self.folder / self.write("agent", AGENT.format(bridge=self.bridge + "-").encode())
        agent.chmod(0o755)
        here = f"{self.net}.0/24"
        self.mpirun = [*mpirun(4), "--host", f"{self.net}.11:2,{self.net}.12:2",
                       "--wdir", self.folder]
        for name, value in (("plm_rsh_agent", agent), ("btl", "tcp,self"),
                            ("btl_tcp_if_include", here), ("oob_tcp_if_include", here)):
            self.mpirun += ["--mca", name, value]

    @staticmethod
    def network(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def make_host(self, address, wire):
        name = f"{self.bridge}-{address}"
        self.network("netns", "add", name)
        self.addCleanup(subprocess.run, ["ip", "netns", "del", name], check=False)
        self.network("link", "add", wire, "type", "veth", "peer", "name", "eth0", "netns", name)
        self.network("link", "set", wire, "master", self.bridge, "up")
        self.network("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            self.network("-n", name, "link", "set", device, "up")

    def test_hosts(self):
        """two ranks on each of two hosts: the bytes of one process; whose host is wrong is told"""
        self.case(400, 6)
        self.run_to_end(*self.mpirun, MPI, *self.words())
        self.assertEqual((self.folder / "out.kith").read_bytes(), self.whole())
        self.run_to_end(*self.mpirun, MPI, "search", "points.u8bin", "points.u8bin", "-k", "90", "-q", "-o", "out.npz")
        self.works("search", "points.u8bin", "points.u8bin", "-k", 90, "-q", "-o", "one.npz")
        self.assertEqual((self.folder / "out.npz").read_bytes(), (self.folder / "one.npz").read_bytes())
        two = [*self.mpirun, MPI, *self.words(), ":", "-n", "1", "--host", f"{self.net}.12", MPI,
               *self.words("-k", "8")]
        _, told = self.run_to_end(*two, code=1)
        self.assertEqual(len(told), 1, told)
        self.assertRegex(told[0], r"this one 'k 8'.* \[rank 4 on host-12\]$")
        if os.path.exists(REFERENCE):
            self.divide_gpus(["env", f"KITH_CUDA_MODULE={REFERENCE}", MPI])

    def divide_gpus(self, command):
        """Each host's ranks divide its own GPUs: of two on each host one is missing."""
        _, told = self.run_to_end(*self.mpirun, *command, *self.words("--device", "cuda:0,9"), code=1)
        self.assertEqual(len(told), 1, told)
        self.assertRegex(told[0], r"cuda:9: there is no such .* \[rank 1 on host-11\]$")
        (self.folder / "out.kith").unlink()
        self.run_to_end(*self.mpirun, *command, *self.words("--device", "cuda:all"))
        self.assertEqual((self.folder / "out.kith").read_bytes(), self.whole())


if __name__ == "__main__":
    support.main()
