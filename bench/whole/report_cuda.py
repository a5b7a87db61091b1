# SPDX-License-Identifier: Apache-2.0
"""bench/report on one GPU: rows and answers in device memory, kith beside PyTorch, CuPy and cuVS where
they are installed. Works and checks are those of bench_gpu.py, descent_gpu.py, bench_tree_gpu.py and
select_goals.py; points are generated on the device, and read where KITH_DATA has them."""

import argparse
import gc
import importlib.util
from functools import partial

import bench_gpu
import bench_select
import bench_tree_gpu
import descent_gpu
import report_cuda_limits
import report_cupy
import report_rows
import select_peers
import torch

DESCENTS = {
    "descent-cuda-1m": ("mixture1m", ("start alone", "1 round", "default")),
    "descent-cuda-10m": ("mixture10m", ("1 round", "default")),
    "descent-cuda-blob1m": ("blob1m", ("recall 0.99",)),
}
SETTINGS = {
    "start alone": {"rounds": 0},
    "1 round": {"rounds": 1},
    "default": {},
    "recall 0.99": {"recall": 0.99},
}
TREES = {f"tree-cuda-{d}": f"colour {d}" for d in (4, 8, 10, 15)} | {
    "search-cuda-uniform12": "uniform 12"
}
CUPY_ROWS = 100_000  # of a curve; CuPy's argpartition is a sort: 262,144 rows take 7 s


class Bench:
    """What all jobs share. scale divides rows, for trying the program out."""

    def __init__(self, options):
        self.build, self.runs, self.scale = options.build, options.runs, options.scale
        self.kith = bench_gpu.Kith(options.build)
        self.version = self.kith.lib.kith_version().decode()
        self.limits = {}

    def fewer(self, rows):
        return max(2000, rows // self.scale)

    def kith_engine(self, name, seconds, exact, peak, **more):
        return report_rows.engine(
            engine=name,
            kith=True,
            exact=exact,
            version=self.version,
            commit=self.kith.commit(),
            peak_mib=peak,
            **report_rows.spread(seconds),
            **more,
        )


def row_times(row, factor=1.0):
    """Of a row of another benchmark, where they are text."""
    return {
        "seconds": factor * float(row["seconds"]),
        "low": factor * float(row["seconds_min"]),
        "high": factor * float(row["seconds_max"]),
        "runs": int(row["runs"]),
    }


def mib(size):
    return round(size / 2**20, 1)


# ---- Graphs -----------------------------------------------------------------------------------------


def graph_job(
    bench, name, rows, columns, k=10, origin="mixture", series=None, at=None, torch_runs=1
):
    """An exact graph; a file where `rows` is 0."""
    path = None
    if origin == "file":
        path = descent_gpu.bench_data.shared_file("fashion_mnist_base.u8bin")
        if path is None:
            return None
    work = bench_gpu.Work(name, rows and bench.fewer(rows), columns, k=k, origin=origin)
    points = bench_gpu.make_points(work, work.rows, 1, path)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    pairs = len(points) * (len(points) - 1) / 2
    floor, how = report_cuda_limits.product_floor(bench.limits, pairs, points.shape[1])
    job = report_rows.job(
        id=name,
        series=series,
        x=at,
        work="exact graph",
        data="real" if path else "generated",
        rows=len(points),
        queries=len(points),
        columns=points.shape[1],
        k=k,
        dtype="u8" if points.dtype == torch.uint8 else "f32",
        bytes=points.numel() * points.element_size(),
        floor=floor,
        floor_how=how,
    )
    row = bench_gpu.measure_kith(bench.kith, work, points, None, 0.0, bench.runs)
    found = bench.kith_engine(
        "kith exact",
        [0.0],
        row["checked"] == "same",
        mib(bench.kith.report().gpu_peak_bytes),
        note=note_of(row),
    )
    job["engines"].append(found | row_times(row))
    add_torch(job, work, points, torch_runs)
    add_cupy(job, points, k)
    return job


def note_of(row):
    checked = "" if row["checked"] == "same" else f"; {row['checked']}"
    return f"{row['survivors']} candidates a row, {100 * float(row['rerun']):.2f} % screened again{checked}"


def add_torch(job, work, points, runs):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    row = bench_gpu.measure_torch(work, points, None, 0.0, runs)
    if row is None:
        job["absent"]["torch"] = f"would take more than {bench_gpu.PATIENCE:.0f} s"
        return
    job["engines"].append(
        report_rows.engine(
            engine="torch",
            version=torch.__version__,
            note="addmm and topk, fp32, no tf32",
            peak_mib=mib(torch.cuda.max_memory_allocated()),
            **row_times(row),
        )
    )


def add_cupy(job, points, k):
    if not report_cupy.is_present():
        job["absent"]["cupy"] = "not installed"
    elif len(points) > CUPY_ROWS and job["id"] != "graph-cuda-262k":
        job["absent"]["cupy"] = f"not run beyond {CUPY_ROWS:,} rows but for one job"
    else:
        seconds = bench_gpu.timed(1, lambda: report_cupy.graph(points, k))
        job["engines"].append(
            report_rows.engine(
                engine="cupy",
                version=report_cupy.version(),
                note="matmul and argpartition, fp32",
                **report_rows.spread(seconds),
            )
        )


# ---- Descents ---------------------------------------------------------------------------------------


def descent_job(bench, name):
    origin, settings = DESCENTS[name]
    work = next(each for each in descent_gpu.WORKS if each.name == origin)
    points = descent_gpu.make(work, bench.fewer(work.rows))
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    truth = descent_gpu.Truth(work, points)
    solver = descent_gpu.Solver(bench.kith, work, points, 10)
    torch.cuda.empty_cache()
    job = report_rows.job(
        id=name,
        work="NN-Descent",
        data="generated",
        rows=len(points),
        queries=len(points),
        columns=points.shape[1],
        dtype="f32",
        k=10,
        bytes=4 * points.numel(),
        absent={"torch": "has no approximate graph", "cupy": "has no approximate graph"},
    )
    for setting in settings:
        seconds = bench_gpu.timed(
            bench.runs,
            lambda told=SETTINGS[setting]: solver.descend(told, 0 if "recall" in told else -1),
        )
        job["engines"].append(
            bench.kith_engine(
                "kith descent",
                seconds,
                False,
                mib(bench.kith.report().gpu_peak_bytes),
                setting=setting,
                recall=truth.recall(solver.ids),
            )
        )
    return job


# ---- Trees ------------------------------------------------------------------------------------------


def tree_job(bench, name):
    """Seconds are those of the search, the building stands beside it; brute force of fewer queries is
    given for all of them, in proportion."""
    work = next(each for each in bench_tree_gpu.GOALS if each.name == TREES[name])
    if bench.scale > 1:
        work = bench_tree_gpu.Work(
            work.name,
            bench.fewer(work.n),
            bench.fewer(work.m),
            work.d,
            work.kind,
            brute=2000,
            torch=2000,
        )
        bench_tree_gpu.SWEEPS["tried"] = [work]
    torch.cuda.reset_peak_memory_stats()
    rows = bench_tree_gpu.run_work(bench.kith, work, argparse.Namespace(runs=bench.runs))
    job = report_rows.job(
        id=name,
        work=f"exact search, {work.kind}",
        data="generated",
        rows=work.n,
        queries=work.m,
        columns=work.d,
        dtype="f32",
        k=work.k,
        bytes=4 * work.n * work.d,
        absent={"cupy": "not run: its brute force is PyTorch's"},
    )
    for row in rows:
        of_all = work.m / int(row["queries"])
        is_kith = row["engine"].startswith("kith")
        job["engines"].append(
            report_rows.engine(
                engine=row["engine"].replace("-", " "),
                kith=is_kith,
                exact=is_kith and row["recall"] == "1.00000",
                version=row["version"],
                commit=bench.kith.commit() if is_kith else None,
                build=float(row["build_seconds"]) if row["build_seconds"] else None,
                whole=of_all * float(row["whole_seconds"]),
                setting="" if of_all == 1 else f"of {int(row['queries']):,}, in proportion",
                note=f"WRONG: {row['recall']}" if is_kith and row["recall"] != "1.00000" else "",
                **row_times(row, of_all),
            )
        )
    return job


# ---- Selection --------------------------------------------------------------------------------------


def select_job(bench, name, k):
    options = argparse.Namespace(
        side="cuda",
        build=bench.build,
        peers=",".join(select_peers.TODAY),
        quick=False,
        csv=None,
        only="goals",
    )
    chosen = bench_select.Bench(options)
    bench_select.check(chosen)
    matrix = chosen.uniform(max(256, 8192 // bench.scale), 32768)
    floor, how = report_cuda_limits.read_floor(bench.limits, 4 * matrix.numel())
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
        bytes=4 * matrix.numel(),
        floor=floor,
        floor_how=how,
    )
    seconds = chosen.seconds(
        chosen.kith.selecting(matrix, k, method="auto"), runs=max(5, bench.runs)
    )
    job["engines"].append(bench.kith_engine("kith auto", seconds, True, None))
    for peer, _, call in select_peers.of_device(matrix, k):
        job["engines"].append(
            report_rows.engine(
                engine=peer, version=torch.__version__, **report_rows.spread(chosen.seconds(call))
            )
        )
    if report_cupy.is_present():
        report_cupy.select(matrix[:2], k)  # CuPy compiles what it has not compiled before
        seconds = chosen.seconds(lambda: report_cupy.select(matrix, k))
        job["engines"].append(
            report_rows.engine(
                engine="cupy argpartition+sort",
                version=report_cupy.version(),
                **report_rows.spread(seconds),
            )
        )
    else:
        job["absent"]["cupy"] = "not installed"
    if select_peers.cuvs_select_k() is None:
        job["absent"]["cuvs"] = "not installed"
    return job


# ---- All of them ------------------------------------------------------------------------------------


def plan_curves():
    """Mixtures of fewer rows, so that PyTorch's brute force does not take most of the time."""
    curves = {
        "n": [(n, 128, 10) for n in (16_384, 65_536, 524_288)],
        "d": [(131_072, d, 10) for d in (32, 128, 512, 960)],
        "k": [(131_072, 128, k) for k in (1, 10, 32, 100)],
    }
    jobs = {}
    for series, points in curves.items():
        for rows, columns, k in points:
            at = {"n": rows, "d": columns, "k": k}[series]
            call = partial(graph_job, rows=rows, columns=columns, k=k, series=series, at=at)
            quick = series == "n" and rows < 100_000
            jobs[f"graph-cuda-{series}-{at}"] = 12 if rows > 200_000 else 3, quick, call
    return jobs


def plan(_options):
    """{id: (expected seconds on an H200, is it quick, function of a Bench and the id)}, what matters
    most first."""
    jobs = {f"select-cuda-{k}": (2, True, partial(select_job, k=k)) for k in (32, 256, 1024)}
    jobs["graph-cuda-262k"] = 8, True, partial(graph_job, rows=262_144, columns=128, torch_runs=3)
    jobs["descent-cuda-1m"] = 6, True, descent_job
    for name in TREES:
        jobs[name] = 5, name in ("tree-cuda-4", "tree-cuda-10"), tree_job
    jobs["graph-cuda-1m"] = 40, False, partial(graph_job, rows=1_000_000, columns=128)
    jobs["descent-cuda-10m"] = 20, False, descent_job
    jobs["graph-cuda-10m"] = 60, False, partial(graph_job, rows=10_000_000, columns=96)
    jobs["descent-cuda-blob1m"] = 6, False, descent_job
    jobs["graph-cuda-fashion"] = 3, True, partial(graph_job, rows=0, columns=0, origin="file")
    return jobs | plan_curves()


def start(options):
    """A Bench, or what is missing."""
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    bench = Bench(options)
    bench.limits = report_cuda_limits.measure(options.build, options.scale)
    return bench


def run(bench, name, call):
    """A job's function, and memory given back."""
    try:
        return call(bench, name)
    finally:
        gc.collect()
        torch.cuda.empty_cache()


def describe(bench):
    """What stands at the head of the results."""
    absent = {
        name: "not installed"
        for name in ("cupy", "cuvs", "pylibraft")
        if importlib.util.find_spec(name) is None
    }
    units = {"copy": "byte/s", "read": "byte/s"} | {
        name: "op/s" for name in bench.limits if name.startswith("s8")
    }
    limits = [
        {
            "name": name,
            "value": rate,
            "unit": units.get(name, "flop/s"),
            "command": "bench_units" if "_" in name and "k128" not in name else "report_cuda_limits.py",
        }
        for name, rate in bench.limits.items()
    ]
    return {
        "machine": torch.cuda.get_device_name(0),
        "threads": None,
        "commit": bench.kith.commit(),
        "versions": {"kith": bench.version, "torch": torch.__version__, "cuda": torch.version.cuda}
        | ({"cupy": report_cupy.version()} if report_cupy.is_present() else {}),
        "absent": absent,
        "limits": limits,
    }
