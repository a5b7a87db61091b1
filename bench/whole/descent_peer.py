#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One approximate graph by one peer, in a process of its own:

    descent_peer.py NAME POINTS METRIC K THREADS IDS SETTING

SETTING is what the peer's constructor gets, as JSON. The peer gets float32 rows that are already in
memory. The clock stands while modules are loaded and while a first, small graph is made with the same
setting where a peer compiles while it runs (pynndescent, with numba): the seconds are
those of the call alone. Ids of each row without its own go to the file IDS (.npy), the rest as JSON to
stdout.
"""
import json
import sys
import time

import numpy

from peer import read_points, without_self

WARM_ROWS = 5000
COMPILES = {"pynndescent"}


def with_length_one(points):
    """Of rows of length 1 euclidean distances have the order of cosine's."""
    lengths = numpy.sqrt((points.astype(numpy.float64) ** 2).sum(axis=1, keepdims=True))
    return (points / numpy.maximum(lengths, 1e-300)).astype(numpy.float32)


def prepare_pynndescent(metric, k, threads, setting):
    import pynndescent

    wanted = setting.pop("n_neighbors", k + 1)  # the row itself is one of them

    def run(points):
        index = pynndescent.NNDescent(points, metric=metric, n_neighbors=max(wanted, k + 1),
                                      n_jobs=threads, random_state=1, **setting)
        return without_self(index.neighbor_graph[0][:, :k + 1].astype(numpy.int64), k)

    return run, pynndescent.__version__


def prepare_faiss(metric, k, threads, setting):
    import faiss

    faiss.omp_set_num_threads(threads)
    wanted = setting.pop("K", k)

    def run(points):
        index = faiss.IndexNNDescentFlat(points.shape[1], wanted)
        for name, value in setting.items():
            setattr(index.nndescent, name, value)
        index.add(with_length_one(points) if metric == "cosine" else points)
        graph = faiss.vector_to_array(index.nndescent.final_graph)
        return graph.reshape(len(points), -1)[:, :k].astype(numpy.int64)

    return run, faiss.__version__


def prepare_ivfpq(metric, k, threads, setting):
    """Product quantisation behind inverted lists: trained, filled, and asked for every row. 4 columns a code
    of 8 bits; refine: so many times k candidates by code, the nearest of them by their own rows."""
    import faiss

    faiss.omp_set_num_threads(threads)

    def run(points):
        rows = with_length_one(points) if metric == "cosine" else points
        lists = int(4 * len(rows) ** 0.5)
        refine = ",RFlat" if "refine" in setting else ""
        index = faiss.index_factory(rows.shape[1], f"IVF{lists},PQ{rows.shape[1] // 4}{refine}")
        index.train(rows)
        index.add(rows)
        if refine:
            index.k_factor = setting["refine"]
        faiss.extract_index_ivf(index).nprobe = setting["nprobe"]
        return without_self(index.search(rows, k + 1)[1].astype(numpy.int64), k)

    return run, faiss.__version__


PEERS = {"pynndescent": prepare_pynndescent, "faiss": prepare_faiss, "faiss-ivfpq": prepare_ivfpq}


def main():
    name, path, metric, k, threads, ids_path, setting = sys.argv[1:]
    run, version = PEERS[name](metric, int(k), int(threads), json.loads(setting))
    points = read_points(path).astype(numpy.float32)
    if name in COMPILES:
        run(points[:WARM_ROWS])
    start = time.perf_counter()
    ids = run(points)
    seconds = time.perf_counter() - start
    numpy.save(ids_path, ids)
    print(json.dumps({"seconds": seconds, "version": version}))


if __name__ == "__main__":
    main()
