# SPDX-License-Identifier: Apache-2.0
"""bench/report without a clock: verdicts, runs, figures out of tables and the page, on forged
results. Needs nothing but Python."""

import argparse
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

from forged_results import GRAPH, ROOT, changed, engine, forged

import report_goals
import report_page
import report_rows
import report_run
import report_tables


class Verdicts(unittest.TestCase):
    def judge(self, name, **figure):
        return report_goals.judge(report_goals.BY_ID[name], figure)

    def test_every_row_of_the_targets_is_there_once(self):
        names = [goal.id for goal in report_goals.GOALS]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(len(names), 18)  # 11 lines of the table, some with several figures
        for goal in report_goals.GOALS:
            self.assertEqual(report_run.side_of(goal.id), goal.side)
            self.assertTrue(goal.target() and goal.needs)

    def test_a_time_at_its_limit_is_met_and_above_it_is_missed(self):
        self.assertEqual(self.judge("select-cpu-32", seconds=0.07, recall=1.0)[0], "met")
        self.assertEqual(
            self.judge("select-cpu-32", seconds=0.14, recall=1.0),
            ("missed", "missed, 2.00 times the target"),
        )

    def test_what_came_then_is_told_apart(self):
        self.assertEqual(
            self.judge("graph-cuda-10m", seconds=15.0, recall=1.0), ("met", "both met")
        )
        self.assertEqual(
            self.judge("graph-cuda-10m", seconds=18.0, recall=1.0),
            ("met in part", "met; what came then is missed, 1.20 times"),
        )

    def test_a_recall_that_is_too_low_misses_whatever_the_time(self):
        self.assertEqual(self.judge("descent-cuda-1m", seconds=0.01, recall=0.98)[0], "missed")
        self.assertEqual(self.judge("descent-cuda-1m", seconds=0.01, recall=0.99)[0], "met")

    def test_a_named_rival_must_be_slower_in_the_same_run(self):
        self.assertEqual(
            self.judge(GRAPH, seconds=0.9, recall=1.0, near={"pynndescent, n 15": 0.8})[1],
            "missed: slower than pynndescent",
        )
        self.assertEqual(
            self.judge(GRAPH, seconds=0.9, recall=1.0, near={"pynndescent, n 15": 1.8})[0], "met"
        )
        self.assertEqual(
            self.judge(GRAPH, seconds=0.9, recall=1.0)[0], "met"
        )  # beside what was known then

    def test_times_faster_than_the_best_peer(self):
        met = self.judge(
            "tree-cpu-10", seconds=1.0, recall=1.0, peers={"pykdtree": 10.5, "cKDTree": 40.0}
        )
        self.assertEqual(met, ("met", "met: 10.5 times faster than pykdtree"))
        missed = self.judge(
            "tree-cpu-10", seconds=1.0, recall=1.0, peers={"pykdtree": 9.0, "cKDTree": 40.0}
        )
        self.assertEqual(missed, ("missed", "missed by 10 %: 9 times faster than pykdtree"))
        self.assertEqual(
            self.judge("tree-cpu-10", seconds=1.0, recall=1.0, peers={})[0], "not measured"
        )

    def test_without_a_figure_it_says_what_is_needed(self):
        for goal in report_goals.GOALS:
            self.assertEqual(
                report_goals.judge(goal, None),
                ("not measured", f"not measured here: needs {goal.needs}"),
            )


class Rows(unittest.TestCase):
    def test_the_figure_is_the_fastest_answer_that_finds_enough(self):
        job = forged()["jobs"][0]
        job["engines"] += [
            engine("kith descent", 0.1, exact=False, recall=0.95),
            engine("kith descent", 0.3, exact=False, recall=0.995, setting="longer"),
        ]
        self.assertEqual(report_rows.figure(job)["engine"], "kith exact")
        self.assertEqual(report_rows.figure(job, 0.99)["engine"], "kith descent, longer")
        self.assertEqual(report_rows.figure(job)["share"], 0.5)

    def test_approximate_peers_are_beside_it_but_not_its_equals(self):
        figure = report_rows.figure(forged()["jobs"][0])
        self.assertEqual(figure["peers"], {"faiss": 10.0, "sklearn": 20.0})
        self.assertIn("pynndescent", figure["near"])

    def test_an_answer_that_is_wrong_is_no_figure(self):
        report = changed(
            lambda job: job["engines"][0].update(exact=False, recall=None, note="WRONG")
        )
        self.assertIsNone(report_rows.figure(report["jobs"][0]))

    def test_files_come_back_and_others_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "deep", "report-cpu.json")
            report_rows.write(path, forged())
            self.assertEqual(report_rows.read(path), forged())
            path.write_text('{"format": 99}', encoding="utf-8")
            self.assertRaises(ValueError, report_rows.read, path)
        self.assertRaises(KeyError, report_rows.job, id="x", colour="red")

    def test_names_choose_rows_and_curves(self):
        class Options:
            only, quick = "graph-cpu-n", False

        plan = {
            name: (1, name.endswith("5"), None)
            for name in ("graph-cpu-n-5", "graph-cpu-n-6", "graph-cpu-new")
        }
        self.assertEqual(list(report_run.chosen(plan, Options)), ["graph-cpu-n-5", "graph-cpu-n-6"])
        Options.only, Options.quick = "", True
        self.assertEqual(list(report_run.chosen(plan, Options)), ["graph-cpu-n-5"])
        Options.only = "graph-cpu-m"
        self.assertRaises(SystemExit, report_run.chosen, plan, Options)


class Side:
    """Stands in for report_cpu and report_cuda."""

    @staticmethod
    def start(_options):
        return "bench"

    @staticmethod
    def describe(_bench):
        head = forged()
        return {
            name: head[name]
            for name in ("machine", "threads", "commit", "versions", "absent", "limits")
        }

    @staticmethod
    def run(bench, name, call):
        return call(bench, name)

    @staticmethod
    def fail(_bench, _name):
        raise MemoryError("too large")

    @staticmethod
    def leave(_bench, _name):
        sys.exit("an answer is WRONG")

    @classmethod
    def plan(cls, _options):
        good = forged()["jobs"][0]
        return {
            "a-cpu-fails": (1, True, cls.fail),
            "a-cpu-leaves": (1, True, cls.leave),
            "a-cpu-absent": (1, True, lambda *_: None),
            GRAPH: (1, True, lambda *_: good),
            "a-cpu-long": (1e6, True, cls.fail),
            "a-cpu-slow": (1, False, cls.fail),
        }


class Runs(unittest.TestCase):
    def run_all(self, path, **more):
        options = argparse.Namespace(
            **{
                "only": "",
                "quick": True,
                "device": "cpu",
                "scale": 1,
                "command": "bench/report",
                "minutes": 1.0,
                "keep": False,
                "json": path,
            }
            | more
        )
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return report_run.run_all(Side, options)

    def test_a_row_that_fails_leaves_the_others_and_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "report.json")
            report = self.run_all(path)
            self.assertEqual(report_rows.read(path), report)
        self.assertEqual([job["id"] for job in report["jobs"]], [GRAPH])
        self.assertEqual(report["jobs"][0]["command"], f"bench/report --only {GRAPH}")
        self.assertEqual(
            report["left_out"],
            {
                "a-cpu-fails": "failed: too large",
                "a-cpu-leaves": "failed: an answer is WRONG",
                "a-cpu-absent": "its data is absent (KITH_DATA names no folder that has it)",
                "a-cpu-long": "1 minutes were nearly over (--minutes)",
            },
        )

    def test_rows_that_are_kept_are_replaced_one_by_one(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "report.json")
            old = forged()
            old["jobs"].append(old["jobs"][0] | {"id": "b-cpu-other"})
            old["jobs"][0]["commit"] = "old"
            report_rows.write(path, old)
            report = self.run_all(path, only=GRAPH, keep=True)
        self.assertEqual(
            [(job["id"], job["commit"]) for job in report["jobs"]],
            [(GRAPH, "abc"), ("b-cpu-other", "abc")],
        )


class Page(unittest.TestCase):
    def page(self, *reports, **tables):
        with tempfile.TemporaryDirectory() as folder:
            for report in reports:
                report_rows.write(pathlib.Path(folder, f"report-{report['side']}.json"), report)
            for name, text in tables.items():
                pathlib.Path(folder, f"{name}.csv").write_text(text, encoding="utf-8")
            return report_page.page(folder, pathlib.Path(folder, "benchmarks.md"))

    def test_sides_that_were_not_measured_are_named(self):
        for side in ("cpu", "cuda"):
            self.assertIn(f"Not yet measured by `bench/report --device {side}`", self.page())

    def test_the_document_is_what_the_results_make(self):
        document = ROOT / "docs" / "benchmarks.md"
        page = report_page.page(ROOT / "bench" / "results", document)
        self.assertEqual(page, document.read_text(encoding="utf-8"), "run bench/report --page")
        for word in ("target", "asked", "missed"):
            self.assertNotIn(word, page)

    def test_a_line_has_kith_its_others_and_how_many_times(self):
        page = self.page(forged())
        self.assertIn(
            f"| `{GRAPH}` | exact graph, 60,000 × 784 u8, k = 10, real | exact 1 s | "
            "pynndescent 2 s, recall 0.9920; faiss 10 s; sklearn 20 s | 10 | 50 % | 2026-01-01 |",
            page,
        )
        self.assertIn("usearch (peer): not installed", page)

    def test_a_library_that_is_faster_is_seen_at_once(self):
        def quick(job):
            job["engines"][1].update(seconds=0.5, low=0.5, high=0.5)

        page = self.page(changed(quick))
        self.assertIn("| **0.50** |", page)
        self.assertIn(
            "| exact graph, real: 60,000 × 784, k = 10 | faiss: 0.5 s | kith exact: 1 s | 0.50 |",
            page,
        )
        self.assertNotIn("faiss: 10 s", self.page(forged()))

    def test_tables_are_looked_at_for_faster_libraries_of_the_newest_commit(self):
        head = "date,commit,machine,threads,work,rows,queries,columns,dtype,k,engine,isa,seconds,build_seconds,recall\n"
        rows = [
            "1,old,forged,2,colour,1000,100,3,f32,10,kith-tree,amx,9.0,1.0,1.00000",
            "1,old,forged,2,colour,1000,100,3,f32,10,pykdtree,,1.0,1.0,1.00000",
            "2,new,forged,2,colour,1000,100,3,f32,10,kith-tree,amx,2.0,1.0,1.00000",
            "2,new,forged,2,colour,1000,100,3,f32,10,kith-tree,avx2,0.1,0.1,1.00000",
            "2,new,forged,2,colour,1000,100,3,f32,10,pykdtree,,0.5,1.0,1.00000",
            "2,new,forged,2,colour,1000,100,3,f32,10,guess,,0.1,0.1,0.50000",
            "3,alone,forged,2,colour,1000,100,3,f32,10,kith-tree,amx,1.0,0.1,1.00000",
        ]
        page = self.page(tree=head + "\n".join(rows) + "\n")
        self.assertIn(
            "| building a tree, search, colour: 100 queries in 1,000 × 3, k = 10 | pykdtree: 1.5 s | "
            "kith tree: 3 s | 0.50 | forged | 2 |",
            page,
        )
        self.assertEqual(page.count("| building a tree"), 1)

    def test_jobs_of_a_curve_are_lines_of_one_table(self):
        report = forged()
        for at in (200, 100):
            point = forged()["jobs"][0]
            point.update(id=f"graph-cpu-n-{at}", series="n", x=at, rows=at, queries=at)
            report["jobs"].append(point)
        report["jobs"][1]["engines"].pop()  # a peer that did not run at that point
        table = report_tables.curve(report, "n").splitlines()
        self.assertEqual(table[0].split(" | ")[:3], ["| points", "kith exact", "faiss"])
        self.assertEqual([line.split(" ")[1] for line in table[2:]], ["100", "200"])
        self.assertIn("| 2 s, 0.9920 | 50 % |", table[2])
        self.assertIn("| 20 s |  | 50 % |", table[3])
        self.assertIsNone(report_tables.curve(report, "d"))
        self.assertNotIn("graph-cpu-n-100", report_tables.side_by_side(report))

    def test_a_machine_that_others_used_is_told(self):
        self.assertNotIn("Others had", report_tables.whole(forged()))
        self.assertIn("Others had", report_tables.whole(forged(others=[0.0, 1.5])))
