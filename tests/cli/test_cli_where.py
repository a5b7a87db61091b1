# SPDX-License-Identifier: Apache-2.0
"""What works where: each cell of the first table of docs/where.md is tried, on the processor and on one and two
reference devices (tests/reference) in place of GPUs, and the page says what was seen.

    python3 test_cli_where.py KITH SOURCE fast --write        writes the table instead
"""
import json
import os
import sys

import cli_support as support
from cli_support import CliCase, matrix_bin

MODULE = os.environ["KITH_REFERENCE"]
DEVICES = [("the processor", "cpu", 1), ("a GPU", "cuda", 1), ("several GPUs", "cuda:all", 2)]
BEGIN, END = "<!-- begin where -->\n", "<!-- end where -->"
# What is asked, as a user would say it, and the command. a, b: sets of rows, ab: both; a4, b2: of four columns,
# of two.
WORKS = [
    ("exact graph", "graph a.fbin -k 5 --method exact"),
    ("exact graph by a metric without products (minkowski:3, ...)",
     "graph a.fbin -k 5 --metric minkowski:3"),
    ("graph by the tree", "graph a4.fbin -k 5 --method tree"),
    ("graph by NN-Descent", "graph a.fbin -k 5 --method descent"),
    ("graph in groups, or under a bitmap", "graph a.fbin -k 5 --groups groups.csv"),
    ("graph of points that fit in no memory (`--shards`)", "graph a.fbin -k 5 --shards DIR --memory 64M"),
    ("the same in groups, or under a bitmap", "graph a.fbin -k 5 --groups groups.csv --shards DIR --memory 64M"),
    ("exact search", "search a.fbin b.fbin -k 5 --method exact"),
    ("search by the tree", "search a4.fbin b4.fbin -k 5 --method tree"),
    ("search by walks on a graph", "search graph-a.npz a.fbin b.fbin -k 5"),
    ("search in both directions (`--both`, `--mutual`)", "search a.fbin b.fbin -k 5 --both --output-back back.npz"),
    ("search with an answer larger than memory (`--stream`)", "search a.fbin b.fbin -k 5 --stream"),
    ("search in groups, or under a bitmap",
     "search a.fbin b.fbin -k 5 --groups groups.csv --query-groups groups-b.csv"),
    ("search by walks on a graph in groups, or under a bitmap",
     "search graph-a.npz a.fbin b.fbin -k 5 --groups groups.csv --query-groups groups-b.csv"),
    ("k nearest within a radius", "search a.fbin b.fbin -k 5 --radius 20"),
    ("all within a radius, exact", "search a.fbin b.fbin --radius 20 --method exact"),
    ("all within a radius, by the tree", "search a4.fbin b4.fbin --radius 20 --method tree"),
    ("index by exact, searched", "search exact.kith b.fbin -k 5"),
    ("index by the tree, searched", "search tree.kith b4.fbin -k 5"),
    ("index by graph, searched", "search graph.kith b.fbin -k 5 --method graph"),
    ("exact merge of two graphs", "merge graph-a.npz a.fbin graph-b.npz b.fbin --recall 1"),
    ("merge by a descent", "merge graph-a.npz a.fbin graph-b.npz b.fbin --recall 0.9"),
    ("points added to a graph", "add graph-a.npz a.fbin b.fbin"),
    ("all pairs within a distance", "pairs a.fbin --radius 20"),
    ("graph in a periodic box (`--period`)", "graph a4.fbin -k 5 --period 17,17,0,20"),
    ("graph of places on a sphere, by the tree (`--metric haversine`)",
     "graph a2.fbin -k 5 --metric haversine --method tree"),
    ("ground truth", "truth a.fbin b.fbin -k 5"),
    ("predictions from labels", "predict a.fbin labels.csv b.fbin -k 5"),
    ("selection of the k smallest", "select a.fbin -k 5"),
    ("pipeline matrix", "graph a.fbin -k 5 --tune pipeline=matrix"),
    ("pipeline hybrid", "graph a.fbin -k 5 --tune pipeline=hybrid"),
    ("pipeline buffer_tree", "graph a4.fbin -k 5 --tune pipeline=buffer_tree"),
]
OUTPUT = {"pairs": "out.npy", "truth": "out.knn", "predict": "out.csv"}


class Where(CliCase):
    def setUp(self):
        super().setUp()
        data = (support.SOURCE / "examples" / "data" / "digits.u8bin").read_bytes()
        rows = [list(map(float, data[8 + 64 * i:72 + 64 * i])) for i in range(1700)]
        for name, of in (("a", rows[:1100]), ("b", rows[1100:])):
            self.write(f"{name}.fbin", matrix_bin(of, "f"))
            self.write(f"{name}4.fbin", matrix_bin([row[20:24] for row in of], "f"))
            self.write(f"{name}2.fbin", matrix_bin([row[20:22] for row in of], "f"))
        for name in "ab":
            self.works("graph", f"{name}.fbin", "-k", 8, "-o", f"graph-{name}.npz", "-q")
        for method, points in (("exact", "a"), ("tree", "a4"), ("graph", "a")):
            self.works("index", "build", f"{points}.fbin", "--method", method, "-o", f"{method}.kith", "-q")
        self.write("groups.csv", "".join(f"{i % 3}\n" for i in range(1100)).encode())
        self.write("groups-b.csv", "".join(f"{i % 3}\n" for i in range(600)).encode())
        self.write("labels.csv", "".join(f"{i % 7}\n" for i in range(1100)).encode())
        self.reasons = []

    def cell(self, words, device, devices):
        """yes, or the number of the reason why not."""
        done = self.kith(*words, "--device", device, "--json", "-o", OUTPUT.get(words[0], "out.npz"),
                         environment={"KITH_CUDA_MODULE": MODULE, "KITH_REFERENCE_DEVICES": str(devices)})
        if done.returncode == 0:
            told = json.loads(done.stdout)
            self.assertTrue(told["backend"].startswith(device.split(":")[0]), (words, device, told["backend"]))
            return "yes"
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        reason = done.stderr.strip().removeprefix("kith: ").split(": ", 1)[-1]
        if reason not in self.reasons:
            self.reasons.append(reason)
        return f"no ({self.reasons.index(reason) + 1})"

    def table(self):
        lines = ["| | " + " | ".join(name for name, _, _ in DEVICES) + " |", "|---|---|---|---|"]
        for name, command in WORKS:
            cells = []
            for _, device, devices in DEVICES:
                words = [word.replace("DIR", f"shards-{device[-3:]}") for word in command.split()]
                cells.append(self.cell(words, device, devices))
            lines.append(f"| {name} | {' | '.join(cells)} |")
        lines += ["", *(f"{number}. {reason}" for number, reason in enumerate(self.reasons, 1)), ""]
        return "\n".join(lines)

    def test_the_page_says_what_was_seen(self):
        """each kind of job on the processor, on one and on two devices"""
        page = support.SOURCE / "docs" / "where.md"
        text = page.read_text()
        if support.SLOW:
            self.skipTest("the page is the same whatever watches over the program")
        before, rest = text.split(BEGIN)
        shown, after = rest.split(END)
        seen = self.table()
        if WRITES:
            page.write_text(before + BEGIN + seen + END + after)
        else:
            self.maxDiff = None
            self.assertEqual(shown, seen, "docs/where.md: --write writes it")


WRITES = "--write" in sys.argv
if __name__ == "__main__":
    sys.argv = [word for word in sys.argv if word != "--write"]
    support.main()
