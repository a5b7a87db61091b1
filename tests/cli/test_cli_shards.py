# SPDX-License-Identifier: Apache-2.0
"""kith graph --shards: the bytes of a graph at once, whatever the shards are, however often the job
is killed, and whatever becomes of its folder. KITH_KILLS=50 kills more often."""
import os
import random
import re
import signal
import tempfile
import time

import cli_support as support
from cli_support import CliCase

FORMATS = ("npz", "kith", "knn", "ibin", "ivecs")
KILLS = int(os.environ.get("KITH_KILLS", "8"))


if os.access("/dev/shm", os.W_OK):
    tempfile.tempdir = "/dev/shm"  # hundreds of files are brought to disk here


class ShardCase(CliCase):
    def case(self, rows=600, columns=8, letters=256, name="points.u8bin"):
        generator = random.Random(rows)
        data = bytes(generator.randrange(letters) for _ in range(rows * columns))
        self.write(name, rows.to_bytes(4, "little") + columns.to_bytes(4, "little") + data)

    def clusters(self, count):
        generator = random.Random(3)
        centers = [generator.randbytes(6) for _ in range(80)]
        rows = [[max(0, min(255, value + generator.randrange(-6, 7)))
                 for value in generator.choice(centers)] for _ in range(count)]
        self.write("points.u8bin", support.matrix_bin(rows, "B"))

    def graph(self, *words, k=9, points="points.u8bin"):
        return ["graph", points, "-k", k, *words]

    def bytes_of(self, name):
        return (self.folder / name).read_bytes()

    def whole(self, ending, *words, k=9, points="points.u8bin"):
        self.works(*self.graph("-q", "-o", f"whole.{ending}", *words, k=k, points=points))
        return self.bytes_of(f"whole.{ending}")

    def shards(self):
        work = self.folder / "work"
        return sorted(work.glob("shard-*.kith")) if work.exists() else []

    def start(self, *words):
        return self.spawn(support.KITH, *words)

    def slow(self, *words, count=6):
        """Some seconds of steps."""
        self.case(rows=3000, columns=24)
        return self.graph("-q", "-o", "out.kith", "--shards", "work", "--tune", f"shard-count={count}",
                          "--metric", "chi2", *words)

    def wait_for(self, child, version):
        """Until a shard has been written so often."""
        self.wait_until(lambda: any(int(path.name.split(".")[1]) >= version
                                    for path in self.shards()), child)

    def ended(self):
        """Nothing is left but the result; the folder may be, where it was there before."""
        work = self.folder / "work"
        self.assertFalse(work.exists() and list(work.iterdir()))
        self.assertEqual([name for name in self.files() if "partial" in name or "journal" in name],
                         [])


class Bytes(ShardCase):
    def test_formats(self):
        """every format; 1 to 8 shards of uneven size; shards with fewer points than k; copies"""
        self.case(rows=67, columns=3, letters=4)
        for i, ending in enumerate(FORMATS):
            expected = self.whole(ending)
            for count in ((1, 2, 3, 5, 8, 30) if i == 0 else (3,)):
                self.works(*self.graph("-q", "-o", f"out.{ending}", "--shards", "work",
                                       "--tune", f"shard-count={count}"))
                self.assertEqual(self.bytes_of(f"out.{ending}"), expected, (ending, count))
                self.ended()

    def test_metrics(self):
        """screened, direct and one-sided metrics, the tree, a point's own id"""
        self.case(letters=3, rows=300, columns=4)
        for words in (["--metric", "cosine"], ["--metric", "ip"], ["--metric", "kl"],
                      ["--metric", "manhattan"], ["--metric", "jaccard"], ["--method", "tree"],
                      ["--method", "exact"], ["--include-self"]):
            expected = self.whole("kith", *words)
            self.works(*self.graph("-q", "-o", "out.kith", "--shards", "work", "--tune", "shard-count=4",
                                   *words))
            self.assertEqual(self.bytes_of("out.kith"), expected, words)
        self.ended()

    def column(self, name, values):
        self.write(name, "".join(f"{value}\n" for value in ["value", *values]).encode())

    def test_filters(self):
        """the bytes of the same job without shards: groups, a bitmap, both; a folder keeps to its filter"""
        self.case(rows=303, columns=4, letters=5)
        generator = random.Random(7)
        self.column("groups.csv", [generator.choice((0, 0, 3, 5, 900)) for _ in range(303)])
        self.column("allow.csv", [int(generator.random() < 0.2) for _ in range(303)])
        groups, allow, other = ["--groups", "groups.csv"], ["--allow", "allow.csv"], ["--rule", "other"]
        for words in (groups, groups + other, allow, allow + groups, allow + groups + other + ["--include-self"]):
            for metric in ("l2", "ip", "cosine", "kl"):
                expected = self.whole("kith", "--metric", metric, *words)
                for count in 2, 7:
                    self.works(*self.graph("-q", "-o", "out.kith", "--shards", "work", "--metric", metric, *words,
                                           "--tune", f"shard-count={count}"))
                    self.assertEqual(self.bytes_of("out.kith"), expected, (words, metric, count))
        self.ended()
        kept = "-q", "-o", "out.kith", "--shards", "work", "--tune", "keep-shards,shard-count=3"
        self.works(*self.graph(*kept, *groups))
        self.fails(1, *self.graph(*kept, *groups, *other), says=["rule"])
        self.column("others.csv", [generator.choice((0, 3)) for _ in range(303)])
        for words, said in ((["--groups", "others.csv"], "filter"), (groups + allow, "filter"), ([], "rule")):
            self.fails(1, *self.graph(*kept, *words), says=[said, "another job"])
        self.works(*self.graph(*kept, *groups, *other, "--restart"))

    def test_types(self):
        """other files, mapped and read: .fbin, .npy, .csv"""
        self.case(rows=200, columns=4)
        for name in ("points.fbin", "points.npy", "points.csv"):
            self.works("convert", "points.u8bin", name, "-q")
            expected = self.whole("npz", points=name)
            self.works(*self.graph("-q", "-o", "out.npz", "--shards", "work", "--tune", "shard-count=3",
                                   points=name))
            self.assertEqual(self.bytes_of("out.npz"), expected, name)

    def test_report(self):
        """the plan, the report, and what keep-shards keeps"""
        self.case()
        words = self.graph("-o", "out.kith", "--shards", "work", "--tune", "shard-count=4")
        planned = self.works_json(*words, "--dry-run")["shards"]
        self.assertEqual((planned["count"], planned["rows"], planned["steps"]), (4, 150, 10))
        self.assertEqual(self.files(), ["points.u8bin"])
        said = self.works_json(*words, "--tune", "keep-shards")
        self.assertTrue(said["exact"])
        self.assertEqual([said["shards"][name] for name in ("count", "steps", "stood", "rebuilt")],
                         [4, 10, 0, 0])
        self.assertEqual(len(self.shards()), 4)
        self.assertLessEqual(sum(path.stat().st_size for path in self.shards()),
                             planned["folder_bytes"] + 8192)
        self.assertIn("shards: 4, 10 steps, 10 stood already\n", self.works(*words, "-v"))
        self.ended()

    def test_approximate(self):
        """descents and merges: the same bytes each time, and the recall that is told"""
        self.case(rows=3000, columns=12)
        words = self.graph("-q", "-o", "out.kith", "--shards", "work", "--tune", "shard-count=3",
                           "--method", "descent", "--tune", "sample=300")
        self.assertEqual(self.works_json(*words)["recall"]["sample"], 300)
        first = self.bytes_of("out.kith")
        self.works(*words, "--threads", 1)
        self.assertEqual(self.bytes_of("out.kith"), first)
        self.whole("kith")
        said = support.json.loads(self.works("eval", "out.kith", "whole.kith", "--json"))
        told = support.json.loads(self.works("info", "out.kith", "--json"))
        print(f"recall {said['recall']}, told {told['recall']}", end=" ... ", flush=True)

    def test_places(self):
        """latitudes and longitudes: exact shards have the bytes of all at once, approximate ones find the most"""
        generator = random.Random(5)
        rows = [[generator.uniform(-1.5, 1.5), generator.uniform(-3.1, 3.1)] for _ in range(2000)]
        self.write("places.fbin", support.matrix_bin(rows, "f"))
        work = ["--shards", "work", "--tune", "shard-count=3", "--metric", "haversine"]
        expected = self.whole("kith", "--metric", "haversine", points="places.fbin")
        self.works(*self.graph("-q", "-o", "out.kith", *work, points="places.fbin"))
        self.assertEqual(self.bytes_of("out.kith"), expected)
        self.works(*self.graph("-q", "-o", "near.kith", *work, "--method", "descent", "--recall", "0.95",
                               points="places.fbin"))
        self.assertGreater(self.works_json("eval", "near.kith", "whole.kith")["recall"]["estimate"], 0.94)
        self.ended()

    def test_declined(self):
        """points without clusters in many columns: groups are looked for, told of and not taken"""
        self.case(rows=6000, columns=40)
        said = self.works_json(*self.graph("-q", "-o", "out.kith", "--shards", "work", "--recall",
                                           "0.95", "--method", "descent", "--tune", "shard-count=3"))
        self.assertEqual([said["shards"][name] for name in ("groups", "steps", "groups_wanted")],
                         [0, 6, 0.975])
        self.assertGreater(said["shards"]["groups_overlap"], 1.0)
        self.assertLess(said["shards"]["groups_cover"], 0.975)
        self.whole("kith")
        said = self.works_json("eval", "out.kith", "whole.kith")["recall"]
        print(f"recall {said}", end=" ... ", flush=True)
        self.assertGreater(said["estimate"], 0.94)

    def test_groups(self):
        """points in clusters: groups that overlap, a step each; resumed, damaged: the same bytes"""
        self.clusters(13000)
        words = self.graph("-q", "-o", "out.kith", "--shards", "work", "--tune", "shard-count=3",
                           "--recall", "0.95", "--method", "descent", "--tune", "keep-shards")
        said = self.works_json(*words)
        self.assertEqual([said["shards"][name] for name in ("count", "steps", "groups")], [3, 3, 3])
        self.assertGreater(said["recall"]["estimate"], 0.94)
        self.assertGreaterEqual(said["shards"]["groups_cover"], 0.975)
        self.assertLess(said["shards"]["groups_overlap"], 1.2)
        stages = said["shards"]["stages"]
        self.assertAlmostEqual(sum(stages.values()), said["shards"]["total_seconds"], places=6)
        self.assertGreater(min(stages.values()), -1e-6)
        first = self.bytes_of("out.kith")
        for stood in (2, 3):  # a file that is short is found at once, a wrong byte when it is read
            path = self.shards()[1]
            data = bytearray(path.read_bytes())
            data[-1] ^= 1
            path.write_bytes(data if stood == 3 else data[:-1])
            done = self.kith(*words, "--json")
            self.assertIn(path.name, done.stderr)
            said = support.json.loads(done.stdout)["shards"]
            self.assertEqual((said["stood"], said["rebuilt"]), (stood, 1))
            self.assertEqual(self.bytes_of("out.kith"), first)
        self.whole("kith")
        said = self.works_json("eval", "out.kith", "whole.kith")["recall"]
        print(f"recall {said}", end=" ... ", flush=True)
        self.assertGreater(said["estimate"], 0.94)


class Apart(ShardCase):
    """Exact graphs of points in the order of their clusters: what is too far apart is left out."""

    def in_order(self, count=4100, clusters=12, copies=3):
        """Runs of rows from one cluster each; copies, beside each other and from end to end; some
        rows of zeros, which no angle has"""
        generator = random.Random(count)
        rows = []
        for _ in range(clusters):
            center = [generator.randrange(10, 240) for _ in range(6)]
            for _ in range(count // clusters // copies):
                row = [max(1, min(255, value + generator.randrange(-6, 7))) for value in center]
                rows += [row] * generator.randrange(1, 2 * copies)
        rows += rows[:5] + [[0] * 6] * 3
        self.write("points.u8bin", support.matrix_bin(rows, "B"))
        self.works("convert", "points.u8bin", "points.fbin", "-q")

    def sharded(self, *words, points="points.u8bin", count=8, k=9):
        said = self.works_json(*self.graph("-q", "-o", "out.kith", "--shards", "work",
                                           "--tune", f"shard-count={count}", *words, k=k, points=points))
        self.assertEqual(self.bytes_of("out.kith"),
                         self.whole("kith", *words, k=k, points=points), (words, points, count, k))
        self.ended()
        shards = said["shards"]
        self.assertEqual(shards["pairs_met"] + shards["pairs_skipped"], count * (count - 1) // 2)
        return shards["pairs_skipped"], shards["rows_skipped"]

    def test_bytes(self):
        """pairs are skipped, rows left out, and the bytes are those of the graph at once"""
        self.in_order()
        for words in ([], ["--metric", "sqeuclidean"], ["--metric", "manhattan"],
                      ["--metric", "chebyshev"], ["--metric", "cosine"],
                      ["--metric", "correlation"], ["--method", "tree"], ["--include-self"]):
            for points in ("points.u8bin", "points.fbin"):
                pairs, rows = self.sharded(*words, points=points)
                self.assertGreater(pairs, 5, words)
                self.assertGreater(rows, 0.3, words)
        print(f"of 28 pairs {pairs}, rows {rows:.3f}", end=" ... ", flush=True)
        for count in (2, 3, 13):
            self.sharded(count=count)

    def test_none(self):
        """other metrics; lists that a shard cannot fill; points without order: all pairs meet"""
        self.in_order(count=900)
        for metric in ("ip", "kl", "jaccard", "hamming", "chi2"):
            self.assertEqual(self.sharded("--metric", metric, count=4), (0, 0.0), metric)
        self.assertEqual(self.sharded(k=300, count=4), (0, 0.0))
        self.case(rows=1100)
        self.assertEqual(self.sharded(count=4), (0, 0.0))

    def test_kill(self):
        """kill -9 while pairs are passed over: the next run goes on, and the end is the same"""
        self.in_order(count=9000, clusters=24)
        expected = self.whole("kith", "--metric", "manhattan")
        words = self.graph("-q", "-o", "out.kith", "--shards", "work", "--tune", "shard-count=16",
                           "--metric", "manhattan")
        killed = 0
        for version in (0, 1, 1, 2) if not support.SLOW else (1,):
            child = self.start(*words)
            self.wait_for(child, version)
            child.kill()
            child.communicate(timeout=120)
            killed += child.returncode == -signal.SIGKILL
        said = self.works_json(*words)["shards"]
        print(f"{killed} kills, {said['stood']} of 136 steps stood, {said['pairs_skipped']} pairs "
              "are too far apart", end=" ... ", flush=True)
        self.assertGreater(said["pairs_skipped"], 20)
        self.assertEqual(self.bytes_of("out.kith"), expected)
        self.ended()

    def test_progress(self):
        """the report and the progress tell of it"""
        self.in_order()
        done = self.kith(*self.graph("-o", "out.kith", "--shards", "work", "--tune", "shard-count=8", "-v"))
        self.assertRegex(done.stdout, r"pairs of shards: \d+ met, \d+ are too far apart; \d+\.\d % "
                                      r"of the pairs of rows were left out\n")


class Memory(ShardCase):
    def test_limit(self):
        """as few shards as --memory allows; the process stays within it"""
        self.case(rows=20000, columns=8)
        expected = self.whole("kith", k=50)
        words = self.graph("-o", "out.kith", "--shards", "work", "--memory", "48M", k=50)
        said = self.works_json(*words, "-q")
        self.assertGreaterEqual(said["shards"]["count"], 3)
        if not support.SLOW:
            self.assertLessEqual(said["peak_bytes"]["host"], 48 << 20)
        print(f"{said['shards']['count']} shards, {said['peak_bytes']['host'] / 2**20:.1f} MiB",
              end=" ... ", flush=True)
        self.assertEqual(self.bytes_of("out.kith"), expected)
        told = self.fails(1, *self.graph("-o", "out.kith", "--shards", "work", "--memory", "1K",
                                         k=50),
                          says=["shards need", "no other number less", "allow more memory: "])
        least = told.split("allow more memory: ")[1].split(")")[0]
        print(f"at least {least}", end=" ... ", flush=True)
        words = self.graph("-o", "out.kith", "--shards", "work", "--dry-run", "--memory", k=50)
        self.works(*words, least)
        self.fails(1, *words, f"{int(least[:-1]) - 1}M", says=["shards need"])


class Resume(ShardCase):
    def test_kill(self):
        """kill -9 at random moments; each run goes on, and the end is the same bytes"""
        words = self.slow()
        began = time.monotonic()
        self.works(*words)
        span = time.monotonic() - began
        expected = self.bytes_of("out.kith")
        self.assertEqual(expected, self.whole("kith", "--metric", "chi2"))
        generator = random.Random(KILLS)
        killed = ended = 0
        while killed < (KILLS if not support.SLOW else 3):
            child = self.start(*words)
            time.sleep(generator.uniform(0.02, span / 2))
            child.kill()
            child.communicate(timeout=120)
            if child.returncode == 0:
                ended += 1
                self.assertEqual(self.bytes_of("out.kith"), expected)
            else:
                self.assertEqual(child.returncode, -signal.SIGKILL)
                killed += 1
        self.works(*words)
        self.assertEqual(self.bytes_of("out.kith"), expected)
        self.ended()
        print(f"{killed} kills, {ended} ends between them", end=" ... ", flush=True)

    def test_kill_groups(self):
        """the same of groups, as many as --memory allows; more memory, and as many as there were"""
        self.clusters(20000)
        words = self.graph("-q", "-o", "out.kith", "--shards", "work", "--recall", "0.95",
                           "--method", "descent", "--memory")
        planned = self.works_json(*words, "44M", "--dry-run")["shards"]
        said = self.works_json(*words, "44M")
        groups = said["shards"]["groups"]
        self.assertGreaterEqual(groups, planned["groups"])
        self.assertLessEqual(said["shards"]["bytes_written"], planned["folder_bytes"])
        self.assertGreaterEqual(groups, 3)
        if not support.SLOW:
            self.assertLessEqual(said["peak_bytes"]["host"], 44 << 20)
        expected = self.bytes_of("out.kith")
        child = self.start(*words, "44M")
        self.wait_for(child, 0)
        child.kill()
        child.communicate(timeout=120)
        self.assertEqual(child.returncode, -signal.SIGKILL)
        said = self.works_json(*words, "52M")["shards"]
        print(f"{groups} groups, {said['stood']} stood", end=" ... ", flush=True)
        self.assertGreaterEqual(said["stood"], 1)
        self.assertEqual(said["groups"], groups)
        self.assertEqual(self.bytes_of("out.kith"), expected)
        self.ended()

    def test_interrupt(self):
        """Ctrl-C says how far it came; other threads may go on; what stood is not done again"""
        words = self.slow("--tune", "keep-shards")
        child = self.start(*words)
        self.wait_for(child, 2)
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=120)
        self.assertEqual(child.returncode, 130)
        self.assertRegex(told.splitlines()[-1], r"^kith: interrupted \(work has \d+ of 21 steps; "
                                                r"the same command goes on there\)$")
        said = self.works_json(*words, "--threads", 1)
        self.assertGreaterEqual(said["shards"]["stood"], 8)
        self.assertEqual(self.bytes_of("out.kith"), self.whole("kith", "--metric", "chi2"))

    def test_two(self):
        """a second process keeps away from the folder that the first is at"""
        words = self.slow()
        child = self.start(*words)
        self.wait_for(child, 0)
        for more in ([], ["--restart"]):
            self.fails(1, *words, *more, says=["work: another process is at work in it"])
        child.kill()
        child.communicate()


class Left(ShardCase):
    """What a job has left, and what becomes of it."""

    def setUp(self):
        super().setUp()
        self.case()
        self.expected = self.whole("kith")
        self.words = self.graph("-q", "-o", "out.kith", "--shards", "work", "--tune", "shard-count=4")
        self.works(*self.words, "--tune", "keep-shards")

    def test_options(self):
        """another k, metric, number of shards or file is told with both; --restart begins anew"""
        for k, *words in ([8], [9, "--metric", "l1"], [9, "--tune", "shard-count=5"],
                          [9, "--include-self"], [9, "--method", "descent"]):
            told = self.fails(1, *self.graph("-q", "-o", "out.kith", "--shards", "work", *words,
                                             k=k),
                              says=["work: the folder is of another job, it says '", "--restart"])
            print(told.split("it says")[1].split("(")[0].strip(), end="; ", flush=True)
        self.case(rows=601)
        self.fails(1, *self.words, says=["it says 'rows 600', this one 'rows 601'"])
        self.works(*self.words, "--restart")
        self.assertEqual(self.bytes_of("out.kith"), self.whole("kith"))
        self.ended()

    def test_inputs(self):
        """points that were touched are told"""
        time.sleep(0.01)
        os.utime(self.folder / "points.u8bin")
        self.fails(1, *self.words, says=["it says 'corpus 4808 bytes", "this one 'corpus 4808 "])

    def test_count(self):
        """who does not ask for a number gets that of the folder"""
        words = self.graph("-o", "out.kith", "--shards", "work")
        self.assertEqual(self.works_json(*words)["shards"]["stood"], 10)

    def test_damage(self):
        """a file that is damaged, cut or gone is named, and made again; the same bytes"""
        generator = random.Random(5)
        for i in range(12 if not support.SLOW else 3):
            path = generator.choice(self.shards())
            data = bytearray(path.read_bytes())
            if i % 3 == 2:
                path.unlink()
            else:
                data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
                path.write_bytes(data[:len(data) // (1 + i % 3)])
            done = self.kith(*self.words, "--tune", "keep-shards", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            said = support.json.loads(done.stdout)["shards"]
            if i % 3 != 2:
                self.assertIn(path.name, done.stderr)
                self.assertEqual(said["rebuilt"], 1)
            self.assertEqual(said["steps"] - said["stood"], 4 if said["stood"] < 10 else 0)
            self.assertEqual(self.bytes_of("out.kith"), self.expected)
            self.assertEqual(len(self.shards()), 4)


class Disk(ShardCase):
    def test_full(self):
        """a disk that is full is told; with room the same command goes on"""
        disk = self.small_disk("64k")
        self.case()
        words = self.graph("-q", "-o", "out.kith", "--shards", "disk/work", "--tune", "shard-count=5")
        for size in ("76k", "84k", "92k"):
            self.fails(1, *words, says=["disk/work/shard", "No space left on device",
                                        "free some space"])
            self.resize_disk(disk, size)
        self.resize_disk(disk, "2m")
        stood = self.works_json(*words)["shards"]["stood"]
        self.assertGreater(stood, 0)
        print(f"{stood} steps stood", end=" ... ", flush=True)
        self.assertEqual(self.bytes_of("out.kith"), self.whole("kith"))


class Mistakes(ShardCase):
    def test_usage(self):
        """what does not go together with shards, or needs them"""
        for option in ("--tune shard-count=3", "--tune keep-shards", "--restart"):
            self.fails(2, *f"graph a -k 3 -o c.npz {option}".split(),
                       says=[f"kith: {option.split('=')[0]}: means nothing without --shards"])
        self.fails(2, *"graph a -k 3 --shards w".split(), says=["means nothing without --output"])
        for other in ("--radius 3", "--distances d.fbin", "--init g.npz --method descent",
                      "--tune pipeline=matrix", "--tune tree-height=3"):
            self.fails(2, *f"graph a -k 3 -o c.npz --shards w {other}".split(),
                       says=[f"--shards: does not go together with {re.split('[= ][^t]', other)[0]}"])
        for count in ("0", "-1", "many", "5000"):
            self.fails(2, *f"graph a -k 3 -o c.npz --shards w --tune shard-count={count}".split(),
                       says=["no number of shards"])

    def test_refused(self):
        """csr, more shards than points, a folder that is a file, a value that is wrong"""
        self.case()
        self.fails(1, *self.graph("-o", "out.npz", "--shards", "work", "--format", "csr"),
                   says=["npz, kith, knn, ibin or ivecs"])
        self.fails(1, *self.graph("-o", "out.npz", "--shards", "work", "--tune", "shard-count=601"),
                   says=["shards is 601, must be 1 to 600"])
        self.fails(1, *self.graph("-o", "out.npz", "--shards", "points.u8bin"),
                   says=["points.u8bin: cannot be opened as a folder"])
        rows = [[float(i), 2.0] for i in range(100)]
        rows[77][1] = float("nan")
        self.write("bad.fbin", support.matrix_bin(rows, "f"))
        self.fails(1, *self.graph("-q", "-o", "out.npz", "--shards", "work", "--tune", "shard-count=4",
                                  points="bad.fbin"), says=["bad.fbin: points[77, 1] is NaN"])
        self.assertEqual(self.files(), ["bad.fbin", "points.u8bin", "work"])


if __name__ == "__main__":
    support.main()
