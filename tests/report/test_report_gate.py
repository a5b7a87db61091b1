# SPDX-License-Identifier: Apache-2.0
"""The gate of bench/report: which changes of ratios it lets pass, which choices of `auto`, and which not, on
forged results."""

import contextlib
import copy
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

from forged_results import GRAPH, ROOT, changed, engine, forged, slower

import bench_auto
import report_gate


class Gate(unittest.TestCase):
    def status(self, fresh, accepted=None):
        self.said = io.StringIO()
        with contextlib.redirect_stdout(self.said):
            return report_gate.run(accepted or forged(), fresh)

    def worse(self, fresh):
        return [
            each.what
            for each in report_gate.compare(forged(), fresh)
            if each.verdict == report_gate.WORSE
        ]

    def test_the_same_results_pass(self):
        self.assertEqual(self.status(forged()), 0)
        self.assertEqual(
            len(report_gate.compare(forged(), forged())), 5
        )  # three peers, the limit, memory

    def test_a_machine_twice_as_slow_changes_no_ratio(self):
        def change(job):
            slower("kith exact", "faiss", "sklearn", "pynndescent", factor=2.0)(job)
            job["floor"] *= 2.0

        self.assertEqual(self.status(changed(change)), 0)

    def test_kith_alone_slower_fails_beside_every_peer_and_the_limit(self):
        fresh = changed(slower("kith exact", factor=1.5))
        self.assertEqual(self.status(fresh), 1)
        self.assertEqual(len(self.worse(fresh)), 4)
        self.assertIn("WORSE", self.said.getvalue())
        self.assertIn("times faster than faiss", self.said.getvalue())

    def test_a_loss_within_the_tolerance_passes(self):
        self.assertEqual(self.status(changed(slower("kith exact", factor=1.2))), 0)
        self.assertEqual(self.status(changed(slower("kith exact", factor=1.4))), 1)

    def test_runs_that_differ_widen_it_but_not_without_end(self):
        def noisy(factor, high):
            def change(job):
                job["engines"][0].update(seconds=factor, low=1.0, high=high)

            return changed(change)

        self.assertEqual(self.worse(noisy(1.5, 2.0)), [])  # its own runs differ by two
        self.assertEqual(len(self.worse(noisy(3.0, 100.0))), 4)

    def test_one_peer_that_was_quick_is_shown_and_no_loss(self):
        fresh = changed(slower("faiss", factor=0.5))
        self.assertEqual(self.status(fresh), 0)
        self.assertIn(report_gate.ALONE, self.said.getvalue())

    def test_a_gpu_is_held_more_tightly(self):
        fresh = changed(slower("kith exact", factor=1.2))
        self.assertEqual(self.status(fresh | {"side": "cuda"}, forged(side="cuda")), 1)

    def test_a_peer_of_another_version_is_not_judged(self):
        def change(job):
            for each in job["engines"][1:]:
                each.update(seconds=1.0, low=1.0, high=1.0, version="2")

        self.assertEqual(self.status(changed(change)), 0)
        self.assertIn("faiss 1 is 2 now", self.said.getvalue())

    def test_times_too_short_to_trust_are_not_judged(self):
        accepted = changed(slower("kith exact", factor=0.01))
        fresh = changed(slower("kith exact", factor=0.02))
        self.assertEqual(self.status(fresh, accepted), 0)
        self.assertIn("too short", self.said.getvalue())

    def test_memory_recall_and_exactness_count(self):
        self.assertEqual(
            self.worse(changed(lambda job: job["engines"][0].update(peak_mib=130.0))),
            ["kith exact: points by peak memory"],
        )
        self.assertIn(
            "kith exact: exact",
            self.worse(changed(lambda job: job["engines"][0].update(exact=False, note="WRONG"))),
        )

        def descent(recall):
            return changed(
                lambda job: job["engines"].append(
                    engine("kith descent", 0.5, exact=False, recall=recall)
                )
            )

        found = report_gate.compare(descent(0.99), descent(0.98))
        self.assertEqual(
            [each.what for each in found if each.verdict == report_gate.WORSE],
            ["kith descent: recall"],
        )
        found = report_gate.compare(descent(0.99), descent(0.988))
        self.assertEqual([each.what for each in found if each.verdict == report_gate.WORSE], [])

    def test_a_row_that_fails_now_fails_and_one_that_was_left_out_does_not(self):
        failed = forged(jobs=[], left_out={GRAPH: "failed: no memory"})
        self.assertEqual(self.status(failed), 1)
        late = forged(jobs=[], left_out={GRAPH: "12 minutes were nearly over (--minutes)"})
        self.assertEqual(self.status(late), 2)

    def test_what_cannot_be_compared_is_said(self):
        self.assertEqual(self.status(forged(machine="another")), 2)
        self.assertEqual(self.status(forged(threads=4)), 2)
        self.assertEqual(self.status(forged(scale=8)), 2)
        self.assertEqual(self.status(forged(others=[0.1, 1.9])), 2)
        self.assertIn("others had 1.9 cores", self.said.getvalue())
        self.assertEqual(self.status(changed(lambda job: job.update(rows=50000))), 2)
        self.assertIn("no row in common", self.said.getvalue())

    def test_the_command_has_the_same_exit_status(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [
                pathlib.Path(folder, name) for name in ("accepted.json", "same.json", "slow.json")
            ]
            for path, report in zip(
                paths, (forged(), forged(), changed(slower("kith exact", factor=2.0)))
            ):
                path.write_text(json.dumps(report), encoding="utf-8")
            paths.append(pathlib.Path(folder, "absent.json"))
            for path, code in zip(paths[1:], (0, 1, 2)):
                done = subprocess.run(
                    [
                        sys.executable,
                        "-B",
                        ROOT / "bench" / "report",
                        "--gate",
                        paths[0],
                        "--with",
                        path,
                    ],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual(done.returncode, code, done.stderr)

    def test_results_are_left_as_they_are(self):
        accepted, fresh = forged(), forged()
        report_gate.compare(accepted, fresh)
        self.assertEqual((accepted, fresh), (copy.deepcopy(forged()), forged()))


class Choice(unittest.TestCase):
    def status(self, *jobs, device="cpu", seconds=60.0):
        self.said = io.StringIO()
        options = types.SimpleNamespace(device=device, seconds=seconds)
        with mock.patch.object(bench_auto, "lines", return_value=iter(jobs)):
            with contextlib.redirect_stdout(self.said):
                return bench_auto.run(None, options)

    def test_the_sooner_way_or_nearly_so_passes(self):
        self.assertEqual(self.status(("a", 40.0, 40.0), ("b", 60.0, 40.0), ("c", 1.6, 8.0)), 0)
        self.assertIn("3 jobs, 0 take", self.said.getvalue())

    def test_a_way_that_takes_far_longer_fails_and_is_named(self):
        self.assertEqual(self.status(("a", 40.0, 40.0), ("300 queries", 13.1, 4.7)), 1)
        self.assertIn("300 queries: 13.1 ms, the sooner way 4.7", self.said.getvalue())
        self.assertEqual(self.status(("graph", 2014.0, 286.0), device="cuda"), 1)

    def test_what_hardly_takes_time_is_not_judged(self):
        self.assertEqual(self.status(("few", 4.0, 1.0)), 0)

    def test_no_job_begins_after_its_time(self):
        self.assertEqual(self.status(("a", 1.0, 1.0), ("late", 99.0, 1.0), seconds=-1.0), 0)
