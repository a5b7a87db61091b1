#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicted against true redshifts: plot.py PREDICTED TRUE PICTURE, both .fbin of one column."""
import sys

import matplotlib
import numpy

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  (the backend is chosen first: there may be no screen)
from matplotlib.colors import LogNorm  # noqa: E402

INK = "#1b1b1b"
FADED = "#6b6b6b"
OUTLIER = 0.15


def read_column(path):
    return numpy.fromfile(path, dtype="<f4", offset=8).astype(float)


def bare(axes):
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(colors=FADED, labelsize=9)


def draw(predicted, truth, path):
    scaled = (predicted - truth) / (1 + truth)
    nmad = 1.4826 * numpy.median(numpy.abs(scaled - numpy.median(scaled)))
    most = 1.03 * max(truth.max(), predicted.max())
    reach = min(OUTLIER, 1.25 * numpy.abs(scaled).max())
    figure, (above, below) = pyplot.subplots(
        2, 1, figsize=(6.2, 8.0), sharex=True, gridspec_kw={"height_ratios": [3, 1.1], "hspace": 0.07},
        layout="constrained")
    cells = {"gridsize": 90, "mincnt": 1, "cmap": "viridis", "norm": LogNorm(), "linewidths": 0}
    dots = above.hexbin(truth, predicted, extent=(0, most, 0, most), **cells)
    above.plot([0, most], [0, most], color=INK, linewidth=0.7)
    for sign in (-1, 1):
        line = [z + sign * OUTLIER * (1 + z) for z in (0, most)]
        above.plot([0, most], line, color=FADED, linewidth=0.7, linestyle=(0, (4, 4)))
    above.text(0.97, 0.05, "dashed: an error of 0.15 (1 + z)", transform=above.transAxes, ha="right",
               fontsize=9, color=FADED)
    above.text(0.04, 0.95, f"{len(truth):,} galaxies\nMAE {numpy.abs(predicted - truth).mean():.4f}\n"
               f"NMAD {nmad:.4f}\nbeyond 0.15: {100 * (abs(scaled) > OUTLIER).mean():.2f} %",
               transform=above.transAxes, va="top", fontsize=10, color=INK)
    above.set_xlim(0, most)
    above.set_ylim(0, most)
    above.set_aspect("equal", adjustable="box")
    above.set_ylabel("predicted z", color=INK)
    below.hexbin(truth, scaled, extent=(0, most, -reach, reach), **{**cells, "gridsize": (90, 24)})
    below.axhline(0, color=INK, linewidth=0.7)
    below.set_ylim(-reach, reach)
    below.set_xlabel("true z", color=INK)
    below.set_ylabel("error / (1 + z)", color=INK)
    bare(above)
    bare(below)
    bar = figure.colorbar(dots, ax=(above, below), shrink=0.6, pad=0.02)
    bar.set_label("galaxies in a cell", color=INK)
    bar.ax.tick_params(colors=FADED, labelsize=9)
    bar.outline.set_visible(False)
    figure.savefig(path, dpi=110)
    print(f"picture: {path}")


if __name__ == "__main__":
    draw(read_column(sys.argv[1]), read_column(sys.argv[2]), sys.argv[3])
