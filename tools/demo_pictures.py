#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures of the demo's graphs: points on the left, their nearest neighbours with distances beside.

    demo_pictures.py FOLDER      reads FOLDER/digits.npz and FOLDER/patches.npz, writes .png beside them
"""
import json
import pathlib
import sys

import matplotlib
import numpy

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  (the backend is chosen first: there may be no screen)

DATA = pathlib.Path(__file__).resolve().parent.parent / "examples" / "data"
ROWS = 10
INK = "#1b1b1b"
FADED = "#6b6b6b"


def read_u8bin(path):
    rows, columns = numpy.fromfile(path, dtype="<u4", count=2)
    return numpy.fromfile(path, dtype=numpy.uint8, offset=8).reshape(rows, columns)


def read_graph(path):
    with numpy.load(path) as graph:
        return graph["ids"], graph["distances"], json.loads(str(graph["meta"]))


def as_digit(point):
    return 16 - point.reshape(8, 8)


def as_patch(point):
    return point.reshape(8, 8, 3)


def show(axes, image, label, colour):
    axes.imshow(image, cmap="gray", interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_xlabel(label, fontsize=7, color=colour, labelpad=2)


def draw(points, graph, chosen, as_image, title, path):
    ids, distances, meta = graph
    k = ids.shape[1]
    widths = [1.0, 0.35] + [1.0] * k
    figure, grid = pyplot.subplots(len(chosen), k + 2, figsize=(0.82 * (k + 2), 0.98 * len(chosen) + 0.9),
                                   gridspec_kw={"width_ratios": widths, "hspace": 0.55, "wspace": 0.12})
    for line, row in zip(grid, chosen):
        show(line[0], as_image(points[row]), f"point {row}", INK)
        line[1].axis("off")
        for axes, neighbour, distance in zip(line[2:], ids[row], distances[row]):
            show(axes, as_image(points[neighbour]), f"{distance:.2f}", FADED)
    exact = "exact" if meta.get("exact") else "not exact"
    figure.suptitle(f"{title}\n{points.shape[0]:,} points, {points.shape[1]} dimensions, k = {k}, "
                    f"{meta.get('metric', 'euclidean')}, {exact}; distances below each neighbour",
                    fontsize=10, color=INK, y=0.995, va="top")
    figure.subplots_adjust(left=0.02, right=0.98, bottom=0.04, top=1 - 0.72 / figure.get_figheight())
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    print(f"demo: {path}")


def some_digits(points, distances):
    """Every 180th point, and the two whose nearest neighbour is farthest."""
    loners = numpy.argsort(-distances[:, 0], kind="stable")[:2]
    return list(range(0, (ROWS - 2) * 180, 180)) + list(loners)


def rich_patches(points, distances):
    """Patches with much contrast, spread over the photograph: flat ones make dull pictures."""
    contrast = points.reshape(-1, 64, 3).std(axis=1).sum(axis=1)
    parts = numpy.array_split(numpy.arange(len(points)), ROWS)
    return [part[numpy.argsort(contrast[part], kind="stable")[int(len(part) * 0.97)]] for part in parts]


def main():
    folder = pathlib.Path(sys.argv[1])
    jobs = [("digits", as_digit, some_digits, "Handwritten digits"),
            ("patches", as_patch, rich_patches, "Patches of a photograph (NASA)")]
    for name, as_image, choose, title in jobs:
        points = read_u8bin(DATA / f"{name}.u8bin")
        graph = read_graph(folder / f"{name}.npz")
        draw(points, graph, choose(points, graph[1]), as_image, title, folder / f"{name}.png")


if __name__ == "__main__":
    main()
