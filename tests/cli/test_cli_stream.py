# SPDX-License-Identifier: Apache-2.0
"""kith search --stream: the bytes of a search at once, whatever the chunks are and however often the
job is killed; what is told when something else is found than was left."""
import os
import random
import resource
import shutil
import signal
import subprocess

import cli_support as support
from cli_support import CliCase

FORMATS = ("npz", "kith", "knn", "ibin", "ivecs")
LINE = 91  # bytes of a journal's record
ROWS = 20  # of a chunk in the jobs that are left unfinished


class StreamCase(CliCase):
    def case(self, rows=700, queries=200, columns=4, corpus="corpus.u8bin", asked="queries.u8bin"):
        for name, count, seed in ((corpus, rows, 1), (asked, queries, 2)):
            data = random.Random(seed).randbytes(count * columns)
            self.write(name, count.to_bytes(4, "little") + columns.to_bytes(4, "little") + data)

    def search(self, *words, k=5):
        return ["search", "corpus.u8bin", "queries.u8bin", "-k", k, *words]

    def bytes_of(self, name):
        return (self.folder / name).read_bytes()

    def whole(self, ending, *words, k=5):
        """The bytes of the search at once."""
        self.works(*self.search("-q", "-o", f"whole.{ending}", *words, k=k))
        return self.bytes_of(f"whole.{ending}")

    def records(self, name="out.kith"):
        journal = self.folder / f"{name}.journal"
        data = journal.read_bytes() if journal.exists() else b""
        return data.count(b"\nrows 0000") if data.endswith(b"\n") else 0

    def kill_after(self, records, *words, name="out.kith", number=signal.SIGKILL):
        """Starts a search and kills it when so many chunks are on disk; what it said."""
        child = self.spawn(support.KITH, *words)
        self.wait_until(lambda: self.records(name) >= records, child)
        self.assertIsNone(child.poll(), "the job was done before it was to be killed")
        child.send_signal(number)
        out, told = child.communicate(timeout=120)
        return child.returncode, out, told

    def slow(self, *words, chunk=100):
        """A search of a second in many chunks."""
        self.case(rows=10000 if support.SLOW else 16000, queries=2000, columns=64)
        return self.search("-o", "out.kith", "--metric", "chi2", "--threads", 1, "--chunk", chunk,
                           *words, k=10)

    def resumes(self, words, stood=None):
        """The same command says what stands, and ends; the JSON object."""
        done = self.kith(words[0], "--json", *words[1:])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"^kith: out\.kith\.partial: \d+ of \d+ rows stand, going on "
                                      r"there\n$")
        said = support.json.loads(done.stdout)
        if stood is not None:
            self.assertEqual(said["chunks"]["resumed_rows"], stood)
        self.assertGreater(said["chunks"]["resumed_rows"], 0)
        return said


class Bytes(StreamCase):
    def test_formats(self):
        """every format, method and size of a chunk, from one row to all: the bytes of no chunks"""
        self.case()
        for ending in FORMATS:
            for method in ("exact", "tree", "auto"):
                expected = self.whole(ending, "--method", method)
                for chunk in (1, 7, 100, 199, 200, 100000):
                    out = f"out.{ending}"
                    self.works(*self.search("-q", "-o", out, "--method", method, "--chunk", chunk))
                    self.assertEqual(self.bytes_of(out), expected, (ending, method, chunk))
        self.assertEqual([name for name in self.files() if "partial" in name or "journal" in name],
                         [])

    def test_metrics(self):
        """screened, direct, and inner product; a matrix that is written; a radius"""
        self.case()
        for words in (["--metric", "cosine"], ["--metric", "chi2"], ["--metric", "ip"],
                      ["--metric", "manhattan"], ["--tune", "pipeline=matrix"], ["--radius", "40"],
                      ["--radius", "40", "--method", "tree"], ["--tune", "tree-height=3"]):
            expected = self.whole("kith", *words)
            self.works(*self.search("-q", "-o", "out.kith", "--chunk", 33, *words))
            self.assertEqual(self.bytes_of("out.kith"), expected, words)

    def test_types(self):
        """queries of another type than the corpus, from every kind of file"""
        self.case()
        for name in ("queries.fbin", "queries.npy", "queries.csv", "queries.kith"):
            self.works("convert", "queries.u8bin", name, "-q")
            words = ["search", "corpus.u8bin", name, "-k", 3, "-q"]
            self.works(*words, "-o", "whole.npz")
            self.works(*words, "-o", "out.npz", "--chunk", 30)
            self.assertEqual(self.bytes_of("out.npz"), self.bytes_of("whole.npz"), name)

    def test_prepared(self):
        """a corpus that is a file of a tree, searched by it"""
        self.case()
        self.works("index", "build", "--method", "tree", "corpus.u8bin", "-o", "corpus.kith", "-q")
        expected = self.whole("kith")
        said = self.works_json("search", "corpus.kith", "queries.u8bin", "-k", 5, "-o", "out.kith",
                               "--chunk", 9)
        self.assertEqual(self.bytes_of("out.kith"), expected)
        self.assertEqual((said["screen"], said["chunks"]["solved"]), ("tree", 23))

    def test_whole_path(self):
        """--format decides, not the name; a link's target is replaced; an older file keeps mode"""
        self.case()
        expected = self.whole("npz")
        (self.folder / "real.dat").write_bytes(b"old")
        (self.folder / "real.dat").chmod(0o600)
        (self.folder / "link.dat").symlink_to("real.dat")
        self.works(*self.search("-q", "-o", "link.dat", "--format", "npz", "--stream"))
        self.assertEqual(self.bytes_of("real.dat"), expected)
        self.assertEqual((self.folder / "real.dat").stat().st_mode & 0o777, 0o600)
        self.assertTrue((self.folder / "link.dat").is_symlink())

    def test_report(self):
        """the report has the chunks, for people and programs; --dry-run plans one and writes none"""
        self.case()
        said = self.works_json(*self.search("-o", "out.kith", "--chunk", 64))
        self.assertEqual(said["chunks"], {"rows": 64, "solved": 4, "resumed_rows": 0})
        self.assertTrue(said["exact"])
        self.assertIn("chunks: 64 rows each, 4 solved, 0 rows stood already\n",
                      self.works(*self.search("-o", "out.kith", "--chunk", 64, "-v")))
        before = self.files()
        planned = self.works_json(*self.search("-o", "other.kith", "--stream", "--dry-run"))
        self.assertEqual(planned["chunks"]["rows"], 200)
        self.assertEqual(self.files(), before)


class Memory(StreamCase):
    def test_limit(self):
        """a result of 160 MiB under --memory 48M: in chunks, within the limit, the same bytes"""
        limit = 12 if support.SLOW else 48  # and a fourth of the result, then
        self.case(rows=2000, queries=8750 * limit, columns=3)
        expected = self.whole("knn", k=50)
        said = self.works_json(*self.search("-o", "out.knn", "--memory", f"{limit}M", k=50))
        self.assertGreater(said["chunks"]["solved"], 3)
        self.assertLessEqual(said["plan_bytes"]["peak"], limit << 20)
        if not support.SLOW:
            self.assertLessEqual(said["peak_bytes"]["host"], limit << 20)
        print(f"{said['peak_bytes']['host'] / 2**20:.1f} MiB ... ", end="", flush=True)
        self.assertEqual(self.bytes_of("out.knn"), expected)

    def test_limit_refused(self):
        """what cannot be written in pieces, or not within the limit, is refused as it was"""
        self.case(rows=2000, queries=100000, columns=3)
        for words in (["-o", "out.npz", "--format", "csr"], [],
                      ["-o", "out.ibin", "--distances", "far.fbin"]):
            self.fails(1, *self.search("--memory", "5M", *words), says=["--memory allows 5.0 MiB"])
        self.fails(1, *self.search("--memory", "20K", "-o", "out.npz"), says=["--memory allows"])
        self.fails(1, *self.search("--memory", "5M", "-o", "out.npz", "--chunk", 90000),
                   says=["--memory allows 5.0 MiB"])
        self.assertEqual(self.files(), ["corpus.u8bin", "queries.u8bin"])


class Resume(StreamCase):
    def test_kill(self):
        """kill -9 again and again; each run goes on, and the end is the same bytes"""
        words = self.slow()
        self.works(*self.search("-q", "-o", "whole.kith", "--metric", "chi2", k=10))
        for records in (1, 4, 9):
            code, _, _ = self.kill_after(records, *words)
            self.assertEqual(code, -signal.SIGKILL)
            self.assertNotIn("out.kith", self.files())
        said = self.resumes(words)
        self.assertGreaterEqual(said["chunks"]["resumed_rows"], 900)
        self.assertEqual(self.bytes_of("out.kith"), self.bytes_of("whole.kith"))
        self.assertEqual(self.files(),
                         ["corpus.u8bin", "out.kith", "queries.u8bin", "whole.kith"])

    def test_interrupt(self):
        """Ctrl-C says what stays and how to go on; other chunks, method, threads may do it"""
        words = self.slow()
        code, out, told = self.kill_after(2, *words, number=signal.SIGINT)
        self.assertEqual((code, out), (130, ""))
        self.assertRegex(told.splitlines()[-1], r"^kith: interrupted \(out\.kith\.partial has \d+ of "
                                                r"2000 rows; the same command goes on there\)$")
        self.resumes(self.search("-o", "out.kith", "--metric", "chi2", "--chunk", 333, "--threads", 2,
                                 "--method", "exact", k=10))
        self.assertEqual(self.bytes_of("out.kith"), self.whole("kith", "--metric", "chi2", k=10))

    def test_interrupt_early(self):
        """before the first chunk is on disk nothing is left"""
        words = self.slow(chunk=2000)
        child = self.spawn(support.KITH, *words)
        self.wait_until(lambda: "out.kith.journal" in self.files(), child)
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 130)
        self.assertIn(told.splitlines()[-1], ("kith: interrupted (no unfinished file is left)",
                                              "kith: interrupted (before a chunk was solved)"))
        self.assertEqual(self.files(), ["corpus.u8bin", "queries.u8bin"])

    def test_two(self):
        """a second process keeps away from what the first is at"""
        words = self.slow()
        child = self.spawn(support.KITH, *words, "-q")
        self.wait_until(lambda: self.records() >= 1, child)
        for more in ([], ["--restart"]):
            self.fails(1, *words, *more, says=["another process is at work on it"])
        self.assertIsNone(child.poll())


class Left(StreamCase):
    """What a killed job has left, and what becomes of it."""

    def setUp(self):
        super().setUp()
        self.case(queries=2000)
        self.expected = self.whole("kith")
        self.words = self.search("-o", "out.kith", "--chunk", ROWS)
        self.leave()

    def leave(self):
        """out.kith.partial of 100 chunks and its journal, as if killed before the last rename."""
        partial, journal = self.folder / "out.kith.partial", self.folder / "out.kith.journal"
        for _ in range(20):
            for path in (partial, journal, self.folder / "out.kith"):
                path.unlink(missing_ok=True)
            child = subprocess.Popen([support.KITH, *map(str, self.words), "-q"], cwd=self.folder)
            while child.poll() is None and self.records() < 6:
                pass
            child.kill()
            child.wait()
            if self.records() >= 6 and partial.exists():
                self.partial, self.journal = partial, journal
                return
        self.fail("the job could not be killed in time")

    def test_continues(self):
        """what stands is taken, and the rest solved"""
        stood = ROWS * self.records()
        self.resumes(self.words, stood)
        self.assertEqual(self.bytes_of("out.kith"), self.expected)
        self.assertEqual(self.works_json(*self.words)["chunks"]["resumed_rows"], 0)

    def test_options(self):
        """another k, metric, radius, format is told, with the remedy; --restart begins anew"""
        for k, *words in ([6], [5, "--metric", "manhattan"], [5, "--radius", 100],
                          [5, "--format", "npz"]):
            told = self.fails(1, *self.search("-o", "out.kith", "--stream", *words, k=k),
                              says=["out.kith.journal: is of another job, it says '", "--restart",
                                    "out.kith.partial"])
            print(told.split("it says")[1].split("(")[0].strip(), end="; ", flush=True)
        self.works(*self.words, "-q", "--restart")
        self.assertEqual(self.bytes_of("out.kith"), self.expected)

    def test_inputs(self):
        """an input that was changed, touched or replaced is told"""
        queries = self.folder / "queries.u8bin"
        data = bytearray(queries.read_bytes())
        data[-1] ^= 1
        queries.write_bytes(data)
        self.fails(1, *self.words, says=["is of another job, it says 'queries ", "--restart"])
        self.case(queries=2000, rows=701)
        self.fails(1, *self.words, says=["is of another job, it says 'corpus ", "--restart"])
        self.partial.unlink()
        self.journal.unlink()
        self.case(queries=2000)
        self.works(*self.words, "-q")
        self.assertEqual(self.bytes_of("out.kith"), self.expected)

    def test_inputs_in_place(self):
        """bytes in the middle of an input that change, its time put back: told all the same"""
        self.case(rows=70000, queries=2000)
        self.expected = self.whole("kith")
        self.leave()
        corpus = self.folder / "corpus.u8bin"
        before = corpus.stat()
        with open(corpus, "r+b") as file:
            file.seek(before.st_size // 2)
            byte = file.read(1)[0]
            file.seek(before.st_size // 2)
            file.write(bytes([byte ^ 1]))
        os.utime(corpus, ns=(before.st_atime_ns, before.st_mtime_ns))
        after = corpus.stat()
        self.assertEqual((after.st_size, after.st_mtime_ns, after.st_ino),
                         (before.st_size, before.st_mtime_ns, before.st_ino))
        self.fails(1, *self.words, says=["is of another job, it says 'corpus ", "--restart"])

    def test_inputs_replaced(self):
        """another file of the same bytes and time under the name of an input is told"""
        queries = self.folder / "queries.u8bin"
        copy = self.folder / "copy.u8bin"
        shutil.copy2(queries, copy)
        copy.replace(queries)
        self.fails(1, *self.words, says=["is of another job, it says 'queries ", "--restart"])

    def test_journal_cut(self):
        """a journal that is cut anywhere: its whole records count, or it is told; the same bytes"""
        partial, journal = self.partial.read_bytes(), self.journal.read_bytes()
        head = journal.index(b"\nrows 0000") + 1
        for keep in (0, 5, head - 1, head, head + 1, head + LINE - 1, head + LINE,
                     head + 3 * LINE + 40):
            self.partial.write_bytes(partial)
            self.journal.write_bytes(journal[:keep])
            if keep < head:
                self.fails(1, *self.words, says=["is no journal of kith, or damaged", "--restart"])
                continue
            done = self.kith(*self.words, "-q", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(support.json.loads(done.stdout)["chunks"]["resumed_rows"],
                             (keep - head) // LINE * ROWS)
            self.assertEqual(self.bytes_of("out.kith"), self.expected)

    def test_damage(self):
        """bytes that are flipped in journal or file never come to be in the answer"""
        partial, journal = self.partial.read_bytes(), self.journal.read_bytes()
        generator = random.Random(7)
        seen = set()
        for i in range(60 if not support.SLOW else 8):
            left = [bytearray(partial), bytearray(journal)]
            target = left[i % 2]
            for _ in range(generator.randrange(1, 4)):
                target[generator.randrange(len(target))] ^= 1 << generator.randrange(8)
            self.partial.write_bytes(left[0])
            self.journal.write_bytes(left[1])
            done = self.kith(*self.words, "-q", "--json")
            seen.add(done.returncode)
            if done.returncode == 0:
                self.assertEqual(self.bytes_of("out.kith"), self.expected)
                (self.folder / "out.kith").unlink()
            else:
                self.assertEqual(done.stderr.count("\n"), 1)
                self.assertIn("--restart", done.stderr)
        self.assertEqual(seen, {0, 1})

    def test_short_file(self):
        """a partial file that was cut off: what is there counts"""
        whole = self.partial.read_bytes()
        for keep in (1, 200, len(whole) // 2, len(whole) - 1):
            journal = self.journal.read_bytes()
            self.partial.write_bytes(whole[:keep])
            self.works(*self.words, "-q")
            self.assertEqual(self.bytes_of("out.kith"), self.expected)
            self.journal.write_bytes(journal)

    def test_one_missing(self):
        """a journal alone is begun anew, a partial file alone is not touched"""
        journal, partial = self.journal.read_bytes(), self.partial.read_bytes()
        self.journal.unlink()
        self.fails(1, *self.words, says=["out.kith.partial: is there, its journal", "--restart"])
        self.assertEqual(self.partial.read_bytes(), partial)
        self.partial.unlink()
        self.journal.write_bytes(journal)
        self.works(*self.words, "-q")
        self.assertEqual(self.bytes_of("out.kith"), self.expected)
        self.journal.write_bytes(b"somebody's diary\n")
        self.fails(1, *self.words, says=["is no journal of kith"])
        self.assertEqual(self.journal.read_bytes(), b"somebody's diary\n")
        self.assertNotIn("out.kith.partial", self.files())


class Disk(StreamCase):
    def test_too_large(self):
        """a file that the disk will not hold is told before anything is computed"""
        self.case()

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))

        self.fails(1, *self.search("-o", "out.kith", "--stream"), preexec_fn=limit,
                   says=["out.kith.partial: ", " bytes cannot be had: File too large"])
        self.assertEqual(self.files(), ["corpus.u8bin", "queries.u8bin"])

    def test_full(self):
        """the same on a file system that is full; with room the same command works"""
        disk = self.small_disk("64k")
        self.case(queries=2000)
        words = self.search("-o", "disk/out.kith", "--chunk", 100)
        self.fails(1, *words, says=["cannot be had: No space left on device", "free some space"])
        self.assertEqual(list(disk.iterdir()), [])
        self.resize_disk(disk, "1m")
        self.works(*words, "-q")
        self.assertEqual((disk / "out.kith").read_bytes(), self.whole("kith"))


class Mistakes(StreamCase):
    def test_usage(self):
        """what does not go together with chunks"""
        for option in ("--stream", "--chunk 5", "--restart"):
            name = option.split()[0]
            self.fails(2, *f"search a b -k 3 {option}".split(),
                       says=[f"kith: {name}: means nothing without --output"])
            for other in ("--mutual", "--distances d.fbin"):
                self.fails(2, *f"search a b -k 3 -o c.npz {option} {other}".split(),
                           says=[f"{name}: does not go together with {other.split()[0]}"])
            self.fails(2, *f"search a b --radius 3 -o c.npz {option}".split(), says=["--radius"])
            self.fails(2, *f"graph a -k 3 -o c.npz {option}".split(),
                       says=["kith search has" if name != "--restart" else "without --shards"])
        for rows in ("0", "-1", "many", "5000000000"):
            self.fails(2, "search", "a", "b", "-k", 3, "-o", "c.npz", "--chunk", rows,
                       says=["no number of rows"])

    def test_format(self):
        """a sparse matrix is refused with the formats that can be written in pieces"""
        self.case()
        self.fails(1, *self.search("-o", "out.npz", "--format", "csr", "--stream"),
                   says=["npz, kith, knn, ibin or ivecs"])
        self.assertEqual(self.files(), ["corpus.u8bin", "queries.u8bin"])

    def test_data(self):
        """a value that is wrong is told with the chunk that it is in; what stands stays"""
        self.case()
        rows = [[1.0, 2.0, 3.0, 4.0] for _ in range(200)]
        rows[150][2] = float("nan")
        self.write("bad.fbin", support.matrix_bin(rows, "f"))
        words = ["search", "corpus.u8bin", "bad.fbin", "-k", 3, "-o", "out.npz", "--chunk", 40]
        self.fails(1, *words, says=["bad.fbin, rows from 120 on: ", "[30, 2] is NaN"])
        self.assertEqual(self.records("out.npz"), 3)
        self.assertNotIn("out.npz", self.files())


if __name__ == "__main__":
    support.main()
