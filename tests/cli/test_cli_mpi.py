# SPDX-License-Identifier: Apache-2.0
"""kith-mpi: the bytes of kith graph, by any number of ranks, whatever becomes of them."""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time

import cli_support as support
from cli_support import CliCase

MPI = os.environ.get("KITH_MPI", "")
MPIRUN = shutil.which("mpirun")

# Open MPI gives ranks a second to end when another one has failed; these have ended by then.
os.environ.setdefault("OMPI_MCA_odls_base_sigkill_timeout", "0")
if os.access("/dev/shm", os.W_OK):
    tempfile.tempdir = "/dev/shm"


def mpirun(ranks):
    """Open MPI wants to be told that this is a small machine; MPICH knows none of these."""
    said = subprocess.run([MPIRUN, "--version"], capture_output=True, text=True, check=False)
    extra = []
    if "Open MPI" in said.stdout or "OpenRTE" in said.stdout:
        extra = ["--oversubscribe", "--bind-to", "none"]
        extra += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [MPIRUN, *extra, "-n", str(ranks)]


class Ranks(CliCase):
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
                "--shard-count", str(count), "--threads", "1", *more]

    def whole(self, *more):
        self.works("graph", "points.u8bin", "-k", 9, "-q", "-o", "whole.kith", *more)
        return (self.folder / "whole.kith").read_bytes()

    def start(self, *words):
        child = subprocess.Popen(list(map(str, words)), cwd=self.folder, text=True,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
        self.addCleanup(lambda: child.poll() is None and child.kill())
        return child

    def run_to_end(self, *words, code=0):
        child = self.start(*words)
        out, told = child.communicate(timeout=120)
        self.assertEqual(child.returncode, code, told)
        return out, [line for line in told.splitlines() if line.startswith("kith: ")]

    def ranks(self, ranks, *words, code=0):
        return self.run_to_end(*mpirun(ranks), MPI, *words, code=code)

    def test_bytes(self):
        """1 to 4 ranks, more ranks than pairs, a number of shards that was not given"""
        self.case(400, 6)
        expected = self.whole()
        for ranks, count in ((1, 3), (2, 5), (3, 6), (4, 3)):
            self.ranks(ranks, *self.words(count=count))
            self.assertEqual((self.folder / "out.kith").read_bytes(), expected, (ranks, count))
            self.assertFalse((self.folder / "work").exists())
        words = [word for word in self.words() if word not in ("--shard-count", "5", "-q")]
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
        """approximate graphs by 1 to 4 ranks are those of one process: pairs, and groups of near
        points"""
        words = ["--method", "descent", "--recall", "0.95", "--seed", "3"]
        self.case(800, 8)
        self.approximate("pairs", [*self.words(), *words], 15, 1, 2, 3, 4)
        self.case(12300, 3)
        self.approximate("groups", [*self.words(count=3), *words], 3, 2, 4)

    def wait_for(self, child, version):
        """Until a shard has been written so often."""
        end = time.monotonic() + 60
        while child.poll() is None and time.monotonic() < end:
            if list((self.folder / "work").glob(f"shard-*.{version:06}.kith")):
                return
            time.sleep(0.002)
        self.fail("the job was done before it had come so far")

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

    def test_killed(self):
        """one rank dies, all end; other ranks go on, then one process; what is damaged is made
        again"""
        self.case(1000 if support.SLOW else 3000, 24)
        words = self.words("--metric", "chi2", "--keep-shards", count=6)
        expected = self.whole("--metric", "chi2")
        for ranks, version in ((3, 2), (2, 4)):
            child = self.start(*mpirun(ranks), MPI, *words)
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

    def test_refused(self):
        """folders that are not one, a failure of one rank: one line, exit code 1 for all"""
        self.case(60, 4)
        self.works(*self.words("--keep-shards"))
        shutil.copytree(self.folder / "work", self.folder / "other")
        two = mpirun(1) + [MPI, *self.words(), ":", "-n", "1", MPI, *self.words(folder="other")]
        _, told = self.run_to_end(*two, code=1)
        self.assertEqual(len(told), 1, told)
        self.assertRegex(told[0], r"other: is another folder than that of worker 0.*\[worker 1\]")
        (self.folder / "copy.u8bin").write_bytes((self.folder / "points.u8bin").read_bytes())
        for name, says in (("gone.u8bin", "kith: gone.u8bin: "),
                           ("copy.u8bin", "worker 0 has another job, it says 'corpus ")):
            words = [name if word == "points.u8bin" else word for word in self.words()]
            two = mpirun(1) + [MPI, *self.words(), ":", "-n", "1", MPI, *words]
            _, told = self.run_to_end(*two, code=1)
            self.assertEqual(len(told), 1, told)
            self.assertIn(says, told[0])

    def test_usage(self):
        """what kith-mpi does not do is told once"""
        self.case(60, 4)
        _, told = self.ranks(2, "info", "points.u8bin", code=2)
        self.assertEqual(len(told), 1, told)
        out, _ = self.ranks(2, "--version")
        self.assertRegex(out, r"^kith-mpi \S+ \(\S+\)\n$")


if __name__ == "__main__":
    support.main()
