#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A UMAP of images.

UMAP spends its first part, and of many points most of its time, in finding neighbours. It takes them
from elsewhere, too: `precomputed_knn`, which is indices and distances with each point itself in front.

An exact graph by kith, then UMAP's own layout. Colours are the labels, of which UMAP knows nothing.
"""

import time
import warnings

import gallery
import image_neighbours
import kith
import numpy as np

warnings.simplefilter("ignore")  # that a seed makes UMAP slower, and that it cannot map new points
import umap  # noqa: E402

K = 15


def main():
    name, images, labels, *_, names, _ = image_neighbours.load()
    begin = time.perf_counter()
    distances, indices = kith.knn_graph(images, k=K - 1)
    print(
        f"{name}: the exact graph of {len(images):,} images, k = {K - 1}: {time.perf_counter() - begin:.2f} s"
    )

    own = np.arange(len(images))[:, None]
    known = np.hstack([own, indices]), np.hstack([np.zeros_like(own, np.float32), distances])
    begin = time.perf_counter()
    points = umap.UMAP(n_neighbors=K, precomputed_knn=known, random_state=0).fit_transform(
        np.array(images, np.float32)
    )
    print(f"UMAP's layout: {time.perf_counter() - begin:.1f} s")

    near = kith.knn_graph(points, k=10).indices
    print(
        f"in the map {(labels[near] == labels[:, None]).mean():.1%} of ten neighbours have the label of their point"
    )

    figure, axes = gallery.pyplot.subplots(figsize=(8, 7))
    gallery.draw_map(
        axes,
        points,
        labels,
        names,
        f"{name}: {len(images):,} images",
        12 if len(images) < 5000 else 0.6,
    )
    axes.legend(
        loc="center left",
        bbox_to_anchor=(1, 0.5),
        frameon=False,
        markerscale=2 if len(images) < 5000 else 8,
    )
    gallery.save(figure, __file__)


if __name__ == "__main__":
    main()
