#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `auto` takes beside the tree and all pairs, each named, in one run: kith.knn and kith.knn_graph, k = 10, ms.
On a GPU whole calls of tensors, on the processor one thread's seconds, which others there hardly change. Compares ids
of the three.

    bench_auto.py [--device cpu|cuda] [--seconds N] [--points N ...] [--columns D ...] [--queries Q ...]

  flat   uniform in the unit cube
  low    near a surface of three dimensions: a linear map of three columns, tanh, and 1 % noise

A line ends with auto's time over the sooner way's. Prices in src/tree/tree_cost.c are by such lines. Exit status: 1
where ids differ or auto takes too long (bench/README.md says what that is), 77 where there is no such device.
"""
import argparse
import os
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
K = 10
WAYS = "kd_tree", "brute", "auto"
LONG_MS = 500.0  # one call says enough
RATIO = 2.5  # auto may take so many times the sooner way's time,
SHORT_MS = {"cpu": 5.0, "cuda": 3.0}  # or so much more
SIZES = {
    "cpu": {"points": [30_000, 200_000], "columns": [3, 6, 10, 15], "queries": [300, 5_000], "seconds": 120.0},
    "cuda": {
        "points": [30_000, 100_000, 1_000_000, 4_000_000],
        "columns": [3, 6, 10, 15],
        "queries": [1_000, 30_000, 300_000],
        "seconds": 120.0,
    },
}
LARGE = {"cpu": 40_000, "cuda": 1_000_000}  # graphs of more points are found by fewer ways
WAYS_OF_LARGE = {"cpu": (), "cuda": ("kd_tree", "auto")}


def flat(rows, columns, seed):
    return numpy.random.default_rng(seed).random((rows, columns), dtype=numpy.float32)


def low(rows, columns, seed):
    spread = numpy.random.default_rng(1).standard_normal((3, columns), dtype=numpy.float32)
    random = numpy.random.default_rng(seed)
    surface = numpy.tanh(random.standard_normal((rows, 3), dtype=numpy.float32) @ spread)
    return surface + 0.01 * random.standard_normal((rows, columns), dtype=numpy.float32)


class Processor:
    options = {"device": "cpu", "n_jobs": 1}
    put = staticmethod(lambda rows: rows)
    now = staticmethod(time.process_time)
    same = staticmethod(lambda one, other: bool((one == other).all()))


class Gpu:
    options = {}

    def __init__(self):
        import torch

        if not torch.cuda.is_available():
            raise ImportError("no GPU")
        self.torch = torch
        self.same = torch.equal

    def put(self, rows):
        return self.torch.from_numpy(rows).cuda()

    def now(self):
        self.torch.cuda.synchronize()
        return time.perf_counter()


def timed(device, call):
    def once():
        start = device.now()
        found = call()
        return (device.now() - start) * 1e3, found.indices

    first, ids = once()
    return first if first > LONG_MS else statistics.median(once()[0] for _ in range(3)), ids


def line(device, name, call, ways=WAYS):
    """auto's milliseconds and the sooner way's."""
    took = {way: timed(device, lambda way=way: call(way, **device.options)) for way in ways}
    if any(not device.same(took[way][1], took["auto"][1]) for way in ways):
        raise SystemExit(f"{name}: ids differ")
    auto = took["auto"][0]
    best = min(took[way][0] for way in ways if way != "auto")
    print(name, *(f"{way} {took[way][0]:8.2f}" for way in ways), f"{auto / best:.2f}", flush=True)
    return auto, best


def lines(device, options):
    """Name, auto's milliseconds and the sooner way's, of one job after another."""
    for rows in options.points:
        for columns in options.columns:
            for make in flat, low:
                points = device.put(make(rows, columns, 2))
                for queries in options.queries:
                    asked = device.put(make(queries, columns, 3))
                    name = f"{rows:9d} x {columns:2d} {make.__name__:4s} {queries:7d} queries"
                    yield name, *line(device, name, lambda way, points=points, asked=asked, **more: kith.knn(
                        points, asked, K, algorithm=way, **more))
                ways = WAYS if rows <= LARGE[options.device] else WAYS_OF_LARGE[options.device]
                name = f"{rows:9d} x {columns:2d} {make.__name__:4s} graph          "
                if ways:
                    yield name, *line(device, name, lambda way, points=points, **more: kith.knn_graph(
                        points, K, algorithm=way, **more), ways)


def is_too_long(device, auto, best):
    return auto > RATIO * best and auto > best + SHORT_MS[device]


def run(device, options):
    """Exit status."""
    end = time.monotonic() + options.seconds
    count, late = 0, []
    for name, auto, best in lines(device, options):
        count += 1
        if is_too_long(options.device, auto, best):
            late.append(f"{name.strip()}: {auto:.1f} ms, the sooner way {best:.1f}")
        if time.monotonic() > end:
            break
    print(f"auto: {count} jobs, {len(late)} take more than {RATIO} times the sooner way's time and "
          f"{SHORT_MS[options.device]:g} ms more")
    for each in late:
        print("  " + each)
    return 1 if late else 0


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=SIZES, default="cuda")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="folder of libkith.so")
    parser.add_argument("--seconds", type=float, help="no job begins later")
    for name in "points", "columns", "queries":
        parser.add_argument(f"--{name}", type=int, nargs="+")
    options = parser.parse_args()
    for name, value in SIZES[options.device].items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def main():
    global kith, numpy
    options = parse_options()
    os.environ.setdefault("KITH_LIBRARY", str((options.build / "libkith.so").resolve()))
    sys.path.insert(0, str(ROOT / "python"))
    try:
        import kith
        import numpy

        device = Processor() if options.device == "cpu" else Gpu()
    except ImportError as error:
        print(f"bench_auto: absent ({error})")
        return 77
    return run(device, options)


if __name__ == "__main__":
    sys.exit(main())
