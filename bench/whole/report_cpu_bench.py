# SPDX-License-Identifier: Apache-2.0
"""What all jobs of bench/report on processors share: programs, sizes, which peers, the machine's limits."""

import argparse
import importlib.util
import pathlib
import subprocess
import tempfile

import bench_graph
import peer

LONG = 5.0  # seconds: a peer that has used more is not run again
LIMITS_READ = (1024, 65536)  # a matrix of 256 MiB, read by all threads


class Bench:
    """What all jobs share. scale divides sizes, for trying the program out."""

    def __init__(self, options):
        self.options, self.scale = options, options.scale
        self.cache = pathlib.Path(options.build) / "bench-data"
        self.cache.mkdir(parents=True, exist_ok=True)
        self.kith = pathlib.Path(options.build) / "kith"
        said = subprocess.run(
            [self.kith, "--version"], capture_output=True, text=True, check=True
        ).stdout.split()
        self.version, self.commit = said[1], said[2].strip("()")
        self.limits = {}

    def graph_options(self, threads):
        build = pathlib.Path(self.options.build)
        return argparse.Namespace(
            kith=self.kith,
            clocked=build / "bench_clocked",
            peak=build / "bench_peak",
            python=self.options.python,
            threads=threads or self.options.threads,
            runs=self.options.runs,
            peer_seconds=LONG,
            cache=self.cache,
            isa=[""],
            peers=[],
        )

    def fewer(self, rows):
        return max(1000, rows // self.scale)

    def left_out(self, names):
        """Peers for graphs that are installed and not among these."""
        installed = [name for name in peer.PEERS if importlib.util.find_spec(name) is not None]
        return [name for name in installed if name not in names]

    def peers(self, names):
        wanted = [name for name in self.options.peers.split(",") if name]
        return [name for name in names if not wanted or name in wanted]


def measure_limits(bench):
    """Units of the processor by bench_peak, memory by the read that bench_select compares with."""
    options = bench.graph_options(None)
    found = {name: 1e9 * rate for name, rate in bench_graph.measure_peak(options, {}).items()}
    rows, cols = LIMITS_READ[0] // bench.scale, LIMITS_READ[1]
    words = f"--rows {rows} --cols {cols} --k 32 --threads {options.threads} --no-check".split()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "read.csv")
        done = subprocess.run(
            [bench.options.build / "bench_select", *words, "--csv", path],
            capture_output=True,
            check=False,
        )
        if done.returncode == 0:
            head, *lines = path.read_text(encoding="utf-8").splitlines()
            row = dict(zip(head.split(","), lines[-1].split(",")))
            found["read"] = 4.0 * rows * cols / float(row["floor"])
    return found
