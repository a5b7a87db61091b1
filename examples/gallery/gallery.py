# SPDX-License-Identifier: Apache-2.0
"""What the gallery's scripts share: where data is, how it is read, where pictures go."""

import os
import pathlib
import sys

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  (the backend is chosen first: there may be no screen)

HERE = pathlib.Path(__file__).resolve().parent.parent / "data"
TYPES = {".fbin": np.float32, ".u8bin": np.uint8, ".ibin": np.int32}


def larger_data(name):
    """The file NAME of the folder KITH_DATA, or None where there is none."""
    path = pathlib.Path(os.environ.get("KITH_DATA", "")) / name
    return path if "KITH_DATA" in os.environ and path.is_file() else None


def read(path):
    """A .fbin, .u8bin or .ibin file as an array that is mapped, not read."""
    path = pathlib.Path(path)
    rows, columns = np.fromfile(path, np.uint32, 2)
    return np.memmap(path, TYPES[path.suffix], "r", 8, (rows, columns))


def digits():
    """1,797 images of handwritten digits, 8 x 8 pixels, and which digit each is."""
    return read(HERE / "digits.u8bin"), np.array(read(HERE / "digit_labels.u8bin")).ravel()


def colours(count):
    return pyplot.get_cmap("tab10" if count <= 10 else "tab20")


def bare(axes):
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)


def draw_map(axes, points, labels, names, title, size):
    """Points of a plane in the colours of their labels."""
    kinds = np.unique(labels)
    for i, kind in enumerate(kinds):
        mine = points[labels == kind]
        axes.scatter(*mine.T, s=size, color=colours(len(kinds))(i), label=names[kind], linewidths=0)
    axes.set_title(title, fontsize=10)
    bare(axes)


def save(figure, script):
    """The picture of a script, in the folder that its first argument names (else: here)."""
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{pathlib.Path(script).stem}.png"
    figure.savefig(path, dpi=110, bbox_inches="tight")
    print(f"picture: {path.name}")
