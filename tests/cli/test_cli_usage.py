# SPDX-License-Identifier: Apache-2.0
"""Words on the command line: help, wrong usage and what is said about it."""
import os
import subprocess

import cli_support as support
from cli_support import COMMANDS, METRICS, CliCase

TOLD = [name.replace(":3", ":P") for name in METRICS]


class Help(CliCase):
    def test_help_of_kith(self):
        """kith --help, -h and help print the same, with every command in it"""
        text = self.works("--help")
        self.assertEqual(text, self.works("-h"))
        self.assertEqual(text, self.works("help"))
        for command in COMMANDS:
            self.assertIn(f"\n  {command} ", text)
        self.assertIn("Examples:\n  kith ", text)

    def test_help_of_commands(self):
        """kith CMD --help needs no files, is help CMD, and has options and examples"""
        for command in COMMANDS:
            text = self.works(command, "--help")
            self.assertEqual(text, self.works("help", command))
            self.assertEqual(text, self.works(command, "-h", "nofile"))
            self.assertTrue(text.startswith(f"usage: kith {command} "), text)
            self.assertRegex(text, r"\nOutput:\n  -")
            self.assertIn("\nExamples:\n  kith ", text)
            for line in text.split("Examples:")[0].splitlines():
                self.assertLessEqual(len(line), 90)

    def test_help_is_short(self):
        """graph --help is one screen in four groups with 22 options at most; the rest are keys of --tune"""
        text = self.works("graph", "--help")
        lines = text.splitlines()
        options = [line for line in lines if line.startswith("  -")]
        print(f"{len(lines)} lines, {len(options)} options ... ", end="", flush=True)
        self.assertLessEqual(len(lines), 44)
        self.assertLessEqual(len(options), 22)
        self.assertEqual([line for line in lines if line in ("What:", "How:", "Where:", "Output:")],
                         ["What:", "How:", "Where:", "Output:"])
        for command in support.TUNED:
            keys = self.works(command, "--tune", "help")
            self.assertTrue(keys.startswith(f"usage: kith {command} ... --tune "), keys)
            self.assertIn("\n  gpu-memory=SIZE ", keys)

    def test_help_is_meant(self):
        """--help COMMAND, -h COMMAND and help COMMAND --help are help COMMAND; what is no command is said"""
        text = self.works("graph", "--help")
        for words in ("--help graph", "-h graph", "help graph --help", "graph -h", "graph --help x"):
            self.assertEqual(text, self.works(*words.split()), words)
        for words in ("help --help", "--help --help", "help help", "-h help"):
            self.assertEqual(self.works("--help"), self.works(*words.split()), words)
        for words in ("help foo", "--help foo", "foo a b"):
            told = self.fails(2, *words.split(), says=["kith: foo: unknown command (kith --help"])
            self.assertNotIn("nearest", told)
        self.fails(2, "--help", "grahp", says=["nearest: graph"])
        self.fails(2, "help", "graph", "x", says=["'x' is one word too many"])

    def test_help_is_true(self):
        """a line of help says what holds for its command"""
        for command, wrong, right in (("eval", "default: euclidean", "what the files say"),
                                      ("merge", "default: euclidean", "what the graphs say"),
                                      ("index", ".npz", "write the index here: .kith"),
                                      ("select", "neighbours", "values a row"),
                                      ("predict", ".ivecs", ".csv"),
                                      ("search", "descent", "walks")):
            text = self.works(command, "--help").split("\nWhat:")[1].split("\nExamples:")[0]
            self.assertNotIn(wrong, text, command)
            self.assertIn(right, text, command)

    def test_metrics_in_help(self):
        """the help of what computes names every metric"""
        for command in ("graph", "search", "predict", "eval"):
            words = self.works(command, "--help").split("Metrics:")[1].split()
            self.assertEqual(words[:len(METRICS)], TOLD)

    def test_examples(self):
        """the examples of every help text work as they stand"""
        os.symlink(support.SOURCE / "examples", self.folder / "examples")
        for command in (None, *COMMANDS):
            text = self.works(command, "--help") if command else self.works("--help")
            lines = text.split("Examples:\n")[1].splitlines()
            self.assertGreater(len(lines), 0)
            for line in lines:
                self.works(*line.split()[1:])

    def test_version(self):
        """kith --version says version and commit"""
        self.assertRegex(self.works("--version"), r"^kith \d+\.\d+\.\d+ \(\w+\)\n$")
        for word in ("version", "-V"):
            self.assertEqual(self.works(word), self.works("--version"))

    def test_help_is_quick(self):
        """kith --help takes less than 5 ms of processor time"""
        best = 1.0
        for _ in range(20):
            child = os.posix_spawn(support.KITH, ["kith", "--help"], os.environ, file_actions=[
                (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
            _, status, usage = os.wait4(child, 0)
            self.assertEqual(status, 0)
            best = min(best, usage.ru_utime + usage.ru_stime)
        print(f"{1000 * best:.2f} ms ... ", end="", flush=True)
        if not support.SLOW:
            self.assertLess(best, 0.005)

    def test_stdout_full(self):
        """a report that cannot be written is a failure"""
        with open("/dev/full", "w") as full:
            done = subprocess.run([support.KITH, "--help"], stdout=full, stderr=subprocess.PIPE,
                                  text=True)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.startswith("kith: standard output: "), done.stderr)


class WrongUsage(CliCase):
    def wrong(self, line, *says):
        return self.fails(2, *line.split(), says=says)

    def test_commands(self):
        """no command, an unknown one (with the nearest), an option in its place"""
        self.wrong("", "a command is missing")
        self.wrong("grpah points", "kith: grpah: unknown command", "nearest: graph")
        self.wrong("help serch", "nearest: search")
        self.wrong("-k 3 graph", "kith: -k: the command comes first")

    def test_files(self):
        """too few files, too many, an empty name"""
        self.wrong("graph", "a file is missing", "usage: kith graph POINTS")
        self.wrong("search a -k 3", "usage: kith search CORPUS QUERIES")
        self.wrong("graph a b -k 3", "'b' is one file too many")
        self.wrong("info", "a file is missing")
        self.wrong("devices x", "one file too many")
        self.fails(2, "graph", "", "-k", "3", says=["a file name is empty"])

    def test_unknown_options(self):
        """an unknown option is named with the nearest known one, or the command that has it"""
        self.wrong("graph a -k 3 --metrc l2", "kith: --metrc: unknown option", "nearest: --metric")
        self.wrong("graph a -k 3 --thread=2", "kith: --thread: ", "nearest: --threads")
        self.wrong("graph a -k 3 --points b", "kith graph has no such option, kith eval has")
        self.wrong("info a -k 3", "kith: -k: ")
        self.wrong("graph a --k 3", "kith: --k: unknown option", "nearest: -k;")
        self.wrong("graph a -k 3 -Z", "kith: -Z: unknown option")
        self.wrong("graph a -k 3 --=", "unknown option")
        self.wrong("graph a -k 3 --" + "x" * 300, "unknown option")

    def test_tune(self):
        """keys of --tune: together, apart, wrong; what was an option once names its key"""
        self.points()
        words = ("graph", "points.u8bin", "-k", "3", "--method", "descent")
        told = self.works_json(*words, "--tune", "rounds=1,seed=4,sample=0")
        again = self.works_json(*words, "--tune", "rounds=1", "--tune=seed=4", "--tune", "sample=0")
        self.assertEqual((told["method"], told["exact"]), (again["method"], again["exact"]))
        for old, new in (("--rounds 4", "rounds=N"), ("--candidates 4", "candidates=P"),
                         ("--start=random", "start=NAME"), ("--gpu-memory 4G", "gpu-memory=SIZE"),
                         ("--keep-shards", "keep-shards)"), ("--pipeline matrix", "pipeline=NAME"),
                         ("--tree-height 3", "tree-height=H"), ("--seed 4", "seed=S")):
            self.wrong(f"graph a -k 3 {old}", f"kith: {old.split('=')[0].split()[0]}: is a key of --tune",
                       f"give --tune {new}")
        self.wrong("graph a -k 3 --deterministic", "answers always are (leave it out)")
        self.wrong("graph a -k 3 --tune", "its value is missing")
        self.wrong("graph a -k 3 --tune round=3", "'round' is no key (nearest: rounds;")
        self.wrong("graph a -k 3 --tune rounds", "--tune rounds: its value is missing (give rounds=N)")
        self.wrong("graph a -k 3 --tune rounds=", "--tune rounds: '' is no number of rounds")
        self.wrong("graph a -k 3 --tune rounds=3,", "--tune: '' is no key")
        self.wrong("graph a -k 3 --tune keep-shards=1", "takes no value, got '1'")
        self.wrong("graph a -k 3 --tune " + "x" * 300, "is no key")
        self.wrong("graph a -k 3 --tune metric=l1", "'metric' is an option of its own (give --metric)")
        self.wrong("predict a b c -k 3 --tune rounds=1", "no key 'rounds', kith graph has it")
        self.wrong("info a --tune rounds=1", "kith: --tune: kith info has no such option")

    def test_sizes(self):
        """8G, 8Gi and 8GiB are 8 times 2^30 bytes, 8GB is 8 times 10^9"""
        self.points("p.u8bin")
        for size in ("8G", "8Gi", "8GiB", "8GB", "512MB", "1.5TiB", "2000000000"):
            self.works("graph", "p.u8bin", "-k", 1, "--memory", size, "-q")
        for size, told in (("100K", "100.0 KiB"), ("100KiB", "100.0 KiB"), ("100KB", "97.7 KiB")):
            self.fails(1, "graph", "p.u8bin", "-k", 1, "--memory", size, says=[f"--memory allows {told}"])

    def test_k(self):
        """k has no default, and is a whole number from 1"""
        self.wrong("graph a", "-k is missing")
        self.wrong("search a b", "-k is missing")
        for k in ("0", "-1", "1.5", "ten", "+3", "0x10", "1e3", "99999999999999999999", "3 "):
            self.fails(2, "graph", "a", "-k", k, says=["kith: -k: ", "no number of neighbours"])
        self.wrong("graph a -k", "its value is missing")
        self.fails(2, "graph", "a", "-k", "", says=["kith: -k: "])

    def test_values(self):
        """each value that can never be right is refused with what would be"""
        self.wrong("graph a -k 3 --metric l3", "'l3' is no metric", ", ".join(TOLD))
        for power in ("", ":", ":0.5", ":nan", ":-1", ":1.00001", ":4000", ":3x"):
            self.wrong(f"graph a -k 3 --metric minkowski{power}", "has a power, P: 1 to 3355.4431")
        self.wrong("graph a -k 3 --metric custom", "'custom' is no metric")
        self.wrong("graph a -k 3 --method fast", "'fast' is no method",
                   "auto, exact, tree, descent")
        self.wrong("graph a -k 3 --tune pipeline=tree", "'tree' is no pipeline",
                   "known: fused, matrix, hybrid, buffer_tree")
        self.wrong("graph a -k 3 --tune pipeline=matrix,select=sort", "'sort' is no method of selec")
        self.wrong("graph a -k 3 --format zip", "known: npz, csr, ivecs, ibin, knn, kith")
        self.wrong("graph a --radius far", "'far' is no radius")
        self.wrong("graph a --radius nan", "'nan' is no radius")
        self.wrong("graph a --radius inf", "'inf' is no radius")
        self.wrong("graph a --radius -1", "is negative")
        self.wrong("graph a -k 3 --device gpu", "'gpu' is no device")
        self.wrong("graph a -k 3 --device cuda:x", "'cuda:x' is no device")
        self.wrong("graph a -k 3 --device cuda:0,", "'cuda:0,' is no device")
        self.wrong("graph a -k 3 --threads 0", "no number of threads")
        self.wrong("graph a -k 3 --threads 3000000000", "no number of threads")
        for memory in ("0", "8X", "8GBB", "8B", "-1", "G", "1e999", "nan"):
            self.wrong(f"graph a -k 3 --memory {memory}", "no amount of memory")
            self.wrong(f"search a b -k 3 --tune gpu-memory={memory}", "no amount of memory")
        self.wrong("eval a b --gpu-memory 1G", "--gpu-memory")
        self.wrong("eval a --points b --sample 0", "no number of rows")
        self.wrong("eval a --points b --seed -1", "no seed")
        self.wrong("graph a -k 3 --quiet=yes", "takes no value")
        self.fails(2, "graph", "a", "-k", "3", "-o", "", says=["the name is empty"])

    def test_pairs(self):
        """options that exclude or need each other"""
        self.wrong("search a b --radius 2 --both", "does not go together with --both")
        self.wrong("search a b -k 3 --both --mutual", "does not go together with --both")
        self.wrong("graph a --radius 2 --dry-run", "does not go together with --dry-run")
        self.wrong("graph a --radius 2 --tune pipeline=matrix", "does not go together with --tune pipeline")
        self.wrong("search a b -k 3 --both --method tree", "does not go together with --both")
        self.wrong("search a b -k 3 --mutual --method tree", "does not go together with --mutual")
        self.wrong("search a b -k 3 --tune select=heap", "means nothing without --tune pipeline")
        self.wrong("search a b -k 3 --tune select=heap,pipeline=hybrid", "pipeline=matrix alone")
        self.wrong("graph a -k 3 --tune heap-sample=9", "--tune heap-sample: means nothing without --tune pipeline")
        self.wrong("graph a -k 3 --tune heap-sample=9,pipeline=matrix", "pipeline=hybrid alone")
        self.wrong("search a b -k 3 --tune heap-sample=1025,pipeline=hybrid", "give 1 to 1024")
        self.wrong("graph a -k 3 --tune batch=9", "--tune batch: goes with pipeline=hybrid alone")
        self.wrong("graph a -k 3 --tune batch=9,pipeline=matrix", "pipeline=hybrid alone")
        self.wrong("graph a -k 3 --tune batch=0,pipeline=hybrid", "give 1 to 4194304")
        self.wrong("search a b -k 3 --tune batch=-4,pipeline=hybrid", "give 1 to 4194304")
        self.wrong("graph a -k 3 --tune leaf-buffer=9", "--tune leaf-buffer: means nothing without --tune pipeline")
        self.wrong("graph a -k 3 --tune leaf-buffer=9,pipeline=matrix", "pipeline=buffer_tree alone")
        self.wrong("graph a -k 3 --tune leaf-buffer=1,pipeline=buffer_tree", "give 2 to 4194304")
        self.wrong("graph a -k 3 --tune leaf-buffer=4194305,pipeline=buffer_tree", "give 2 to 4194304")
        self.wrong("graph a -k 3 --tune tree-height=9,pipeline=matrix", "--method tree or auto alone")
        self.wrong("search a b -k 3 --tune rounds=9", "kith search has no key 'rounds', kith graph has")
        self.wrong("search a b -k 3 -o x.npz --output-back y.npz", "means nothing without --both")
        self.wrong("search a b -k 3 --both -o x.npz", "give --output-back FILE too")
        self.wrong("search a b -k 3 --both -o x.npz --output-back x.npz", "named for two outputs")
        self.wrong("graph a -k 3 --format csr", "means nothing without -o")
        self.wrong("graph a --radius 2 -o a.npz --format kith", "as the name of FILE says, .npz .kith .csv .tsv")
        self.wrong("eval a b --points c", "--points goes with one GRAPH")
        self.wrong("eval a", "TRUTH is missing")
        self.wrong("eval a b --sample 3", "means nothing without --points")

    def test_spellings(self):
        """-k 3, -k3, --k=v, options before files, and -- before a file like -x"""
        self.points("-x.u8bin")
        first = self.works_json("graph", "-k", "3", "--threads", "1", "--", "-x.u8bin")
        second = self.works_json("graph", "--threads=1", "-k3", "./-x.u8bin")
        self.assertEqual((first["k"], second["k"], first["threads"]), (3, 3, 1))
        self.assertEqual(first["n"], 60)
        self.assertEqual(self.works("graph", "-qvk3", "./-x.u8bin"), "")
        self.assertIn("method: ", self.works("graph", "-vk", "3", "./-x.u8bin"))
        self.fails(2, "graph", "-qZ", "a", says=["kith: -Z: unknown option"])
        self.fails(2, "graph", "-qk", "a", says=["kith: -k: "])

    def test_one_line(self):
        """a message stays one line and moves no cursor, whatever the file is called"""
        told = self.fails(1, "graph", "a\nb\x1b[2J.u8bin", "-k", "3")
        self.assertNotIn("\x1b", told)


if __name__ == "__main__":
    support.main()
