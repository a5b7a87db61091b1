#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cell types.

Which cells of the blood are which? Genes that a cell reads say so, if one looks at cells that
read alike: Scanpy makes a graph of neighbours, clusters and maps it. `transformer=` gives it
kith's graph.

700 cells that come with Scanpy (`scanpy.datasets.pbmc68k_reduced()`: a part of Zheng et al.,
*Massively parallel digital transcriptional profiling of single cells*, 2017, with types that were
told by comparing them with cells that had been sorted), and with `KITH_DATA` 5,000 cells of a mouse
brain (10x Genomics), about which nobody told.
"""

import warnings

import gallery
import kith
import numpy as np

warnings.simplefilter("ignore")
import anndata  # noqa: E402
import scanpy  # noqa: E402
from sklearn.model_selection import cross_val_predict  # noqa: E402

K = 15
BRAIN = "scrna_10x_g1000_base.fbin"


def load():
    """Cells in principal components; the types, where they are known."""
    path = gallery.larger_data(BRAIN)
    if path:
        cells = anndata.AnnData(np.array(gallery.read(path)))
        scanpy.pp.pca(cells, n_comps=50, random_state=0)
        return "mouse brain", cells, None
    cells = scanpy.datasets.pbmc68k_reduced()
    return "blood", cells, cells.obs["bulk_labels"].astype(str).to_numpy()


def main():
    name, cells, types = load()
    graph = kith.KNeighborsTransformer(n_neighbors=K, metric="cosine")
    scanpy.pp.neighbors(cells, n_neighbors=K, use_rep="X_pca", metric="cosine", transformer=graph)
    scanpy.tl.leiden(cells, flavor="igraph", n_iterations=2, random_state=0)
    scanpy.tl.umap(cells, random_state=0)
    clusters = cells.obs["leiden"].astype(int).to_numpy()
    print(f"{name}: {cells.n_obs:,} cells, {clusters.max() + 1} clusters")

    drawn = [("clusters by Leiden", clusters)]
    if types is not None:
        model = kith.KNeighborsClassifier(n_neighbors=K, metric="cosine", weights="distance")
        told = cross_val_predict(model, cells.obsm["X_pca"], types, cv=5)
        right = (told == types).mean()
        print(f"the {K} nearest say the type of {right:.1%} of cells that were left out")
        drawn.insert(0, ("types", types))
    figure, sheets = gallery.pyplot.subplots(
        1, len(drawn), figsize=(6.5 * len(drawn), 5), squeeze=False
    )
    for axes, (title, labels) in zip(sheets[0], drawn):
        names = {kind: str(kind) for kind in np.unique(labels)}
        gallery.draw_map(
            axes, cells.obsm["X_umap"], labels, names, title, 14 if cells.n_obs < 2000 else 4
        )
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3, frameon=False, fontsize=8)
    gallery.save(figure, __file__)


if __name__ == "__main__":
    main()
