#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Neighbours in another batch.

Two instruments measure the same kinds of things, and one of them shifts all it measures. Plain
neighbours are of the own batch for the most part; neighbours under the rule `other` are of the
other one, and `each` has some of both for every row: the graph of BBKNN.

The digits are 1,797 that the repository has. Half of them are drawn to a second batch, whose
pixels are brighter by a ramp from left to right.
"""

import gallery
import kith
import numpy as np

K = 10


def main():
    random = np.random.default_rng(2)
    images, labels = gallery.digits()
    batch = random.integers(0, 2, len(images))
    ramp = np.tile(np.linspace(0, 8, 8), 8).astype(np.float32)
    points = np.array(images, np.float32) + batch[:, None] * ramp
    graphs = {
        "plain": kith.knn_graph(points, K),
        "other": kith.knn_graph(points, K, groups=batch, rule="other"),
        "each": kith.knn_graph(points, K // 2, groups=batch, rule="each"),
    }
    shares = {}
    for name, graph in graphs.items():
        other = (batch[graph.indices] != batch[:, None]).mean()
        same = (labels[graph.indices] == labels[:, None]).mean()
        shares[name] = other, same
        print(f"{name}: {other:.1%} are of the other batch, {same:.1%} show the same digit")

    figure, (left, *others) = gallery.pyplot.subplots(
        1, 4, figsize=(9, 2.8), width_ratios=(2, 1, 1, 1)
    )
    places = np.arange(len(shares))
    for shift, (what, kind) in enumerate((("other batch", 0), ("same digit", 1))):
        values = [share[kind] for share in shares.values()]
        left.bar(places + 0.35 * shift, values, 0.33, label=what, color=gallery.colours(10)(shift))
    left.set_xticks(places + 0.17, list(shares))
    left.set_ylim(0, 1.25)
    left.legend(fontsize=8, loc="upper left", ncols=2)
    left.set_title("share of neighbours", fontsize=10)
    one = int(np.flatnonzero(batch == 0)[3])
    shown = [(one, "asked for")]
    shown += [
        (graphs[name].indices[one, 0], title)
        for name, title in (("plain", "nearest"), ("other", "of the other batch"))
    ]
    for axes, (image, title) in zip(others, shown):
        axes.imshow(points[image].reshape(8, 8), cmap="gray_r", vmin=0, vmax=24)
        axes.set_title(title, fontsize=10)
        gallery.bare(axes)
    gallery.save(figure, __file__)


if __name__ == "__main__":
    main()
