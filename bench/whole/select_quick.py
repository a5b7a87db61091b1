# SPDX-License-Identifier: Apache-2.0
"""Quick multi-select (2014): figures 5 to 10 and Table 2, beside today's peers.

Rows of work "quick.5" ... "quick.10", "quick.table2". The copy of the paper that we read has lost the
numbers in its text; the ranges below are ours, around what Table I of the merge-queue paper quotes from it.

  5   Q rows, k and N vary                     insertion, a thread a row (Garcia et al.), and peers
  6   N columns, k and Q vary                  the same
  7   Q N constant, N / Q and k vary           truncated bitonic sort (Sismanis et al.), and peers
  8   the same; the k-th value alone           radix, torch.kthvalue instead of Alabi et al.
  9   N columns, time a row while Q grows      where the device is full
  10  N and k vary, time a row                 std::nth_element on one core
  table 2: mean and deviation over trials, each with data of its own

The paper's answers are in no order: rows of quick with `at` "unsorted". Others stand beside them for those who
want them sorted.
"""
import select_peers
from bench_gpu import torch

KS = [16, 64, 256, 512]


def measure(bench):
    for part in PARTS.values():
        part(bench)


def by_k(bench):
    """Figures 5 and 6."""
    few, host = bench.quick, bench.side == "cpu"
    rows = 64 if few else 512 if host else 8192
    for cols in [1 << i for i in ((10, 11) if few else range(12, 16))]:
        compare(bench, "quick.5", rows, cols, "insertion")
    for queries in [1 << i for i in ((4, 6) if few else range(4, 11, 2) if host else range(5, 14, 2))]:
        compare(bench, "quick.6", queries, 1 << (11 if few else 14), "insertion")


def by_shape(bench):
    """Figures 7 and 8."""
    product = 16 if bench.quick else 24 if bench.side == "cpu" else 27
    for power in (10, 12) if bench.quick else range(10, product + 1, 3):
        compare(bench, "quick.7", 1 << (product - power), 1 << power, "bitonic")
        kth_alone(bench, 1 << (product - power), 1 << power)


def while_rows_grow(bench):
    """Figure 9."""
    few, host = bench.quick, bench.side == "cpu"
    for queries in [1 << i for i in ((0, 4) if few else range(0, 8, 2) if host else range(0, 13, 2))]:
        matrix = bench.uniform(queries, 1 << (12 if few else 16))
        for k in KS:
            quick_both(bench, "quick.9", matrix, k)
            bench.try_kith("quick.9", matrix, k, method="auto")
        del matrix


def peers_of(bench, matrix, k):
    if bench.side == "cpu":
        return select_peers.of_host(matrix, k, bench.threads)
    return select_peers.of_device(matrix, k)


def quick_both(bench, work, matrix, k):
    """Unsorted, as the paper's answers are, and sorted, as the others'."""
    for unsorted in (True, False):
        bench.try_kith(work, matrix, k, at="unsorted" if unsorted else "", method="quick", unsorted=unsorted)


def compare(bench, work, rows, cols, rival):
    matrix = bench.uniform(rows, cols)
    for k in KS:
        quick_both(bench, work, matrix, k)
        for method in ("auto", rival):
            bench.try_kith(work, matrix, k, method=method)
        bench.try_peers(work, matrix, k, peers_of(bench, matrix, k))


def kth_alone(bench, rows, cols):
    matrix = bench.uniform(rows, cols)
    for k in KS:
        quick_both(bench, "quick.8", matrix, k)
        for method in ("radix", "auto"):
            bench.try_kith("quick.8", matrix, k, kth=True, at="kth", method=method)
        if bench.side == "cuda":
            taken = bench.seconds(lambda k=k: torch.kthvalue(matrix, k, dim=1))
            bench.add("quick.8", taken, matrix.shape, k, "kth", method="torch.kthvalue")


def one_core(bench):
    """Rows that one core selects from in some seconds, and rows that fill this side."""
    if select_peers.nth_library() is None:
        return
    for power in (10, 12) if bench.quick else range(10, 21, 2):
        most = 1 << (16 if bench.quick else 24 if bench.side == "cpu" else 28)
        matrix = bench.uniform(max(1, min(8192, most >> power)), 1 << power)
        few = matrix[:max(1, (1 << (14 if bench.quick else 22)) >> power)]
        few = few if bench.side == "cpu" else few.cpu().numpy()
        for k in KS:
            bench.try_kith("quick.10", matrix, k, method="quick")
            taken = bench.seconds(select_peers.nth_selecting(few, k, 1))
            bench.add("quick.10", taken, few.shape, k, threads=1, method="std::nth_element+sort")


def trials(bench):
    count = 20 if bench.quick else 1000
    queries = 64 if bench.quick or bench.side == "cpu" else 1024
    for cols in [1 << i for i in ((10,) if bench.quick else (12, 13, 14))]:
        for k in (64, 256):
            taken = []
            room = bench.uniform(queries, cols)
            call = bench.kith.selecting(room, k, method="quick", unsorted=True)
            call()
            for seed in range(count):
                fresh = bench.uniform(queries, cols, seed)
                room[:] = fresh
                taken.append(bench.once(call))
            bench.add("quick.table2", taken, room.shape, k, "mean", threads=bench.threads, method="quick",
                      quantity="seconds")
            bench.rows[-1]["value"] = f"{sum(taken) / count:.6g}"


# By figure: each can be measured alone.
PARTS = {"quick.5": by_k, "quick.7": by_shape, "quick.9": while_rows_grow, "quick.10": one_core,
         "quick.table2": trials}
