#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `auto` takes on a GPU beside the tree and all pairs, each named, in one run: kith.knn and kith.knn_graph of
tensors, k = 10, medians of whole calls in ms. Compares ids of the three.

    bench_auto.py [--seconds N] [--points N ...] [--columns D ...] [--queries Q ...]

  flat   uniform in the unit cube
  low    near a surface of three dimensions: a linear map of three columns, tanh, and 1 % noise

A line ends with auto's time over the sooner way's. Prices in src/tree/tree_cost.c are by such lines.
"""
import argparse
import statistics
import sys
import time

import kith

K = 10
WAYS = "kd_tree", "brute", "auto"

try:
    import torch
except ImportError:
    torch = None


def flat(rows, columns, seed):
    return torch.rand(rows, columns, device="cuda", generator=torch.Generator(device="cuda").manual_seed(seed))


def low(rows, columns, seed):
    spread = torch.randn(3, columns, device="cuda", generator=torch.Generator(device="cuda").manual_seed(1))
    random = torch.Generator(device="cuda").manual_seed(seed)
    surface = torch.tanh(torch.randn(rows, 3, device="cuda", generator=random) @ spread)
    return surface + 0.01 * torch.randn(rows, columns, device="cuda", generator=random)


def timed(call, runs=3):
    found = call()
    times = []
    for _ in range(runs):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times), found.indices


def line(name, call, ways=WAYS, runs=3):
    took = {way: timed(lambda way=way: call(way), runs) for way in ways}
    if any(not torch.equal(took[way][1], took["auto"][1]) for way in ways):
        raise SystemExit(f"{name}: ids differ")
    auto = took["auto"][0]
    best = min(took[way][0] for way in ways if way != "auto")
    print(name, *(f"{way} {took[way][0]:8.2f}" for way in ways), f"{auto / best:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0, help="no job begins later")
    parser.add_argument("--points", type=int, nargs="+", default=[30_000, 100_000, 1_000_000, 4_000_000])
    parser.add_argument("--columns", type=int, nargs="+", default=[3, 6, 10, 15])
    parser.add_argument("--queries", type=int, nargs="+", default=[1_000, 30_000, 300_000])
    options = parser.parse_args()
    if torch is None or not torch.cuda.is_available():
        print("bench_auto: absent (no PyTorch, or no GPU)")
        return 0
    end = time.monotonic() + options.seconds
    for rows in options.points:
        for columns in options.columns:
            for make in flat, low:
                points = make(rows, columns, 2)
                for queries in options.queries:
                    if time.monotonic() > end:
                        return 0
                    asked = make(queries, columns, 3)
                    line(f"{rows:9d} x {columns:2d} {make.__name__:4s} {queries:7d} queries",
                         lambda way, points=points, asked=asked: kith.knn(points, asked, K, algorithm=way))
                ways = WAYS if rows <= 1_000_000 else ("kd_tree", "auto")
                line(f"{rows:9d} x {columns:2d} {make.__name__:4s} graph          ",
                     lambda way, points=points: kith.knn_graph(points, K, algorithm=way), ways, 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
