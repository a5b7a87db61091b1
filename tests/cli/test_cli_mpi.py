# SPDX-License-Identifier: Apache-2.0
"""kith-mpi: the bytes of kith graph, by any number of ranks, whatever becomes of them."""
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile

import cli_support as support
from cli_support import CliCase

MPI = os.environ.get("KITH_MPI", "")
REFERENCE = os.environ.get("KITH_REFERENCE", "")  # a GPU module whose devices are host memory
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
                "--tune", f"shard-count={count}", "--threads", "1", *more]

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
        words = [word for word in self.words() if word not in ("--tune", "shard-count=5", "-q")]
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
        words = ["--method", "descent", "--recall", "0.95", "--tune", "seed=3"]
        self.case(800, 8)
        self.approximate("pairs", [*self.words(), *words], 15, 2, 3)
        self.case(16500, 3)
        free = [word for word in self.words() if word not in ("--tune", "shard-count=5")]
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
        self.assertEqual(told, ["kith: kith-mpi: makes graphs that are written to a file (give "
                                "graph and --output, or use kith)"])
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
        self.ranks(2, *words, "--tune", "shard-count=3")
        self.assertEqual((self.folder / "out.kith").read_bytes(), self.whole())


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
        words = [word for word in self.words() if word not in ("--tune", "shard-count=5")]
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
