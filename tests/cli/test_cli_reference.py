# SPDX-License-Identifier: Apache-2.0
"""Every job of the command line on a GPU against the processor, byte for byte, where the GPU is the
reference device (tests/reference): memory of the host, plain C, work done late."""
import os

import cli_support as support
from cli_support import CliCase, matrix_bin

MODULE = os.environ["KITH_REFERENCE"]
SELECTIONS = "auto scan quick radix insertion heap merge_queue bitonic threshold_heap".split()
TREE_METRICS = ("euclidean", "sqeuclidean", "manhattan", "chebyshev")


class ReferenceCase(CliCase):
    """digits: 1,797 rows of 64 whole numbers, of which `some` rows do for what takes long."""

    def setUp(self):
        super().setUp()
        data = (support.SOURCE / "examples" / "data" / "digits.u8bin").read_bytes()
        self.rows = [list(data[8 + 64 * i:72 + 64 * i]) for i in range(1797)]
        self.write("digits.u8bin", data)
        self.write("some.u8bin", matrix_bin(self.rows[:400], "B"))
        self.write("few.u8bin", matrix_bin(self.rows[900:957], "B"))
        for name in ("some", "few"):
            self.works("convert", f"{name}.u8bin", f"{name}.fbin", "-q")

    def on(self, device, *words, out, devices=1):
        return self.works_json(*words, "--device", device, "-o", out,
                               environment={"KITH_CUDA_MODULE": MODULE,
                                            "KITH_REFERENCE_DEVICES": str(devices)})

    def same(self, *words, form="npz", tune=(), device="cuda", devices=1):
        """Both files, of which no byte differs; what the job on the device told. tune: for it alone."""
        self.on("cpu", *words, out=f"cpu.{form}")
        told = self.on(device, *words, *tune, out=f"cuda.{form}", devices=devices)
        self.assertEqual((self.folder / f"cpu.{form}").read_bytes(),
                         (self.folder / f"cuda.{form}").read_bytes(), words)
        self.assertTrue(told["backend"].startswith("cuda"), told["backend"])
        return told


class Answers(ReferenceCase):
    def test_metrics(self):
        """graphs and searches by every metric, of whole numbers and of floats"""
        for kind in ("u8bin", "fbin"):
            for metric in support.metrics(kind):
                self.same("graph", f"some.{kind}", "-k", 7, "--metric", metric)
                self.same("search", f"some.{kind}", f"few.{kind}", "-k", 9, "--metric", metric)

    def test_all_rows(self):
        """all rows of the digits, each with itself, and both directions of a search"""
        told = self.same("graph", "digits.u8bin", "-k", 10, form="kith")
        self.assertEqual((told["screen"], told["exact"]), ("s8", True))
        self.same("graph", "digits.u8bin", "-k", 3, "--include-self", form="ivecs")
        self.same("graph", "some.fbin", "-k", 400, "--include-self")
        for device in ("cpu", "cuda"):
            self.on(device, "search", "some.fbin", "few.fbin", "-k", 4, "--both", "--output-back",
                    f"back-{device}.npz", out=f"{device}.npz")
        for pair in (("cpu.npz", "cuda.npz"), ("back-cpu.npz", "back-cuda.npz")):
            self.assertEqual(*((self.folder / name).read_bytes() for name in pair))

    def test_radius(self):
        """all rows within a radius, the k nearest of them, and pairs"""
        for kind in ("u8bin", "fbin"):
            self.assertGreater(self.same("graph", f"some.{kind}", "--radius", 25)["pairs"], 400)
            self.same("search", f"some.{kind}", f"few.{kind}", "--radius", 25)
            self.same("graph", f"some.{kind}", "--radius", 25, "-k", 3)
            self.assertGreater(self.same("pairs", f"some.{kind}", "--radius", 25, form="npy")["pairs"], 200)
        self.same("search", "some.fbin", "few.fbin", "--radius", 0.1, "--metric", "cosine")

    def test_truth(self):
        """ground truth of two files, with the ties of both; under a filter, too"""
        self.write("g.csv", "".join(f"{i % 5}\n" for i in range(800)).encode())
        self.write("h.csv", "".join(f"{i % 6}\n" for i in range(57)).encode())
        for kind in ("u8bin", "fbin"):
            for metric in support.metrics(kind):
                self.same("truth", f"some.{kind},some.{kind}", f"few.{kind}", "-k", 9, "--metric", metric, form="knn")
        told = self.same("truth", "some.u8bin,some.u8bin", "few.u8bin", "-k", 9, "--groups", "g.csv",
                         "--query-groups", "h.csv", "--ties", "t.npy", form="ibin")
        self.assertEqual((told["files"], told["parts"]), (2, 2))
        self.assertGreater(told["tied"], 0)

    def test_trees(self):
        """trees of some heights, by every metric that has one"""
        for metric in TREE_METRICS:
            for height in ([], ["--tune", "tree-height=3"]):
                words = ("--metric", metric, "--method", "tree", *height)
                told = self.same("graph", "some.u8bin", "-k", 6, *words)
                self.assertEqual(told["screen"], "tree")
                self.same("search", "some.fbin", "few.fbin", "-k", 6, *words)

    def test_pipelines(self):
        """the pipelines of the papers, with every method of selection"""
        for method in SELECTIONS:
            told = self.same("graph", "some.fbin", "-k", 8,
                             tune=("--tune", f"pipeline=matrix,select={method}"))
            self.assertEqual(told["screen"], "matrix")
        for kind in ("u8bin", "fbin"):
            for more in ("", ",batch=16", ",batch=300,heap-sample=4"):
                told = self.same("search", f"some.{kind}", f"few.{kind}", "-k", 8,
                                 tune=("--tune", "pipeline=hybrid" + more))
                self.assertEqual(told["screen"], "hybrid")

    def test_buffers(self):
        """the buffer k-d tree, of heights and buffers; too many columns, too many neighbours"""
        for name, first, last in (("thin", 0, 400), ("asked", 900, 957)):
            rows = [row[20:34] for row in self.rows[first:last]]
            self.write(f"{name}.u8bin", matrix_bin(rows, "B"))
        for more in ("", ",leaf-buffer=3", ",tree-height=3,leaf-buffer=40"):
            tune = ("--tune", "pipeline=buffer_tree" + more)
            told = self.same("graph", "thin.u8bin", "-k", 8, tune=tune)
            self.assertEqual(told["screen"], "buffer_tree")
            for metric in TREE_METRICS:
                self.same("search", "thin.u8bin", "asked.u8bin", "-k", 100, "--metric", metric, tune=tune)
        self.fails(1, "graph", "some.fbin", "-k", 8, "--tune", "pipeline=buffer_tree", "--device", "cuda",
                   environment={"KITH_CUDA_MODULE": MODULE},
                   says=["pipeline is buffer_tree, which makes a tree, and a GPU has none with buffers for more "
                         "than 32 columns, the processor does (leave it out)"])

    def test_selection(self):
        """kith select by every method: the smallest, the largest, the k-th"""
        for method in SELECTIONS:
            self.same("select", "some.fbin", "-k", 5, "--select", method)
            self.same("select", "some.fbin", "-k", 64, "--largest", "--select", method)
            self.same("select", "some.fbin", "-k", 5, "--kth", "--select", method, form="npy")


class Jobs(ReferenceCase):
    def test_grow(self):
        """merge, add and remove: graphs in, graphs out"""
        for kind in ("u8bin", "fbin"):
            for name in ("some", "few"):
                self.works("graph", f"{name}.{kind}", "-k", 6, "-o", f"{name}.kith", "-q")
            some, few = ("some.kith", f"some.{kind}"), ("few.kith", f"few.{kind}")
            self.same("merge", *some, *few, form="kith")
            self.same("add", *some, few[1], form="kith")
            self.write("ids.csv", b"id\n0\n17\n18\n399\n")
            self.same("remove", *some, "ids.csv", form="kith")

    def test_shards(self):
        """graphs from parts, with lists in a folder"""
        for kind in ("u8bin", "fbin"):
            self.on("cpu", "graph", f"some.{kind}", "-k", 6, out="cpu.kith")
            told = self.on("cuda", "graph", f"some.{kind}", "-k", 6, "--shards", "work", "--tune",
                           "shard-count=3", out="cuda.kith")
            self.assertEqual((told["backend"], told["shards"]["count"]), ("cuda:0", 3))
            self.assertEqual((self.folder / "cpu.kith").read_bytes(),
                             (self.folder / "cuda.kith").read_bytes())

    def test_teams(self):
        """two devices that share a graph and a search"""
        for kind in ("u8bin", "fbin"):
            self.same("graph", f"digits.{kind}" if kind == "u8bin" else "some.fbin", "-k", 6,
                      device="cuda:all", devices=2)
            self.same("search", f"some.{kind}", f"few.{kind}", "-k", 6, device="cuda:all", devices=2)

    def test_filters(self):
        """within groups, across them, k of each, under a bitmap, pairs and truth: on one device, and on two"""
        for name, rows, of in (("g", 400, 13), ("b", 400, 2), ("q", 57, 13)):
            self.write(f"{name}.csv", "".join(f"{i * i % of}\n" for i in range(rows)).encode())
        self.write("a.csv", "".join(f"{int(i % 3 > 0)}\n" for i in range(400)).encode())
        for device, devices in ("cuda", 1), ("cuda:all", 2):
            where = {"device": device, "devices": devices}
            for kind in "u8bin", "fbin":
                graph = "graph", f"some.{kind}", "-k", 6
                search = "search", f"some.{kind}", f"few.{kind}", "-k", 6
                for words in (
                        (*graph, "--groups", "g.csv"), (*graph, "--groups", "b.csv", "--rule", "other"),
                        (*graph, "--groups", "b.csv", "--rule", "each"), (*graph, "--allow", "a.csv"),
                        (*search, "--groups", "g.csv", "--query-groups", "q.csv", "--allow", "a.csv"),
                        (*search, "--groups", "g.csv", "--query-groups", "q.csv", "--rule", "other"),
                        (*search, "--allow", "a.csv")):
                    self.same(*words, **where)
                self.same("pairs", f"some.{kind}", "--radius", 20, "--groups", "b.csv", form="npy", **where)
                self.same("truth", f"some.{kind}", f"few.{kind}", "-k", 5, "--allow", "a.csv", form="knn", **where)

    def test_little_memory(self):
        """a device of few MiB: cut into stripes, or one clear error; never another byte"""
        self.on("cpu", "graph", "digits.u8bin", "-k", 10, out="cpu.npz")
        for size in ("3M", "5M", "9M"):
            words = ("graph", "digits.u8bin", "-k", 10, "-q", "--device", "cuda", "-o", "cuda.npz",
                     "--tune", f"gpu-memory={size}")
            done = self.kith(*words, environment={"KITH_CUDA_MODULE": MODULE})
            if done.returncode == 0:
                self.assertEqual((self.folder / "cpu.npz").read_bytes(),
                                 (self.folder / "cuda.npz").read_bytes(), size)
            else:
                self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
                self.assertIn("memory", done.stderr)

    def test_descent(self):
        """NN-Descent on a device: the same bytes again, the recall that eval finds; few rows exactly"""
        told = self.on("cuda", "graph", "some.u8bin", "-k", 6, "--method", "descent", out="few.npz")
        self.on("cpu", "graph", "some.u8bin", "-k", 6, out="cpu.npz")
        self.assertTrue(told["exact"])
        self.assertEqual((self.folder / "few.npz").read_bytes(),
                         (self.folder / "cpu.npz").read_bytes())
        self.points("many.u8bin", 5000, 6)
        words = ("graph", "many.u8bin", "-k", 6, "--method", "descent", "--tune",
                 "sample=300,start=random,rounds=6")
        told = self.on("cuda", *words, out="one.kith")
        self.on("cuda", *words, out="two.kith")
        self.assertEqual((self.folder / "one.kith").read_bytes(),
                         (self.folder / "two.kith").read_bytes())
        found = self.works_json("eval", "one.kith", "--points", "many.u8bin", "--sample", 300)
        self.assertAlmostEqual(found["recall"]["estimate"], told["recall"]["estimate"], places=12)
        self.assertGreater(told["recall"]["estimate"], 0.9)


if __name__ == "__main__":
    support.main()
