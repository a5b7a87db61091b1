# SPDX-License-Identifier: Apache-2.0
"""Graphs of bench/report on processors: whole processes side by side (bench_graph.py, peer.py,
descent_peer.py), kith's time that of its process, a peer's that of its call."""

import json
import pathlib
import statistics
import tempfile

import bench_data
import bench_graph
import descent_work
import numpy
import report_rows

APPROXIMATE = {"hnswlib": "M = 16, ef_construction = 200"}


def generated(bench, rows, columns):
    """Clusters of intrinsic dimension 12 in float32, on disk."""
    rows = bench.fewer(rows)
    path = bench.cache / f"report_{rows}x{columns}.fbin"
    if not path.is_file():
        bench_data.write_points(path, descent_work.make_mixture(rows, columns).points)
    return path


def kith_descent(bench, work, options, folder):
    output = folder / "kith_descent.npz"
    words = [
        bench.kith,
        "graph",
        work.corpus,
        "-k",
        work.k,
        "--method",
        "descent",
        "--recall",
        0.99,
        "--device",
        "cpu",
        "--threads",
        options.threads,
        "--json",
        "--quiet",
        "-o",
        output,
    ]
    return bench_graph.Engine("kith", [str(word) for word in words], output)


def pynndescent(work, options, folder):
    output = folder / "pynndescent.npy"
    script = pathlib.Path(__file__).with_name("descent_peer.py")
    words = [
        options.python,
        script,
        "pynndescent",
        work.corpus,
        "euclidean",
        work.k,
        options.threads,
        output,
        json.dumps({"n_neighbors": work.k + 5}),
    ]
    return bench_graph.Engine("pynndescent", [str(word) for word in words], output)


def engines_of(bench, work, options, folder, descends):
    """[(engine, its setting)]; a peer that takes too long is stopped."""
    found = [
        (each, APPROXIMATE.get(each.name, ""))
        for each in bench_graph.build_engines(work, options, folder)
    ]
    if descends:
        found.append((kith_descent(bench, work, options, folder), "--recall 0.99"))
        if bench.peers(["pynndescent"]) and not bench.options.quick:
            found.append((pynndescent(work, options, folder), f"n_neighbors {work.k + 5}"))
    for each, _ in found:
        if not each.is_kith:
            each.command = ["timeout", "-k", "5", f"{bench.options.patience:.0f}", *each.command]
    return found


def wrong(work, rows, ids, truth):
    """Did a peer find somebody nearer than kith's last neighbour?"""
    found = bench_graph.distances_of(work, rows, ids.astype(numpy.int64))
    return bool((found.max(axis=1) < truth[:, -1] * (1 - 1e-9)).any())


def why(engine, patience):
    return (
        f"more than {patience:.0f} s (--patience)"
        if engine.failure in ("exit code 124", "exit code 137")
        else engine.failure
    )


def graph_job(
    bench,
    name,
    path,
    peers=(),
    k=10,
    series=None,
    at=None,
    threads=None,
    descends=False,
    real=False,
):
    work = bench_data.Work(name, path, k=k)
    options = bench.graph_options(threads)
    options.peers = bench.peers(peers)
    rows, _, columns = work.shape()
    absent = {name: "not run beside this one" for name in bench.left_out(options.peers)}
    job = report_rows.job(
        id=name,
        series=series,
        x=at,
        work="exact graph",
        data="real" if real else "generated",
        rows=rows,
        queries=rows,
        columns=columns,
        k=k,
        dtype=bench_graph.DTYPE_NAMES[path.suffix],
        bytes=path.stat().st_size - 8,
        absent=absent,
    )
    with tempfile.TemporaryDirectory(dir=bench.cache) as folder:
        found = engines_of(bench, work, options, pathlib.Path(folder), descends)
        bench_graph.run_side_by_side([each for each, _ in found], options)
        add_floor(bench, job, work, found[0][0], options.threads)
        sampled = bench_graph.sample_rows(work)
        truth = bench_graph.distances_of(work, sampled, found[0][0].ids().astype(numpy.int64))
        for each, setting in found:
            if each.seconds:
                job["absent"].pop(each.name, None)
                job["engines"].append(engine_row(bench, each, setting, work, sampled, truth))
            else:
                job["absent"][each.name] = why(each, bench.options.patience)
        if any(
            not each.is_kith and each.seconds and wrong(work, sampled, each.ids(), truth)
            for each, _ in found
        ):
            job["engines"][0].update(exact=False, note="WRONG: a peer found nearer neighbours")
    return job


def add_floor(bench, job, work, engine, threads):
    """All products once, each pair of a graph once, on the unit that kith used; the peak of all threads
    that the limits were measured with is shared out where fewer run."""
    unit = bench_graph.unit_of(engine.said, bench.limits)
    if unit:
        rate = bench.limits[unit] * threads / bench.options.threads
        job.update(
            floor=work.macs() / rate,
            floor_how=f"products of all pairs once at the measured {unit} rate",
        )


def engine_row(bench, each, setting, work, sampled, truth):
    exact = each.is_kith and each.said.get("exact") is True
    name = each.name if not each.is_kith else "kith exact" if exact else "kith descent"
    return report_rows.engine(
        engine=name,
        setting=setting,
        kith=each.is_kith,
        exact=exact,
        version=each.said.get("version"),
        commit=bench.commit if each.is_kith else None,
        whole=statistics.median(each.whole),
        recall=1.0 if exact else bench_graph.recall_of(work, sampled, each.ids(), truth),
        peak_mib=round(each.peak_mib, 1),
        note=each.said.get("isa", "") if each.is_kith else "",
        **report_rows.spread(each.seconds),
    )


def generated_job(bench, name, shape, **more):
    return graph_job(bench, name, generated(bench, *shape), **more)


def shared_job(bench, name, file, **more):
    path = bench_data.shared_file(file)
    return path and graph_job(bench, name, path, real=True, **more)
