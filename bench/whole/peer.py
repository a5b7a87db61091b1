#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One job by one peer, in a process of its own: peer.py NAME CORPUS QUERIES K THREADS IDS

QUERIES is '-' for a graph: each point's neighbours without itself. Every peer gets float32 rows that
are already in memory and, where it compiles while it runs, a first small job that is not timed: the
seconds are those of the call alone. Ids go to the file IDS (.npy), the rest as JSON to stdout.
"""
import json
import sys
import time

import numpy

DTYPES = {"u8bin": numpy.uint8, "fbin": numpy.float32}


def read_points(path):
    rows, columns = numpy.fromfile(path, dtype="<u4", count=2)
    dtype = DTYPES[path.rsplit(".", 1)[1]]
    return numpy.fromfile(path, dtype=dtype, offset=8).reshape(rows, columns)


def prepare_faiss(threads):
    import faiss

    faiss.omp_set_num_threads(threads)
    return lambda corpus, queries, k: faiss.knn(queries, corpus, k)[1], faiss.__version__


def prepare_sklearn(threads):
    import sklearn
    from sklearn.neighbors import NearestNeighbors

    def run(corpus, queries, k):
        index = NearestNeighbors(n_neighbors=k, algorithm="brute", n_jobs=threads).fit(corpus)
        return index.kneighbors(queries, return_distance=True)[1]

    return run, sklearn.__version__


def prepare_pynndescent(threads):
    import pynndescent

    def run(corpus, queries, k):
        index = pynndescent.NNDescent(corpus, n_neighbors=k, n_jobs=threads)
        return index.neighbor_graph[0] if queries is corpus else index.query(queries, k)[0]

    return run, pynndescent.__version__


def prepare_usearch(threads):
    import usearch
    from usearch.index import MetricKind, search

    def run(corpus, queries, k):
        return search(corpus, queries, k, MetricKind.L2sq, exact=True, threads=threads).keys

    return run, usearch.__version__


def prepare_hnswlib(threads):
    import importlib.metadata

    import hnswlib

    def run(corpus, queries, k):
        index = hnswlib.Index(space="l2", dim=corpus.shape[1])
        index.init_index(max_elements=len(corpus), M=16, ef_construction=200, random_seed=1)
        index.set_num_threads(threads)
        index.add_items(corpus)
        index.set_ef(max(64, 2 * k))
        return index.knn_query(queries, k)[0]

    return run, importlib.metadata.version("hnswlib")


PEERS = {
    "faiss": prepare_faiss,
    "sklearn": prepare_sklearn,
    "pynndescent": prepare_pynndescent,
    "usearch": prepare_usearch,
    "hnswlib": prepare_hnswlib,
}
COMPILES = {"pynndescent"}
WARM_ROWS = 5000


def without_self(ids, k):
    """The first k ids of each row that are not the row's own."""
    own = ids == numpy.arange(len(ids))[:, None]
    own[~own.any(axis=1), -1] = True  # a duplicate took its place: drop the last
    return ids[~own].reshape(len(ids), k)


def main():
    name, corpus_path, queries_path, k, threads, ids_path = sys.argv[1:]
    k = int(k)
    run, version = PEERS[name](int(threads))
    corpus = read_points(corpus_path).astype(numpy.float32)
    is_graph = queries_path == "-"
    queries = corpus if is_graph else read_points(queries_path).astype(numpy.float32)
    wanted = k + 1 if is_graph else k
    if name in COMPILES:
        few = corpus[:WARM_ROWS]
        run(few, few if is_graph else queries[:WARM_ROWS], wanted)
    start = time.perf_counter()
    ids = run(corpus, queries, wanted)
    seconds = time.perf_counter() - start
    ids = numpy.asarray(ids).astype(numpy.int64)
    numpy.save(ids_path, without_self(ids, k) if is_graph else ids)
    print(json.dumps({"seconds": seconds, "version": version}))


if __name__ == "__main__":
    main()
