# SPDX-License-Identifier: Apache-2.0
"""Trees of others on the processor: build, then ask. The times are those of their calls."""
import importlib.metadata
import time

FEW = 500  # queries that tell how long all of them take


def make_pykdtree(corpus, _threads):
    from pykdtree.kdtree import KDTree  # threads: OMP_NUM_THREADS, read when it is loaded

    tree = KDTree(corpus)
    return lambda queries, k: tree.query(queries, k=k)[1].reshape(len(queries), k)


def make_ckdtree(corpus, threads):
    from scipy.spatial import cKDTree

    tree = cKDTree(corpus)
    return lambda queries, k: tree.query(queries, k=k, workers=threads)[1].reshape(len(queries), k)


def make_sklearn(corpus, threads):
    from sklearn.neighbors import NearestNeighbors

    tree = NearestNeighbors(algorithm="kd_tree", n_jobs=threads).fit(corpus)
    return lambda queries, k: tree.kneighbors(queries, k, return_distance=False)


PEERS = {"pykdtree": (make_pykdtree, "pykdtree", "KDTree(corpus).query(queries, k={k})"),
         "cKDTree": (make_ckdtree, "scipy", "cKDTree(corpus).query(queries, k={k}, workers={threads})"),
         "sklearn": (make_sklearn, "scikit-learn",
                     "NearestNeighbors(algorithm='kd_tree', n_jobs={threads}).fit(corpus)"
                     ".kneighbors(queries, {k})")}


def run(name, work, k, options):
    """None, and a line, where it is absent or would take longer than options.patience."""
    make, package, command = PEERS[name]
    result = {"seconds": [], "build": [], "whole": [], "isa": "", "pairs_share": "", "engine": name,
              "queries": len(work.queries), "command": command.format(k=k, threads=options.threads)}
    try:
        result["version"] = importlib.metadata.version(package)
        for _ in range(options.runs):
            start = time.perf_counter()
            ask = make(work.corpus, options.threads)
            built = time.perf_counter()
            if not result["seconds"]:
                ask(work.queries[:FEW], k)
                expected = (time.perf_counter() - built) * len(work.queries) / FEW
                if expected > options.patience:
                    print(f"{name}: would take {expected:.0f} s for {work.name}, {work.corpus.shape[1]} "
                          f"columns, not run (--patience {options.patience:.0f})", flush=True)
                    return None
            asked = time.perf_counter()
            result["ids"] = ask(work.queries, k)
            result["seconds"].append(time.perf_counter() - asked)
            result["build"].append(built - start)
            if result["seconds"][-1] > options.long:
                break
    except ImportError as error:
        print(f"{name}: absent ({error})", flush=True)
        return None
    return result
