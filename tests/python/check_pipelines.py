#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kith in the programs that people use it with: UMAP, Scanpy, Leiden, HDBSCAN, scikit-learn's pipelines.

Each runs with kith's neighbours and with exact neighbours of scikit-learn, and both must come to
the same. --time: kith's neighbours beside those that the programs find by themselves. --device cuda:
kith is given PyTorch's tensors on the GPU (Scanpy, whose cells lie on the host, names the device).

usage: check_pipelines.py [--device cuda] [--time ROWS]    exits with 77 when none of the packages is installed
needs: kith, scikit-learn; umap-learn, scanpy, leidenalg, igraph and hdbscan where they are to be tried
"""

import argparse
import os
import sys
import time
import warnings

parser = argparse.ArgumentParser()
parser.add_argument("--time", type=int, metavar="ROWS", help="neighbours of so many points")
parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where points lie")
options = parser.parse_args()
os.environ.setdefault("KITH_DEVICE", options.device)
warnings.simplefilter("ignore")

try:
    import numpy as np
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components
    from sklearn import neighbors as theirs
    from sklearn.cluster import HDBSCAN, KMeans, SpectralClustering
    from sklearn.datasets import load_digits, make_blobs
    from sklearn.manifold import TSNE, Isomap
    from sklearn.metrics import adjusted_rand_score
    from sklearn.pipeline import make_pipeline
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

try:
    import anndata
    import scanpy
except ImportError:
    scanpy = None

import kith

K = 15


def digits():
    """Digits, moved a little so that there are no ties: in double both find the same neighbours."""
    x = load_digits().data
    return x + np.random.default_rng(0).random(x.shape) * 0.01


def given(x):
    """x where kith is to find it."""
    if options.device == "cpu":
        return x
    import torch

    return torch.from_numpy(x).cuda()


def seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def agree(name, one, other):
    score = adjusted_rand_score(one, other)
    print(
        f"{name}: adjusted Rand index {score:.3f} against exact neighbours, {max(one) + 1} clusters"
    )
    assert score >= 0.98, (name, score)


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
        ).fit_predict(points)
        for transformer, points in ((ours, given(x)), (their, x))
    ]
    agree("SpectralClustering", *clusters)
    maps = [
        make_pipeline(transformer, Isomap(n_neighbors=K, metric="precomputed")).fit_transform(points)
        for transformer, points in ((ours, given(x[:800])), (their, x[:800]))
    ]
    np.testing.assert_allclose(np.abs(maps[0]), np.abs(maps[1]), rtol=1e-3, atol=0.05)
    print("Isomap: the same coordinates")
    # t-SNE asks for 3 * perplexity neighbours and itself.
    losses = []
    for module, points in (kith, given(x[:500])), (theirs, x[:500]):
        tsne = TSNE(
            metric="precomputed", perplexity=10, init="random", random_state=0, max_iter=300
        )
        transformer = module.KNeighborsTransformer(n_neighbors=31, mode="distance")
        make_pipeline(transformer, tsne).fit_transform(points)
        losses.append(tsne.kl_divergence_)
    print(f"TSNE: divergence {losses[0]:.4f}, with exact neighbours {losses[1]:.4f}")
    assert abs(losses[0] / losses[1] - 1) < 0.02


def check_umap(x):
    try:
        import umap
    except ImportError as missing:
        return print(f"UMAP: skipped, {missing}")
    found = kith.KNeighborsTransformer(n_neighbors=K - 1).fit_transform(given(x))
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
    clusters = (KMeans(10, n_init=4, random_state=0).fit_predict(m.embedding_) for m in maps)
    agree("UMAP", *clusters)


def neighbours(data, transformer):
    """Cells with the graph of their neighbours, by Scanpy."""
    cells = anndata.AnnData(data)
    options = {"n_neighbors": K, "use_rep": "X", "random_state": 0}
    scanpy.pp.neighbors(cells, transformer=transformer, **options)
    return cells


def check_scanpy(x):
    if scanpy is None:
        return print("Scanpy: skipped, it is missing")

    ours = kith.KNeighborsTransformer(n_neighbors=K, n_jobs=2, device=options.device)
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


def connected_graph(points, k):
    """Distances to the k nearest either way, and from each part that has no edge to another one the
    nearest pairs, until there is one part."""
    graph = kith.Graph(kith.knn_graph(points, k)).to_csr(symmetrize="union")
    parts, part = connected_components(graph)
    while parts > 1:
        across = kith.knn_graph(points, 1, groups=part, rule="other")
        graph = graph.maximum(kith.Graph(across).to_csr(symmetrize="union"))
        parts, part = connected_components(graph)
    return graph


def check_hdbscan(x):
    """A row of a sparse matrix lacks the point itself, which min_samples counts."""
    apart = make_blobs(3000, 8, centers=12, random_state=0)[0]
    for name, points in ("digits", x), ("clusters apart", apart):
        exact = HDBSCAN(min_cluster_size=20, min_samples=5, algorithm="kd_tree").fit_predict(points)
        graph = connected_graph(given(points), K)
        sparse = {"min_cluster_size": 20, "min_samples": 4, "metric": "precomputed"}
        agree(f"HDBSCAN, {name}", HDBSCAN(**sparse).fit_predict(graph.copy()), exact)
        try:
            import hdbscan
        except ImportError as missing:
            print(f"hdbscan: skipped, {missing}")
        else:
            agree(f"hdbscan, {name}", hdbscan.HDBSCAN(**sparse).fit_predict(graph), exact)


def compare_times(rows):
    """kith's neighbours and those of pynndescent, which UMAP and Scanpy ask by themselves."""
    from pynndescent import PyNNDescentTransformer

    x = make_blobs(rows, 50, centers=20, random_state=0)[0].astype(np.float32)

    class Default(PyNNDescentTransformer):
        """What it finds as the matrix that Scanpy wants: versions of both differ in this."""

        def fit_transform(self, X, y=None):
            return csr_matrix(super().fit_transform(X))

    options = {"n_neighbors": K, "n_jobs": 2, "random_state": 0}
    Default(**options).fit_transform(x[:5000])  # compiles itself
    theirs_alone = seconds(lambda: Default(**options).fit_transform(x))
    ours_alone = seconds(
        lambda: kith.KNeighborsTransformer(n_neighbors=K, n_jobs=2).fit_transform(x)
    )
    print(
        f"{x.shape}, 2 threads: kith (exact) {ours_alone:.2f} s, pynndescent {theirs_alone:.2f} s"
    )
    if scanpy is not None:
        transformers = kith.KNeighborsTransformer(n_neighbors=K, n_jobs=2), Default(**options)
        ours, their = (seconds(lambda t=t: neighbours(x, t)) for t in transformers)
        print(f"sc.pp.neighbors: with kith {ours:.2f} s, with its default {their:.2f} s")


points = digits()
for check in check_scikit_learn, check_umap, check_scanpy, check_hdbscan:
    print(f"  {seconds(lambda check=check: check(points)):.1f} s")
if options.time:
    compare_times(options.time)
