# SPDX-License-Identifier: Apache-2.0
"""Trees of bench/report on processors, as bench_tree.py measures them: the search, building beside it."""

import argparse
import contextlib
import functools
import importlib.util
import io
import pathlib
import statistics
import tempfile

import bench_tree
import report_rows
import tree_peers
import tree_work
from report_cpu_bench import LONG


@functools.cache
def patches(rows, queries):
    """All columns, made once; None without the photographs."""
    if importlib.util.find_spec("skimage") is None:
        return None
    return tree_work.patches(tree_work.Sizes(rows, queries, []))[:, :10].copy()


def tree_job(bench, name, work, peers, real):
    options = argparse.Namespace(
        kith=bench.kith,
        threads=bench.options.threads,
        runs=bench.options.runs,
        few=1,
        methods=[],
        long=LONG,
        patience=bench.options.patience,
    )
    with tempfile.TemporaryDirectory(dir=bench.cache) as folder:
        found, _ = bench_tree.run_kith(work, 10, options, pathlib.Path(folder))
    truth = found[0]["ids"].astype("int64")
    job = report_rows.job(
        id=name,
        work="exact search, k-d trees",
        data="real" if real else "generated",
        rows=len(work.corpus),
        queries=len(work.queries),
        columns=work.corpus.shape[1],
        dtype="f32",
        k=10,
        bytes=work.corpus.nbytes,
    )
    for peer in bench.peers(peers):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            result = tree_peers.run(peer, work, 10, options)
        if result is None:
            job["absent"][peer] = said.getvalue().strip().split(": ", 1)[-1]
        else:
            found.append(result)
    for each in found:
        is_kith = each["engine"].startswith("kith")
        job["engines"].append(
            report_rows.engine(
                engine=each["engine"].replace("-", " "),
                kith=is_kith,
                exact=is_kith,
                version=each["version"],
                commit=bench.commit if is_kith else None,
                build=statistics.median(each["build"]),
                whole=statistics.median(each["whole"]) if each["whole"] else None,
                recall=bench_tree.recall(each["ids"], truth, work, 10),
                note=each["isa"],
                **report_rows.spread(each["seconds"]),
            )
        )
    return job


def patches_job(bench, name, columns):
    rows, queries = bench.fewer(800_000), bench.fewer(100_000)
    points = patches(rows, queries)
    if points is None:
        raise RuntimeError("patches need scikit-image, whose photographs they are cut from")
    corpus, asked = points[:rows, :columns].copy(), points[rows:, :columns].copy()
    work = tree_work.Work("patches", corpus, asked)
    return tree_job(bench, name, work, ("pykdtree", "cKDTree"), True)


def colour_job(bench, name, columns):
    sizes = bench.fewer(200_000), bench.fewer(50_000), [columns]
    work = next(iter(tree_work.make("colour", *sizes)))
    return tree_job(bench, name, work, ("pykdtree", "cKDTree", "sklearn"), False)
