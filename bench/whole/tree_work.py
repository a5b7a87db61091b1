# SPDX-License-Identifier: Apache-2.0
"""The points of bench_tree.py: patches of photographs, colour, uniform, catalogues of KITH_DATA."""
import os
import pathlib
import sys
from dataclasses import dataclass

SHIPPED = ["astronaut", "camera", "chelsea", "coffee", "coins", "rocket", "hubble_deep_field",
           "retina", "brick", "grass", "gravel", "moon"]
SIDE = 8
JITTER = 0.01  # of a column's deviation


@dataclass
class Work:
    """queries are float32, corpus is what its file has."""

    name: str
    corpus: object
    queries: object


@dataclass
class Sizes:
    """Of generated points; queries of a catalogue: 0 takes its file of queries."""

    rows: int
    queries: int
    columns: list


DEFAULTS = {"patches": Sizes(800_000, 100_000, [3, 5, 10]),
            "colour": Sizes(1_000_000, 300_000, [2, 4, 6, 8, 10, 15, 20, 27, 30]),
            "uniform": Sizes(1_000_000, 100_000, [2, 4, 6, 8, 10, 12, 15, 20, 30]),
            "catalogue": Sizes(0, 0, [])}


def photographs():
    import numpy
    from skimage import data

    for name in SHIPPED:
        try:
            image = numpy.asarray(getattr(data, name)(), dtype=numpy.float64)
        except (AttributeError, ModuleNotFoundError, ConnectionError, OSError) as error:
            print(f"{name}: left out, {error}", file=sys.stderr)
            continue
        yield image[..., :3].mean(axis=2) if image.ndim == 3 else image


def patches(sizes):
    """On all principal axes, widest first."""
    import numpy

    count = sizes.rows + sizes.queries
    random = numpy.random.default_rng(5)
    windows = [numpy.lib.stride_tricks.sliding_window_view(image, (SIDE, SIDE))
               for image in photographs()]
    places = [view.shape[0] * view.shape[1] for view in windows]
    chosen = random.choice(sum(places), size=count, replace=False)
    start = numpy.concatenate([[0], numpy.cumsum(places)])
    rows = numpy.empty((len(chosen), SIDE * SIDE))
    for i, view in enumerate(windows):
        mine = (chosen >= start[i]) & (chosen < start[i + 1])
        y, x = numpy.divmod(chosen[mine] - start[i], view.shape[1])
        rows[mine] = view[y, x].reshape(-1, SIDE * SIDE)
    rows -= rows.mean(axis=1, keepdims=True)
    _, axes = numpy.linalg.eigh(numpy.cov(rows.T))
    return (rows @ axes[:, ::-1]).astype(numpy.float32)


def make_patches(sizes):
    points = patches(sizes)
    for columns in sizes.columns:
        yield Work("patches", points[:sizes.rows, :columns].copy(),
                   points[sizes.rows:, :columns].copy())


def make_colour(sizes):
    """A 4-dimensional Gaussian, mapped linearly into so many columns, and 5 % noise."""
    import numpy

    for columns in sizes.columns:
        axes = numpy.random.default_rng(7).normal(size=(4, columns)).astype(numpy.float32)
        random = numpy.random.default_rng(11)
        points = random.standard_normal((sizes.rows + sizes.queries, 4), dtype=numpy.float32) @ axes
        points += 0.05 * points.std() * random.standard_normal(points.shape, dtype=numpy.float32)
        yield Work("colour", points[:sizes.rows].copy(), points[sizes.rows:].copy())


def make_uniform(sizes):
    import numpy

    for columns in sizes.columns:
        random = numpy.random.default_rng(13)
        yield Work("uniform", random.random((sizes.rows, columns), dtype=numpy.float32),
                   random.random((sizes.queries, columns), dtype=numpy.float32))


def jittered(points, count):
    """Rows of a catalogue, moved a little: so many queries as nobody has measured."""
    import numpy

    random = numpy.random.default_rng(17)
    rows = points[random.integers(len(points), size=count)].astype(numpy.float32)
    scale = JITTER * points.std(axis=0, dtype=numpy.float64).astype(numpy.float32)
    return rows + scale * random.standard_normal(rows.shape, dtype=numpy.float32)


def make_catalogues(sizes, most_columns=30):
    from peer import read_points

    folder = os.environ.get("KITH_DATA")
    if not folder:
        print("catalogue: absent, KITH_DATA names no folder")
        return
    for path in sorted(pathlib.Path(folder).glob("*_base.*bin")):
        asked = path.with_name(path.name.replace("_base.", "_query."))
        if path.suffix not in (".fbin", ".u8bin") or not asked.is_file():
            continue
        corpus = read_points(str(path))
        if corpus.shape[1] > most_columns:
            continue
        queries = jittered(corpus, sizes.queries) if sizes.queries else read_points(str(asked))
        name = path.name.split("_base.")[0]
        yield Work(f"catalogue {name}{' jittered' if sizes.queries else ''}", corpus, queries)


MAKERS = {"patches": make_patches, "colour": make_colour, "uniform": make_uniform,
          "catalogue": make_catalogues}


def make(kind, rows, queries, columns):
    """Works of a kind; None: its usual sizes."""
    usual = DEFAULTS[kind]
    return MAKERS[kind](Sizes(rows or usual.rows, usual.queries if queries is None else queries,
                              columns or usual.columns))
