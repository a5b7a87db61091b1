# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command line share: running kith, files made of bytes, plain answers.

The standard library alone, so that they run wherever the program was built.
"""
import ast
import json
import math
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

KITH = ""
SOURCE = pathlib.Path()
SLOW = False
HEADER = pathlib.Path(__file__).resolve().parents[2] / "include/kith/kith.h"
METRICS = [name.replace("minkowski", "minkowski:3") for name in re.findall(r"^ +X\(\w+, \d+, (\w+)\)",
                                       HEADER.read_text().split("#define KITH_METRIC_MAP(X)")[1].split("#define ")[0],
                                       re.MULTILINE) if name != "custom"]



def metrics(kind="u8bin"):
    """Those that rows of this kind and more than two columns have: places have two, and bits are bytes."""
    return [name for name in METRICS if name != "haversine" and (kind == "u8bin" or not name.startswith("bit_"))]


COMMANDS = ("graph", "search", "pairs", "truth", "eval", "select", "predict", "index", "merge", "add",
            "remove", "info", "convert", "devices")
TUNED = ("graph", "search", "pairs", "truth", "select", "predict", "merge", "add", "remove")


def main():
    """Takes the program, the source folder and the speed from the command line."""
    global KITH, SOURCE, SLOW
    KITH, source, speed = sys.argv[1:4]
    KITH = os.path.abspath(KITH)
    SOURCE = pathlib.Path(source).resolve()
    SLOW = speed == "slow"
    unittest.main(module="__main__", argv=[sys.argv[0], "-v"] + sys.argv[4:])


def matrix_bin(rows, kind):
    """.fbin, .u8bin, .i8bin: n, d, rows."""
    columns = len(rows[0]) if rows else 0
    head = struct.pack("<II", len(rows), columns)
    return head + b"".join(struct.pack(f"<{columns}{kind}", *row) for row in rows)


def matrix_npy(rows):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    head = head.encode() + b" " * (-(len(head) + 11) % 64) + b"\n"
    body = b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + body


def random_bytes(rows, columns, seed):
    generator = random.Random(seed)
    return [[generator.randrange(256) for _ in range(columns)] for _ in range(rows)]


def read_npy(data):
    """The values, flat, and the shape."""
    size = struct.unpack_from("<H", data, 8)[0]
    head = ast.literal_eval(data[10:10 + size].decode())
    kind = {"<i4": "i", "<i8": "q", "<f4": "f", "<f8": "d", "<u4": "I"}.get(str(head["descr"]))
    body = data[10 + size:]
    if kind is None:
        return body, head["shape"]
    return list(struct.unpack(f"<{len(body) // struct.calcsize(kind)}{kind}", body)), head["shape"]


def read_npz(path):
    with zipfile.ZipFile(path) as archive:
        return {name[:-4]: read_npy(archive.read(name)) for name in archive.namelist()}


def read_bin(path, kind):
    data = path.read_bytes()
    rows, columns = struct.unpack_from("<II", data)
    values = struct.unpack_from(f"<{rows * columns}{kind}", data, 8)
    return [list(values[i * columns:(i + 1) * columns]) for i in range(rows)]


def plain_lists(corpus, queries, k, exclude_self):
    """Ids by (squared distance, id): integers, so there is nothing to round."""
    lists = []
    for i, query in enumerate(queries):
        order = sorted((sum((a - b) ** 2 for a, b in zip(query, point)), j)
                       for j, point in enumerate(corpus) if not (exclude_self and i == j))
        lists.append(order[:k])
    return lists


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def roots(lists):
    return [float32(math.sqrt(key)) for row in lists for key, _ in row]


def ids_of(lists):
    return [j for row in lists for _, j in row]


class CliCase(unittest.TestCase):
    """A folder of its own for each test, and kith to run in it."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kith-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def write(self, name, data):
        (self.folder / name).write_bytes(data)
        return name

    def points(self, name="points.u8bin", rows=60, columns=5, seed=1):
        values = random_bytes(rows, columns, seed)
        self.write(name, matrix_bin(values, "B"))
        return values

    def kith(self, *words, environment=None, **more):
        """Runs; lines of progress, which slow machines add, are taken out of stderr."""
        done = subprocess.run([KITH, *map(str, words)], cwd=self.folder, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=300,
                              env={**os.environ, **(environment or {})}, **more)
        done.stderr = re.sub(r"^kith: \w+ \d+ %, \d+ s\n", "", done.stderr, flags=re.MULTILINE)
        return done

    def works(self, *words, **more):
        """Runs, demands success and silence on stderr, gives stdout."""
        done = self.kith(*words, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""), f"kith {words}: {done.stderr}")
        return done.stdout

    def works_json(self, *words, **more):
        out = self.works(words[0], "--json", *words[1:], **more)
        self.assertEqual(out.count("\n"), 1, "one object on one line")
        return json.loads(out)

    def fails(self, code, *words, says=(), **more):
        """Runs, demands the exit code, an empty stdout, and one line that says these things and ends
        with a remedy."""
        done = self.kith(*words, **more)
        told = f"kith {words}: {done.returncode}: {done.stderr}"
        self.assertEqual(done.returncode, code, told)
        self.assertEqual(done.stdout, "", told)
        self.assertTrue(done.stderr.startswith("kith: "), told)
        self.assertEqual(done.stderr.count("\n"), 1, told)
        self.assertRegex(done.stderr, r": .+ \(.+\)\n$")
        for text in says:
            self.assertIn(text, done.stderr)
        return done.stderr

    def files(self):
        return sorted(path.name for path in self.folder.iterdir())

    def spawn(self, *command, **options):
        """A process beside the test, which does not outlive it."""
        child = subprocess.Popen(list(map(str, command)), cwd=self.folder, text=True,
                                 **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                                    "stderr": subprocess.PIPE, **options})
        self.addCleanup(self.end, child)
        return child

    @staticmethod
    def end(child):
        with child:  # closes pipes, waits
            if child.poll() is None:
                child.kill()

    def wait_until(self, reached, child):
        """Until the process has come so far."""
        end = time.monotonic() + 120
        while not reached():
            self.assertIsNone(child.poll(), "the job was done before it had come so far")
            self.assertLess(time.monotonic(), end, "the job does not come so far")
            time.sleep(0.002)

    def small_disk(self, size):
        """A folder that is a file system of its own; where that may not be made, a skip."""
        disk = self.folder / "disk"
        disk.mkdir()
        made = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", disk]
        if shutil.which("mount") is None or \
                subprocess.run(made, capture_output=True, check=False).returncode != 0:
            self.skipTest("no right to mount a small file system")
        self.addCleanup(subprocess.run, ["umount", disk], check=False)
        return disk

    @staticmethod
    def resize_disk(disk, size):
        subprocess.run(["mount", "-o", f"remount,size={size}", disk], check=True)
