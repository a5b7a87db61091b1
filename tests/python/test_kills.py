# SPDX-License-Identifier: Apache-2.0
"""Saves of Python and of the command that are killed, or interrupted, at random moments.

A file is the old one or the new one, whole; what a kill leaves beside it is gone after the next save.
KITH_KILLS=100 tries more often, KITH_SEED=2 at other moments.
"""

import hashlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

KILLS = int(os.environ.get("KITH_KILLS", "3"))
SEED = int(os.environ.get("KITH_SEED", "1"))
COMMAND = os.environ.get("KITH_PROGRAM", "")

# Replaces five files by turns, until it is stopped; with a number that turn alone.
SAVES = """
import itertools, sys, kith, numpy as np
rng, turns = np.random.default_rng(7), []
for rows in 900, 700:
    x = rng.random((rows, 5), dtype=np.float32)
    graph = kith.Graph(kith.knn_graph(x, 90))
    kept = {f"{how}.kith": kith.Index(x, method=how) for how in ("exact", "tree", "graph")}
    turns.append({"g.npz": graph, "g.kith": graph, **kept})
print("ready", flush=True)
for turn in [turns[int(each)] for each in sys.argv[1:]] or itertools.cycle(turns):
    for name, each in turn.items():
        each.save(name)
"""


class Kills(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def contents(self):
        texts = {each.name: each.read_bytes() for each in self.folder.iterdir()}
        return {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}

    def start(self, *words):
        """A job that hears Ctrl-C, which what a shell starts beside itself does not."""

        def hear():
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(words, cwd=self.folder, preexec_fn=hear, **pipes)

    def finish(self, *words):
        """What stands in the folder after a job that is left alone."""
        child = self.start(*words)
        _, said = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 0, said)
        return self.contents()

    def stop(self, child, number, states):
        """Whether a signal stopped it, and how many hidden names are left; each file is of a state."""
        child.send_signal(number)
        _, said = child.communicate(timeout=60)
        there = self.contents()
        hidden = [name for name in there if name.startswith(".")]
        self.assertTrue(number == signal.SIGKILL or not hidden, (hidden, said))
        for name in set(there) - set(hidden):
            self.assertIn(there[name], [each.get(name) for each in states], (name, number, said))
        return child.returncode != 0, len(hidden)

    def test_saves_of_python(self):
        def python(*more):
            return sys.executable, "-c", SAVES, *more

        moments, left = random.Random(SEED), 0
        new, old = self.finish(*python("0")), self.finish(*python("1"))
        self.assertEqual(set(new), {"g.npz", "g.kith", "exact.kith", "tree.kith", "graph.kith"})
        for i in range(2 * KILLS):
            child = self.start(*python())
            child.stdout.readline()
            time.sleep(moments.uniform(0, 0.1))
            stopped, names = self.stop(child, (signal.SIGKILL, signal.SIGINT)[i % 2], (old, new))
            self.assertTrue(stopped)
            left += names
            self.assertEqual(self.finish(*python("0")), new)
        print(f"{2 * KILLS} stops, {left} names left until the next save", file=sys.stderr)

    @unittest.skipUnless(os.access(COMMAND, os.X_OK), "KITH_PROGRAM does not name the program kith")
    def test_commands_that_save(self):
        x = np.random.default_rng(7).integers(0, 255, (1600, 8), np.uint8)
        np.save(self.folder / "x.npy", x)
        moments = random.Random(SEED)
        for words, name in (
            ("graph x.npy -k 300 --threads 1 -q -o", "g.npz"),
            ("graph x.npy -k 300 -q -o", "g.kith"),
            ("graph x.npy -k 30 -q -o", "g.csv"),
            ("index build x.npy --method tree -q -o", "t.kith"),
            ("convert x.npy", "c.csv"),
        ):
            job = COMMAND, *words.split(), name
            began = time.monotonic()
            new = self.finish(*job)
            took = time.monotonic() - began
            (self.folder / name).write_bytes(b"what stood here")
            old = self.contents()
            stops = left = 0
            for i in range(2 * KILLS):
                (self.folder / name).write_bytes(b"what stood here")
                child = self.start(*job)
                time.sleep(moments.uniform(0, took))
                states = (old, new)
                stopped, names = self.stop(child, (signal.SIGKILL, signal.SIGINT)[i % 2], states)
                stops, left = stops + stopped, left + names
                self.assertEqual(self.finish(*job), new)
            print(f"{name}: {stops} of {2 * KILLS} stopped, {left} names left", file=sys.stderr)
            (self.folder / name).unlink()


if __name__ == "__main__":
    unittest.main()
