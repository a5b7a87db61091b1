#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures of the demo's graphs.

    demo_pictures.py FOLDER      reads FOLDER/digits.npz and FOLDER/patches.npz, and writes there
        digits_map.png   the graph of the digits laid out in two dimensions
        digits.png       some digits, and their nearest neighbours with distances beside
        patches.png      a photograph: some of its patches, and where those most like them are
"""
import json
import pathlib
import sys

import matplotlib
import numpy
import scipy.sparse
import scipy.sparse.csgraph
import scipy.sparse.linalg

matplotlib.use("Agg")
# The backend is chosen first: there may be no screen.
from matplotlib import pyplot  # noqa: E402
from matplotlib.collections import LineCollection  # noqa: E402
from matplotlib.offsetbox import AnnotationBbox, OffsetImage  # noqa: E402
from matplotlib.patches import Rectangle  # noqa: E402

DATA = pathlib.Path(__file__).resolve().parent.parent / "examples" / "data"
ROWS = 10
STEP = 4  # pixels between patches
ACROSS = 120  # patches a row of the photograph
A, B = 0.58, 1.33  # UMAP's curve for points that stand half a unit apart
INK = "#1b1b1b"
FADED = "#6b6b6b"


def read_u8bin(path):
    rows, columns = numpy.fromfile(path, dtype="<u4", count=2)
    return numpy.fromfile(path, dtype=numpy.uint8, offset=8).reshape(rows, columns)


def read_graph(path):
    with numpy.load(path) as graph:
        return graph["ids"], graph["distances"], json.loads(str(graph["meta"]))


def lay_out(ids, rounds=300):
    """Places in the plane: neighbours attract each other, points drawn at random repel (as UMAP does)."""
    n, k = ids.shape
    random = numpy.random.default_rng(0)
    edges = scipy.sparse.coo_matrix((numpy.ones(n * k), (numpy.repeat(numpy.arange(n), k), ids.ravel())), (n, n))
    edges = edges.maximum(edges.T).tocoo()
    laplacian = scipy.sparse.csgraph.laplacian(edges.tocsr(), normed=True)
    slow = scipy.sparse.linalg.eigsh(2 * scipy.sparse.identity(n) - laplacian, 3, v0=numpy.ones(n))[1][:, -2::-1]
    places = slow * (10 / numpy.abs(slow).max(axis=0)) + 0.01 * random.standard_normal((n, 2))
    for turn in range(rounds):
        apart = places[edges.row] - places[edges.col]
        square = (apart**2).sum(axis=1)
        pull = -apart * (2 * A * B * (square + 1e-9) ** (B - 1) / (1 + A * square**B))[:, None]
        others = random.integers(n, size=(n, 5))
        away = places[:, None] - places[others]
        far = (away**2).sum(axis=2)
        push = (away * (2 * B / ((0.01 + far) * (1 + A * far**B)))[..., None]).sum(axis=1)
        moves = numpy.zeros_like(places)
        for axis in range(2):
            moves[:, axis] = numpy.bincount(edges.row, pull[:, axis], n) + push[:, axis]
        moves -= 0.01 * places  # towards the middle: parts that no edge joins do not fly apart
        places += 0.2 * (1 - turn / rounds) * numpy.clip(moves, -4, 4)
    return places


def draw_map(points, graph, labels, path):
    ids, _, meta = graph
    places = lay_out(ids)
    figure, axes = pyplot.subplots(figsize=(9, 9))
    lines = numpy.stack([places[numpy.repeat(numpy.arange(len(ids)), ids.shape[1])], places[ids.ravel()]], axis=1)
    axes.add_collection(LineCollection(lines, colors=FADED, linewidths=0.3, alpha=0.12))
    colours = pyplot.get_cmap("tab10")(labels)
    for place, point, colour in zip(places, points, colours):
        ink = numpy.empty((8, 8, 4))
        ink[..., :3] = colour[:3]
        ink[..., 3] = point.reshape(8, 8) / 16
        axes.add_artist(AnnotationBbox(OffsetImage(ink, zoom=1.1), place, frameon=False, pad=0))
    axes.update_datalim(places)
    axes.autoscale_view()
    axes.axis("off")
    axes.set_title(f"{len(points):,} handwritten digits, laid out by their {title_of(meta, ids)}\n"
                   "colours are the labels, of which the graph knows nothing", fontsize=10, color=INK)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    pyplot.close(figure)
    print(f"demo: {path}")


def photograph_of(points):
    """The photograph that the patches were cut of, one every STEP pixels (tools/make_example_data.py)."""
    side = STEP * (ACROSS - 1) + 8
    photograph = numpy.zeros((side, side, 3), dtype=numpy.uint8)
    for row, patch in enumerate(points):
        y, x = STEP * (row // ACROSS), STEP * (row % ACROSS)
        photograph[y:y + 8, x:x + 8] = patch.reshape(8, 8, 3)
    return photograph


def draw_patches(points, graph, chosen, path):
    ids, _, meta = graph
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 6.4), gridspec_kw={"wspace": 0.03})
    for axes in (left, right):
        axes.imshow(photograph_of(points))
        axes.axis("off")
    left.set_title("Patches of a photograph (NASA) ...", fontsize=10, color=INK)
    right.set_title(f"... and where the {title_of(meta, ids)}\nof {len(points):,} patches are", fontsize=10, color=INK)
    for row, colour in zip(chosen, pyplot.get_cmap("Set1").colors):
        y, x = STEP * (row // ACROSS), STEP * (row % ACROSS)
        left.add_patch(Rectangle((x - 3, y - 3), 14, 14, fill=False, edgecolor="white", linewidth=3.4))
        left.add_patch(Rectangle((x - 3, y - 3), 14, 14, fill=False, edgecolor=colour, linewidth=2))
        for near in ids[row]:
            to_y, to_x = STEP * (near // ACROSS), STEP * (near % ACROSS)
            right.plot([x + 4, to_x + 4], [y + 4, to_y + 4], color=colour, linewidth=0.8, alpha=0.7)
            right.add_patch(Rectangle((to_x - 2, to_y - 2), 12, 12, fill=False, edgecolor=colour, linewidth=1.6))
    figure.savefig(path, dpi=150, bbox_inches="tight")
    pyplot.close(figure)
    print(f"demo: {path}")


def title_of(meta, ids):
    exact = "exact" if meta.get("exact") else "approximate"
    return f"{ids.shape[1]} nearest neighbours ({meta.get('metric', 'euclidean')}, {exact})"


def show(axes, image, label, colour):
    axes.imshow(image, cmap="gray", interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_xlabel(label, fontsize=7, color=colour, labelpad=2)


def draw_digits(points, graph, chosen, path):
    ids, distances, meta = graph
    k = ids.shape[1]
    widths = [1.0, 0.35] + [1.0] * k
    figure, grid = pyplot.subplots(len(chosen), k + 2, figsize=(0.82 * (k + 2), 0.98 * len(chosen) + 0.9),
                                   gridspec_kw={"width_ratios": widths, "hspace": 0.55, "wspace": 0.12})
    for line, row in zip(grid, chosen):
        show(line[0], 16 - points[row].reshape(8, 8), f"point {row}", INK)
        line[1].axis("off")
        for axes, neighbour, distance in zip(line[2:], ids[row], distances[row]):
            show(axes, 16 - points[neighbour].reshape(8, 8), f"{distance:.2f}", FADED)
    figure.suptitle(f"Handwritten digits: {points.shape[0]:,} points, {points.shape[1]} dimensions\n"
                    f"{title_of(meta, ids)}, distances below", fontsize=10, color=INK, y=0.995, va="top")
    figure.subplots_adjust(left=0.02, right=0.98, bottom=0.04, top=1 - 0.72 / figure.get_figheight())
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    print(f"demo: {path}")


def some_digits(distances):
    """Every 180th point, and the two whose nearest neighbour is farthest."""
    loners = numpy.argsort(-distances[:, 0], kind="stable")[:2]
    return list(range(0, (ROWS - 2) * 180, 180)) + list(loners)


def rich_patches(points, ids):
    """Patches with much contrast whose neighbours lie far away, spread over the photograph."""
    contrast = points.reshape(-1, 64, 3).std(axis=1).sum(axis=1)
    places = numpy.stack([numpy.arange(len(points)) // ACROSS, numpy.arange(len(points)) % ACROSS], axis=1)
    away = numpy.abs(places[ids] - places[:, None]).max(axis=2).min(axis=1)
    worth = numpy.where(away > 2, contrast, 0)
    chosen = []
    for _ in range(8):
        chosen.append(int(worth.argmax()))
        worth[numpy.abs(places - places[chosen[-1]]).max(axis=1) < 24] = 0
    return chosen


def main():
    folder = pathlib.Path(sys.argv[1])
    digits, patches = (read_u8bin(DATA / f"{name}.u8bin") for name in ("digits", "patches"))
    labels = read_u8bin(DATA / "digit_labels.u8bin")[:, 0]
    graph = read_graph(folder / "digits.npz")
    draw_map(digits, graph, labels, folder / "digits_map.png")
    draw_digits(digits, graph, some_digits(graph[1]), folder / "digits.png")
    graph = read_graph(folder / "patches.npz")
    draw_patches(patches, graph, rich_patches(patches, graph[0]), folder / "patches.png")


if __name__ == "__main__":
    main()
