#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call from Python costs over the same call in C: by turns, medians of several processes.

    bench/whole/bench_call.py [--build build] [--rows 1000] [--cols 64] [--repeats 200] [--threads 2]

The C call is made with structs and arrays that stand already, by ctypes; what ctypes takes for a
call that does nothing is subtracted from it, so that it counts for Python. How long the library
itself takes depends on where arrays lie, for a graph by tens of microseconds, so that a process
shows a difference that is luck: each of several has its medians, and their median is told.
"outside" is what Python takes before and after the library, of the same calls: luck has no part in
it. "alone" is the call from Python with a library that does nothing: what "outside" has more than
that is what caches lose while the library computes. Needs NumPy alone.
Exit status: 1 where Python costs more than 50 microseconds (--most).
"""

import argparse
import contextlib
import ctypes as c
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import types
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEARCHES = "kith_search", "kith_graph"


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--cols", type=int, default=64)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--processes", type=int, default=9)
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--most", type=float, default=50.0, help="microseconds")
    parser.add_argument("--one", action="store_true", help="a process's own medians, as JSON")
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
                    lib.kith_graph,
                    (points.struct, params, table.struct, None),
                    table,
                )
                continue
            asked = as_matrix(queries, "queries")
            table = Table(len(queries), k, options.rows, points.is_double)
            yield (
                f"knn, {len(queries)} queries in {shape}",
                lambda x=x, q=queries: kith.knn(x, q, k, n_jobs=threads),
                lib.kith_search,
                (points.struct, asked.struct, params, table.struct, None),
                (table, asked),
            )


class Timed:
    """A function of the library, and how long its last call took."""

    def __init__(self, function):
        self.function = function
        self.took = 0.0

    def __call__(self, *arguments):
        start = time.perf_counter_ns()
        status = self.function(*arguments)
        self.took = (time.perf_counter_ns() - start) / 1000
        return status


def library(**functions):
    """A context in which searches call these functions."""
    made = types.SimpleNamespace(**functions)
    context = contextlib.ExitStack()
    for module in "kith._search", "kith._small":
        context.enter_context(mock.patch(f"{module}.lib", made))
    return context


def outside(python, in_c, repeats):
    """Median, in microseconds, of what Python takes around the library, with C calls by turns."""
    from kith._library import lib

    functions = {name: Timed(getattr(lib, name)) for name in SEARCHES}
    times = []
    with library(**functions):
        for _ in range(repeats):
            in_c()
            for each in functions.values():
                each.took = 0.0
            whole = microseconds(python)
            times.append(whole - sum(each.took for each in functions.values()))
    return statistics.median(times)


def measure(options):
    """A line for each work: name, and C, Python, outside and alone in microseconds."""
    from kith import _structs as s
    from kith._library import lib

    handle = c.c_void_p()
    params = s.sized(s.CtxParams, threads=options.threads)
    assert lib.kith_ctx_create(c.byref(params), c.byref(handle)) == 0
    lines = []
    for name, python, function, structs, _keep in work_of(options):
        arguments = [c.byref(each) for each in structs]

        def in_c(function=function, arguments=arguments):
            assert function(handle, *arguments) == 0

        def nothing():
            lib.kith_metric_name(1)

        direct, called, empty = by_turns((in_c, python, nothing), options.repeats)
        around = outside(python, in_c, options.repeats)
        with library(**dict.fromkeys(SEARCHES, lambda *arguments: 0)):
            (alone,) = by_turns((python,), options.repeats)
        lines.append((name, direct - empty, called, around, alone))
    lib.kith_ctx_free(handle)
    return lines


def medians(options):
    """measure, of several processes."""
    command = [sys.executable, __file__, *sys.argv[1:], "--one"]
    runs = []
    for _ in range(options.processes):
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        runs.append(json.loads(done.stdout))
    for same in zip(*runs, strict=True):
        more = statistics.median(called - direct for _, direct, called, _, _ in same)
        yield same[0][0], *(statistics.median(column) for column in list(zip(*same))[1:]), more


def main():
    options = parse_options()
    os.environ["KITH_LIBRARY"] = str((options.build / "libkith.so").resolve())
    os.environ.setdefault("KITH_DEVICE", "cpu")
    sys.path.insert(0, str(ROOT / "python"))
    if options.one:
        print(json.dumps(measure(options)))
        return 0
    worst = 0.0
    threads = f"{options.threads} threads"
    columns = "C (µs) | Python (µs) | more (µs) | outside (µs) | alone (µs)"
    print(f"| call, k = {options.k}, {threads} | {columns} |\n|---|---|---|---|---|---|")
    for name, direct, called, around, alone, more in medians(options):
        worst = max(worst, more)
        print(f"| {name} | {direct:.1f} | {called:.1f} | {more:.1f} | {around:.1f} | {alone:.1f} |")
    print(f"\nPython costs at most {worst:.1f} µs over C (asked: at most {options.most:g})")
    return 1 if worst > options.most else 0


if __name__ == "__main__":
    sys.exit(main())
