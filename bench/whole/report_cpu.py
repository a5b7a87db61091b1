# SPDX-License-Identifier: Apache-2.0
"""bench/report on processors: which works there are, what matters most first, and the machine."""

import importlib.metadata
import importlib.util
import pathlib
from functools import partial

import bench_rows
from report_cpu_bench import Bench, measure_limits
from report_cpu_graphs import generated_job, shared_job
from report_cpu_select import select_job
from report_cpu_trees import colour_job, patches_job

PEERS = {
    "numpy": "numpy",
    "faiss": "faiss-cpu",
    "sklearn": "scikit-learn",
    "pynndescent": "pynndescent",
    "usearch": "usearch",
    "hnswlib": "hnswlib",
    "pykdtree": "pykdtree",
    "scipy": "scipy",
}
# usearch's exact search takes far longer than the others': it stands beside the smallest jobs alone.
ALL = ("faiss", "sklearn", "hnswlib", "usearch")
MANY, FEW = ALL[:3], ("faiss", "hnswlib")


def plan_curves(threads):
    """Mixtures in float32. 20,000 x 64 with k = 10 is a point of three curves."""
    curves = {
        "n": [(n, 64, 10) for n in (5_000, 20_000, 80_000)],
        "d": [(20_000, d, 10) for d in (16, 64, 256, 784)],
        "k": [(20_000, 64, k) for k in (1, 10, 100)],
    }
    jobs = {}
    for series, points in curves.items():
        for rows, columns, k in points:
            at = {"n": rows, "d": columns, "k": k}[series]
            small = rows <= 20_000
            quick = series == "n" and small
            peers = ALL if quick else MANY if small else FEW
            call = partial(generated_job, shape=(rows, columns), peers=peers, k=k)
            jobs[f"graph-cpu-{series}-{at}"] = (
                25 if quick else 12 if small else 40,
                quick,
                partial(call, series=series, at=at),
            )
    for used in (each for each in (1, 2, 4, 8, 16, 32) if each <= threads):
        jobs[f"graph-cpu-threads-{used}"] = (
            15,
            False,
            partial(
                generated_job,
                shape=(40_000, 64),
                peers=("faiss",),
                series="threads",
                at=used,
                threads=used,
            ),
        )
    return jobs


def plan(options):
    """{id: (expected seconds on two cores, is it quick, function of a Bench and the id)}, what matters
    most first."""
    jobs = {"select-cpu-32": (20, True, partial(select_job, k=32))}
    for columns, expected in {3: 25, 5: 20, 10: 60}.items():
        jobs[f"tree-cpu-{columns}"] = expected, False, partial(patches_job, columns=columns)
    jobs["graph-cpu-fashion"] = (
        10 if options.quick else 260,
        True,
        partial(
            shared_job,
            file="fashion_mnist_base.u8bin",
            peers=() if options.quick else MANY,
            descends=True,
        ),
    )
    for columns in (4, 10):
        jobs[f"tree-cpu-colour-{columns}"] = 8, True, partial(colour_job, columns=columns)
    jobs |= plan_curves(options.threads)
    jobs["select-cpu-256"] = 20, False, partial(select_job, k=256)
    sift = partial(shared_job, file="sift_imagenet400k_base.u8bin", descends=True)
    jobs["graph-cpu-sift"] = 90, False, sift
    return jobs


def start(options):
    if not (pathlib.Path(options.build) / "kith").is_file():
        raise SystemExit(f"report: there is no {options.build}/kith (make, or --build FOLDER)")
    bench = Bench(options)
    bench.limits = measure_limits(bench)
    return bench


def run(bench, name, call):
    return call(bench, name)


def describe(bench):
    """What stands at the head of the results."""
    versions, absent = {"kith": bench.version}, {}
    for module, package in PEERS.items():
        if importlib.util.find_spec(module) is None:
            absent[module] = "not installed"
        else:
            versions[package] = importlib.metadata.version(package)
    threads = bench.options.threads
    limits = [
        {
            "name": name,
            "value": rate,
            "unit": "byte/s" if name == "read" else "mac/s",
            "command": "bench_select" if name == "read" else f"bench_peak {threads}",
        }
        for name, rate in bench.limits.items()
    ]
    return {
        "machine": bench_rows.processor_name(),
        "threads": threads,
        "commit": bench.commit,
        "versions": versions,
        "absent": absent,
        "limits": limits,
    }
