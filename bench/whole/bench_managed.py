#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows in memory that host and GPU share (cudaMallocManaged), beside rows of the host and rows of the device.

    KITH_LIBRARY=build/libkith.so bench_managed.py [--rows 1000000] [--runs 7] [--csv bench/results/managed.csv]

An exact search and an exact graph, k = 10. "managed" rows were last written by the host, as those of a program that has
just made them: a driver moves their pages when the GPU asks for them. "prefetched": the same, moved as a whole by
cudaMemPrefetchAsync first, whose time counts. "host": a NumPy array, which kith copies. "device": a tensor that lies
there already. All have the same neighbours. Medians; needs PyTorch.
"""
import argparse
import ctypes
import datetime
import pathlib
import statistics
import sys
import time

import numpy
import torch

import bench_rows

sys.path.insert(0, str(bench_rows.ROOT / "python"))
import kith  # noqa: E402

COLUMNS = ["date", "commit", "gpu", "work", "rows_in", "ms", "low", "high", "runs", "command"]
K, COLS, QUERIES = 10, 128, 10000
ATTACH_GLOBAL, ON_DEVICE = 1, 1


class Location(ctypes.Structure):
    """cudaMemLocation of CUDA 13."""

    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Managed:
    """A matrix of float32 that both sides see."""

    def __init__(self, rows, cols):
        self.runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")
        self.address = ctypes.c_void_p()
        self.bytes = rows * cols * 4
        self.check(self.runtime.cudaMallocManaged(ctypes.byref(self.address), ctypes.c_size_t(self.bytes),
                                                  ATTACH_GLOBAL))
        memory = (ctypes.c_float * (rows * cols)).from_address(self.address.value)
        self.host = numpy.frombuffer(memory, numpy.float32).reshape(rows, cols)
        self.__cuda_array_interface__ = {"shape": (rows, cols), "typestr": "<f4", "version": 3,
                                         "data": (self.address.value, False)}
        self.tensor = torch.as_tensor(self, device="cuda")

    @staticmethod
    def check(error):
        if error != 0:
            raise RuntimeError(f"CUDA says {error}")

    def prefetch(self):
        self.check(self.runtime.cudaMemPrefetchAsync(self.address, ctypes.c_size_t(self.bytes), Location(ON_DEVICE, 0),
                                                     0, None))


def time_of(call, before, runs):
    """Milliseconds, and the last answer."""
    times = []
    for _ in range(runs + 1):
        before()
        torch.cuda.synchronize()
        start = time.perf_counter()
        answer = call()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    ids = answer.indices
    return times[1:], ids if isinstance(ids, numpy.ndarray) else ids.cpu().numpy()


def ways_of(managed, points, queries, graph):
    """Where the rows are: the call, and what the host does before."""
    device = torch.from_numpy(points).cuda()
    asked = torch.from_numpy(queries).cuda()

    def call(rows, q, **options):
        return kith.knn_graph(rows, K, **options) if graph else kith.knn(rows, q, K, **options)

    def write():
        managed.host[:] = points

    def prefetched():
        managed.prefetch()
        return call(managed.tensor, asked)

    return {"host": (lambda: call(points, queries, device="cuda"), lambda: None),
            "managed": (lambda: call(managed.tensor, asked), write),
            "prefetched": (prefetched, write),
            "device": (lambda: call(device, asked), lambda: None)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    random = numpy.random.default_rng(3)
    centres = 3 * random.standard_normal((options.rows // 1000 + 1, COLS), numpy.float32)
    points = centres[random.integers(0, len(centres), options.rows)]
    points += random.standard_normal(points.shape, numpy.float32)
    queries = points[:QUERIES] + numpy.float32(0.1)
    managed = Managed(options.rows, COLS)
    rows = []
    for graph in False, True:
        work = "graph" if graph else f"{QUERIES} queries"
        truth = None
        for name, (call, before) in ways_of(managed, points, queries, graph).items():
            times, ids = time_of(call, before, options.runs)
            truth = ids if truth is None else truth
            if not numpy.array_equal(truth, ids):
                raise SystemExit(f"bench_managed: {work}, {name}: other neighbours than those of host rows")
            print(f"{work} x {options.rows} x {COLS}, rows in {name}: {statistics.median(times):.1f} ms", flush=True)
            rows.append({"date": datetime.date.today().isoformat(), "commit": bench_rows.commit_name(),
                         "gpu": torch.cuda.get_device_name(), "work": f"{work} x {options.rows} x {COLS}",
                         "rows_in": name, "ms": f"{statistics.median(times):.1f}", "low": f"{min(times):.1f}",
                         "high": f"{max(times):.1f}", "runs": options.runs,
                         "command": "bench/whole/bench_managed.py " + " ".join(sys.argv[1:])})
    bench_rows.append(options.csv, COLUMNS, rows)


if __name__ == "__main__":
    main()
