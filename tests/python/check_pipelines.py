#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kith in the programs that people use it with: UMAP, Scanpy, Leiden, scikit-learn's pipelines.

Each runs with kith's neighbours and with exact neighbours of scikit-learn, and both must come to
the same; then kith's neighbours are timed beside those that the program finds by itself.

usage: check_pipelines.py [--rows N]      exits with 77 when none of the packages is installed
needs: kith, scikit-learn; umap-learn, scanpy, leidenalg and igraph where they are to be tried
"""

import argparse
import os
import sys
import time
import warnings

os.environ.setdefault("KITH_DEVICE", "cpu")
warnings.simplefilter("ignore")

try:
    import numpy as np
    from sklearn import neighbors as theirs
    from sklearn.cluster import KMeans, SpectralClustering
    from sklearn.datasets import load_digits, make_blobs
    from sklearn.manifold import TSNE, Isomap
    from sklearn.metrics import adjusted_rand_score
    from sklearn.pipeline import make_pipeline
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import kith

K = 15


def digits():
    """Digits, moved a little so that there are no ties: in double both find the same neighbours."""
    x = load_digits().data
    return x + np.random.default_rng(0).random(x.shape) * 0.01


def seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def agree(name, one, other, least=0.98):
    score = adjusted_rand_score(one, other)
    print(
        f"{name}: adjusted Rand index {score:.3f} against exact neighbours, {max(one) + 1} clusters"
    )
    assert score >= least, (name, score)


def check_scikit_learn(x):
    ours, their = (
        kith.KNeighborsTransformer(n_neighbors=K),
        theirs.KNeighborsTransformer(n_neighbors=K),
    )
    clusters = [
        make_pipeline(
            transformer,
            SpectralClustering(
                10, affinity="precomputed_nearest_neighbors", n_neighbors=K, random_state=0
            ),
        ).fit_predict(x)
        for transformer in (ours, their)
    ]
    agree("SpectralClustering", *clusters)
    maps = [
        make_pipeline(transformer, Isomap(n_neighbors=K, metric="precomputed")).fit_transform(
            x[:800]
        )
        for transformer in (ours, their)
    ]
    np.testing.assert_allclose(np.abs(maps[0]), np.abs(maps[1]), rtol=1e-3, atol=0.05)
    print("Isomap: the same coordinates")
    # t-SNE asks for 3 * perplexity neighbours and itself.
    losses = []
    for kind in kith.KNeighborsTransformer, theirs.KNeighborsTransformer:
        tsne = TSNE(
            metric="precomputed", perplexity=10, init="random", random_state=0, max_iter=300
        )
        make_pipeline(kind(n_neighbors=31, mode="distance"), tsne).fit_transform(x[:500])
        losses.append(tsne.kl_divergence_)
    print(f"TSNE: divergence {losses[0]:.4f}, with exact neighbours {losses[1]:.4f}")
    assert abs(losses[0] / losses[1] - 1) < 0.02


def check_umap(x, large):
    try:
        import umap
        from pynndescent import NNDescent
    except ImportError as missing:
        return print(f"UMAP: skipped, {missing}")
    found = kith.KNeighborsTransformer(n_neighbors=K - 1).fit_transform(x)
    nearest = kith.Neighbors(found.data.reshape(-1, K), found.indices.reshape(-1, K))
    # brute's distance of a point to itself is not 0, and UMAP asks for the nearest that is not at 0.
    exact = theirs.NearestNeighbors(n_neighbors=K, algorithm="kd_tree").fit(x).kneighbors(x)
    maps = []
    for distances, indices in nearest, exact:
        known = indices.astype(np.int32), np.ascontiguousarray(distances, np.float32)
        maps.append(
            umap.UMAP(n_neighbors=K, precomputed_knn=known, random_state=0, n_epochs=100).fit(x)
        )
    difference = abs(maps[0].graph_ - maps[1].graph_).max()
    print(f"UMAP: weights of the graph differ by at most {difference:.1e}")
    assert difference < 1e-3
    agree(
        "UMAP",
        *(KMeans(10, n_init=4, random_state=0).fit_predict(each.embedding_) for each in maps),
        least=0.9,
    )
    NNDescent(x, n_neighbors=K, n_jobs=2).neighbor_graph  # compiles itself
    own = seconds(lambda: NNDescent(large, n_neighbors=K, n_jobs=2).neighbor_graph)
    ours = seconds(lambda: kith.knn_graph(large, K, n_jobs=2))
    print(
        f"neighbours for UMAP, {large.shape}, 2 threads: kith (exact) {ours:.2f} s, pynndescent {own:.2f} s"
    )


def check_scanpy(x, large):
    try:
        import anndata
        import scanpy
    except ImportError as missing:
        return print(f"Scanpy: skipped, {missing}")

    def neighbours(data, transformer):
        cells = anndata.AnnData(data)
        scanpy.pp.neighbors(
            cells, n_neighbors=K, use_rep="X", transformer=transformer, random_state=0
        )
        return cells

    ours = kith.KNeighborsTransformer(n_neighbors=K, n_jobs=2)
    graphs = [neighbours(x, transformer) for transformer in (ours, "sklearn")]
    difference = abs(graphs[0].obsp["connectivities"] - graphs[1].obsp["connectivities"]).max()
    print(f"Scanpy: connectivities differ by at most {difference:.1e}")
    assert difference < 1e-3
    try:
        for cells in graphs:
            scanpy.tl.leiden(cells, flavor="igraph", n_iterations=2, random_state=0)
    except ImportError as missing:
        print(f"Leiden: skipped, {missing}")
    else:
        agree("Leiden", *(cells.obs["leiden"].astype(int).to_numpy() for cells in graphs))
    neighbours(large[:5000], None)  # compiles itself
    own = seconds(lambda: neighbours(large, None))
    fast = seconds(lambda: neighbours(large, kith.KNeighborsTransformer(n_neighbors=K, n_jobs=2)))
    print(f"sc.pp.neighbors, {large.shape}: with kith (exact) {fast:.2f} s, default {own:.2f} s")


parser = argparse.ArgumentParser()
parser.add_argument(
    "--rows", type=int, default=20000, help="of the points that neighbours are timed on"
)
rows = parser.parse_args().rows
points = digits()
many = make_blobs(rows, 50, centers=20, random_state=0)[0].astype(np.float32)
for check in (
    lambda: check_scikit_learn(points),
    lambda: check_umap(points, many),
    lambda: check_scanpy(points, many),
):
    print(f"  {seconds(check):.1f} s")
