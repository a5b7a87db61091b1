# SPDX-License-Identifier: Apache-2.0
"""Merge queue, buffered search, hierarchical partition (2015): Table I and figures 5 to 9.

Rows of work "queue": seconds of every method on distances of Q = 2^13 queries in 128 dimensions, N = 2^15
with k = 2^5 .. 2^10, and k = 2^8 with N = 2^13 .. 2^16; figures 6 to 9 are ratios of them. Rows of work
"updates" (figure 5) are counted, not timed: an update is one write of an element to a place of the queue;
a merge writes the places whose content it changes. Rows of the works "queue.level",
"queue.level.path", "queue.buffer" and "queue.merge" have in `at` the m, the buffer's size, or the merge.
"""
import numpy

import select_peers
from bench_gpu import torch
from select_rows import BUFFER_OF

DIMS, QUERIES, LEAST = 128, 1 << 13, 8
QUEUES = [("insertion", False), ("heap", False), ("merge_queue", False), ("merge_queue", True)]
OTHERS = ["auto", "scan", "quick", "bitonic", "radix", "threshold_heap"]


def settings(quick):
    """(N, k) of the table."""
    if quick:
        return [(1 << 11, 1 << 5), (1 << 11, 1 << 8), (1 << 12, 1 << 8)]
    return [(1 << 15, 1 << i) for i in range(5, 11)] + [(1 << i, 1 << 8) for i in (13, 14, 16)]


def variants(method, aligned):
    """Plain, each buffer, each group, both."""
    plain = {"method": method, "aligned": aligned}
    found = [plain] + [{**plain, "buffer": name} for name in ("plain", "full", "sorted")]
    found += [{**plain, "group": group} for group in (2, 4, 8)]
    return found + [{**plain, "buffer": BUFFER_OF[method], "group": 4}]


def measure(bench):
    queries = 1 << 8 if bench.quick else QUERIES
    for cols in sorted({n for n, _ in settings(bench.quick)}):
        asked, points = bench.uniform(queries, DIMS, 1), bench.uniform(cols, DIMS, 2)
        seconds = bench.seconds(lambda: bench.distances(asked, points))
        matrix = bench.distances(asked, points)
        bench.add("queue", seconds, matrix.shape, 0, threads=bench.threads, method="distances")
        if bench.side == "cuda":
            measure_copy(bench, matrix)
        for k in (k for n, k in settings(bench.quick) if n == cols):
            measure_matrix(bench, matrix, k)
            bench.write()
        del matrix


def measure_copy(bench, matrix):
    there = torch.empty(matrix.shape, pin_memory=True)
    seconds = bench.seconds(lambda: there.copy_(matrix))
    bench.add("queue", seconds, matrix.shape, 0, method="copy to the host")


def measure_matrix(bench, matrix, k):
    for method, aligned in QUEUES:
        if bench.side == "cpu" and aligned:
            continue  # on a processor a row has no warp to align with
        for switches in variants(method, aligned):
            bench.try_kith("queue", matrix, k, **switches)
    for method in OTHERS:
        bench.try_kith("queue", matrix, k, method=method)
    if bench.side == "cpu":
        for method in ("auto", "heap"):
            bench.try_kith("queue", matrix, k, threads=1, method=method)
        bench.try_peers("queue", matrix, k, select_peers.of_host(matrix, k, bench.threads))
    else:
        bench.try_peers("queue", matrix, k, select_peers.of_device(matrix, k))


# ---- Sizes that the paper fixes ----------------------------------------------------------------------

LEVELS, SIZES = (4, 8, 16, 32, 64), (8, 16, 32, 64)
LONG = 1 << 8  # above this k, queues that warps wait for are left out


def measure_sizes(bench):
    queries, cols = (1 << 8, 1 << 11) if bench.quick else (QUERIES, 1 << 15)
    matrix = bench.distances(bench.uniform(queries, DIMS, 1), bench.uniform(cols, DIMS, 2))
    for k in (1 << 5, 1 << 8) if bench.quick else (1 << 5, 1 << 6, 1 << 7, 1 << 8, 1 << 10):
        for aligned in (False, True) if bench.side == "cuda" else (False,):
            if aligned or k <= LONG:
                measure_levels(bench, matrix, k, aligned)
                measure_merges(bench, matrix, k, aligned)
        for method in ("insertion", "heap", "merge_queue"):
            if method != "insertion" or k <= LONG:
                measure_buffers(bench, matrix, k, method)
        bench.write()


def measure_levels(bench, matrix, k, aligned):
    """Each m, without a buffer, as the paper chose it, and with one of 32: a GPU has a kernel of its own for
    m = 8 and no buffer or one of 16, and with 32 all m have the same."""
    for work, path in (("queue.level", False), ("queue.level.path", True)):
        plain = {"method": "merge_queue", "aligned": aligned, "path": path}
        for level in LEVELS:
            bench.try_kith(work, matrix, k, at=level, level=level, **plain)
            bench.try_kith(work, matrix, k, at=level, level=level, buffer="full", buffer_size=32, **plain)


def measure_merges(bench, matrix, k, aligned):
    """Network against path, `at`, in the paper's variants of the merge queue."""
    for switches in ({}, {"buffer": "full"}, {"group": 4}, {"buffer": "full", "group": 4}):
        for merge in ("network", "path"):
            bench.try_kith("queue.merge", matrix, k, at=merge, method="merge_queue", aligned=aligned,
                           path=merge == "path", **switches)


def measure_buffers(bench, matrix, k, method):
    aligned = method == "merge_queue" and bench.side == "cuda"
    for buffer in ("plain", "full", "sorted") if bench.side == "cuda" else ("plain", "sorted"):
        for size in SIZES:
            bench.try_kith("queue.buffer", matrix, k, at=size, method=method, buffer=buffer, buffer_size=size,
                           aligned=aligned)


# ---- Figure 5 ---------------------------------------------------------------------------------------


class InsertionQueue:
    """Descending, the largest at place 0; every place up to the new element's is written."""

    def __init__(self, k):
        self.items = [float("inf")] * k
        self.updates = numpy.zeros(k, dtype=numpy.int64)

    def insert(self, value):
        items, place = self.items, 0
        while place + 1 < len(items) and items[place + 1] > value:
            items[place] = items[place + 1]
            place += 1
        items[place] = value
        self.updates[:place + 1] += 1


class HeapQueue:
    """A binary heap, the largest at the root; the new element replaces it and sinks."""

    def __init__(self, k):
        self.items = [float("inf")] * k
        self.updates = numpy.zeros(k, dtype=numpy.int64)

    def insert(self, value):
        items, place = self.items, 0
        while 2 * place + 1 < len(items):
            child = 2 * place + 1
            if child + 1 < len(items) and items[child + 1] > items[child]:
                child += 1
            if items[child] <= value:
                break
            items[place] = items[child]
            self.updates[place] += 1
            place = child
        items[place] = value
        self.updates[place] += 1


class MergeQueue:
    """Levels of m, m, 2m, 4m ... places, each descending, heads descending too; a level is merged with
    those above when its head has become the larger one."""

    def __init__(self, k):
        self.items = numpy.full(k, numpy.inf)
        self.updates = numpy.zeros(k, dtype=numpy.int64)

    def write(self, end, ordered):
        self.updates[:end] += self.items[:end] != ordered
        self.items[:end] = ordered

    def insert(self, value):
        level = self.items[1:LEAST]
        place = int(numpy.count_nonzero(level > value))
        self.write(LEAST, numpy.concatenate([level[:place], [value], level[place:]]))
        head, following = 0, LEAST
        while following < len(self.items) and self.items[head] < self.items[following]:
            self.write(2 * following, -numpy.sort(-self.items[:2 * following]))
            head, following = following, 2 * following


def count_updates(bench):
    if bench.side != "cpu":
        return  # they are the same everywhere
    cols = 1 << 12 if bench.quick else 1 << 15
    trials = 2 if bench.quick else 16
    for kind, name in ((InsertionQueue, "insertion"), (HeapQueue, "heap"), (MergeQueue, "merge_queue")):
        for k in (32, 64) if bench.quick else [1 << i for i in range(5, 11)]:
            each = numpy.array([updates_of(kind(k), k, cols, seed) for seed in range(trials)])
            totals = each.sum(axis=1)
            bench.add("updates", totals.tolist(), (1, cols), k, quantity="updates", method=name)
            if k == 64:
                for place, mean in enumerate(each.mean(axis=0)):
                    bench.add("updates", [mean], (1, cols), k, at=place, quantity="updates", method=name)
    for k in (32, 64) if bench.quick else [1 << i for i in range(5, 11)]:
        expected = k + (k / numpy.arange(k + 1, cols + 1)).sum()  # the i-th is among k with chance k / i
        bench.add("updates", [expected], (1, cols), k, quantity="expected insertions", method="any")


def updates_of(queue, k, cols, seed):
    """Updates of each place while a random row passes. Whether an element enters is decided by the k-th
    smallest so far, whatever the queue looks like."""
    for value in entering(k, cols, seed):
        queue.insert(value)
    assert sorted(queue.items) == sorted(numpy.random.default_rng(seed).random(cols))[:k]
    return queue.updates


def entering(k, cols, seed):
    row = numpy.random.default_rng(seed).random(cols)
    best = HeapQueue(k)
    for value in row.tolist():
        if value < best.items[0]:
            best.insert(value)
            yield value
