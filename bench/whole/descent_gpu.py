# SPDX-License-Identifier: Apache-2.0
"""bench_descent.py --side cuda: kith's NN-Descent and its exact graph on one GPU. Needs PyTorch alone.

  mixture1m    1,000,000 x 128, 1,000 clusters of intrinsic dimension 12
  blob1m       1,000,000 x 128, one Gaussian of intrinsic dimension 24
  mixture10m   10,000,000 x 96, 10,000 clusters of intrinsic dimension 12
  wide1m       1,000,000 x 960, 1,000 clusters of intrinsic dimension 24
  vectors1m    1,000,000 x 100, cosine, in the manner of word vectors
  sift, fashion  of the folder KITH_DATA
  bytes100m    100,000,000 x 96 bytes, 10,000 clusters; only when it is named
  METRIC300k   300,000 x 64, 300 clusters of intrinsic dimension 12, under manhattan, chebyshev, chi2 and kl (values
               not negative, shares of 1), jaccard (most values 0); only when they are named
  products1m   1,000,000 x 128, 1,000 clusters, lengths of rows multiplied by exp(0.3 z), inner_product; likewise
  hubs1m       vectors1m under inner_product; likewise
  table1       all of the next line, in a minute or so: the sizes and columns of table 1 of Wang, Zhao, Zeng 2021,
               beside cuVS' nn_descent where it can be imported and there are a million points. The paper's sets are
               not here: points are generated, in clusters of intrinsic dimension 12 (GIST: 24; GloVe: as vectors1m)
  sift1m-shape deep1m-shape gist1m-shape glove1m-shape sift10m-shape sift100m-shape deep100m-shape
               SIFT in bytes, as its files are; DEEP100M in bytes, too. With less than 100 GiB on the device those of
               10^8 have half of their points, and the work's name says so. DEEP1B does not fit one device

Points are made on the device and stay there, and so does the answer. The time is that of a call, the first
one not counted; its phases are in the row. recall: of rows drawn at random, solved exactly here, by PyTorch
in double, ties no misses; `said` is what kith said of its own sample.
"""
import ctypes
import dataclasses
import datetime
import statistics
import sys
from dataclasses import dataclass

import numpy

import bench_data
import bench_rows
import descent_rows
from bench_gpu import Kith, Matrix, Neighbors, SearchParams, stream, timed, torch
from descent_types import DescentParams, DescentReport, search_of

METRICS = {"euclidean": 1, "inner_product": 3, "cosine": 4, "manhattan": 6, "chebyshev": 7, "chi2": 8, "jaccard": 10,
           "kl": 11}
STARTS = {"random": 1, "screen": 2}
UPDATES = {"nearest": -1, "all": 1}
DTYPES = {"torch.float32": 1, "torch.uint8": 5}
CHECKED, AT = 1000, 10
COMPARED = 1 << 16  # points at a time
PIECE = 10_000_000  # bytes are made of so many rows at a time
NOISE = 0.01


@dataclass
class Work:
    """Points to be made."""

    name: str
    rows: int
    cols: int
    clusters: int = 1000
    intrinsic: int = 12
    kind: str = "mixture"
    metric: str = "euclidean"
    checked: int = CHECKED  # rows that are solved exactly here
    settings: tuple = ()  # of those that were asked for; empty: all
    peers: bool = False


WORKS = [
    Work("mixture1m", 1_000_000, 128),
    Work("blob1m", 1_000_000, 128, clusters=1, intrinsic=24),
    Work("mixture10m", 10_000_000, 96, clusters=10_000),
    Work("wide1m", 1_000_000, 960, intrinsic=24),
    Work("vectors1m", 1_000_000, 100, kind="vectors", metric="cosine"),
    Work("sift", 0, 0, kind="sift_imagenet400k_base.u8bin"),
    Work("fashion", 0, 0, kind="fashion_mnist_base.u8bin"),
]
NAMED = [
    Work("bytes100m", 100_000_000, 96, clusters=10_000, kind="bytes", checked=200),
    Work("products1m", 1_000_000, 128, kind="lengths", metric="inner_product"),
    Work("hubs1m", 1_000_000, 100, kind="vectors", metric="inner_product"),
    Work("manhattan300k", 300_000, 64, clusters=300, metric="manhattan"),
    Work("chebyshev300k", 300_000, 64, clusters=300, metric="chebyshev"),
    Work("chi2300k", 300_000, 64, clusters=300, kind="shares", metric="chi2"),
    Work("kl300k", 300_000, 64, clusters=300, kind="shares", metric="kl"),
    Work("jaccard300k", 300_000, 64, clusters=300, kind="patterns", metric="jaccard"),
]

FEW, ROOM = ("default", "recall 0.99"), 100 << 30
TABLE = [
    Work("sift1m-shape", 1_000_000, 128, kind="bytes", settings=FEW, peers=True),
    Work("deep1m-shape", 1_000_000, 96, settings=FEW, peers=True),
    Work("gist1m-shape", 1_000_000, 960, intrinsic=24, settings=FEW, peers=True),
    Work("glove1m-shape", 1_000_000, 100, kind="vectors", metric="cosine", settings=FEW, peers=True),
    Work("sift10m-shape", 10_000_000, 128, clusters=10_000, kind="bytes", settings=FEW),
    Work("sift100m-shape", 100_000_000, 128, clusters=10_000, kind="bytes", checked=200, settings=("default",)),
    Work("deep100m-shape", 100_000_000, 96, clusters=10_000, kind="bytes", checked=200, settings=("default",)),
]


# ---- libkith: section 13 of kith.h ------------------------------------------------------------------


def params_of(work, k, setting, sample):
    params = DescentParams(struct_size=ctypes.sizeof(DescentParams), metric=METRICS[work.metric], k=k,
                           sample=sample)
    for name, value in setting.items():
        if name == "rounds" and value == 0:
            value = -1
        if name == "updates":
            params.all_updates = UPDATES[value]
        else:
            setattr(params, name, STARTS[value] if name == "start" else value)
    return params


# ---- Points -----------------------------------------------------------------------------------------


def clustered(work, rows, seed):
    """Rows of one cluster are made at once, then all are shuffled."""
    shared = torch.Generator(device="cuda").manual_seed(11)
    random = torch.Generator(device="cuda").manual_seed(seed)
    options = {"device": "cuda", "dtype": torch.float32}
    centres = torch.randn(work.clusters, work.cols, generator=shared, **options)
    label = torch.randint(work.clusters, (rows,), generator=random, device="cuda")
    counts = torch.bincount(label, minlength=work.clusters).tolist()
    scale = 0.5 / work.intrinsic**0.5 if work.clusters > 1 else 1.0
    points = torch.empty(rows, work.cols, **options)
    first = 0
    for cluster, count in enumerate(counts):
        frame = torch.randn(work.intrinsic, work.cols, generator=shared, **options)
        place = torch.randn(count, work.intrinsic, generator=random, **options)
        noise = torch.randn(count, work.cols, generator=random, **options)
        points[first:first + count] = centres[cluster] + scale * (place @ frame) + NOISE * noise
        first += count
    return points[torch.randperm(rows, generator=random, device="cuda")]


def make_bytes(work):
    points = torch.empty(work.rows, work.cols, device="cuda", dtype=torch.uint8)
    for first in range(0, work.rows, PIECE):
        some = clustered(work, min(PIECE, work.rows - first), 1 + first)
        points[first:first + len(some)] = (128 + 30 * some).clamp_(0, 255).to(torch.uint8)
    return points


def make_vectors(work):
    random = torch.Generator(device="cuda").manual_seed(1)
    options = {"device": "cuda", "dtype": torch.float32, "generator": random}
    spectrum = torch.arange(1, work.cols + 1, device="cuda", dtype=torch.float32) ** -0.5
    points = torch.randn(work.rows, work.cols, **options) * spectrum
    points += 0.5 * torch.randn(work.cols, **options) * spectrum
    return points * torch.exp(0.4 * torch.randn(work.rows, 1, **options))


def make(work, rows):
    """None where its file is absent."""
    if work.kind.endswith(".u8bin"):
        path = bench_data.shared_file(work.kind)
        points = None if path is None else torch.from_numpy(bench_data.read_points(str(path))).cuda()
        return points if points is None or not rows else points[:rows].clone()
    work.rows = min(rows or work.rows, work.rows)
    if work.kind == "vectors":
        return make_vectors(work)
    return make_bytes(work) if work.kind == "bytes" else changed(work, clustered(work, work.rows, 1))


def changed(work, points):
    """As the metric of a work wants its rows."""
    if work.kind == "lengths":
        random = torch.Generator(device="cuda").manual_seed(5)
        return points * torch.exp(0.3 * torch.randn(len(points), 1, device="cuda", generator=random))
    if work.kind == "shares":
        points = points.abs() + 1e-3
        return points / points.sum(dim=1, keepdim=True)
    return torch.where(points > 0.7, points, 0) if work.kind == "patterns" else points


# ---- Truth ------------------------------------------------------------------------------------------


def keys_of(metric, asked, some):
    """Of rows along the last dimension, ascending as neighbours are nearer."""
    if metric == "inner_product":
        return -(asked * some).sum(dim=-1)
    if metric == "chi2":
        return ((asked - some)**2 / (asked + some).clamp_min(1e-300)).sum(dim=-1)
    if metric == "kl":
        return (asked * (asked / some).log()).sum(dim=-1)
    if metric == "jaccard":
        one, other = asked != 0, some != 0
        return 1 - (one & other).sum(dim=-1).double() / (one | other).sum(dim=-1).clamp_min(1)
    power = {"manhattan": 1, "chebyshev": float("inf")}.get(metric, 2)
    return torch.linalg.vector_norm(asked - some, ord=power, dim=-1)


def all_keys_of(metric, asked, some):
    if metric in ("euclidean", "cosine"):
        return torch.cdist(asked, some, compute_mode="donot_use_mm_for_euclid_dist")
    return torch.stack([keys_of(metric, row, some) for row in asked])


class Truth:
    """Rows drawn at random and the distance of their K-th neighbour, in double."""

    def __init__(self, work, points):
        random = torch.Generator(device="cuda").manual_seed(77)
        self.work, self.points = work, points
        self.rows = torch.randperm(len(points), generator=random, device="cuda")[:work.checked]
        self.asked = self.doubles(points[self.rows])
        best = torch.empty(len(self.rows), 0, device="cuda", dtype=torch.float64)
        places = torch.arange(len(self.rows), device="cuda")
        for first in range(0, len(points), COMPARED):
            some = self.doubles(points[first:first + COMPARED])
            found = all_keys_of(work.metric, self.asked, some)
            own = self.rows - first
            inside = (own >= 0) & (own < len(some))
            found[places[inside], own[inside]] = float("inf")
            best = torch.cat([best, found], dim=1)
            best = best.topk(min(AT, best.shape[1]), dim=1, largest=False).values
        self.limit = best.max(dim=1).values

    def doubles(self, points):
        """Of length 1 for cosine: then euclidean distances have its order."""
        values = points.double()
        if self.work.metric == "cosine":
            values = values / values.norm(dim=1, keepdim=True).clamp_min(1e-300)
        return values

    def recall(self, ids):
        """The limit's last bits may differ from these."""
        chosen = ids[self.rows, :AT].long() & 0xFFFFFFFF
        wrong = (chosen >= len(self.points)) | (chosen == self.rows[:, None])
        some = self.doubles(self.points[chosen.clamp(max=len(self.points) - 1).flatten()])
        found = keys_of(self.work.metric, self.asked[:, None, :], some.view(*chosen.shape, -1))
        repeated = torch.zeros_like(wrong)
        ordered, order = chosen.sort(dim=1)
        repeated.scatter_(1, order[:, 1:], ordered.diff(dim=1) == 0)
        limit = self.limit + 1e-12 * self.limit.abs()
        near = (found <= limit[:, None]) & ~wrong & ~repeated
        return near.double().mean().item()


# ---- Calls ------------------------------------------------------------------------------------------


class Solver:
    """Graphs of points by libkith, all on the device."""

    def __init__(self, kith, work, points, k):
        self.kith, self.work, self.k = kith, work, k
        self.points = Matrix(points.data_ptr(), points.shape[0], 0, points.shape[1], DTYPES[str(points.dtype)])
        self.ids = torch.empty(len(points), k, dtype=torch.int32, device="cuda")
        self.distances = torch.empty(len(points), k, dtype=torch.float32, device="cuda")
        self.out = Neighbors(self.ids.data_ptr(), self.distances.data_ptr(), None, len(points), k)

    def descend(self, setting, sample):
        params = params_of(self.work, self.k, setting, sample)
        report = DescentReport(struct_size=ctypes.sizeof(DescentReport))
        search = search_of(params, report)
        self.kith.must(self.kith.lib.kith_cuda_graph(
            self.kith.ctx, ctypes.byref(self.points), ctypes.byref(search), ctypes.byref(self.out),
            None, stream()))
        return report

    def exact(self):
        params = SearchParams(struct_size=ctypes.sizeof(SearchParams), k=self.k,
                              metric=METRICS[self.work.metric])
        self.kith.must(self.kith.lib.kith_cuda_graph(
            self.kith.ctx, ctypes.byref(self.points), ctypes.byref(params), ctypes.byref(self.out), None, stream()))


# ---- Rows -------------------------------------------------------------------------------------------


def base_of(kith, work, points, k):
    return {"date": datetime.date.today().isoformat(), "commit": kith.commit(),
            "machine": torch.cuda.get_device_name(0), "side": "cuda", "threads": "", "work": work.name,
            "rows": len(points), "columns": points.shape[1], "dtype": "u8" if points.dtype == torch.uint8 else "f32",
            "metric": work.metric, "k": k}


def row_of(kith, base, engine, setting, seconds, found_recall, command):
    report = kith.report()
    return base | {"engine": engine, "version": kith.lib.kith_version().decode(), "setting": setting,
                   "runs": len(seconds), "seconds": f"{statistics.median(seconds):.5f}",
                   "seconds_min": f"{min(seconds):.5f}", "seconds_max": f"{max(seconds):.5f}",
                   "prepare_seconds": f"{report.seconds_check + report.seconds_prepare:.5f}",
                   "end_seconds": f"{report.seconds_rescore:.5f}", "recall": f"{found_recall:.5f}",
                   "peak_mib": f"{report.gpu_peak_bytes / 2**20:.0f}", "command": command}


def add_report(row, report):
    row |= {"start_seconds": f"{report.seconds_start:.5f}", "rounds_seconds": f"{report.seconds_rounds:.5f}",
            "rounds": report.rounds, "evaluations": f"{report.evaluations:.6g}"}


def add_said(row, report):
    if report.recall.rows > 0:
        row |= {"said": f"{report.recall.recall:.5f}", "said_low": f"{report.recall.low:.5f}",
                "said_high": f"{report.recall.high:.5f}"}


def rounds_told(report):
    return [{"number": each.number, "updates": each.updates, "evaluations": each.evaluations, "phi": each.phi,
             "recall": each.recall, "seconds": each.seconds} for each in report.round[:report.round_count]]


def print_row(row):
    said = f"  said {row['said']} ({row['said_low']} to {row['said_high']})" if row.get("said") else ""
    phases = (f"  prepare {1e3 * float(row['prepare_seconds']):.1f}  start {1e3 * float(row['start_seconds']):.1f}"
              f"  {row['rounds']} rounds {1e3 * float(row['rounds_seconds']):.1f}"
              f"  end {1e3 * float(row['end_seconds']):.1f}" if row.get("start_seconds") else "")
    print(f"  {row['engine']:13} {row['setting']:22} {1e3 * float(row['seconds']):10.2f} ms  recall {row['recall']}"
          f"{said}{phases}" + (f"  device {row['peak_mib']} MiB" if row["peak_mib"] else ""), flush=True)


# ---- Jobs -------------------------------------------------------------------------------------------


def measure_exact(solver, truth, base, options, command):
    seconds = timed(options.runs, solver.exact)
    row = row_of(solver.kith, base, "kith-exact", "", seconds, truth.recall(solver.ids), command)
    print_row(row)
    return row


def measure(solver, truth, base, options, name, setting, command):
    """The row, and rows of the rounds. A setting without a recall is timed without a sample. A work of which few
    rows are checked is so large that it is run once, with its sample."""
    told = []
    once = solver.work.checked < CHECKED
    sample = 0 if once or "recall" in setting else -1

    def call():
        told[:] = [solver.descend(setting, sample)]

    seconds = timed(options.runs, call, once)
    row = row_of(solver.kith, base, "kith-descent", name, seconds, truth.recall(solver.ids), command)
    add_report(row, told[0])
    report = told[0] if sample == 0 else solver.descend(setting, 0)
    add_said(row, report)
    print_row(row)
    return row, descent_rows.rounds_of(base, name, command, rounds_told(report))


def halved(work):
    """As many points as the device has room for."""
    if work in TABLE and work.rows >= 100_000_000 and torch.cuda.mem_get_info()[1] < ROOM:
        return dataclasses.replace(work, name=f"{work.name}, n / 2", rows=work.rows // 2)
    return work


def nearest(truth, graph):
    """Of each row that is checked the nearest of its list, in whatever order that is; other rows are empty."""
    chosen = graph[truth.rows.cpu()].long().cuda()
    some = truth.doubles(truth.points[chosen.clamp(0, len(truth.points) - 1).flatten()])
    keys = keys_of(truth.work.metric, truth.asked[:, None, :], some.view(*chosen.shape, -1))
    keys[chosen == truth.rows[:, None]] = float("inf")
    ids = torch.zeros(len(truth.points), AT, dtype=torch.int64, device="cuda")
    ids[truth.rows] = chosen.gather(1, keys.topk(AT, dim=1, largest=False).indices)
    return ids


def measure_cuvs(truth, base, options, command):
    """Rows of cuVS' NN-Descent: lists of 32 and 64, the nearest 10 of them."""
    try:
        import cuvs  # pylint: disable=import-outside-toplevel
        from cuvs.neighbors import nn_descent  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        print(f"  cuvs nn_descent: absent ({error})", flush=True)
        return []
    rows = []
    for degree in (32, 64):
        try:
            params = nn_descent.IndexParams(metric=CUVS_METRICS[truth.work.metric], graph_degree=degree,
                                            intermediate_graph_degree=2 * degree)
            told = []

            def call(params=params, told=told):
                told[:] = [nn_descent.build(params, truth.points).graph]

            seconds = timed(options.runs, call)
            graph = told[0].copy_to_host() if hasattr(told[0], "copy_to_host") else told[0]
            found = truth.recall(nearest(truth, torch.from_numpy(numpy.asarray(graph).astype(numpy.int64))))
        except Exception as error:  # pylint: disable=broad-exception-caught # a peer that fails is no failure of ours
            print(f"  cuvs nn_descent, graph_degree {degree}: failed ({str(error).splitlines()[:1]})", flush=True)
            continue
        rows.append(base | {"engine": "cuvs-nn-descent", "version": cuvs.__version__,
                            "setting": f"graph_degree {degree}", "runs": len(seconds),
                            "seconds": f"{statistics.median(seconds):.5f}", "seconds_min": f"{min(seconds):.5f}",
                            "seconds_max": f"{max(seconds):.5f}", "recall": f"{found:.5f}", "peak_mib": "",
                            "command": command})
        print_row(rows[-1])
    return rows


CUVS_METRICS = {"euclidean": "sqeuclidean", "cosine": "cosine"}


def bench(kith, work, options):
    work = halved(work)
    points = make(work, options.rows)
    if points is None:
        print(f"\n{work.name}: absent, KITH_DATA names no folder that has it")
        return
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    print(f"\n{work.name}: {len(points):,} x {points.shape[1]}, {work.metric}, k = {options.k}", flush=True)
    truth = Truth(work, points)
    solver = Solver(kith, work, points, options.k)
    torch.cuda.empty_cache()
    base = base_of(kith, work, points, options.k)
    command = f"bench_descent.py --side cuda --work {work.name.partition(',')[0]}"
    rows, rounds = [], []
    if len(points) <= options.exact:
        rows.append(measure_exact(solver, truth, base, options, command))
    settings = descent_rows.settings_of(options.settings, options.only)
    for name, setting in settings.items():
        if work.settings and name not in work.settings:
            continue
        row, more = measure(solver, truth, base, options, name, setting, command)
        rows.append(row)
        rounds += more
    if work.peers:
        torch.cuda.empty_cache()
        rows += measure_cuvs(truth, base, options, command)
    if options.csv:
        bench_rows.append(options.csv, descent_rows.COLUMNS, rows)
        bench_rows.append(options.csv.with_name("descent_rounds.csv"), descent_rows.ROUND_COLUMNS, rounds)


def run(options):
    if torch is None or not torch.cuda.is_available():
        print("bench_descent: absent (no PyTorch, or no GPU)")
        return 77
    if "table1" in options.work:
        options.work = [name for name in options.work if name != "table1"] + [work.name for work in TABLE]
        print("deep1b: left out, 96 GB of bytes and its lists do not fit one device (kith graph --shards)")
    unknown = set(options.work) - {work.name for work in WORKS + NAMED + TABLE}
    if unknown:
        sys.exit(f"bench_descent: no work is called {', '.join(sorted(unknown))}")
    torch.backends.cuda.matmul.allow_tf32 = False
    kith = Kith(options.build)
    for work in WORKS + NAMED + TABLE:
        if work.name in options.work or (not options.work and work in WORKS):
            try:
                bench(kith, work, options)
            except (SystemExit, torch.cuda.OutOfMemoryError) as error:
                if work not in TABLE:
                    raise
                print(f"  {work.name}: left out ({error})", flush=True)
            torch.cuda.empty_cache()
    return 0
