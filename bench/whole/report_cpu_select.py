# SPDX-License-Identifier: Apache-2.0
"""Selection of bench/report on processors, as bench_select.py measures it."""

import argparse
import pathlib

import bench_select
import numpy
import report_rows
import select_peers


def select_job(bench, name, k):
    options = argparse.Namespace(
        side="cpu", build=pathlib.Path(bench.options.build), quick=False, csv=None, only="goals"
    )
    chosen = bench_select.Bench(options)
    bench_select.check(chosen)
    matrix = chosen.uniform(max(64, 8192 // bench.scale), 32768)
    threads = bench.options.threads
    job = report_rows.job(
        id=name,
        work="selection",
        data="generated",
        rows=matrix.shape[0],
        queries=0,
        columns=matrix.shape[1],
        dtype="f32",
        k=k,
        metric=None,
        bytes=matrix.nbytes,
    )
    if "read" in bench.limits:
        job.update(
            floor=matrix.nbytes / bench.limits["read"],
            floor_how="one read of the matrix at the measured rate",
        )
    seconds = chosen.seconds(chosen.kith.selecting(matrix, k, threads), runs=5)
    job["engines"].append(
        report_rows.engine(
            engine="kith auto",
            kith=True,
            exact=True,
            version=bench.version,
            commit=bench.commit,
            **report_rows.spread(seconds),
        )
    )
    for peer, used, call in (
        select_peers.of_host(matrix, k, threads) if bench.peers(["numpy"]) else []
    ):
        if used == threads or peer.startswith("numpy"):
            job["engines"].append(
                report_rows.engine(
                    engine=peer,
                    setting=f"{used} thread{'s' if used > 1 else ''}",
                    version=numpy.__version__ if peer.startswith("numpy") else None,
                    **report_rows.spread(chosen.seconds(call)),
                )
            )
    return job
