# SPDX-License-Identifier: Apache-2.0
"""kith graph --shards --tune parts=N: files of rows and one that names them are the graph in one file,
byte for byte, however often the job is killed; what is missing or wrong is named."""
import random
import signal
import time

import cli_support as support
from test_cli_shards import ShardCase


class PartCase(ShardCase):
    """k = 64: parts have multiples of 256 rows."""

    def case(self, rows=1500, columns=4, letters=64, name="points.u8bin"):
        super().case(rows, columns, letters, name)

    def parts(self, *words, count, shards=3, k=64):
        return self.graph("-o", "out.kith", "--shards", "work", "--tune", 
                          f"shard-count={shards},parts={count}", *words, k=k)

    def part_files(self):
        return [name for name in self.files() if name.startswith("out-")]

    def joined(self):
        self.works("convert", "out.kith", "joined.kith", "-q")
        return self.bytes_of("joined.kith")

    def forget(self):
        for name in self.files():
            if name.startswith("out"):
                (self.folder / name).unlink()


class Bytes(PartCase):
    def test_exact(self):
        """1 to 7 shards of uneven size, 1 to 5 parts, or one a shard: joined they are one file"""
        self.case()
        expected = self.whole("kith", k=64)
        for count, shards, files in ((1, 3, 1), (2, 3, 2), (3, 7, 3), (5, 2, 3), (256, 2, 6),
                                     ("auto", 1, 1), ("auto", 4, 3)):
            said = self.works_json(*self.parts("-q", count=count, shards=shards))
            self.assertEqual(said["shards"]["parts"], files)
            self.assertEqual(self.part_files(),
                             [f"out-{i:05}-of-{files:05}.kith" for i in range(files)])
            self.assertEqual(self.joined(), expected, (count, shards))
            self.ended()
            self.forget()

    def test_approximate(self):
        """pairs of shards, and groups that overlap: the same as in one file, with the recall"""
        for make, k, more in ((lambda: self.case(rows=1200, columns=8), 64, ["--tune", "sample=200"]),
                              (lambda: self.clusters(4000), 16, ["--recall", "0.9"])):
            make()
            words = self.graph("-q", "-o", "one.kith", "--shards", "work", "--tune", "shard-count=3",
                               "--method", "descent", *more, k=k)
            groups = self.works_json(*words)["shards"]["groups"]
            said = self.works_json(*self.parts("-q", "--method", "descent", *more, count=4, k=k))
            self.assertEqual(said["shards"]["groups"], groups)
            self.assertGreater(said["shards"]["parts"], 1)
            self.assertEqual(self.joined(), self.bytes_of("one.kith"))
            told = self.works_json("info", "out.kith")["recall"]["estimate"]
            print(f"{groups} groups, {said['shards']['parts']} parts, recall {told:.3f}",
                  end=" ... ", flush=True)
            self.ended()
            self.forget()

    def test_commands(self):
        """info, eval, search and convert take the file that names the parts"""
        self.case()
        self.whole("kith", k=64)
        said = self.works(*self.parts(count=3))
        self.assertIn("parts: 3 files beside the one that names them\n", said)
        info = self.works_json("info", "out.kith")
        whole = self.works_json("info", "whole.kith")
        self.assertEqual(info.pop("files"), 3)
        self.assertGreater(info.pop("bytes"), whole.pop("bytes"))
        self.assertEqual({**info, "file": ""}, {**whole, "file": ""})
        self.assertIn("parts: 3 files, all there\n", self.works("info", "out.kith"))
        part = "out-00001-of-00003.kith"
        self.assertIn("part: 2 of 3, rows 512 to 1023 of the graph\n", self.works("info", part))
        said = self.works_json("info", part)
        self.assertEqual([said[name] for name in ("kind", "n", "part", "files", "first_row")],
                         ["result", 512, 2, 3, 512])
        self.assertEqual(self.works_json("eval", "out.kith", "whole.kith")["recall"]["estimate"],
                         1.0)
        for graph in ("out", "whole"):
            self.works("search", f"{graph}.kith", "points.u8bin", "points.u8bin", "-k", 3, "-q",
                       "-o", f"found_{graph}.kith")
            self.works("convert", f"{graph}.kith", f"{graph}.npz", "-q")
        self.assertEqual(self.bytes_of("found_out.kith"), self.bytes_of("found_whole.kith"))
        self.assertEqual(self.bytes_of("out.npz"), self.bytes_of("whole.npz"))


class Resume(PartCase):
    def test_kill(self):
        """kill -9 while 32 parts get their names: what has one is whole; the next run ends right"""
        self.case(rows=8192, columns=2)
        words = self.parts("-q", count=32)
        began = time.monotonic()
        self.works(*words)
        span = time.monotonic() - began
        expected = {name: self.bytes_of(name) for name in ["out.kith", *self.part_files()]}
        self.assertEqual(len(expected), 33)
        generator = random.Random(5)
        killed = named = 0
        for turn in range(6 if not support.SLOW else 2):
            self.forget()
            child = self.start(*words)
            if turn % 2 == 0:
                while child.poll() is None and \
                        not any(name.endswith(".kith") for name in self.part_files()):
                    pass
            else:
                time.sleep(generator.uniform(span / 2, span))
            child.kill()
            child.communicate(timeout=120)
            killed += child.returncode == -signal.SIGKILL
            for name in self.files():
                if name.startswith("out") and name.endswith(".kith"):
                    named += 1
                    self.assertEqual(self.bytes_of(name), expected[name], name)
            self.works(*words)
            for name, data in expected.items():
                self.assertEqual(self.bytes_of(name), data, name)
            self.ended()
        print(f"{killed} kills, {named} files had their names", end=" ... ", flush=True)
        self.assertGreater(killed, 0)

    def test_full(self):
        """a disk without room for all parts is told before the work; with room the job is done"""
        disk = self.small_disk("600k")
        self.case()
        words = self.graph("-q", "-o", "disk/out.kith", "--shards", "work", "--tune", "parts=3", k=64)
        self.fails(1, *words, says=["disk/out-0000", "cannot be had: No space left on device",
                                    "free some space"])
        self.assertEqual(list(disk.iterdir()), [])
        self.resize_disk(disk, "2m")
        self.works(*words)
        self.works("convert", "disk/out.kith", "joined.kith", "-q")
        self.assertEqual(self.bytes_of("joined.kith"), self.whole("kith", k=64))

    def test_parts_change(self):
        """another number of parts, or one file, of lists that stand: nothing is computed again"""
        self.case()
        self.works(*self.parts("-q", "--tune", "keep-shards", count=3))
        for count, files in ((2, 2), (1, 1)):
            self.forget()
            said = self.works_json(*self.parts("-q", "--tune", "keep-shards", count=count))
            self.assertEqual((said["shards"]["stood"], said["shards"]["parts"]), (6, files))
            self.assertEqual(self.joined(), self.whole("kith", k=64))


class Mistakes(PartCase):
    def test_usage(self):
        """what does not go together with parts, or needs them"""
        for count in ("0", "-1", "many", "257"):
            self.fails(2, *f"graph a -k 3 -o c.kith --shards w --tune parts={count}".split(),
                       says=["no number of files (give 1 to 256, or auto)"])
        self.fails(2, *"graph a -k 3 -o c.kith --tune parts=3".split(),
                   says=["--tune parts: means nothing without --shards"])
        self.fails(2, *"graph a -k 3 -o c.npz --shards w --tune parts=3 --format npz".split(),
                   says=["--tune parts: are written as .kith alone"])
        self.case()
        self.fails(2, *self.graph("-o", "out.npz", "--shards", "work", "--tune", "parts=3"),
                   says=["out.npz: --tune parts writes .kith files"])
        self.fails(2, *self.graph("-o", "out.csv", "--shards", "work", "--tune", "parts=3"))
        self.fails(2, *self.parts(count=3, k=0))
        self.assertEqual(self.files(), ["points.u8bin"])

    def test_named(self):
        """a part that is missing, damaged, or another one is named by every command"""
        self.case()
        self.works(*self.parts("-q", count=3))
        path = self.folder / "out-00001-of-00003.kith"
        data = path.read_bytes()
        wrong = bytearray(data)
        wrong[70000] ^= 1
        other = (self.folder / "out-00000-of-00003.kith").read_bytes()
        for change, says in ((None, "is missing, and has rows 512 to 1023 of out.kith (bring it "
                                    "back"),
                             (wrong, "the checksum of its section 'ids' is wrong (it is damaged: "
                                     "bring a copy of it back, or make the graph again)"),
                             (other, "is not the file that out.kith was written with (bring that "
                                     "one back"),
                             (data[:-1], "has 327679 bytes, its header says 327680 (it is cut")):
            path.unlink(missing_ok=True)
            if change is not None:
                path.write_bytes(change)
            for words in ("info out.kith", "convert out.kith one.kith", "eval out.kith out.kith",
                          "search out.kith points.u8bin points.u8bin -k 3"):
                self.fails(1, *words.split(), says=[f"out.kith: {path.name}: {says}"])
        self.assertNotIn("one.kith", self.files())


if __name__ == "__main__":
    support.main()
