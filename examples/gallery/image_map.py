#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A UMAP of images.

UMAP begins with neighbours, and takes them from elsewhere, too: `precomputed_knn` is indices and
distances, each point itself in front.

An exact graph by kith, then UMAP's own layout. Colours are the labels, of which UMAP knows nothing.
The images are those of [image neighbours](image_neighbours.py).
"""

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
    distances, indices = kith.knn_graph(images, k=K - 1)
    print(f"{name}: {len(images):,} images, each with its {K - 1} nearest")

    own = np.arange(len(images))[:, None]
    known = np.hstack([own, indices]), np.hstack([np.zeros_like(own, np.float32), distances])
    points = umap.UMAP(n_neighbors=K, precomputed_knn=known, random_state=0).fit_transform(
        np.array(images, np.float32)
    )

    near = kith.knn_graph(points, k=10).indices
    share = (labels[near] == labels[:, None]).mean()
    print(f"in the map {share:.1%} of ten neighbours have the label of their point")

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
