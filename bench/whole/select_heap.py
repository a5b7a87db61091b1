# SPDX-License-Identifier: Apache-2.0
"""TH-heap (2015): figures 5 to 12, on data of the paper's two shapes.

NUS-WIDE (269,648 x 500) and ImageNet (2,213,937 x 150) are replaced by mixtures of as many points in [0, 1];
queries are uniform there, as the paper's are. Rows of work "heap.5" ... "heap.12":

  5, 7, 9   compression ratio, ratio of the k-th distance to the threshold, while the sample, k, the batch vary
  6, 8      seconds of the method's parts and of the whole method
  10 to 12  seconds of methods while points, k, queries vary

compression = points / the most distances a query of the batch keeps, mean over batches; threshold ratio =
mean of k-th distance / threshold (equations 4 and 3 of the paper). Where the paper marks a default we take
the middle of its Table V: k 64, 512 queries, a sample of 8 k, batches of 4.

Parts are the method's own: the threshold of a sample, the compression of what passes, the heap. On a GPU each is
a kernel, and PyTorch's profiler knows their seconds (what puts answers out is "part: rest"). On the processor
build/bench_select --parts has the clock between them: seconds that a thread worked, on uniform values of the same
shape, since of values a selection sees no more than their order.
"""
import json
import pathlib
import subprocess
import tempfile

import numpy

import select_peers
from bench_gpu import torch

K, QUERIES, SAMPLE, BATCH = 64, 512, 512, 4
WIDE, TALL = (269648, 500), (2213937, 150)
SAMPLES = [64, 128, 256, 512, 1024, 2048, 4096, 8192]
KS = [32, 64, 128, 256, 512]
CLUSTERS, INTRINSIC, CHUNK = 200, 12, 1 << 16


def make_points(rows, cols, quick):
    """Clusters on few directions, in [0, 1]; the same on every machine."""
    rows = rows // 64 if quick else rows
    random = numpy.random.default_rng(7)
    directions = random.normal(size=(INTRINSIC, cols)).astype(numpy.float32)
    centres = random.normal(size=(CLUSTERS, INTRINSIC)).astype(numpy.float32)
    points = numpy.empty((rows, cols), dtype=numpy.float32)
    for first in range(0, rows, CHUNK):
        count = min(CHUNK, rows - first)
        place = centres[random.integers(CLUSTERS, size=count)]
        place = place + 0.4 * random.standard_normal((count, INTRINSIC), dtype=numpy.float32)
        points[first:first + count] = place @ directions
        points[first:first + count] += random.standard_normal((count, cols), dtype=numpy.float32) * 0.3
    low, high = points.min(), points.max()
    points -= low
    points /= high - low
    return points


class Data:
    """Squared distances of queries to points, on the side where it is measured."""

    def __init__(self, bench, rows, cols):
        points = make_points(rows, cols, bench.quick)
        self.bench = bench
        self.points = torch.from_numpy(points).cuda() if bench.side == "cuda" else points

    def distances(self, queries, rows=None):
        asked = self.bench.uniform(queries, self.points.shape[1], 5)
        found = self.bench.distances(asked, self.points[:rows])
        found += (asked * asked).sum(1)[:, None]
        return found


def pick(bench, count, of):
    """Places of a sample, ascending."""
    places = numpy.sort(numpy.random.default_rng(9).choice(of, count, replace=False))
    return torch.from_numpy(places).cuda() if bench.side == "cuda" else places


def kth_of(bench, matrix, k):
    return bench.kith.selecting(matrix, k, kth=True)()


def contiguous(bench, matrix):
    return matrix.contiguous() if bench.side == "cuda" else numpy.ascontiguousarray(matrix)


def measure(bench):
    host = bench.side == "cpu"
    wide = Data(bench, *WIDE)
    matrix = wide.distances(few(bench))
    for sample in SAMPLES:
        compression(bench, "heap.5", matrix, K, sample, BATCH)
        times(bench, "heap.6", matrix, K, sample)
    for batch in (1, 2, 4, 8, 16):
        compression(bench, "heap.9", matrix, K, SAMPLE, batch)
    del matrix
    for queries in (64, 128) if bench.quick else (512, 1024, 2048) if host else (512, 2048, 8192):
        matrix = wide.distances(queries)
        methods(bench, "heap.12", matrix, K)
        del matrix
    del wide
    tall = Data(bench, *TALL)
    asked = few(bench, tall=True)
    matrix = tall.distances(asked)
    for k in KS:
        compression(bench, "heap.7", matrix, k, SAMPLE, BATCH)
        times(bench, "heap.8", matrix, k, SAMPLE)
        methods(bench, "heap.11", matrix, k)
    del matrix
    rows = len(tall.points)
    for part in (rows // 8, rows // 4, rows // 2, rows):
        matrix = tall.distances(asked, part)
        methods(bench, "heap.10", matrix, K)
        del matrix


def measure_parts(bench):
    """Figures 6 and 8 alone."""
    matrix = Data(bench, *WIDE).distances(few(bench))
    for sample in SAMPLES:
        times(bench, "heap.6", matrix, K, sample)
    del matrix
    bench.write()
    matrix = Data(bench, *TALL).distances(few(bench, tall=True))
    for k in KS:
        times(bench, "heap.8", matrix, k, SAMPLE)


def few(bench, tall=False):
    """Queries of figures that do not vary them."""
    if bench.quick:
        return QUERIES // 16 if tall else QUERIES // 8
    return QUERIES // 4 if tall and bench.side == "cpu" else QUERIES


def pruned(bench, matrix, k, sample):
    """Thresholds, and how many distances each query keeps."""
    places = pick(bench, min(sample, matrix.shape[1]), matrix.shape[1])
    threshold = kth_of(bench, contiguous(bench, matrix[:, places]), k)
    kept = (matrix <= threshold[:, None]).sum(1)
    return threshold, kept.cpu().numpy() if bench.side == "cuda" else kept


def compression(bench, work, matrix, k, sample, batch):
    threshold, kept = pruned(bench, matrix, k, sample)
    most = kept[:len(kept) // batch * batch].reshape(-1, batch).max(axis=1)
    # The library orders squares; the paper's ratio is one of distances.
    ratio = (kth_of(bench, matrix, k) / threshold) ** 0.5
    at = {"heap.5": sample, "heap.7": k, "heap.9": batch}[work]
    bench.add(work, [float((matrix.shape[1] / most).mean())], matrix.shape, k, at, "compression",
              sample=sample)
    bench.add(work, [float(ratio.mean())], matrix.shape, k, at, "threshold ratio", sample=sample)


def times(bench, work, matrix, k, sample):
    at = sample if work == "heap.6" else k
    times_k = max(1, sample // k)
    find = parts_of_kernels if bench.side == "cuda" else parts_of_threads
    for name, seconds in find(bench, matrix, k, times_k).items():
        bench.add(work, seconds, matrix.shape, k, at, f"part: {name}", bench.threads, sample=times_k,
                  method="threshold_heap")
    bench.try_kith(work, matrix, k, at=at, method="threshold_heap", sample=times_k)


PARTS = {"sample_kernel": "threshold", "compress_kernel": "compression", "heap_kernel": "heap"}
RUNS = 5


def parts_of_kernels(bench, matrix, k, sample):
    """{part: seconds of each run}; empty, and a line, where the profiler is absent or sees nothing."""
    call = bench.kith.selecting(matrix, k, method="threshold_heap", sample=sample)
    call()
    bench.wait()
    try:
        events = kernels(bench, call)
    except Exception as error:  # pylint: disable=broad-exception-caught # the rest is measured without it
        print(f"parts of threshold_heap: absent (PyTorch's profiler: {error})", flush=True)
        return {}
    found = {}
    for event in sorted(events, key=lambda event: event["ts"]):
        part = next((part for kernel, part in PARTS.items() if kernel in event["name"]), "rest")
        found.setdefault(part, []).append(1e-6 * event["dur"])
    if not all(part in found for part in PARTS.values()) or any(len(each) % RUNS for each in found.values()):
        names = sorted({event["name"][:60] for event in events})
        print(f"parts of threshold_heap: absent (the profiler saw {names})", flush=True)
        return {}
    return {part: [sum(each[len(each) // RUNS * run:len(each) // RUNS * (run + 1)]) for run in range(RUNS)]
            for part, each in found.items()}


def kernels(bench, call):
    """Events of the kernels of RUNS calls."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        for _ in range(RUNS):
            call()
        bench.wait()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "trace.json")
        seen.export_chrome_trace(str(path))
        trace = json.loads(path.read_text(encoding="utf-8"))
    return [event for event in trace["traceEvents"] if event.get("cat", "").lower() == "kernel"]


def parts_of_threads(bench, matrix, k, sample):
    """The same on the processor: median, least, most."""
    program = bench.build / "bench_select"
    if not program.exists():
        print(f"parts of threshold_heap: absent (no {program.name} in that folder)", flush=True)
        return {}
    sizes = {"rows": matrix.shape[0], "cols": matrix.shape[1], "k": k, "sample": sample, "threads": bench.threads,
             "repeat": 3}
    words = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    done = subprocess.run([program, "--parts", *words], stdout=subprocess.PIPE, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    return {name: [float(word) for word in words] for name, *words in lines}


def methods(bench, work, matrix, k):
    for method in ("threshold_heap", "bitonic", "heap", "auto"):
        bench.try_kith(work, matrix, k, method=method)
    if bench.side == "cuda":
        bench.try_peers(work, matrix, k, select_peers.of_device(matrix, k))
