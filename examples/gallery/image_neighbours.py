#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Image neighbours.

Which images are most like this one? Pixels are 8-bit integers, and kith takes them as they are:
integer products are exact, so nothing is rounded on the way.

Ten images that the corpus does not have, and the ten nearest of each. The neighbours know what
they are; a vote of five says what the image is, and for how many of all held-out images that is
right.

The digits are 1,797 that the repository has, the last 297 of them held out. The clothes are
Fashion-MNIST (Zalando Research, MIT licence): `KITH_DATA` has its images as
fashion_mnist_base.u8bin and fashion_mnist_query.u8bin, 60,000 and 10,000, and
fashion_mnist_base_labels.ibin and fashion_mnist_query_labels.ibin.
"""

import gallery
import kith
import numpy as np

CLOTHES = "T-shirt trousers pullover dress coat sandal shirt sneaker bag boot".split()
SHOWN = 10


def load():
    """(name, corpus, its labels, queries, theirs, names, pixels in a row)"""
    base = gallery.larger_data("fashion_mnist_base.u8bin")
    if base:
        parts = [
            gallery.read(base.with_name(f"fashion_mnist_{part}.u8bin"))
            for part in ("base", "query")
        ]
        labels = [
            np.array(gallery.read(base.with_name(f"fashion_mnist_{part}_labels.ibin"))).ravel()
            for part in ("base", "query")
        ]
        return "Fashion-MNIST", parts[0], labels[0], parts[1], labels[1], CLOTHES, 28
    images, labels = gallery.digits()
    names = [str(i) for i in range(10)]
    return (
        "handwritten digits",
        images[:1500],
        labels[:1500],
        images[1500:],
        labels[1500:],
        names,
        8,
    )


def main():
    name, corpus, labels, queries, truth, names, side = load()
    distances, indices = kith.knn(corpus, queries, k=SHOWN)
    print(f"{name}: {len(queries):,} queries in {len(corpus):,} images of {side} x {side} pixels")

    voted = np.array([np.bincount(row).argmax() for row in labels[indices[:, :5]]])
    print(f"the vote of the five nearest is right for {(voted == truth).mean():.1%} of them")

    chosen = [int(np.flatnonzero(truth == kind)[0]) for kind in range(10)]
    figure, grid = gallery.pyplot.subplots(len(chosen), SHOWN + 2, figsize=(10, 9.6))
    for line, query in zip(grid, chosen):
        shown = [(queries[query], names[truth[query]]), None]
        shown += [(corpus[i], f"{d:.0f}") for i, d in zip(indices[query], distances[query])]
        for axes, entry in zip(line, shown):
            gallery.bare(axes)
            if entry:
                axes.imshow(entry[0].reshape(side, side), cmap="gray_r")
                axes.set_xlabel(entry[1], fontsize=8, labelpad=2)
    grid[0, 0].set_title("asked for", fontsize=9)
    grid[0, 2].set_title("nearest, with distances", fontsize=9, loc="left")
    gallery.save(figure, __file__)


if __name__ == "__main__":
    main()
