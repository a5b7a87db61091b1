# SPDX-License-Identifier: Apache-2.0
"""What a hostile user or sender would try: nothing hangs, nothing is written where it should not
be, no name steers the terminal, and every refusal is one line."""
import os
import resource
import signal
import stat
import struct
import subprocess
import time
import zipfile

import cli_support as support
from cli_support import CliCase

ESCAPES = "a\n\x1b[2J\x07\x7f\u009bb"
QUICK = 20  # seconds within which what cannot work says so, on a machine that is busy


def controls(text):
    return [c for c in text if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160]


class Names(CliCase):
    def test_escapes(self):
        """a name with escapes does not reach the terminal: errors, reports, JSON, warnings"""
        name = ESCAPES + ".u8bin"
        self.points(name)
        told = self.works("info", name).split("\n")
        self.assertTrue(told[0].startswith("file: a?"), told[0])
        self.assertEqual(controls("\n".join(told)), [])
        told = self.works("graph", name, "-k", "3", "-o", ESCAPES + ".npz")
        self.assertEqual(controls(told), [])
        self.assertEqual(self.works_json("info", name)["file"], name)
        self.assertEqual(controls(self.works("info", "--json", name)), [])
        for words in (["info", ESCAPES + ".npy"], ["graph", name, "-k", ESCAPES], [ESCAPES],
                      ["graph", name, "-k", "3", "-o", ESCAPES + "/x.npz"],
                      ["graph", name, "-k", "3", "--" + ESCAPES]):
            done = self.kith(*words)
            self.assertIn(done.returncode, (1, 2))
            self.assertEqual(controls(done.stderr), [], done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_journal_text(self):
        """the text of somebody else's journal is shown without its escapes"""
        self.points()
        work = self.folder / "work"
        work.mkdir()
        (work / "shards.journal").write_bytes(b"kith journal 1\nshards 2\n\x1b[2J\nsum 0\n")
        told = self.fails(1, "graph", "points.u8bin", "-k", "3", "--shards", "work", "-o", "g.kith")
        self.assertEqual(controls(told), [])

    def test_long_names(self):
        """names beyond what a file system takes, and beyond every buffer"""
        self.points()
        for length in (300, 5000, 100000):
            for words in (["info", "x" * length + ".npy"],
                          ["graph", "points.u8bin", "-k", "3", "-o", "x" * length + ".npz"],
                          ["graph", "points.u8bin", "-k", "3", "-o", "g.kith", "--shards",
                           "x" * length]):
                told = self.fails(1, *words)
                self.assertRegex(told, "^kith: xxx.*too long")
                self.assertLess(len(told), 2000)
        deep = self.folder / "/".join(["y" * 200] * 15)
        self.fails(1, "info", deep / "points.u8bin", says=["No such file or directory (check"])


class Files(CliCase):
    def quickly(self, *words):
        start = time.monotonic()
        told = self.fails(1, *words)
        self.assertLess(time.monotonic() - start, QUICK)
        return told

    def test_no_files(self):
        """pipes, folders, devices and sockets in place of every file that is read"""
        self.points()
        self.works("graph", "points.u8bin", "-k", "3", "-o", "g.npz")
        os.mkfifo(self.folder / "pipe.npy")
        os.mkfifo(self.folder / "pipe.npz")
        (self.folder / "folder.npy").mkdir()
        os.symlink("/dev/zero", self.folder / "zero.u8bin")
        os.symlink("loop.npy", self.folder / "loop.npy")
        for name in ("pipe.npy", "folder.npy", "zero.u8bin", "loop.npy"):
            self.quickly("info", name)
            self.quickly("graph", name, "-k", "3")
            self.quickly("remove", "g.npz", "points.u8bin", name, "-o", "x.npz")
        self.quickly("graph", "points.u8bin", "-k", "3", "--recall", "0.9", "--init", "pipe.npz",
                     "-o", "x.npz")
        self.assertFalse((self.folder / "x.npz").exists())

    def test_no_targets(self):
        """pipes, folders and devices in place of every file that is written: they stay"""
        self.points()
        os.mkfifo(self.folder / "pipe.npz")
        (self.folder / "folder.npz").mkdir()
        os.symlink("/dev/full", self.folder / "full.npz")
        for name in ("pipe.npz", "folder.npz", "full.npz", "/dev/full"):
            self.quickly("graph", "points.u8bin", "-k", "3", "-o", name, "--format", "npz")
        self.assertTrue(stat.S_ISFIFO(os.stat(self.folder / "pipe.npz").st_mode))
        self.assertTrue(os.path.islink(self.folder / "full.npz"))
        for name in ("pipe", "/dev/null"):
            self.quickly("graph", "points.u8bin", "-k", "3", "-o", "g.kith", "--shards",
                         "pipe.npz" if name == "pipe" else name)

    def test_full_report(self):
        """a report that does not arrive is a failure"""
        self.points()
        with open("/dev/full", "w") as full:
            done = subprocess.run([support.KITH, "info", "points.u8bin"], cwd=self.folder,
                                          stdout=full, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rb"^kith: standard output: cannot be written: .+ \(.+\)\n$")
        with open("/dev/full", "w") as full:
            done = subprocess.run([support.KITH, "graph", "points.u8bin", "-k", "3", "-q", "-o", "-"], cwd=self.folder,
                                  stdout=full, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"free some space there, or write elsewhere", done.stderr)

    def test_file_size_limit(self):
        """where files may not grow, nothing half written is left"""
        self.points(rows=300)
        before = sorted(os.listdir(self.folder))

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        done = self.kith("graph", "points.u8bin", "-k", "9", "-o", "g.npz", preexec_fn=limit)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("g.npz", done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before)


class Lies(CliCase):
    """Headers that announce more than there is: told at once, by files of a few bytes."""

    def refused(self, name, data):
        self.write(name, data)
        start = time.monotonic()
        self.fails(1, "info", name)
        self.fails(1, "graph", name, "-k", "3")
        self.assertLess(time.monotonic() - start, 2 * QUICK)

    def test_numbers(self):
        """sizes whose products overflow 32 and 64 bits"""
        for rows, columns in ((0xffffffff, 0xffffffff), (0x80000000, 0x80000000), (1, 0xffffffff),
                              (0xfffffffe, 1 << 20), (1 << 16, 1 << 16)):
            self.refused("a.fbin", struct.pack("<II", rows, columns) + b"\0" * 64)
            self.refused("a.u8bin", struct.pack("<II", rows, columns) + b"\0" * 64)
        for columns in (-1, -2**31, 2**31 - 1, 0):
            self.refused("a.fvecs", struct.pack("<i", columns) + b"\0" * 64)
            self.refused("a.bvecs", struct.pack("<i", columns) + b"\0" * 64)

    def test_npy(self):
        """shapes of .npy that overflow, are negative, or go on for ever"""
        for shape in ("(18446744073709551615, 2)", "(4294967296, 4294967296)", "(-1, 2)",
                      "(2, 99999999999999999999999)", "(" + "9" * 60000 + ", 1)", "(2,", "()"):
            head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
            data = b"\x93NUMPY\x02\x00" + struct.pack("<I", len(head)) + head + b"\0" * 64
            self.refused("a.npy", data)
        self.refused("a.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xffffffff) + b"{" * 64)

    def test_bomb(self):
        """an archive that unpacks to a thousand times its size: refused by the memory limit"""
        with zipfile.ZipFile(self.folder / "b.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            rows = 1 << 22
            head = f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({rows}, 4), }}".encode()
            data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head
            archive.writestr("ids.npy", data + bytes(rows * 16))
        self.assertLess((self.folder / "b.npz").stat().st_size, 1 << 17)
        self.points()
        self.fails(1, "graph", "points.u8bin", "-k", "3", "--recall", "0.9", "--init", "b.npz",
                   "--memory", "16M", "-o", "x.npz", says=["b.npz: --memory is"])
        self.assertFalse((self.folder / "x.npz").exists())

    def test_members(self):
        """an archive's members are read by their names alone: none is unpacked anywhere"""
        with zipfile.ZipFile(self.folder / "t.npz", "w") as archive:
            archive.writestr("../evil.npy", b"x")
            archive.writestr("/tmp/kith-evil.npy", b"x")
        self.fails(1, "info", "t.npz")
        self.assertFalse((self.folder.parent / "evil.npy").exists())
        self.assertFalse(os.path.exists("/tmp/kith-evil.npy"))


class Folders(CliCase):
    """Work folders where somebody else may write."""

    def shards(self, *more):
        return self.kith("graph", "points.u8bin", "-k", "3", "--shards", "work", "-o", "g.kith",
                         *more)

    def test_links(self):
        """links under names of kith's own are replaced, and not what they point to"""
        self.points()
        work = self.folder / "work"
        work.mkdir(0o777)
        precious = self.folder / "precious"
        precious.write_bytes(b"precious")
        for name in ("shard-00000.000000.kith", "shard-00000.000001.kith"):
            os.symlink(precious, work / name)
        done = self.shards()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(precious.read_bytes(), b"precious")
        os.symlink(precious, work / "shards.journal")
        done = self.shards()
        self.assertEqual(done.returncode, 1, "a journal that is none is refused")
        done = self.shards("--restart")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(precious.read_bytes(), b"precious")

    def test_part_links(self):
        """the same for parts: the link is replaced"""
        self.points(rows=600)
        precious = self.folder / "precious"
        precious.write_bytes(b"precious")
        for number in (0, 1):
            os.symlink(precious, self.folder / f"g-0000{number}-of-00002.kith")
        self.works("graph", "points.u8bin", "-k", "64", "-q", "--shards", "work", "--tune", "parts=2",
                   "-o", "g.kith")
        self.assertEqual(precious.read_bytes(), b"precious")
        for number in (0, 1):
            path = self.folder / f"g-0000{number}-of-00002.kith"
            self.assertFalse(path.is_symlink())
            self.assertEqual(path.read_bytes()[:5], b"\x89kith")
        self.works("convert", "g.kith", "one.kith", "-q")
        for number in (0, 1):
            os.symlink(precious, self.folder / f"g-0000{number}-of-00002.kith.partial")
            self.fails(1, "graph", "points.u8bin", "-k", "64", "-q", "--shards", "work", "--tune",
                       "parts=2", "-o", "g.kith", says=["is no file"])
            (self.folder / f"g-0000{number}-of-00002.kith.partial").unlink()
        self.assertEqual(precious.read_bytes(), b"precious")

    def test_read_links(self):
        """links under names of kith's own are not read either: lists are made again"""
        self.points()
        self.works("graph", "points.u8bin", "-k", "3", "-q", "-o", "g.kith", "--shards", "work",
                   "--tune", "shard-count=2,keep-shards")
        whole = (self.folder / "g.kith").read_bytes()
        lists = sorted((self.folder / "work").glob("shard-*.kith"))
        self.assertEqual(len(lists), 2)
        aside = self.folder / "aside.kith"
        lists[0].rename(aside)
        os.symlink(aside, lists[0])
        done = self.kith("graph", "points.u8bin", "-k", "3", "-o", "g.kith", "--shards", "work",
                         "--tune", "shard-count=2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("is a symbolic link", done.stderr)
        self.assertTrue(aside.exists())
        self.assertEqual((self.folder / "g.kith").read_bytes(), whole)

    def test_strangers(self):
        """files and folders that are no shards of the job stay, or are told"""
        self.points()
        work = self.folder / "work"
        work.mkdir()
        (work / "mine.txt").write_bytes(b"mine")
        (work / "shard-99999.000001.kith").write_bytes(b"x")
        (work / "shard-00000.000001.kith.bak").write_bytes(b"x")
        self.assertEqual(self.shards().returncode, 0)
        self.assertEqual((work / "mine.txt").read_bytes(), b"mine")
        self.assertTrue((work / "shard-00000.000001.kith.bak").exists())

    def test_stream_links(self):
        """the same for what a search in pieces writes beside its result"""
        self.points()
        self.points("q.u8bin", rows=20, seed=2)
        precious = self.folder / "precious"
        precious.write_bytes(b"precious")
        for ending in (".partial", ".journal"):
            os.symlink(precious, self.folder / ("r.npz" + ending))
            self.kith("search", "points.u8bin", "q.u8bin", "-k", "3", "--stream", "-o", "r.npz")
            self.kith("search", "points.u8bin", "q.u8bin", "-k", "3", "--stream", "--restart",
                      "-o", "r.npz")
            self.assertEqual(precious.read_bytes(), b"precious")
            if os.path.islink(self.folder / ("r.npz" + ending)):
                os.unlink(self.folder / ("r.npz" + ending))


class Words(CliCase):
    def test_numbers(self):
        """numbers of options that overflow"""
        self.points()
        for word in ("99999999999999999999", "-1", "0", "1e999", "nan", "0x10", "", " 3", "3 ",
                     "18446744073709551617", "4294967297", "3\x1b"):
            for option in ("-k", "--threads", "--memory"):
                words = ["graph", "points.u8bin", "-k", "3"] if option != "-k" else \
                    ["graph", "points.u8bin"]
                done = self.kith(*words, option, word, "-o", "g.npz")
                self.assertIn(done.returncode, (0, 1, 2), (option, word, done.stderr))
                self.assertEqual(controls(done.stderr), [])
                if done.returncode != 0:
                    self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_environment(self):
        """variables that hold nonsense are told, or change nothing"""
        self.points()
        for name in ("KITH_THREADS", "KITH_ISA", "KITH_DEVICE", "KITH_CUDA_MODULE"):
            for value in ("", "-1", "99999999999999999999", "x\x1b[2J", "../../etc/passwd"):
                done = self.kith("graph", "points.u8bin", "-k", "3", "-o", "g.npz",
                                 environment={name: value})
                self.assertIn(done.returncode, (0, 1, 2), (name, value, done.stderr))
                self.assertEqual(controls(done.stderr), [], (name, value))


if __name__ == "__main__":
    support.main()
