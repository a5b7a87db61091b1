#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call from Python costs over the same call in C: by turns, in one process, medians.

    bench/whole/bench_call.py [--build build] [--rows 1000] [--cols 64] [--repeats 1000] [--threads 2]

The C call is made with structs and arrays that stand already, by ctypes; what ctypes takes for a
call that does nothing is subtracted from it, so that it counts for Python. "alone" is the call from
Python with a library that does nothing: what is more than that is what caches lose meanwhile, or noise.
Needs NumPy alone.
Exit status: 1 where Python costs more than 50 microseconds (--most).
"""

import argparse
import ctypes as c
import os
import pathlib
import statistics
import sys
import time
import types
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--cols", type=int, default=64)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--most", type=float, default=50.0, help="microseconds")
    return parser.parse_args()


def microseconds(call):
    start = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start) / 1000


def by_turns(calls, repeats):
    """Medians, in microseconds; each call is made once before."""
    for call in calls:
        call()
    times = [[microseconds(call) for call in calls] for _ in range(repeats)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def work_of(options):
    """Name, call in Python, and function and structs of the same call in C."""
    import kith
    import numpy as np
    from kith import _structs as s
    from kith._arrays import as_matrix
    from kith._library import lib
    from kith._results import Table

    random = np.random.default_rng(0)
    k, threads = options.k, options.threads
    for dtype in np.float32, np.float64:
        x = random.standard_normal((options.rows, options.cols)).astype(dtype)
        points = as_matrix(x, "x")
        shape = f"{options.rows} x {options.cols} {np.dtype(dtype).name}"
        for queries in None, x[:1], x:
            params = s.sized(s.SearchParams, metric=1, k=k)
            if queries is None:
                table = Table(options.rows, k, options.rows, points.is_double)
                yield (
                    f"knn_graph, {shape}",
                    lambda x=x: kith.knn_graph(x, k, n_jobs=threads),
                    lib.kith_graph_exact,
                    (points.struct, params, table.struct),
                    table,
                )
                continue
            asked = as_matrix(queries, "queries")
            table = Table(len(queries), k, options.rows, points.is_double)
            yield (
                f"knn, {len(queries)} queries in {shape}",
                lambda x=x, q=queries: kith.knn(x, q, k, n_jobs=threads),
                lib.kith_knn_exact,
                (points.struct, asked.struct, params, table.struct),
                (table, asked),
            )


def main():
    options = parse_options()
    os.environ["KITH_LIBRARY"] = str((options.build / "libkith.so").resolve())
    os.environ.setdefault("KITH_DEVICE", "cpu")
    sys.path.insert(0, str(ROOT / "python"))
    from kith import _structs as s
    from kith._library import lib

    handle = c.c_void_p()
    params = s.sized(s.CtxParams, threads=options.threads)
    assert lib.kith_ctx_create(c.byref(params), c.byref(handle)) == 0
    worst = 0.0
    idle = types.SimpleNamespace(
        kith_knn_exact=lambda *arguments: 0, kith_graph_exact=lambda *arguments: 0
    )
    threads = f"{options.threads} threads"
    print(f"| call, k = {options.k}, {threads} | C (µs) | Python (µs) | more (µs) | alone (µs) |")
    print("|---|---|---|---|---|")
    for name, python, function, structs, _keep in work_of(options):
        arguments = [c.byref(each) for each in structs]

        def in_c(function=function, arguments=arguments):
            assert function(handle, *arguments) == 0

        def nothing(arguments=arguments):
            lib.kith_metric_name(1)

        direct, called, empty = by_turns((in_c, python, nothing), options.repeats)
        with mock.patch("kith._search.lib", idle), mock.patch("kith._small.lib", idle):
            (alone,) = by_turns((python,), options.repeats)
        direct -= empty
        worst = max(worst, called - direct)
        print(f"| {name} | {direct:.1f} | {called:.1f} | {called - direct:.1f} | {alone:.1f} |")
    lib.kith_ctx_free(handle)
    print(f"\nPython costs at most {worst:.1f} µs over C (asked: at most {options.most:g})")
    return 1 if worst > options.most else 0


if __name__ == "__main__":
    sys.exit(main())
