#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Near duplicates.

Which images does a collection hold twice, or nearly? All pairs within a distance, each once, come
as a stream; pairs that hang together are a group, of which one image is kept.

The digits are 1,797 that the repository has. Each tenth of them is put in a second time, a little
brighter or darker in a few pixels: what is found can be counted. A radius is read off distances of
nearest neighbours: copies are far below all others.
"""

import gallery
import kith
import numpy as np

SHOWN = 8


def with_copies(images, random):
    """Images, and behind them changed copies; which image each is a copy of."""
    of = random.permutation(len(images))[: len(images) // 10]
    some = random.random(images.shape[1]) < 0.2
    change = random.integers(-1, 2, (len(of), images.shape[1])) * some
    copies = np.clip(images[of].astype(int) + change, 0, 16).astype(np.uint8)
    return np.concatenate([images, copies]), of


def main():
    random = np.random.default_rng(1)
    images, _ = gallery.digits()
    images, of = with_copies(np.array(images), random)
    own = len(images) - len(of)
    nearest = kith.knn_graph(images, 1).distances.ravel()
    radius = 6.0
    near = kith.pairs(images, radius=radius)
    pairs = list(near)
    i = np.concatenate([chunk.i for chunk in pairs])
    j = np.concatenate([chunk.j for chunk in pairs])
    kept = near.keep()
    found = np.isin(np.arange(own, len(images)), j)
    print(f"{len(images):,} images, {len(of):,} of them changed copies")
    print(f"{len(i):,} pairs are within {radius:g}: {found.sum():,} copies are found")
    print(f"{len(kept):,} images are kept")

    figure = gallery.pyplot.figure(figsize=(8, 5))
    above, below = figure.subfigures(2, 1, height_ratios=(2, 1.6))
    axes = above.subplots()
    axes.hist(nearest, 80, color=gallery.colours(10)(0))
    axes.axvline(radius, color=gallery.colours(10)(3))
    axes.set_xlabel("distance to the nearest image, and the radius")
    axes.set_ylabel("images")
    grid = below.subplots(2, SHOWN)
    for column, pair in zip(grid.T, np.stack([i, j], axis=1)[:: max(1, len(i) // SHOWN)]):
        for axes, image in zip(column, pair):
            axes.imshow(images[image].reshape(8, 8), cmap="gray_r")
            gallery.bare(axes)
    gallery.save(figure, __file__)


if __name__ == "__main__":
    main()
