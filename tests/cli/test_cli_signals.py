# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, termination and kill in the middle of a job."""
import os
import pty
import random
import signal
import subprocess
import time

import cli_support as support
from cli_support import CliCase


def soon():
    """Seconds within which a signal is heard."""
    return 10.0 if support.SLOW else 1.0


class Signals(CliCase):
    def setUp(self):
        super().setUp()
        # Computed one by one, some 10^11 divisions: a job of a minute, wherever it runs.
        data = random.Random(5).randbytes(60000 * 64)
        self.write("long.u8bin", (60000).to_bytes(4, "little") + (64).to_bytes(4, "little") + data)
        self.words = [support.KITH, "graph", "long.u8bin", "-k", "10", "--metric", "chi2",
                      "-o", "long.npz"]

    def start(self, *more, **options):
        return self.spawn(*self.words, *more, **options)

    def interrupt(self, number):
        child = self.start()
        progress = child.stderr.readline()
        self.assertRegex(progress, r"^kith: \w+ \d+ %, \d+ s\n$")
        start = time.monotonic()
        child.send_signal(number)
        out, rest = child.communicate(timeout=60)
        took = time.monotonic() - start
        self.assertEqual((child.returncode, out), (130, ""))
        self.assertEqual(rest.splitlines()[-1], "kith: interrupted (no unfinished file is left)")
        self.assertEqual(self.files(), ["long.u8bin"])
        return took

    def test_interrupt(self):
        """SIGINT and SIGTERM end a job within a second: 130, one line, no file"""
        for number in (signal.SIGINT, signal.SIGTERM):
            took = min(self.interrupt(number) for _ in range(2))
            print(f"{took:.3f} s ... ", end="", flush=True)
            self.assertLess(took, soon())

    def interrupt_after(self, wait, *words):
        child = self.spawn(support.KITH, *words, "-q", stderr=subprocess.DEVNULL)
        time.sleep(wait)
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        code = child.wait(60)
        took = time.monotonic() - start
        # Done before the signal came, or before main() had a way to hear it.
        if code in (0, -signal.SIGINT):
            (self.folder / words[-1]).unlink(missing_ok=True)
            return 0.0
        self.assertEqual(code, 130, words)
        self.assertNotIn(words[-1], self.files())
        return took

    def test_interrupt_phases(self):
        """the same in every phase of a screened job, and while text is read and written"""
        rows = 300000
        data = random.Random(6).randbytes(rows * 64)
        self.write("wide.u8bin", rows.to_bytes(4, "little") + (64).to_bytes(4, "little") + data)
        self.works("convert", "long.u8bin", "long.csv", "-q")
        jobs = [["graph", "wide.u8bin", "-k", "10", "-o", "out.npz"],
                ["graph", "wide.u8bin", "-k", "10", "--metric", "cosine", "-o", "out.npz"],
                ["convert", "long.csv", "out.fbin"], ["convert", "wide.u8bin", "out.csv"]]
        for words in jobs:
            for wait in (0.03, 0.1, 0.3, 0.9):
                took = self.interrupt_after(wait, *words)
                if took >= soon():  # kith, or a machine that is busy: once more tells
                    took = self.interrupt_after(wait, *words)
                self.assertLess(took, soon(), (words, wait))

    def test_second_signal(self):
        """a second SIGINT kills at once, also where the first is not heard"""
        child = self.start()
        child.stderr.readline()
        for _ in range(2):
            child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        self.assertIn(child.returncode, (-signal.SIGINT, 130))
        self.assertEqual(self.files(), ["long.u8bin"])

    def test_ignored(self):
        """a signal that the parent ignores, as nohup does, stays ignored"""
        child = self.start(preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        child.stderr.readline()
        child.send_signal(signal.SIGINT)
        time.sleep(0.5)
        self.assertIsNone(child.poll())
        child.kill()
        child.communicate()

    def test_quiet(self):
        """--quiet silences progress, not the last line"""
        child = self.start("--quiet")
        time.sleep(1.5)
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=60)
        self.assertEqual(told, "kith: interrupted (no unfinished file is left)\n")

    def test_bar(self):
        """on a terminal progress is a bar, and it is taken away again"""
        leader, follower = pty.openpty()
        child = self.start(stderr=follower)
        os.close(follower)
        shown = b""
        while shown.count(b"\r") < 3:
            shown += os.read(leader, 4096)
        child.send_signal(signal.SIGINT)
        child.wait(60)
        shown += os.read(leader, 4096)
        os.close(leader)
        self.assertRegex(shown, rb"\r\x1b\[K\w+ +\[[#.]{30}\] +\d+ % +\d+\.\d s")
        self.assertTrue(shown.endswith(b"\r\x1b[Kkith: interrupted (no unfinished file is left)\r\n"))

    def test_kill(self):
        """kill -9 in the middle leaves an older output as it was"""
        self.write("long.npz", b"old")
        child = self.start()
        child.stderr.readline()
        child.kill()
        child.communicate()
        self.assertEqual((self.folder / "long.npz").read_bytes(), b"old")
        self.assertEqual(self.files(), ["long.npz", "long.u8bin"])

    def test_kill_while_writing(self):
        """kill -9 at any moment of a short job leaves no half-written file"""
        self.points(rows=1500)
        words = ["graph", "points.u8bin", "-k", "400", "-q", "-o"]
        start = time.monotonic()
        self.works(*words, "whole.npz")
        took = time.monotonic() - start
        whole = (self.folder / "whole.npz").read_bytes()
        seen = set()
        for i in range(20):
            child = subprocess.Popen([support.KITH, *words, "half.npz"], cwd=self.folder)
            time.sleep(took * (i + 1) / 20)
            child.kill()
            child.wait()
            half = self.folder / "half.npz"
            seen.add(half.exists())
            if half.exists():
                self.assertEqual(half.read_bytes(), whole)
                half.unlink()
        self.assertIn(False, seen)


if __name__ == "__main__":
    support.main()
