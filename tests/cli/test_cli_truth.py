# SPDX-License-Identifier: Apache-2.0
"""kith truth: the bytes of a search of all files as one, however parts are cut and however often the job is killed;
ties, certificates, and what is refused."""
import json
import pathlib
import random
import resource
import signal
import struct

import cli_support as support
from cli_support import CliCase, matrix_bin, random_bytes, read_bin, read_npy

FORMATS = ("knn", "ivecs", "ibin", "npz", "kith")


class TruthCase(CliCase):
    def setUp(self):
        super().setUp()
        self.rows = [[value // 32 for value in row] for row in random_bytes(900, 5, 1)]
        self.asked = [[value // 32 for value in row] for row in random_bytes(40, 5, 2)]
        self.write("all.u8bin", matrix_bin(self.rows, "B"))
        self.write("q.u8bin", matrix_bin(self.asked, "B"))
        self.cut(300, 301, 750)

    def cut(self, *places):
        """The rows in files a0.u8bin ..., and their names as one word."""
        ends = [0, *places, len(self.rows)]
        names = [self.write(f"a{i}.u8bin", matrix_bin(self.rows[first:last], "B"))
                 for i, (first, last) in enumerate(zip(ends, ends[1:]))]
        self.corpus = ",".join(names)

    def column(self, name, values):
        self.write(name, "".join(f"{value}\n" for value in ["value", *values]).encode())

    def bytes_of(self, name):
        return (self.folder / name).read_bytes()

    def flip(self, name, at=-1):
        data = bytearray(self.bytes_of(name))
        data[at] ^= 1
        self.write(name, bytes(data))

    def plain(self, k, allowed=lambda query, row: True):
        """Lists of ids, and for each query how many rows are as near as the k-th."""
        lists, ties = [], []
        for i, query in enumerate(self.asked):
            order = sorted((sum((a - b) ** 2 for a, b in zip(query, row)), j)
                           for j, row in enumerate(self.rows) if allowed(i, j))
            lists.append([j for _, j in order[:k]] + [-1] * max(0, k - len(order)))
            ties.append(sum(key == order[k - 1][0] for key, _ in order) if len(order) >= k else 0)
        return lists, ties


class Answers(TruthCase):
    def test_formats(self):
        """every format has the bytes of kith search of one file; .npy has ids of 64 bits"""
        lists, ties = self.plain(7)
        for ending in FORMATS:
            self.works("search", "all.u8bin", "q.u8bin", "-k", 7, "-o", f"s.{ending}", "-q")
            for corpus in ("all.u8bin", self.corpus):
                told = self.works_json("truth", corpus, "q.u8bin", "-k", 7, "-o", f"t.{ending}", "--ties", "t.npy")
                self.assertEqual(self.bytes_of(f"t.{ending}"), self.bytes_of(f"s.{ending}"), (ending, corpus))
                self.assertEqual([int(value) for value in read_npy(self.bytes_of("t.npy"))[0]], ties)
        self.assertEqual(told["files"], 4)
        self.assertEqual(told["most_ties"], max(ties))
        self.assertGreater(told["tied"], 0)
        self.works("truth", self.corpus, "q.u8bin", "-k", 7, "-o", "t.npy", "-q")
        ids, shape = read_npy(self.bytes_of("t.npy"))
        self.assertEqual((ids, shape), ([j for row in lists for j in row], (40, 7)))
        self.assertEqual([name for name in self.files() if "partial" in name], [])

    def test_hdf5(self):
        """.hdf5 holds neighbors and distances; of one file with train and test these, too"""
        lists, _ = self.plain(7)
        self.works("truth", self.corpus, "q.u8bin", "-k", 7, "-o", "t.hdf5", "-q")
        data = self.bytes_of("t.hdf5")
        self.assertEqual(data[:8], b"\x89HDF\r\n\x1a\n")
        distances = struct.unpack_from("<280d", data, 8192)
        self.assertEqual(list(struct.unpack_from("<280q", data, 8192 + 280 * 8)), [j for row in lists for j in row])
        self.assertEqual(distances[0], sum((a - b) ** 2 for a, b in zip(self.asked[0], self.rows[lists[0][0]])) ** 0.5)
        self.assertEqual(len(data), 8192 + 280 * 16)
        if pathlib.Path(support.KITH).with_name("libkith_hdf5.so").exists():
            self.works("truth", "--verify", "t.hdf5", "--sample", 40)
        self.works("truth", "all.u8bin", "q.u8bin", "-k", 7, "-o", "u.hdf5", "-q")
        self.assertEqual(self.bytes_of("u.hdf5"), data)

    def test_parts(self):
        """little memory, many parts: the same bytes, and the same certificate"""
        words = "truth", "big.u8bin", "q.u8bin", "-k", 6, "--metric", "manhattan"
        data = random.Random(3).randbytes(400000 * 5)
        self.write("big.u8bin", struct.pack("<II", 400000, 5) + data)
        self.works(*words, "-o", "t.knn", "-q")
        one, said = self.bytes_of("t.knn"), self.bytes_of("t.knn.json")
        told = self.works_json(*words, "-o", "t.knn", "--memory", "1500K", "--threads", 2)
        self.assertGreater(told["parts"], 5)
        self.assertEqual((self.bytes_of("t.knn"), self.bytes_of("t.knn.json")), (one, said))

    def test_filters(self):
        """bitmaps and groups over all files, with lists that are not full"""
        self.column("g.csv", [i % 50 for i in range(900)])
        self.column("h.csv", [i % 60 for i in range(40)])
        self.column("a.csv", [int(i % 7 == 3) for i in range(900)])
        for more, allowed in ((("--allow", "a.csv"), lambda i, j: j % 7 == 3),
                              (("--groups", "g.csv", "--query-groups", "h.csv"), lambda i, j: j % 50 == i % 60),
                              (("--groups", "g.csv", "--query-groups", "h.csv", "--rule", "other", "--allow", "a.csv"),
                               lambda i, j: j % 50 != i % 60 and j % 7 == 3)):
            lists, ties = self.plain(20, allowed)
            self.works("truth", self.corpus, "q.u8bin", "-k", 20, "-o", "t.ibin", "--ties", "n.ibin", "-q", *more)
            self.assertEqual(read_bin(self.folder / "t.ibin", "i"), lists)
            self.assertEqual([row[0] for row in read_bin(self.folder / "n.ibin", "i")], ties)
            self.fails(2, "truth", "--verify", "t.ibin", *more, says=["FILE CORPUS QUERIES"])
            self.works("truth", "--verify", "t.ibin", self.corpus, "q.u8bin", *more, "--sample", 40)
            self.fails(1, "truth", "--verify", "t.ibin", self.corpus, "q.u8bin", says=["filter"])

    def within(self, radius, allowed=lambda query, row: True):
        """The bytes of big-ann-benchmarks' range file."""
        lists = []
        for i, query in enumerate(self.asked):
            found = sorted((sum((a - b) ** 2 for a, b in zip(query, row)), j)
                           for j, row in enumerate(self.rows) if allowed(i, j))
            lists.append([pair for pair in found if pair[0] <= radius])
        all_of = [pair for each in lists for pair in each]
        return (struct.pack("<2i", len(lists), len(all_of)) + struct.pack(f"<{len(lists)}i", *map(len, lists)) +
                struct.pack(f"<{len(all_of)}i", *(j for _, j in all_of)) +
                struct.pack(f"<{len(all_of)}f", *(key for key, _ in all_of)))

    def test_radius(self):
        """all rows within a radius, in one file and in several, under filters; held and looked at"""
        self.column("g.csv", [i % 5 for i in range(900)])
        self.column("h.csv", [i % 6 for i in range(40)])
        groups = "--groups", "g.csv", "--query-groups", "h.csv"
        for radius in (0, 9, 10.5):
            for more, allowed in (((), lambda i, j: True), (groups, lambda i, j: j % 5 == i % 6)):
                wanted = self.within(radius, allowed)
                words = "--radius", radius, "--metric", "sqeuclidean", *more
                for corpus in ("all.u8bin", self.corpus):
                    told = self.works_json("truth", corpus, "q.u8bin", *words, "-o", "t.range")
                    self.assertEqual(self.bytes_of("t.range"), wanted)
                    self.assertEqual(told["found"], struct.unpack_from("<i", wanted, 4)[0])
                self.works("truth", "--verify", "t.range", self.corpus, "q.u8bin", *more, "--sample", 40)
            for ending in ("range", "kith"):
                self.works("search", "all.u8bin", "q.u8bin", "--radius", radius, "-o", f"s.{ending}", "-q")
                self.works("truth", self.corpus, "q.u8bin", "--radius", radius, "-o", f"t.{ending}", "-q")
                self.assertEqual(self.bytes_of(f"s.{ending}"), self.bytes_of(f"t.{ending}"))
        self.assertEqual(json.loads(self.works("info", "t.range", "--json"))["n"], 40)
        self.write("t.rangeres", self.bytes_of("t.range"))
        self.assertIn("kind: ranges", self.works("info", "t.rangeres"))
        for at in (0, 4, 9):
            self.flip("t.rangeres", at)
            self.fails(1, "info", "t.rangeres", says=["t.rangeres"])
            self.flip("t.rangeres", at)
        told = self.works("truth", self.corpus, "q.u8bin", "--radius", 3, "-o", "t.range", "-v")
        for text in ("all within 3 of 40 queries", "found: ", "parts: 4"):
            self.assertIn(text, told)

    def test_report(self):
        """what is said to people"""
        told = self.works("truth", self.corpus, "q.u8bin", "-k", 7, "-o", "t.knn", "-v")
        for text in ("900 rows in 4 files", "the 7 nearest of 40 queries, euclidean", "ties: ", "parts: 4",
                     "output: t.knn"):
            self.assertIn(text, told)
        told = self.works("truth", "--verify", "t.knn", "--sample", 12, "--seed", 5)
        self.assertIn("verified: t.knn", told)
        self.assertIn("12 queries computed anew", told)


class Resumption(TruthCase):
    def slow(self):
        """A job of some seconds in many parts."""
        rows = 20000 if support.SLOW else 40000
        data = random.Random(4).randbytes(rows * 64)
        self.write("big.u8bin", struct.pack("<II", rows, 64) + data)
        self.write("ask.u8bin", struct.pack("<II", 600, 64) + random.Random(5).randbytes(600 * 64))
        return ["truth", "big.u8bin,big.u8bin", "ask.u8bin", "-k", 9, "--metric", "chi2", "--threads", 1]

    def kill_after(self, parts, number, *words, name="t.knn"):
        """Kills the job when so many parts were written."""
        seen = set()
        state = self.folder / f"{name}.partial"

        def reached():
            if state.exists():
                seen.add(state.stat().st_ino)
            return len(seen) >= parts

        child = self.spawn(support.KITH, *words)
        self.wait_until(reached, child)
        child.send_signal(number)
        told = child.communicate(timeout=120)[1]
        return child.returncode, told

    def test_killed(self):
        """SIGKILL in the middle, again and again: the same bytes in the end"""
        words = self.slow()
        self.works(*words, "-o", "whole.knn", "-q")
        words += ["-o", "t.knn", "--memory", "2M"]
        for parts in (1, 2):
            self.assertEqual(self.kill_after(parts, signal.SIGKILL, *words)[0], -signal.SIGKILL)
            self.assertIn("t.knn.partial", self.files())
            self.assertNotIn("t.knn", self.files())
        other = [word if word != 9 else 8 for word in words]
        self.fails(1, *other, says=["is of another job", "k 8", "k 9", "--restart"])
        told = self.works_json(*words)
        self.assertGreater(told["resumed"], 0)
        self.assertGreater(told["parts"], 1)
        self.assertEqual(self.bytes_of("t.knn"), self.bytes_of("whole.knn"))
        self.assertEqual(json.loads(self.bytes_of("t.knn.json"))["counts"],
                         json.loads(self.bytes_of("whole.knn.json"))["counts"])
        self.assertNotIn("t.knn.partial", self.files())

    def test_killed_radius(self):
        """the same of a radius"""
        words = [word for word in self.slow() if word not in ("-k", 9)] + ["--radius", 1800]
        self.works(*words, "-o", "whole.range", "-q")
        self.assertGreater(len(self.bytes_of("whole.range")), 8 + 600 * 4 + 80000)
        words += ["-o", "t.range", "--memory", "4M"]
        for parts in (1, 2):
            self.assertEqual(self.kill_after(parts, signal.SIGKILL, *words, name="t.range")[0], -signal.SIGKILL)
            self.assertIn("t.range.partial", self.files())
            self.assertNotIn("t.range", self.files())
        other = [word if word != 1800 else 1801 for word in words]
        self.fails(1, *other, says=["is of another job", "radius 1801", "radius 1800", "--restart"])
        told = self.works_json(*words)
        self.assertGreater(told["resumed"], 0)
        self.assertEqual(self.bytes_of("t.range"), self.bytes_of("whole.range"))
        self.assertNotIn("t.range.partial", self.files())
        self.works("truth", "--verify", "t.range", "-q")

    def test_interrupted(self):
        """Ctrl-C says how far it came; a changed input is refused, --restart begins anew"""
        words = self.slow() + ["-o", "t.knn", "--memory", "2M"]
        code, told = self.kill_after(1, signal.SIGINT, *words)
        self.assertEqual(code, 130)
        self.assertIn("the same command goes on there", told)
        state = self.bytes_of("t.knn.partial")
        self.flip("big.u8bin", 5000)
        self.fails(1, *words, says=["t.knn.partial", "is of another job", "corpus"])
        self.assertEqual(self.bytes_of("t.knn.partial"), state)
        self.flip("ask.u8bin", 5000)
        self.flip("t.knn.partial", len(state) // 2)
        self.fails(1, *words, says=["t.knn.partial"])
        told = self.works_json(*words, "--restart")
        self.assertEqual(told["resumed"], 0)
        self.works("truth", "--verify", "t.knn", "-q")

    def test_full_disk(self):
        """a disk without room is one error; with room the job goes on"""
        disk = self.small_disk("16k")
        words = "truth", self.corpus, "q.u8bin", "-k", 30, "-o", "disk/t.knn"
        self.fails(1, *words, says=["No space left on device"])
        self.assertNotIn("t.knn", [path.name for path in disk.iterdir()])
        self.resize_disk(disk, "1m")
        self.works(*words, "-q")
        self.works("search", "all.u8bin", "q.u8bin", "-k", 30, "-o", "s.knn", "-q")
        self.assertEqual((disk / "t.knn").read_bytes(), self.bytes_of("s.knn"))


    def test_state_without_room(self):
        """a truth that has room is no failure because its state, which is larger, has none"""
        words = "truth", "all.u8bin", "q.u8bin", "-k", 9, "-q"
        self.works(*words, "-o", "whole.knn")

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))

        done = self.kith(*words, "-o", "t.knn", preexec_fn=limit)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.bytes_of("t.knn"), self.bytes_of("whole.knn"))
        self.assertNotIn("t.knn.partial", self.files())


class Runbooks(TruthCase):
    def draw(self, rng, steps, rows=900):
        """Steps, and of each search (its number, the rows that are there)."""
        book, there, searches = [], set(), []
        for number in range(1, steps + 1):
            start = rng.randrange(rows)
            end = rng.randrange(start, min(rows, start + rows // 3)) + 1
            kind = rng.choice(("insert", "insert", "delete", "search"))
            if kind == "delete" and not all(row in there for row in range(start, end)) or number == steps:
                kind = "search"
            if kind == "search":
                searches.append((number, frozenset(there)))
                book.append({"operation": kind})
                continue
            change = set(range(start, end))
            there = there | change if kind == "insert" else there - change
            book.append({"operation": kind, "start": start, "end": end})
        return book, searches

    def yaml(self, book, name="rows"):
        lines = ["# what is below is of another one", "other:", "  max_pts: 1", "  1:", "    operation: search",
                 f"{name}:", "  max_pts: 900"]
        for number, step in enumerate(book, 1):
            lines += [f"  {number}:", *(f"    {key}: {value}" for key, value in step.items())]
        return "\n".join([*lines, "  gt_url: https://a.b/c", ""]).encode()

    def check(self, folder, k, searches):
        for number, there in searches:
            lists, _ = self.plain(k, lambda i, j, there=there: j in there)
            data = self.bytes_of(f"{folder}/step{number}.gt{k}")
            self.assertEqual(struct.unpack_from("<2I", data), (40, k))
            self.assertEqual(list(struct.unpack_from(f"<{40 * k}i", data, 8)), [j for row in lists for j in row])
        made = {name.name for name in (self.folder / folder).iterdir()}
        self.assertEqual(made, {f"step{number}.gt{k}{more}" for number, _ in searches for more in ("", ".json")})

    def test_runbooks(self):
        """random ones, as JSON lines and as YAML: each search has the truth of the rows that are there"""
        rng = random.Random(9)
        for trial in range(8):
            book, searches = self.draw(rng, 3 + 3 * trial)
            self.write("b.jsonl", "\n".join([*map(json.dumps, book), ""]).encode())
            self.write("b.yaml", self.yaml(book))
            told = self.works_json("truth", self.corpus, "q.u8bin", "-k", 5, "--runbook", "b.jsonl", "-o", f"j{trial}")
            self.assertEqual((told["steps"], told["searches"]), (len(book), len(searches)))
            self.check(f"j{trial}", 5, searches)
            words = "truth", "all.u8bin", "q.u8bin", "-k", 5, "--runbook", "b.yaml:rows"
            self.works(*words, "-o", f"y{trial}", "-q", "--memory", "32M")
            self.check(f"y{trial}", 5, searches)
        verify = "truth", "--verify", "j7", self.corpus, "q.u8bin", "--runbook", "b.jsonl", "-k", 5
        self.assertIn("as its certificates say", self.works(*verify))
        self.flip(f"j7/step{searches[0][0]}.gt5")
        self.fails(1, *verify, says=[f"step{searches[0][0]}.gt5", "checksum"])

    def test_groups(self):
        """a runbook and groups"""
        self.column("g.csv", [i % 5 for i in range(900)])
        self.column("h.csv", [i % 6 for i in range(40)])
        self.write("b.jsonl", b'{"operation": "insert", "start": 3, "end": 700}\n{"operation": "search"}\n')
        self.works("truth", self.corpus, "q.u8bin", "-k", 4, "--runbook", "b.jsonl", "-o", "o", "-q", "--groups", "g.csv",
                   "--query-groups", "h.csv")
        lists, _ = self.plain(4, lambda i, j: 3 <= j < 700 and j % 5 == i % 6)
        data = self.bytes_of("o/step2.gt4")
        self.assertEqual(list(struct.unpack_from("<160i", data, 8)), [j for row in lists for j in row])

    def test_killed(self):
        """SIGKILL in the middle: what was done is not done again, and the bytes are the same"""
        rows = 20000
        self.write("big.u8bin", struct.pack("<II", rows, 64) + random.Random(4).randbytes(rows * 64))
        self.write("ask.u8bin", struct.pack("<II", 300, 64) + random.Random(5).randbytes(300 * 64))
        book = [{"operation": "insert", "start": 0, "end": 8000}, {"operation": "search"}]
        for i in range(4):
            book += [{"operation": "insert", "start": 8000 + 3000 * i, "end": 11000 + 3000 * i},
                     {"operation": "delete", "start": 1000 * i, "end": 1000 * i + 500}, {"operation": "search"}]
        self.write("b.jsonl", "\n".join(map(json.dumps, book)).encode())
        words = ["truth", "big.u8bin", "ask.u8bin", "-k", 9, "--metric", "chi2", "--threads", 1, "--runbook", "b.jsonl"]
        self.works(*words, "-o", "whole", "-q")
        words += ["-o", "o"]
        for done in (1, 3):
            child = self.spawn(support.KITH, *words)
            self.wait_until(lambda done=done: len(list((self.folder / "o").glob("*.json"))) >= done, child)
            child.send_signal(signal.SIGKILL)
            child.communicate(timeout=120)
            self.assertEqual(child.returncode, -signal.SIGKILL)
            self.assertTrue((self.folder / "o" / "runbook.partial").exists())
        self.fails(1, *words, "--metric", "manhattan", says=["runbook.partial", "is of another job", "--restart"])
        stood = {path: path.stat().st_mtime_ns for path in (self.folder / "o").glob("*.gt9")}
        told = self.works_json(*words)
        self.assertGreaterEqual(told["resumed"], 2)
        same = sum(path.stat().st_mtime_ns == when for path, when in stood.items())
        self.assertGreaterEqual(same, told["resumed"])
        names = sorted(path.name for path in (self.folder / "whole").iterdir())
        self.assertEqual(sorted(path.name for path in (self.folder / "o").iterdir()), names)
        for name in names:
            if name.endswith(".gt9"):
                self.assertEqual(self.bytes_of(f"o/{name}"), self.bytes_of(f"whole/{name}"))

    def test_mistakes(self):
        """one error that names the file and the line, and no folder is made"""
        words = "truth", self.corpus, "q.u8bin", "-k", 5, "--runbook"
        insert, search = '{"operation": "insert", "start": 0, "end": 9}', '{"operation": "search"}'
        for text, told in ((f"{insert}\n", "has no search"),
                           ("", "has no search"),
                           (f'{search}\n{{"operation": "replace"}}\n', "line 2 has the operation 'replace'"),
                           (f'{insert}\n{{"operation": "search", "start": 0, "end": 3}}\n', "line 2 begins a search"),
                           ('{"operation": "insert", "start": 3}\n', "line 1 begins a step that lacks"),
                           ('{"operation": "insert", "start": 3, "end": 3}\n', "line 1 begins a step of no rows"),
                           ('{"operation": "insert", "start": -3, "end": 3}\n', "line 1 has no whole number"),
                           ('{"operation": "insert", "start": 1e3, "end": 3}\n', "line 1 has no whole number"),
                           (f'{search}\n{{"operation": "insert", "rows": 3}}\n', "line 2 has the key 'rows'"),
                           (f"{search}\n\n{search[:-1]}\n", "line 3 is no step"),
                           (f"{search} x\n", "line 1 is no step"),
                           (f'{{"operation": "insert", "start": 0, "end": 901}}\n{search}', "line 1: step 1 ends at"),
                           (f'{insert}\n{{"operation": "delete", "start": 5, "end": 10}}\n{search}', "deletes row 9"),
                           ("a:\n  1:\n    operation: search\nb:\n  1:\n", "line 4 begins a second dataset"),
                           ("a:\n  2:\n    operation: search\n", "has no step 1"),
                           ("a:\n  1:\n    start: 3\n", "line 2 begins a step without an operation"),
                           ("a:\n  1:\n\toperation: search\n", "line 3 is indented by a tab"),
                           ("a:\n  1:\n    operation: search\n      x: 3\n", "line 4 is indented"),
                           ("a:\n  1:\n    operation: search\n  1:\n", "line 4 begins a step that was there"),
                           ("a:\n  1: {operation: search}\n", "line 2 is none of"),
                           ("a:\n  - operation\n", "line 2 is not 'key: value'"),
                           ("  1:\n    operation: search\n", "line 1 stands in no dataset"),
                           ("a: 3\n", "line 1 has a value")):
            self.write("b.txt", text.encode())
            self.fails(1, *words, "b.txt", "-o", "o", says=["b.txt", told])
            self.assertNotIn("o", self.files())
        self.write("b.txt", b"a:\n  1:\n    operation: search\n")
        self.fails(1, *words, "b.txt:b", "-o", "o", says=["b.txt", "has no dataset b"])
        self.fails(1, *words, "no.txt", "-o", "o", says=["no.txt"])
        self.fails(1, *words, "b.txt", "-o", "q.u8bin", says=["q.u8bin", "folder"])
        for more in (("--radius", 3), ("--ties", "t.npy"), ("--allow", "a.csv")):
            self.fails(2, *words, "b.txt", "-o", "o", *more, says=["leave"])
        self.assertNotIn("o", self.files())
        rng = random.Random(3)
        book, _ = self.draw(rng, 12)
        whole = (self.yaml(book), "\n".join(map(json.dumps, book)).encode())
        for trial in range(60):
            data = bytearray(whole[trial % 2])
            for _ in range(1 + trial % 3):
                data[rng.randrange(len(data))] = rng.choice(b'\n\t :{}"09#x\0')
            self.write("b.txt", bytes(data[:rng.randrange(len(data)) if trial % 5 == 0 else len(data)]))
            code = self.kith(*words, "b.txt:rows" if trial % 2 == 0 else "b.txt", "-o", f"o{trial}").returncode
            self.assertIn(code, (0, 1))


class Verification(TruthCase):
    def test_flipped(self):
        """a flipped bit in each file that the certificate names, and in itself"""
        self.works("truth", self.corpus, "q.u8bin", "-k", 7, "-o", "t.knn", "--ties", "n.ibin", "-q")
        for name, text in (("t.knn", "t.knn"), ("n.ibin", "n.ibin"), ("a2.u8bin", "a2.u8bin"), ("q.u8bin", "q.u8bin"),
                           ("t.knn.json", "certificate")):
            at = 4 if name.endswith("json") else -1
            self.flip(name, at)
            self.fails(1, "truth", "--verify", "t.knn", says=[text])
            self.flip(name, at)
            self.works("truth", "--verify", "t.knn")

    def test_forged(self):
        """a wrong neighbour whose checksum was made right is found by computing anew"""
        self.works("truth", "all.u8bin", "q.u8bin", "-k", 7, "-o", "t.ibin", "-q")
        self.works("truth", "all.u8bin", "q.u8bin", "-k", 7, "--metric", "chebyshev", "-o", "u.ibin", "-q")
        right, wrong = (json.loads(self.bytes_of(f"{name}.ibin.json"))["output"]["checksum"] for name in "tu")
        self.write("t.ibin", self.bytes_of("u.ibin"))
        said = self.bytes_of("t.ibin.json").replace(right.encode(), wrong.encode())
        self.write("t.ibin.json", said)
        self.works("truth", "--verify", "t.ibin", "--sample", 0)
        self.fails(1, "truth", "--verify", "t.ibin", "--sample", 40, says=["neighbour", "computed anew it is"])


    def test_counts(self):
        """a number of the certificate that is wrong is found where all queries are computed anew"""
        self.works("truth", "all.u8bin", "q.u8bin", "-k", 7, "-o", "t.kith", "-q")
        said = json.loads(self.bytes_of("t.kith.json"))["counts"]
        for name, number in said.items():
            text = f'"{name}": {number}'.encode()
            data = self.bytes_of("t.kith.json")
            self.assertEqual(data.count(text), 1)
            self.write("t.kith.json", data.replace(text, text + b"1"))
            self.fails(1, "truth", "--verify", "t.kith", "--sample", 40, says=["t.kith", "certificate"])
            self.write("t.kith.json", data)
        self.works("truth", "--verify", "t.kith", "--sample", 40)


class Mistakes(TruthCase):
    def test_mistakes(self):
        """one error that names the file, the row or the option, and no file is left"""
        self.write("n.csv", b"1,2\n3,nan\n")
        self.write("wide.u8bin", matrix_bin(random_bytes(5, 6, 1), "B"))
        self.column("g.csv", [1] * 899)
        before = self.files()
        words = "truth", self.corpus, "q.u8bin"
        out = "-k", 5, "-o", "t.knn"
        for code, more, told in (
                (2, (*words, "-o", "t.knn"), "-k is missing"),
                (2, (*words, "-k", 5), "-o is missing"),
                (2, (*words, "-k", 0, "-o", "t.knn"), "-k"),
                (1, (*words, "-k", 901, "-o", "t.knn"), "900"),
                (2, (*words, "-k", 5, "-o", "t.csv"), ".knn"),
                (2, (*words, "-k", 5, "-o", "t.hdf5:x"), ".knn"),
                (1, ("truth", "no.hdf5", "-k", 5, "-o", "t.knn"), "no.hdf5"),
                (2, (*words, *out, "--radius", 3), "leave -k out"),
                (2, (*words, "--radius", 3, "-o", "t.knn"), ".range"),
                (2, (*words, "-k", 3, "-o", "t.range"), ".knn"),
                (2, (*words, "--radius", -3, "-o", "t.range"), "negative"),
                (2, (*words, "--radius", "nan", "-o", "t.range"), "--radius"),
                (2, (*words, "--radius", 3, "-o", "t.range", "--ties", "t.npy"), "--ties"),
                (2, ("truth", self.corpus, *out), "CORPUS and QUERIES"),
                (2, (*words, *out, "--sample", 5), "--verify"),
                (2, (*words, *out, "--groups", "g.csv", "--rule", "each"), "same or other"),
                (2, (*words, *out, "--ties", "t.knn"), "two outputs"),
                (1, (*words, *out, "--allow", "g.csv"), "g.csv"),
                (1, (*words, "-k", 5, "-o", "missing/t.knn"), "missing"),
                (1, ("truth", "a0.u8bin,no.u8bin", "q.u8bin", *out), "no.u8bin"),
                (1, ("truth", "a0.u8bin,wide.u8bin", "q.u8bin", *out), "wide.u8bin"),
                (1, ("truth", "a0.u8bin", "wide.u8bin", *out), "wide.u8bin"),
                (1, ("truth", "-", "q.u8bin", *out), "pipe"),
                (1, ("truth", "n.csv", "n.csv", "-k", 1, "-o", "t.knn"), "n.csv"),
                (1, ("truth", "--verify", "none.knn"), "none.knn.json"),
                (2, ("truth", "--verify", "t.knn", "-k", 5), "certificate"),
                (2, ("truth", "--verify", "t.knn", "q.u8bin"), "three")):
            self.fails(code, *more, says=[told])
            self.assertEqual(self.files(), before, more)

    def test_inputs_stay(self):
        """an output that is an input, under its own or another name"""
        self.write("a.ibin", struct.pack("<II5i", 5, 1, 1, 2, 3, 4, 5))
        data = self.bytes_of("a.ibin")
        (self.folder / "link.ibin").symlink_to("a.ibin")
        for more in (("-o", "a.ibin"), ("-o", "link.ibin"), ("-o", "t.knn", "--ties", "a.ibin")):
            self.fails(1, "truth", "a.ibin", "a.ibin", "-k", 2, *more, says=["ibin"])
            self.fails(1, "truth", "a0.u8bin,a.ibin", "a.ibin", "-k", 2, *more, says=["ibin"])
        self.assertEqual(self.bytes_of("a.ibin"), data)

    def test_bad_row(self):
        """a value that is none is named with its file and row"""
        self.write("n0.csv", b"a,b\n1,2\n3,4\n")
        self.write("n1.csv", b"a,b\n1,2\n3,nan\n")
        self.fails(1, "truth", "n0.csv,n1.csv", "n0.csv", "-k", 1, "-o", "t.knn", says=["n1.csv", "[1, 1]"])
        self.fails(1, "truth", "n0.csv", "n1.csv", "-k", 1, "-o", "u.knn", says=["n1.csv", "[1, 1]"])


if __name__ == "__main__":
    support.main()
